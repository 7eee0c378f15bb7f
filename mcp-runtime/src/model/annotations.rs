/// The audience of content, or the author of a prompt message.
///
/// ```
/// use mcp_runtime::{ask::SampleRequest, model::Role};
///
/// let conversation = SampleRequest::new("Is 7 prime?").with_message(Role::Assistant, "Yes.").with_message(Role::User, "And 9?");
/// ```
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
/// ```
/// use mcp_runtime::model::{Annotations, Role};
///
/// let hints = Annotations::default().for_audience([Role::Assistant]).with_priority(0.9);
/// ```
///
/// See [Annotations](https://modelcontextprotocol.io/specification/2025-11-25/server/resources#annotations).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Annotations {
    /// The intended audience. Empty means unspecified.
    pub audience: Vec<Role>,
    /// The importance, from 0 (entirely optional) to 1 (effectively required).
    pub priority: Option<f64>,
    /// The time of the last change, as an ISO 8601 date and time such as `2025-01-12T15:00:58Z`, or as a date. Sent
    /// since revision 2025-06-18. Any other text is not sent.
    pub last_modified: Option<String>,
}

impl Annotations {
    /// Sets the intended audience.
    #[must_use]
    pub fn for_audience(mut self, audience: impl IntoIterator<Item = Role>) -> Self {
        self.audience = audience.into_iter().collect();
        self
    }

    /// Sets the importance. Values outside of 0 to 1 are clamped, and a value that is not a number is ignored.
    #[must_use]
    pub fn with_priority(mut self, priority: f64) -> Self {
        self.priority = Some(priority).filter(|priority| !priority.is_nan()).map(|priority| priority.clamp(0.0, 1.0));
        self
    }

    /// Sets the time of the last change, as an ISO 8601 date and time or a [`Timestamp`](crate::backend::Timestamp). Any other
    /// text is not sent.
    ///
    /// ```
    /// use mcp_runtime::{ResourceLink, backend::Timestamp, model::Annotations};
    ///
    /// # fn link(metadata: &std::fs::Metadata) -> std::io::Result<ResourceLink> {
    /// let modified = Timestamp::from(metadata.modified()?);
    /// let hints = Annotations::default().with_priority(0.8).with_last_modified(modified);
    /// Ok(ResourceLink::new("file:///notes.txt", "notes").with_annotations(hints))
    /// # }
    /// ```
    #[must_use]
    pub fn with_last_modified(mut self, date: impl Into<String>) -> Self {
        self.last_modified = Some(date.into());
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.audience.is_empty() && self.priority.is_none() && self.last_modified.is_none()
    }
}
