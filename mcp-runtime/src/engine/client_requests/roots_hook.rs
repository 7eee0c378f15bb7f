//! The author's function that runs when the roots of a client change.

use std::{pin::Pin, sync::Arc};

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
