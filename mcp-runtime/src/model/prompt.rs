use serde_json::{Map, Value};

use super::{Content, Role};

/// A message of a prompt.
///
/// A message has no `_meta` of its own in any revision; its content has, see [`Content::with_meta`].
///
/// ```
/// use mcp_runtime::{PromptMessage, prompt};
///
/// /// Practise small talk.
/// #[prompt]
/// fn small_talk() -> Vec<PromptMessage> {
///     vec![
///         PromptMessage::user("Let us practise small talk. You begin."),
///         PromptMessage::assistant("Lovely weather today, is it not?"),
///     ]
/// }
/// ```
///
/// See [PromptMessage](https://modelcontextprotocol.io/specification/2025-11-25/server/prompts#promptmessage).
#[derive(Debug, Clone, PartialEq)]
pub struct PromptMessage {
    /// The author.
    pub role: Role,
    /// The content.
    pub content: Content,
}

impl PromptMessage {
    /// Creates a user message.
    pub fn user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: content.into() }
    }

    /// Creates an assistant message.
    ///
    /// ```
    /// use mcp_runtime::PromptMessage;
    ///
    /// let example = [PromptMessage::user("2, 4, 8"), PromptMessage::assistant("16: each number is doubled.")];
    /// ```
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }
}

/// The complete result of `prompts/get`, for prompts that set more than messages.
///
/// ```
/// use mcp_runtime::{PromptMessage, model::PromptResult, prompt};
///
/// /// Review a text.
/// #[prompt]
/// fn review(text: String) -> PromptResult {
///     let description = format!("Reviews {} characters", text.len());
///     PromptResult::new([PromptMessage::user(format!("Review this text:\n{text}"))]).with_description(description)
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct PromptResult {
    /// The description, which replaces the one in the list.
    pub description: Option<String>,
    /// The messages.
    pub messages: Vec<PromptMessage>,
    /// Additional data in `_meta`.
    pub meta: Map<String, Value>,
}

impl PromptResult {
    /// Creates a result with these messages.
    pub fn new(messages: impl IntoIterator<Item = PromptMessage>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }

    /// Sets the description.
    ///
    /// ```
    /// use mcp_runtime::{PromptMessage, model::PromptResult};
    ///
    /// let result = PromptResult::new([PromptMessage::user("Review the change.")]).with_description("A review");
    /// assert_eq!(result.messages.len(), 1);
    /// ```
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Adds a member to `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(key.into(), value.into());
        self
    }
}
