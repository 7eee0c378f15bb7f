//! The call that the current thread is executing. Its log events are forwarded to the client.

use std::cell::RefCell;

use super::Context;

thread_local! {
    static CURRENT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

/// A guard that restores the previous current call on drop, also when unwinding.
struct RestoreCurrent(Option<Context>);

impl Drop for RestoreCurrent {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Returns the call that the current thread is executing.
pub(crate) fn current_call() -> Option<Context> {
    CURRENT.with_borrow(Clone::clone)
}

/// Runs code as part of a call: until it returns, [`current_call`] is that call, if its log events are sent to the
/// client. `None` does not change the current call.
pub(crate) fn enter_call<T>(context: Option<&Context>, run: impl FnOnce() -> T) -> T {
    let Some(context) = context.filter(|context| context.inner.parts.log_targets.is_some()) else { return run() };
    let _restore = RestoreCurrent(CURRENT.replace(Some(context.clone())));
    run()
}
