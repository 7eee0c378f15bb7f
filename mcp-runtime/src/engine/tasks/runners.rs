use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::task::AbortHandle;

/// The tasks that run here. They end with the server.
#[derive(Debug, Default)]
pub(super) struct Runners(Mutex<Started>);

#[derive(Debug, Default)]
struct Started {
    count: u64,
    running: HashMap<u64, AbortHandle>,
}

impl Runners {
    pub(super) fn start(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let runners = Arc::downgrade(self);
        let mut started = self.started();
        started.count += 1;
        let number = started.count;
        // It cannot end before it is entered, since that takes the lock.
        let task = tokio::spawn(async move {
            work.await;
            if let Some(runners) = runners.upgrade() {
                runners.started().running.remove(&number);
            }
        });
        started.running.insert(number, task.abort_handle());
    }

    fn started(&self) -> MutexGuard<'_, Started> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        self.started().running.values().for_each(AbortHandle::abort);
    }
}
