//! The author's function that runs when the roots of a client change.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use super::live::LiveRequester;
use crate::{debug::debug, engine::session::Session, handler, race::race};

/// The function that was passed to [`Server::on_roots_changed`](crate::Server::on_roots_changed).
#[derive(Clone)]
pub(crate) struct RootsHook(Arc<dyn Fn(handler::Session) -> HookFuture + Send + Sync>);

type HookFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl RootsHook {
    pub(crate) fn new<F>(run: impl Fn(handler::Session) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(move |session| Box::pin(run(session))))
    }

    /// Runs the hook for a session. If it is already running, runs it once more afterwards. A running hook is aborted
    /// when the session ends.
    pub(in crate::engine) fn run(&self, session: &Arc<Session>) {
        if !session.roots.hook_runs.start() {
            return;
        }
        let (hook, session) = (self.clone(), Arc::clone(session));
        tokio::spawn(async move {
            loop {
                let handle = handler::Session::new(Arc::new(LiveRequester::of_session(&session)));
                let function = Arc::clone(&hook.0);
                let mut running = tokio::spawn(async move { function(handle).await });
                match race(&mut running, session.ended()).await {
                    Ok(Err(error)) if error.is_panic() => {
                        tracing::error!("the function passed to `on_roots_changed` panicked");
                    }
                    Ok(_) => {}
                    Err(()) => return running.abort(),
                }
                if !session.roots.hook_runs.finish() {
                    return;
                }
            }
        });
    }
}

debug!(RootsHook, self);

/// Tracks the executions of a function: at most one runs at a time, and at most one more is due.
#[derive(Debug, Default)]
pub(crate) struct SingleFlight(
    /// The number of executions that run or are due.
    AtomicU8,
);

impl SingleFlight {
    /// Records that the function is due. Returns whether it has to be started.
    pub(super) fn start(&self) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |runs| Some((runs + 1).min(2))) == Ok(0)
    }

    /// Records the end of an execution. Returns whether the function has to run again.
    pub(super) fn finish(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every sequence of calls and ends of a run: one run at a time, and another one if it was called meanwhile.
    #[test]
    fn at_most_one_run_is_in_flight_and_none_is_lost() {
        for sequence in 0..1_u32 << 10 {
            let (flight, mut is_running, mut is_due) = (SingleFlight::default(), false, false);
            for step in 0..10 {
                if sequence & 1 << step != 0 {
                    assert_eq!(flight.start(), !is_running, "{sequence:b} {step}");
                    (is_running, is_due) = (true, is_running);
                } else if is_running {
                    assert_eq!(flight.finish(), is_due, "{sequence:b} {step}");
                    (is_running, is_due) = (is_due, false);
                }
            }
        }
    }
}
