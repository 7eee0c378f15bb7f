//! The tokio tasks that run the functions of tasks.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::task::AbortHandle;

/// The runners of one server, which are aborted when this value is dropped.
#[derive(Debug, Default)]
pub(super) struct Runners(Mutex<Running>);

/// The runners that have not finished. The task limits bound their number.
#[derive(Debug, Default)]
struct Running {
    last_id: u64,
    handles: HashMap<u64, AbortHandle>,
}

impl Runners {
    /// Spawns a runner as a tokio task.
    pub(super) fn spawn(self: &Arc<Self>, runner: impl Future<Output = ()> + Send + 'static) {
        let runners = Arc::downgrade(self);
        // The lock is held until the handle is inserted, so the runner cannot remove it earlier.
        let mut running = self.running();
        running.last_id += 1;
        let id = running.last_id;
        let task = tokio::spawn(async move {
            runner.await;
            if let Some(runners) = runners.upgrade() {
                runners.running().handles.remove(&id);
            }
        });
        running.handles.insert(id, task.abort_handle());
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        self.running().handles.values().for_each(AbortHandle::abort);
    }
}
