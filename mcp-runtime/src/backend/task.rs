use std::{error::Error, fmt, pin::Pin, sync::Arc};

use serde::{Deserialize, Serialize};

/// What a store is asked for, when it has it.
pub type Stored<'a, T> = Pin<Box<dyn Future<Output = Result<T, TaskStoreError>> + Send + 'a>>;

/// Where tasks are kept: in memory unless [`Server::task_store`](crate::Server::task_store) says where.
///
/// A store that several processes share lets a client ask any of them for its task. The function itself runs in the process that
/// was called: it learns by [`changed`](Self::changed) what its client answered and that the task was cancelled. If that process
/// ends, the task stays `working` until its time is over.
///
/// A task whose [time is over](TaskRecord::expires) is gone, whether or not it has ended: no method gives it any more, and what it
/// took is free. Nothing else removes one, but [`insert`](Self::insert) may, one that has ended.
///
/// ```
/// use mcp_runtime::{MemoryTasks, Server};
///
/// let server = Server::empty("jobs", "1.0.0").task_store(MemoryTasks::default());
/// assert!(server.check().is_ok());
/// ```
pub trait TaskStore: fmt::Debug + Send + Sync + 'static {
    /// Keeps a new task; false if there is no room for it. From then on every process finds it. Where there is none, tasks that have
    /// [ended](TaskStatus::is_final) should make room, those of the new one's owner before all others.
    fn insert(&self, task: TaskRecord, room: TaskRoom) -> Stored<'_, bool>;

    /// Finds a task.
    fn load<'a>(&'a self, id: &'a str) -> Stored<'a, Option<TaskRecord>>;

    /// Puts a task in place of the one with its id; false, and nothing is changed, unless that one's version is the one before.
    fn replace(&self, task: TaskRecord) -> Stored<'_, bool>;

    /// Lists an owner's tasks in the order of `(created, id)`: at most so many, those behind `after` if it is given.
    fn page<'a>(&'a self, owner: &'a str, after: Option<(u64, &'a str)>, most: usize) -> Stored<'a, Vec<TaskRecord>>;

    /// Waits until a task has another version than this one, or is gone. It may end too early.
    fn changed<'a>(&'a self, id: &'a str, version: u64) -> Stored<'a, ()>;
}

impl<T: TaskStore + ?Sized> TaskStore for Arc<T> {
    fn insert(&self, task: TaskRecord, room: TaskRoom) -> Stored<'_, bool> {
        (**self).insert(task, room)
    }

    fn load<'a>(&'a self, id: &'a str) -> Stored<'a, Option<TaskRecord>> {
        (**self).load(id)
    }

    fn replace(&self, task: TaskRecord) -> Stored<'_, bool> {
        (**self).replace(task)
    }

    fn page<'a>(&'a self, owner: &'a str, after: Option<(u64, &'a str)>, most: usize) -> Stored<'a, Vec<TaskRecord>> {
        (**self).page(owner, after, most)
    }

    fn changed<'a>(&'a self, id: &'a str, version: u64) -> Stored<'a, ()> {
        (**self).changed(id, version)
    }
}

/// How many tasks a store may keep, ended ones included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskRoom {
    /// Those of all owners.
    pub in_all: usize,
    /// Those of the new task's owner.
    pub of_owner: usize,
}

impl TaskRoom {
    /// Room for so many tasks in all, and of one owner.
    pub fn new(in_all: usize, of_owner: usize) -> Self {
        Self { in_all, of_owner }
    }
}

/// A call that runs on its own, as a store keeps it. Times are in milliseconds, points in time since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskRecord {
    /// What it is asked for by. Nobody can guess it.
    pub id: String,
    /// Whose it is; empty if it is anybody's who knows the id.
    pub owner: String,
    /// One more with every change, from 0.
    pub version: u64,
    /// How far it is.
    pub status: TaskStatus,
    /// The same for people.
    pub message: Option<String>,
    /// When it was made.
    pub created: u64,
    /// When it was last changed.
    pub updated: u64,
    /// How long it is kept from when it was made.
    pub ttl: u64,
    /// How often a client should ask for it.
    pub poll_interval: u64,
    /// What its client is asked.
    pub inputs: Vec<TaskInput>,
    /// What the call came to.
    pub outcome: Option<TaskOutcome>,
}

impl TaskRecord {
    /// A task that works.
    pub fn new(id: impl Into<String>, owner: impl Into<String>, created: u64, ttl: u64, poll_interval: u64) -> Self {
        Self {
            id: id.into(),
            owner: owner.into(),
            version: 0,
            status: TaskStatus::Working,
            message: None,
            created,
            updated: created,
            ttl,
            poll_interval,
            inputs: Vec::new(),
            outcome: None,
        }
    }

    /// When its time is over.
    pub fn expires(&self) -> u64 {
        self.created.saturating_add(self.ttl)
    }
}

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// The function runs.
    Working,
    /// The function waits for its client.
    InputRequired,
    /// The function has ended with a result, or a tool's own error.
    Completed,
    /// The function has ended with a protocol error.
    Failed,
    /// The client no longer wants it.
    Cancelled,
}

impl TaskStatus {
    /// Says whether nothing more will come.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Something that a task asks of its client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskInput {
    /// What the answer is given under; no other question of the task has it, before or after.
    pub key: String,
    /// The method of the request.
    pub method: String,
    /// The JSON of its parameters.
    pub params: String,
    /// The JSON of the client's result, or why it gives none; the function has not yet seen it.
    pub answer: Option<Result<String, String>>,
}

impl TaskInput {
    /// A question that is open.
    pub fn new(key: impl Into<String>, method: impl Into<String>, params: impl Into<String>) -> Self {
        Self { key: key.into(), method: method.into(), params: params.into(), answer: None }
    }
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOutcome {
    /// The JSON of its result.
    Returned(Arc<str>),
    /// The JSON of its error.
    Failed(Arc<str>),
}

/// Why a store could not do something. It goes to the log; clients learn only that it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStoreError(String);

impl TaskStoreError {
    /// An error with a sentence for the log.
    pub fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

impl fmt::Display for TaskStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for TaskStoreError {}
