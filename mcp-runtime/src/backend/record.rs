//! The record of one task.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::time::{Timestamp, millis};
use crate::auth::Scopes;

/// A task as a [`TaskStore`](crate::TaskStore) keeps it: a call that runs detached from the request that started it.
///
/// A record serializes as one flat object. Times and durations become whole milliseconds.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_runtime::{TaskRecord, TaskStatus, Timestamp};
///
/// let task = TaskRecord::new("id", "ada", Timestamp::now(), Duration::from_secs(60), Duration::from_secs(1));
/// assert_eq!(task.status, TaskStatus::Working);
///
/// let row = serde_json::to_string(&task).unwrap();
/// assert_eq!(serde_json::from_str::<TaskRecord>(&row).unwrap(), task);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskRecord {
    /// The id that clients use: 192 random bits, encoded as text.
    pub id: String,
    /// The principal or session that the task belongs to. Empty if knowing the id is enough to use the task.
    pub owner: String,
    /// The scopes that are required to read the result of the task, in addition to being its owner.
    #[serde(default, skip_serializing_if = "Scopes::is_empty")]
    pub scopes: Scopes,
    /// The number of changes since the task was created.
    pub version: u64,
    /// The state of the call.
    pub status: TaskStatus,
    /// A description of the status for people.
    pub message: Option<String>,
    /// When the task was created.
    pub created: Timestamp,
    /// When the record last changed.
    pub updated: Timestamp,
    /// How long the task is kept, counted from its creation.
    #[serde(with = "millis")]
    pub ttl: Duration,
    /// How often a client should poll the task.
    #[serde(with = "millis")]
    pub poll_interval: Duration,
    /// The requests to the client whose responses the function has not received yet.
    pub inputs: Vec<TaskInput>,
    /// The result or the error of the call. `None` if the task is unfinished or was cancelled.
    pub outcome: Option<TaskOutcome>,
}

impl TaskRecord {
    /// Creates the record of a task that has just started.
    pub fn new(
        id: impl Into<String>,
        owner: impl Into<String>,
        created: Timestamp,
        ttl: Duration,
        poll_interval: Duration,
    ) -> Self {
        Self {
            id: id.into(),
            owner: owner.into(),
            scopes: Scopes::default(),
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

    /// Returns the time at which the task expires.
    pub fn expires(&self) -> Timestamp {
        self.created.saturating_add(self.ttl)
    }

    /// Returns the position of the task in its owner's list.
    pub fn cursor(&self) -> TaskCursor {
        TaskCursor::new(self.created, self.id.clone())
    }
}

/// The position of a task in its owner's list, which is sorted by creation time, then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskCursor {
    /// When the task was created.
    pub created: Timestamp,
    /// The id of the task.
    pub id: String,
}

impl TaskCursor {
    /// Creates the position of a task. The task need not exist any more.
    pub fn new(created: Timestamp, id: impl Into<String>) -> Self {
        Self { created, id: id.into() }
    }
}

/// The state of a task.
///
/// ```
/// use mcp_runtime::TaskStatus;
///
/// assert!(TaskStatus::Cancelled.is_final() && !TaskStatus::InputRequired.is_final());
/// assert_eq!(TaskStatus::InputRequired.as_str(), "input_required");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// The function is running.
    Working,
    /// The function is waiting for its client to respond.
    InputRequired,
    /// The function finished with a result, which may be a tool error.
    Completed,
    /// The call ended with a protocol error.
    Failed,
    /// The client cancelled the task.
    Cancelled,
}

impl TaskStatus {
    /// Returns the name of the status in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns whether the task has finished, after which its record no longer changes.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A request that a task sends to its client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskInput {
    /// The key that the client responds under. A task never uses a key twice.
    pub key: String,
    /// The method of the request.
    pub method: String,
    /// The parameters of the request, as JSON.
    pub params: String,
    /// The client's response, until the function has received it.
    pub response: Option<InputResponse>,
}

impl TaskInput {
    /// Creates a request that has no response yet.
    pub fn new(key: impl Into<String>, method: impl Into<String>, params: impl Into<String>) -> Self {
        Self { key: key.into(), method: method.into(), params: params.into(), response: None }
    }

    /// Returns whether the client has yet to respond.
    pub fn is_pending(&self) -> bool {
        self.response.is_none()
    }
}

/// A client's response to a request from the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputResponse {
    /// The result, as JSON.
    Result(String),
    /// The message of the error that the client responded with.
    Error(String),
}

/// The result or the error of a finished call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOutcome {
    /// The result, as JSON.
    Result(Arc<str>),
    /// The error object, as JSON.
    Error(Arc<str>),
}
