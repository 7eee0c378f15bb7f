use std::{any::Any, sync::Arc};

use tokio::sync::Semaphore;

use super::{
    CompletionInput, Context, Contract, Encoding, Finished, HandlerResult, Reply, StateMap, blocking::run_blocking,
};
use crate::error::Fault;

/// The environment of a call, which provides everything but the decoded arguments. It does not borrow from the request.
#[derive(Debug, Clone)]
pub struct CallEnv {
    pub(crate) states: Arc<StateMap>,
    pub(crate) context: Option<Arc<Context>>,
    pub(crate) completion: Option<CompletionInput>,
    pub(crate) encoding: Arc<Encoding>,
    /// `None` for a function that only lists or completes.
    pub(crate) contract: Option<Arc<Contract>>,
    pub(crate) uri: Box<str>,
}

impl CallEnv {
    /// Returns the value for a parameter of type `&T`.
    ///
    /// # Panics
    ///
    /// Panics if there is no value of type `T`, which is impossible once the server has been built.
    pub fn get<T: ?Sized + 'static>(&self) -> &T {
        if let Some(value) = self.completion.as_ref().and_then(CompletionInput::get) {
            return value;
        }
        find(self.context.as_ref(), &self.states)
    }

    /// Writes the result.
    pub fn finish(&self, write: impl FnOnce(&mut Reply<'_>) -> HandlerResult) -> Finished {
        let mut body = Vec::new();
        let mut reply = match &self.contract {
            Some(contract) => Reply::new(&mut body, &self.encoding, contract, &self.uri),
            None => Reply::plain(&mut body, &self.encoding),
        };
        let outcome = write(&mut reply);
        Finished { body, outcome }
    }

    /// Returns the permits that limit the blocking functions of the request's sender, if the transport has several
    /// senders.
    pub(crate) fn blocking_share(&self) -> Option<Arc<Semaphore>> {
        self.context.as_deref()?.head()?.blocking_share().map(Arc::clone)
    }

    /// Runs a blocking function on the pool of blocking threads.
    ///
    /// # Cancel safety
    ///
    /// A call that is cancelled before a thread is available does not run. If it is cancelled later, its response is
    /// dropped, but the function runs to its end unless it checks [`Context::is_cancelled`].
    pub async fn blocking(self, call: impl FnOnce(&Self) -> Finished + Send + 'static) -> Finished {
        let finished = run_blocking(self.blocking_share(), move || call(&self)).await;
        finished.unwrap_or_else(|| Finished::failed(Fault::shutting_down()))
    }
}

/// Returns the context or a value of the shared state, depending on `T`.
///
/// # Panics
///
/// Panics if there is no value of type `T`.
pub(super) fn find<'a, T: ?Sized + 'static>(context: Option<&'a Arc<Context>>, states: &'a StateMap) -> &'a T {
    if let Some(context) = context.and_then(|context| (context as &dyn Any).downcast_ref::<Arc<T>>()) {
        return context;
    }
    states.get().unwrap_or_else(|| panic!("the server has no state of type `{}`", std::any::type_name::<T>()))
}
