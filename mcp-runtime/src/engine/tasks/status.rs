use serde::{Deserialize, Serialize};

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

    /// Returns whether the task has finished, after which it no longer changes.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}
