//! Calls that are tasks: made, run on their own, asked for, answered, cancelled.
//!
//! What is known of a task stands in a [`TaskStore`]; the function runs here. Both sides change the store and hear of each
//! other's changes by it, so that it does not matter which process a client talks to.
//!
//! See [Tasks](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks) of 2025-11-25 and the
//! [extension](https://modelcontextprotocol.io/extensions/tasks/overview) of 2026-07-28.

mod calling;
mod encode;
mod handoff;
mod methods;
mod result;
mod runner;
mod side;
mod watch;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;
use tokio::{sync::Notify, task::AbortHandle};

use crate::{
    backend::{MemoryTasks, TaskRecord, TaskRoom, TaskStore, TaskStoreError, time::now},
    error::Fault,
    handler::Running,
};
pub(super) use calling::{Execution, declares_extension};
use runner::{Job, Runner};
pub(super) use watch::{WATCHED_TASKS, Watch};

/// What clients and servers call the extension.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The member of `_meta` that says which task a message belongs to.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// What clients may have of tasks.
#[derive(Debug, Clone)]
pub(crate) struct TaskTerms {
    /// How long a task is kept, where its client does not say.
    pub(crate) ttl: Duration,
    /// The longest that a task is kept.
    pub(crate) longest: Duration,
    /// How often clients should ask.
    pub(crate) poll: Duration,
    /// The most tasks that are kept.
    pub(crate) in_all: usize,
    /// The most tasks that are kept of one principal, or of one session.
    pub(crate) of_owner: usize,
}

impl Default for TaskTerms {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(3600),
            longest: Duration::from_secs(24 * 3600),
            poll: Duration::from_secs(1),
            in_all: 1024,
            of_owner: 128,
        }
    }
}

/// The tasks of one server.
#[derive(Debug)]
pub(crate) struct Tasks {
    store: Arc<dyn TaskStore>,
    terms: TaskTerms,
    runners: Arc<Runners>,
    asking: Arc<Claims>,
}

/// A task that is about to be made.
#[derive(Debug)]
struct NewTask {
    id: String,
    owner: String,
    /// How long its client wants it.
    ttl: Option<Duration>,
}

/// Why there is no task, and what it would have run.
struct Refused {
    fault: Fault,
    running: Running,
}

impl Tasks {
    pub(super) fn new(store: Option<Arc<dyn TaskStore>>, terms: TaskTerms) -> Self {
        let store = store.unwrap_or_else(|| Arc::new(MemoryTasks::default()));
        Self { store, terms, runners: Arc::default(), asking: Arc::default() }
    }

    /// Keeps a new task and lets it run; gives the result that its client gets.
    ///
    /// # Errors
    ///
    /// There are too many, or the store fails.
    async fn create(&self, new: NewTask, job: Job, running: Running) -> Result<Vec<u8>, Refused> {
        let NewTask { id, owner, ttl } = new;
        let ttl = milliseconds(ttl.unwrap_or(self.terms.ttl).min(self.terms.longest));
        let of_owner = if owner.is_empty() { self.terms.in_all } else { self.terms.of_owner };
        let task = TaskRecord::new(id, owner, now(), ttl, milliseconds(self.terms.poll));
        let room = TaskRoom::new(self.terms.in_all, of_owner);
        match self.store.insert(task.clone(), room).await {
            Ok(true) => {}
            Ok(false) => {
                let why =
                    format!("there are too many tasks: at most {} may be kept, {of_owner} of one client", room.in_all);
                return Err(Refused { fault: Fault::Overloaded(why), running });
            }
            Err(error) => return Err(Refused { fault: failed(&error), running }),
        }
        tracing::debug!(name = job.answering.name, id = job.id.as_json(), "a call becomes a task");
        let created = encode::created(&job.encoding, &task);
        job.begin();
        let runner = Runner::new(Arc::clone(&self.store), task, job);
        self.runners.start(runner.run(running));
        Ok(created)
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Makes an id that nobody can guess: 192 random bits.
fn new_id() -> Result<String, Fault> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "there is no randomness for an id");
        Fault::internal("the server has no randomness")
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Says that a store failed; why, only the log knows.
fn failed(error: &TaskStoreError) -> Fault {
    tracing::error!(%error, "the store of tasks failed");
    Fault::internal("the tasks cannot be reached")
}

/// Refuses a client that has not declared the extension.
pub(super) fn undeclared() -> Fault {
    Fault::MissingCapability { required: json!({ "extensions": { EXTENSION: {} } }) }
}

/// The tasks that run here. They end with the server.
#[derive(Debug, Default)]
struct Runners(Mutex<Started>);

#[derive(Debug, Default)]
struct Started {
    count: u64,
    running: HashMap<u64, AbortHandle>,
}

impl Runners {
    fn start(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
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

/// The questions of tasks that a client is being asked, each by the newest request that waits for its task: the stream of an
/// older one may be lost.
#[derive(Debug, Default)]
struct Claims {
    /// By task and key, the turn of the request that asks.
    claimed: Mutex<HashMap<(String, String), u64>>,
    turns: AtomicU64,
    /// Some request no longer asks a question, or another one asks it now.
    moved: Notify,
}

/// Says that this request asks a question, until it is dropped.
struct Claim {
    claims: Arc<Claims>,
    of: (String, String),
    turn: u64,
}

impl Claims {
    /// Gives the turn of a new request, behind all others.
    fn turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// Claims a question of a task, also from an older request; none if a newer one asks it.
    fn claim(self: &Arc<Self>, task: &str, key: &str, turn: u64) -> Option<Claim> {
        let of = (task.to_owned(), key.to_owned());
        let mut claimed = self.claimed();
        if claimed.get(&of).is_some_and(|holder| *holder >= turn) {
            return None;
        }
        let is_taken_over = claimed.insert(of.clone(), turn).is_some();
        drop(claimed);
        if is_taken_over {
            self.moved.notify_waiters();
        }
        Some(Claim { claims: Arc::clone(self), of, turn })
    }

    fn claimed(&self) -> MutexGuard<'_, HashMap<(String, String), u64>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// Says whether no newer request asks the question.
    fn holds(&self) -> bool {
        self.claims.claimed().get(&self.of) == Some(&self.turn)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = self.claims.claimed();
        if claimed.get(&self.of) == Some(&self.turn) {
            claimed.remove(&self.of);
            drop(claimed);
            self.claims.moved.notify_waiters();
        }
    }
}
