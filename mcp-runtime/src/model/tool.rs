use serde_json::{Map, Value};

use super::Content;

/// A structured result. The type determines the `outputSchema` of the tool; the value is sent as `structuredContent`
/// and, serialized, as text.
///
/// Clients of revisions before 2025-06-18 receive only the text. Revisions 2025-06-18 and 2025-11-25 require an object:
/// for them, other values are wrapped as `{"result": …}`, and the schema is wrapped to match.
///
/// See [Structured content](https://modelcontextprotocol.io/specification/2025-11-25/server/tools#structured-content).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// The complete result of a tool, for tools that set more than content.
///
/// See [Tool result](https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolResult {
    /// The content, which the model reads.
    pub content: Vec<Content>,
    /// The structured content, which programs read. Sent since revision 2025-06-18, and wrapped like [`Json`] where an
    /// object is required.
    pub structured: Option<Value>,
    /// Whether the call failed with an error that the model may correct.
    pub is_error: bool,
    /// Additional data in `_meta`.
    pub meta: Map<String, Value>,
}

impl ToolResult {
    /// Creates a result with this content.
    pub fn new(content: impl IntoIterator<Item = impl Into<Content>>) -> Self {
        Self { content: content.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Creates an error result, which the model may correct.
    pub fn error(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], is_error: true, ..Self::default() }
    }

    /// Sets the structured content.
    #[must_use]
    pub fn with_structured(mut self, value: impl Into<Value>) -> Self {
        self.structured = Some(value.into());
        self
    }

    /// Adds a member to `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(key.into(), value.into());
        self
    }
}
