use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    backend::BackendError,
    engine::{MAX_RESOURCES, MAX_URI_BYTES},
    handler::ClientInfo,
    model::Level,
};

/// A session as the backend keeps it, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    /// The protocol version.
    pub(crate) version: String,
    /// The client's capabilities, as JSON.
    pub(crate) capabilities: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<ClientInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) principal: Option<String>,
    /// The name of the server that opened the session. Empty if a release did that does not write it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) server: String,
    /// The peer whose share of the sessions this one uses.
    pub(crate) peer: String,
    /// Whether the server declared in `initialize` that its lists may change.
    #[serde(default)]
    pub(crate) announces_changes: bool,
    /// Whether the server declared in `initialize` that it sends log messages.
    #[serde(default)]
    pub(crate) declares_logging: bool,
    #[serde(default)]
    pub(crate) initialized: bool,
    /// The name of the log level, if the client has set one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) level: Option<String>,
    /// The number of changes of the roots that the client has announced.
    #[serde(default)]
    pub(crate) roots: u64,
    /// The URIs of the resources that the client has subscribed to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<String>,
    /// The number of changes since the session was opened.
    #[serde(default)]
    pub(crate) revision: u64,
    /// Members that a newer release has added, which are kept.
    #[serde(flatten)]
    pub(crate) other: Map<String, Value>,
}

/// A change of a session by its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionChange {
    Initialized,
    Level(Level),
    Subscribed(String),
    Unsubscribed(String),
    RootsChanged,
}

/// The error for a record with more than [`MAX_RESOURCES`] or [`MAX_URI_BYTES`].
#[derive(Debug)]
pub(crate) struct RecordFull;

impl SessionRecord {
    /// Returns whether the session belongs to this principal, or, without one, to no principal.
    pub(crate) fn belongs_to(&self, principal: Option<&str>) -> bool {
        self.principal.as_deref() == principal
    }

    /// Makes a change. Returns `false` if the record is known to contain it, whatever other replicas have changed.
    ///
    /// # Errors
    ///
    /// Fails if the record would become too large.
    pub(crate) fn apply(&mut self, change: &SessionChange) -> Result<bool, RecordFull> {
        match change {
            SessionChange::Initialized => return Ok(!std::mem::replace(&mut self.initialized, true)),
            SessionChange::Level(level) => self.level = Some(level.as_str().to_owned()),
            SessionChange::RootsChanged => self.roots += 1,
            SessionChange::Unsubscribed(uri) => self.resources.retain(|known| known != uri),
            SessionChange::Subscribed(uri) => {
                if !self.resources.contains(uri) {
                    let bytes = self.resources.iter().map(String::len).sum::<usize>() + uri.len();
                    if self.resources.len() >= MAX_RESOURCES || bytes > MAX_URI_BYTES {
                        return Err(RecordFull);
                    }
                    self.resources.push(uri.clone());
                }
            }
        }
        Ok(true)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // Fails only for maps with keys that are not strings.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// # Errors
    ///
    /// Fails if the record cannot be read. A newer release may have written it, so the session exists.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BackendError> {
        let unreadable = |error| BackendError::Unavailable(format!("invalid record of a session: {error}"));
        serde_json::from_slice(bytes).map_err(unreadable)
    }
}
