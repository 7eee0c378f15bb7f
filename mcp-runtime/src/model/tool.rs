use serde_json::{Map, Value};

use super::Content;

/// A structured result: its type gives the tool's `outputSchema`, its value goes out as `structuredContent` and,
/// serialised, as text.
///
/// Revisions before 2025-06-18 get the text only. 2025-06-18 and 2025-11-25 want an object: any other value is sent
/// there as `{"result": …}`, and the schema says so.
///
/// See [Structured content](https://modelcontextprotocol.io/specification/2025-11-25/server/tools#structured-content).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// The whole result of a tool, where a return type alone does not do.
///
/// See [Tool result](https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolResult {
    /// What the model reads.
    pub content: Vec<Content>,
    /// What a program reads. Sent from revision 2025-06-18 on; wrapped like [`Json`] where an object is required.
    pub structured: Option<Value>,
    /// Whether the call failed in a way that the model may mend.
    pub is_error: bool,
    /// Extra data under `_meta`, for clients that know it.
    pub meta: Map<String, Value>,
}

impl ToolResult {
    /// A result with this content.
    pub fn new(content: impl IntoIterator<Item = impl Into<Content>>) -> Self {
        Self { content: content.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// A failure that the model reads and may mend.
    pub fn error(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], is_error: true, ..Self::default() }
    }

    /// Adds what a program reads.
    #[must_use]
    pub fn with_structured(mut self, value: impl Into<Value>) -> Self {
        self.structured = Some(value.into());
        self
    }

    /// Adds a key under `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(key.into(), value.into());
        self
    }
}
