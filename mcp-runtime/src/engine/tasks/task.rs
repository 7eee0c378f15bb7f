//! A task as it is stored: its key, its state, and the errors of requests about it.

use std::{fmt, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::{
    auth::Scopes,
    backend::{BackendError, Record, RecordVersion, Timestamp, time::millis},
    counters::Counter,
    engine::{limits::TaskLimits, replicas::InputResponse},
    error::Fault,
    handler::ask::{Capability, Question},
    model::named,
    random,
};

/// The group of the records of all tasks. Their names begin with the hashes of their owners, so the tasks of an owner
/// are listed one after the other, in the order of their creation.
pub(super) const TASKS: &str = "mcp/1/task";

/// The length of the random part of an id.
const RANDOM_LEN: usize = 32;
/// The length of the creation time in an id: milliseconds in hexadecimal, until the year 2527.
const TIME_LEN: usize = 11;
/// The number of bytes of a hash. Finding two owners with the same hash is infeasible.
const HASH_BYTES: usize = 24;

/// The owner and the id of a task, which name its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskKey {
    /// The hash of the owner, so that the keys of a backend do not reveal it.
    pub(super) owner: String,
    id: String,
    created: Timestamp,
}

impl TaskKey {
    /// Creates the key of a new task: its id consists of 192 random bits and the time, so it cannot be guessed.
    pub(super) fn random(owner: String, created: Timestamp) -> Result<Self, Fault> {
        let random = random::id().ok_or_else(|| Fault::internal("the server cannot generate random ids"))?;
        Ok(Self { owner, id: id_at(&random, created), created })
    }

    /// Creates the key of a task. Returns `None` if the id is not one of a [`random`](Self::random) key.
    pub(super) fn new(owner: String, id: &str) -> Option<Self> {
        let (random, time) = id.split_at_checked(RANDOM_LEN)?;
        let is_id = time.len() == TIME_LEN
            && random.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && time.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let created = Timestamp::from_unix_millis(u64::from_str_radix(time, 16).ok().filter(|_| is_id)?);
        Some(Self { owner, id: id.to_owned(), created })
    }

    /// Decodes the name of a record in the group [`TASKS`].
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let (owner, rest) = name.split_once('.')?;
        let (time, random) = rest.split_once('.')?;
        Self::new(owner.to_owned(), &format!("{random}{time}"))
    }

    /// Returns the name of the record in the group [`TASKS`].
    pub(super) fn name(&self) -> String {
        let (random, time) = self.id.split_at(RANDOM_LEN);
        [&self.owner, ".", time, ".", random].concat()
    }

    /// Returns the prefix of the names of all tasks of an owner, given its hash.
    pub(super) fn prefix(owner: &str) -> String {
        format!("{owner}.")
    }

    /// Returns the key of the record.
    pub(super) fn record(&self) -> String {
        [TASKS, ":", &self.name()].concat()
    }

    /// Returns the key of the result, if it is not part of the record.
    pub(super) fn result(&self) -> String {
        format!("mcp/1/task-result/{}", self.id)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn created(&self) -> Timestamp {
        self.created
    }
}

/// Returns a hash that names an owner or a peer in keys and records.
pub(super) fn hash(name: &str) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(name)[..HASH_BYTES])
}

fn id_at(random: &str, created: Timestamp) -> String {
    format!("{random}{:0TIME_LEN$x}", created.as_unix_millis())
}

/// The version of the form in which states are stored.
const FORM: u8 = 1;

/// The message of a task whose process is gone.
const LOST: &str = "the task was lost, because the process that ran it has ended: its function may have run";

/// The code of internal errors in JSON-RPC.
const INTERNAL_ERROR: i32 = -32603;

/// A call that runs detached from the request that started it.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(super) key: TaskKey,
    /// The version of the stored record.
    pub(super) stored: RecordVersion,
    pub(super) state: TaskState,
}

/// The state of a task, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskState {
    form: u8,
    /// The hash of the peer that the task is counted for.
    pub(super) peer: String,
    /// The scopes that are required to read the result of the task, in addition to being its owner.
    #[serde(default, skip_serializing_if = "Scopes::is_empty")]
    pub(super) scopes: Scopes,
    /// The number of changes since the task was created.
    pub(super) version: u64,
    pub(super) status: TaskStatus,
    /// A description of the status for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    pub(super) updated: Timestamp,
    /// How long the task is kept, counted from its creation.
    #[serde(with = "millis")]
    pub(super) ttl: Duration,
    /// How often a client should poll the task.
    #[serde(with = "millis")]
    pub(super) poll_interval: Duration,
    /// The requests to the client whose responses the function has not received yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) inputs: Vec<TaskInput>,
    /// The result or, if the task has failed, the error of the call. `None` if the task is unfinished or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<StoredOutcome>,
    /// Whether the result is an error of the tool.
    #[serde(default)]
    pub(super) is_tool_error: bool,
    /// The id of the replica that runs the function. `None` if only one process uses the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) runner: Option<u64>,
    /// The id of the `tasks/result` request that sends the questions to the client. `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reader: Option<u64>,
    /// Whether processes that do not run the task wait for its changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_watched: bool,
    /// The members that a newer release has added. They are kept.
    #[serde(flatten)]
    other: Map<String, Value>,
}

named! {
    /// The state of a task.
    ///
    /// ```
    /// use mcp_runtime::function::TaskStatus;
    ///
    /// assert!(TaskStatus::Cancelled.is_final() && !TaskStatus::InputRequired.is_final());
    /// assert_eq!(TaskStatus::InputRequired.as_str(), "input_required");
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum TaskStatus {
        /// The function is running.
        Working = "working",
        /// The function is waiting for its client to respond.
        InputRequired = "input_required",
        /// The function finished with a result, which may be a tool error.
        Completed = "completed",
        /// The call ended with a protocol error.
        Failed = "failed",
        /// The client cancelled the task.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Returns whether the task has finished, after which it no longer changes.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Where the result or the error of a call is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredOutcome {
    /// Here, as JSON.
    Inline(String),
    /// In a record of its own, which only the process that ran the function writes.
    Separate {
        /// The length of the JSON in bytes.
        bytes: usize,
    },
}

impl Task {
    /// Creates a task that has just started.
    pub(super) fn new(key: TaskKey, peer: String, ttl: Duration, poll_interval: Duration) -> Self {
        let state = TaskState {
            form: FORM,
            peer,
            scopes: Scopes::default(),
            version: 0,
            status: TaskStatus::Working,
            message: None,
            updated: key.created(),
            ttl,
            poll_interval,
            inputs: Vec::new(),
            outcome: None,
            is_tool_error: false,
            runner: None,
            reader: None,
            is_watched: false,
            other: Map::new(),
        };
        Self { key, stored: RecordVersion::new(0), state }
    }

    /// Decodes a record.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be read. A newer release may have written it, so the task exists.
    pub(super) fn decode(key: TaskKey, record: &Record) -> Result<Self, TaskError> {
        let state: TaskState =
            serde_json::from_slice(&record.value).map_err(|error| TaskError::Unreadable(error.to_string()))?;
        if state.form != FORM {
            return Err(TaskError::Unreadable(format!("form {}, expected {FORM}", state.form)));
        }
        Ok(Self { key, stored: record.version, state })
    }

    pub(super) fn id(&self) -> &str {
        self.key.id()
    }

    /// Returns the time at which the task expires.
    pub(super) fn expires(&self) -> Timestamp {
        self.key.created().saturating_add(self.state.ttl)
    }

    /// Returns the time for which the task still exists.
    pub(super) fn remaining(&self, now: Timestamp) -> Duration {
        self.expires().saturating_duration_since(now)
    }
}

impl TaskState {
    /// Encodes the state for the backend.
    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Ends the task, since the process that ran it is gone.
    pub(super) fn fail_as_lost(&mut self) {
        let error = serde_json::json!({"code": INTERNAL_ERROR, "message": LOST}).to_string();
        self.inputs.clear();
        self.status = TaskStatus::Failed;
        self.message = Some(LOST.to_owned());
        self.outcome = Some(StoredOutcome::Inline(error));
    }

    /// Sets the status of an unfinished task according to its pending inputs.
    pub(super) fn set_unfinished_status(&mut self) {
        let is_waiting = self.inputs.iter().any(TaskInput::is_pending);
        self.status = if is_waiting { TaskStatus::InputRequired } else { TaskStatus::Working };
    }

    /// Stores the responses to pending inputs, which `response` returns by their keys.
    pub(super) fn respond(&mut self, response: impl Fn(&str) -> Option<InputResponse>) {
        for input in self.inputs.iter_mut().filter(|input| input.is_pending()) {
            input.response = response(&input.key);
        }
        self.set_unfinished_status();
    }

    pub(super) fn pending_inputs(&self) -> impl Iterator<Item = &TaskInput> {
        self.inputs.iter().filter(|input| input.is_pending())
    }
}

/// A request that a task sends to its client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskInput {
    /// The key that the client responds under. A task never uses a key twice.
    pub(super) key: String,
    /// The method of the request.
    pub(super) method: String,
    /// The parameters of the request, as JSON.
    pub(super) params: String,
    /// The capabilities that a session must have declared to be asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) capabilities: Vec<Capability>,
    /// The client's response, until the function has received it.
    pub(super) response: Option<InputResponse>,
    /// Members that a newer release has added, which are kept.
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl TaskInput {
    /// Creates a request that has no response yet.
    pub(super) fn new(key: String, question: &Question) -> Self {
        let Question { method, params, capabilities, .. } = question;
        let (method, params, capabilities) = ((*method).to_owned(), params.clone(), capabilities.to_vec());
        Self { key, method, params, capabilities, response: None, other: Map::new() }
    }

    /// Returns whether the client has yet to respond.
    pub(super) fn is_pending(&self) -> bool {
        self.response.is_none()
    }
}

/// The error of an operation on the record of a task.
#[derive(Debug)]
pub(super) enum TaskError {
    Backend(BackendError),
    /// The record exists, but this release cannot read it.
    Unreadable(String),
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(error) => error.fmt(f),
            Self::Unreadable(reason) => write!(f, "the record of a task cannot be read: {reason}"),
        }
    }
}

impl From<BackendError> for TaskError {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

/// The client may retry the request, which may reach a process with a release that can read the task.
impl From<TaskError> for Fault {
    fn from(error: TaskError) -> Self {
        match error {
            TaskError::Backend(error) => error.into(),
            TaskError::Unreadable(_) => {
                tracing::error!(%error, "a request about a task fails");
                Self::overloaded("the task exists, but this release of the server cannot read it: retry later")
            }
        }
    }
}

/// Returns the error of a task whose result was dropped.
pub(super) fn result_too_large() -> Fault {
    Fault::overloaded(
        "the result of the task is too large to be kept with the others of this client: retry when they have expired",
    )
}

/// Returns the error for a client that has too many tasks, of which the first expires after some time.
pub(super) fn too_many_of_client(limits: TaskLimits, expires: Option<Duration>) -> Fault {
    let retry = expires.map_or_else(|| "later".to_owned(), |after| format!("in {} seconds", after.as_secs() + 1));
    Fault::refused(
        Counter::RefusedTasks,
        format!(
            "too many tasks: the limit is {} of one client, finished ones included: retry {retry}",
            limits.per_peer
        ),
    )
}

/// Returns the error for a client whose task exceeds the number of tasks of all clients.
pub(super) fn too_many_in_total(limits: TaskLimits) -> Fault {
    Fault::refused(
        Counter::RefusedTasks,
        format!("too many tasks: the limit is {} of all clients: retry later", limits.total),
    )
}

/// Returns the error for a task that does not exist, has expired or belongs to another owner.
pub(super) fn not_found() -> Fault {
    Fault::invalid_params("task not found or expired")
}

#[cfg(test)]
pub(super) fn test_key(owner: String, random: char, created: Timestamp) -> TaskKey {
    TaskKey::new(owner, &id_at(&random.to_string().repeat(RANDOM_LEN), created)).expect("the id is valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_of_tasks_have_keys() {
        let created = Timestamp::from_unix_millis(1_764_066_600_000);
        let key = TaskKey::random(hash("ada"), created).unwrap();
        let id = key.id().to_owned();
        assert_eq!(TaskKey::new(hash("ada"), &id), Some(key.clone()));
        assert_eq!(TaskKey::of_name(&key.name()), Some(key.clone()));
        assert!(key.name().starts_with(&TaskKey::prefix(&hash("ada"))));
        assert_eq!(key.created(), created);
        let random = "x".repeat(RANDOM_LEN);
        for (id, is_id) in [
            (String::new(), false),
            (id, true),
            (format!("{random}00000000000"), true),
            (format!("{random}0000000000"), false),
            (format!("{random}000000000000"), false),
            (format!("{random}0000000000A"), false),
            (format!("{random}+0000000000"), false),
            (format!("{}:00000000000", &random[1..]), false),
            (format!("{}é00000000000", &random[1..]), false),
            (format!("{}é00000000000", &random[2..]), false),
        ] {
            assert_eq!(TaskKey::new(hash("ada"), &id).is_some(), is_id, "{id}");
        }
    }

    /// A second response arrives before the function has received the first.
    #[test]
    fn only_the_first_response_to_an_input_is_kept() {
        let key = test_key(hash("ada"), 'a', Timestamp::from_unix_millis(1));
        let mut state = Task::new(key, String::new(), Duration::ZERO, Duration::ZERO).state;
        let input = serde_json::json!({"key": "1", "method": "roots/list", "params": "{}", "response": null});
        state.inputs = vec![serde_json::from_value(input).unwrap()];
        state.set_unfinished_status();
        assert_eq!(state.status, TaskStatus::InputRequired);
        for response in [Some("first"), Some("second"), None] {
            state.respond(|_| response.map(|json| InputResponse::Result(json.to_owned())));
            let kept = Some(InputResponse::Result("first".to_owned()));
            assert_eq!((state.status, &state.inputs[0].response), (TaskStatus::Working, &kept));
        }
    }

    #[test]
    fn names_are_sorted_by_creation_time_and_id() {
        let key = |random, millis| test_key(hash("ada"), random, Timestamp::from_unix_millis(millis));
        let names = [key('b', 1), key('c', 1), key('a', 2), key('a', 0x10), key('a', 0xff_ffff)].map(|key| key.name());
        assert!(names.is_sorted(), "{names:?}");
    }
}
