//! JSON-RPC messages as raw text: inspected, and changed in place so that everything else keeps its encoding.

use std::{collections::BTreeMap, fmt::Display};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// The member of `_meta` that names the revision of a stateless request.
pub(super) const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The member of `_meta` that names the `subscriptions/listen` request that a message belongs to.
pub(super) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The JSON-RPC error codes that the proxy uses.
pub(super) const PARSE_ERROR: i32 = -32700;
pub(super) const INVALID_REQUEST: i32 = -32600;
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
pub(super) const INTERNAL_ERROR: i32 = -32603;

/// The members of a message. All but the method are raw JSON.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    pub(super) method: Option<String>,
    pub(super) params: Option<&'a RawValue>,
    pub(super) result: Option<&'a RawValue>,
    pub(super) error: Option<&'a RawValue>,
}

/// The kind of a message, according to its members.
#[derive(Debug, Clone, Copy)]
pub(super) enum MessageKind<'a> {
    Request {
        id: &'a str,
        method: &'a str,
    },
    Notification {
        method: &'a str,
    },
    Response {
        id: &'a str,
    },
    /// An error response without an id, or not a JSON-RPC message.
    Other,
}

/// A request id. Different encodings of the same id are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum RequestId {
    Number(String),
    String(String),
}

impl<'a> Message<'a> {
    /// Parses a message. Returns `None` if the text is not a JSON object or has duplicate members.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        // serde also accepts an array of members for a struct.
        serde_json::from_str(text).ok().filter(|_| text.trim_start().starts_with('{'))
    }

    /// Returns the kind of the message.
    pub(super) fn kind(&self) -> MessageKind<'_> {
        match (self.id, &self.method) {
            (Some(id), Some(method)) => MessageKind::Request { id: id.get(), method },
            (None, Some(method)) => MessageKind::Notification { method },
            (Some(id), None) => MessageKind::Response { id: id.get() },
            (None, None) => MessageKind::Other,
        }
    }

    /// Returns the id, unless it is neither a string nor a number.
    pub(super) fn request_id(&self) -> Option<RequestId> {
        RequestId::parse(self.id?.get())
    }

    /// Returns a parameter.
    pub(super) fn param(&self, name: &str) -> Option<&'a str> {
        member(self.params?.get(), name)
    }

    /// Returns a member of the parameters' `_meta`.
    pub(super) fn meta(&self, name: &str) -> Option<&'a str> {
        member(self.param("_meta")?, name)
    }

    /// Returns the code of an error response.
    pub(super) fn error_code(&self) -> Option<i32> {
        member(self.error?.get(), "code")?.parse().ok()
    }

    /// Returns the message of an error response.
    pub(super) fn error_message(&self) -> Option<String> {
        parse_string(member(self.error?.get(), "message")?)
    }
}

impl RequestId {
    /// Parses an id. Returns `None` if it is neither a string nor a number.
    pub(super) fn parse(id: &str) -> Option<Self> {
        match serde_json::from_str(id).ok()? {
            Value::String(text) => Some(Self::String(text)),
            Value::Number(number) => Some(Self::Number(match number.as_f64() {
                Some(float) if number.is_f64() && float.fract() == 0.0 => format!("{float:.0}"),
                _ => number.to_string(),
            })),
            _ => None,
        }
    }
}

/// Returns a member of a JSON object.
pub(super) fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let members: BTreeMap<String, &'a RawValue> = serde_json::from_str(object).ok()?;
    members.get(name).map(|value| value.get())
}

/// Returns the elements of a JSON array, or `None` for any other value.
pub(super) fn array_elements(array: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(array).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// Returns the messages of a batch, or `None` if the text is not a batch or is empty.
pub(super) fn batch_elements(text: &str) -> Option<Vec<&str>> {
    if !text.trim_start().starts_with('[') {
        return None;
    }
    array_elements(text).filter(|elements| !elements.is_empty())
}

/// Parses a JSON string.
pub(super) fn parse_string(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

/// Replaces a part of a text. `part` must be a slice of `text`.
pub(super) fn replace_part(text: &str, part: &str, with: &str) -> String {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    debug_assert!(start + part.len() <= text.len(), "the part lies inside the text");
    [&text[..start], with, &text[start + part.len()..]].concat()
}

/// Formats an error response.
pub(super) fn error_response(id: &str, code: i32, message: impl Display) -> String {
    let error = json!({"code": code, "message": message.to_string()});
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

/// Formats a response.
pub(super) fn result_response(id: &str, result: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// Formats a notification.
pub(super) fn notification(method: &str, params: Option<&Value>) -> String {
    match params {
        Some(params) => json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string(),
        None => json!({"jsonrpc": "2.0", "method": method}).to_string(),
    }
}

/// Adds `listChanged` to the capabilities in a result, since any list can change with a new build.
///
/// Returns `None` if the message has no result with capabilities.
pub(super) fn add_list_changed(text: &str) -> Option<String> {
    let result = Message::parse(text)?.result?.get();
    let encoded = member(result, "capabilities")?;
    let mut capabilities: Value = serde_json::from_str(encoded).ok()?;
    for name in ["tools", "resources", "prompts"] {
        if let Some(Value::Object(capability)) = capabilities.get_mut(name) {
            capability.insert("listChanged".to_owned(), Value::Bool(true));
        }
    }
    Some(replace_part(text, encoded, &capabilities.to_string()))
}

/// Identifies a successful build. Each one produced a different executable.
pub(super) type BuildId = u64;

/// Identifies a server process. A newer process has a greater number.
pub(super) type Generation = u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classifies_messages_by_members() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, r#"Request { id: "1", method: "ping" }"#),
            (r#"{"id":"a\n","method":"x","params":{}}"#, r#"Request { id: "\"a\\n\"", method: "x" }"#),
            (r#"{"method":"notifications/initialized"}"#, r#"Notification { method: "notifications/initialized" }"#),
            (r#"{"id":1,"result":{}}"#, r#"Response { id: "1" }"#),
            (r#"{"id":null,"error":{}}"#, "Other"),
            ("\n {\"method\":\"x\"}", r#"Notification { method: "x" }"#),
        ] {
            let message = Message::parse(text).expect(text);
            assert_eq!(format!("{:?}", message.kind()), expected);
        }
        for text in ["", "hello", "[]", "{", r#"{"id":1,"id":2}"#, r#"[1,"ping",{},null,null]"#] {
            assert!(Message::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn ids_are_equal_regardless_of_encoding() {
        for (a, b, equal) in [
            ("1", "1", true),
            ("1", "1.0", true),
            ("1", "\"1\"", false),
            (r#""a""#, r#""\u0061""#, true),
            ("1.5", "1", false),
        ] {
            assert_eq!(RequestId::parse(a) == RequestId::parse(b), equal, "{a} {b}");
        }
        assert_eq!(RequestId::parse("null"), None);
        assert_eq!(RequestId::parse("{}"), None);
    }

    #[test]
    fn list_changed_replaces_only_the_capabilities() {
        for (text, expected) in [
            (
                r#"{"result": {"capabilities": {"tools":{}, "logging":{}} ,"x":1.0},"id":1}"#,
                r#"{"result": {"capabilities": {"tools":{"listChanged":true},"logging":{}} ,"x":1.0},"id":1}"#,
            ),
            (
                r#"{"id":1,"result":{"capabilities":{"resources":{"subscribe":true}}}}"#,
                r#"{"id":1,"result":{"capabilities":{"resources":{"subscribe":true,"listChanged":true}}}}"#,
            ),
        ] {
            assert_eq!(add_list_changed(text).as_deref(), Some(expected));
        }
        let prompts = add_list_changed(r#"{"id":1,"result":{"capabilities":{"prompts":{}}}}"#);
        assert_eq!(prompts.as_deref(), Some(r#"{"id":1,"result":{"capabilities":{"prompts":{"listChanged":true}}}}"#));
        assert_eq!(add_list_changed(r#"{"id":1,"error":{}}"#), None);
    }

    #[test]
    fn a_batch_has_elements() {
        assert_eq!(batch_elements(" [1, {}]"), Some(vec!["1", "{}"]));
        for text in ["[]", "{}", "[1", ""] {
            assert_eq!(batch_elements(text), None, "{text}");
        }
    }
}
