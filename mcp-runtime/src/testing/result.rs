use std::fmt;

use serde_json::Value;

/// The error object of a JSON-RPC error response.
///
/// ```
/// use mcp_runtime::{Revision, Server};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let mut client = Server::empty("empty", "1.0.0").test_client(Revision::V2026_07_28);
/// let error = client.request("tools/list", serde_json::json!({})).await.unwrap_err();
/// assert_eq!((error.code, error.to_string()), (-32601, "method not found: tools/list (-32601)".to_owned()));
/// # });
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// The error code.
    pub code: i64,
    /// A description of the error.
    pub message: String,
    /// Additional information about the error.
    pub data: Option<Value>,
}

impl RpcError {
    pub(super) fn read(error: &mut Value) -> Self {
        Self {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            data: error.get_mut("data").map(Value::take),
        }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}

/// The result of `tools/call`, as JSON.
///
/// ```
/// # use mcp_runtime::testing::CallResult;
/// # use serde_json::json;
/// let result = CallResult(json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}));
/// assert_eq!(result.text(), "a\nb");
/// assert!(!result.is_error());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult(pub Value);

impl CallResult {
    /// Returns the text content, with line breaks between its items.
    pub fn text(&self) -> String {
        let content = self.0["content"].as_array().into_iter().flatten();
        content.filter_map(|item| item["text"].as_str()).collect::<Vec<_>>().join("\n")
    }

    /// Returns the structured content.
    pub fn structured(&self) -> Option<&Value> {
        self.0.get("structuredContent")
    }

    /// Returns whether the result is a tool error.
    pub fn is_error(&self) -> bool {
        self.0["isError"] == true
    }
}

/// Returns the result or the error of a response.
pub(super) fn read_response(mut response: Value) -> Result<Value, RpcError> {
    match response.get_mut("error") {
        None => Ok(response["result"].take()),
        Some(error) => Err(RpcError::read(error)),
    }
}
