/// The audience of content, or the author of a prompt message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user of the client.
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

/// Hints about how a client should use or display content.
///
/// See [Annotations](https://modelcontextprotocol.io/specification/2025-11-25/server/resources#annotations).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Annotations {
    /// The intended audience. Empty means unspecified.
    pub audience: Vec<Role>,
    /// The importance, from 0 (entirely optional) to 1 (effectively required).
    pub priority: Option<f64>,
    /// The time of the last change, as an ISO 8601 date and time. Sent since revision 2025-06-18.
    pub last_modified: Option<String>,
}

impl Annotations {
    /// Sets the intended audience.
    #[must_use]
    pub fn for_audience(mut self, audience: impl IntoIterator<Item = Role>) -> Self {
        self.audience = audience.into_iter().collect();
        self
    }

    /// Sets the importance. Values outside of 0 to 1 are clamped.
    #[must_use]
    pub fn with_priority(mut self, priority: f64) -> Self {
        self.priority = Some(priority.clamp(0.0, 1.0));
        self
    }

    /// Sets the time of the last change, as an ISO 8601 date and time.
    #[must_use]
    pub fn with_last_modified(mut self, date: impl Into<String>) -> Self {
        self.last_modified = Some(date.into());
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.audience.is_empty() && self.priority.is_none() && self.last_modified.is_none()
    }
}
