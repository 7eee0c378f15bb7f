/// Who a piece of content is for, or who says a prompt's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The person at the client.
    User,
    /// The model.
    Assistant,
}

impl Role {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Hints that tell a client how to use or show something.
///
/// See [Annotations](https://modelcontextprotocol.io/specification/2025-11-25/server/resources#annotations).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Annotations {
    /// Who this is for; empty says nothing.
    pub audience: Vec<Role>,
    /// From 0 (entirely optional) to 1 (effectively required).
    pub priority: Option<f64>,
    /// When it last changed, as an ISO 8601 date and time. Sent from revision 2025-06-18 on.
    pub last_modified: Option<String>,
}

impl Annotations {
    /// Says who this is for.
    #[must_use]
    pub fn for_audience(mut self, audience: impl IntoIterator<Item = Role>) -> Self {
        self.audience = audience.into_iter().collect();
        self
    }

    /// Says how important it is, from 0 to 1.
    #[must_use]
    pub fn with_priority(mut self, priority: f64) -> Self {
        self.priority = Some(priority.clamp(0.0, 1.0));
        self
    }

    /// Says when it last changed, as an ISO 8601 date and time.
    #[must_use]
    pub fn with_last_modified(mut self, date: impl Into<String>) -> Self {
        self.last_modified = Some(date.into());
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.audience.is_empty() && self.priority.is_none() && self.last_modified.is_none()
    }
}
