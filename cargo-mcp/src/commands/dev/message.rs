//! JSON-RPC messages as they are on the wire: looked into, and changed in single places only.

use std::{collections::BTreeMap, fmt::Display};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// The member of `_meta` that names a stateless request's revision.
pub(super) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The member of `_meta` that says which request a message of a subscription belongs to.
pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// JSON-RPC's codes, as far as they are needed here.
pub(super) const PARSE_ERROR: i32 = -32700;
pub(super) const INVALID_REQUEST: i32 = -32600;
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
pub(super) const INTERNAL_ERROR: i32 = -32603;

/// The members of a message, each as it is spelled.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) method: Option<String>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// What a message is, by its members.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind<'a> {
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
    /// An error that belongs to no request, or no message of JSON-RPC at all.
    Other,
}

/// A request's id, the same for every spelling of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    Number(String),
    Text(String),
}

impl<'a> Message<'a> {
    pub(super) fn read(text: &'a str) -> Option<Self> {
        // To serde, an array of members is an object, too.
        serde_json::from_str(text).ok().filter(|_| text.trim_start().starts_with('{'))
    }

    pub(super) fn kind(&self) -> Kind<'_> {
        match (self.id, &self.method) {
            (Some(id), Some(method)) => Kind::Request { id: id.get(), method },
            (None, Some(method)) => Kind::Notification { method },
            (Some(id), None) => Kind::Response { id: id.get() },
            (None, None) => Kind::Other,
        }
    }

    /// A member of the parameters.
    pub(super) fn param(&self, name: &str) -> Option<&'a str> {
        member(self.params?.get(), name)
    }

    /// A member of the parameters' `_meta`.
    pub(super) fn meta(&self, name: &str) -> Option<&'a str> {
        member(self.param("_meta")?, name)
    }

    /// The code of an error response.
    pub(super) fn error_code(&self) -> Option<i32> {
        member(self.error?.get(), "code")?.parse().ok()
    }

    /// What an error response says.
    pub(super) fn error_message(&self) -> Option<String> {
        string(member(self.error?.get(), "message")?)
    }
}

impl Key {
    /// Reads an id; none if it is neither a string nor a number.
    pub(super) fn read(id: &str) -> Option<Self> {
        match serde_json::from_str(id).ok()? {
            Value::String(text) => Some(Self::Text(text)),
            Value::Number(number) => Some(Self::Number(match number.as_f64() {
                Some(float) if number.is_f64() && float.fract() == 0.0 => format!("{float:.0}"),
                _ => number.to_string(),
            })),
            _ => None,
        }
    }
}

/// A member of an object.
pub(super) fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let members: BTreeMap<String, &'a RawValue> = serde_json::from_str(object).ok()?;
    members.get(name).map(|value| value.get())
}

/// The elements of an array; none if it is none.
pub(super) fn elements(array: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(array).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// A string without its quotation marks.
pub(super) fn string(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

/// Puts something else in a part's place; everything around it stays as it is.
pub(super) fn replace(text: &str, part: &str, with: &str) -> String {
    let at = part.as_ptr() as usize - text.as_ptr() as usize;
    debug_assert!(at + part.len() <= text.len(), "the part is of this text");
    [&text[..at], with, &text[at + part.len()..]].concat()
}

/// An error response.
pub(super) fn error(id: &str, code: i32, why: impl Display) -> String {
    let error = json!({"code": code, "message": why.to_string()});
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

pub(super) fn result(id: &str, result: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

pub(super) fn notification(method: &str, params: Option<&Value>) -> String {
    match params {
        Some(params) => json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string(),
        None => json!({"jsonrpc": "2.0", "method": method}).to_string(),
    }
}

/// Adds `listChanged` to the capabilities in a result that tells them, since lists change with every build.
pub(super) fn announce_changes(text: &str) -> Option<String> {
    let result = Message::read(text)?.result?.get();
    let spelled = member(result, "capabilities")?;
    let mut capabilities: Value = serde_json::from_str(spelled).ok()?;
    for kind in ["tools", "resources", "prompts"] {
        if let Some(Value::Object(capability)) = capabilities.get_mut(kind) {
            capability.insert("listChanged".to_owned(), Value::Bool(true));
        }
    }
    Some(replace(text, spelled, &capabilities.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, r#"Request { id: "1", method: "ping" }"#),
            (r#"{"id":"a\n","method":"x","params":{}}"#, r#"Request { id: "\"a\\n\"", method: "x" }"#),
            (r#"{"method":"notifications/initialized"}"#, r#"Notification { method: "notifications/initialized" }"#),
            (r#"{"id":1,"result":{}}"#, r#"Response { id: "1" }"#),
            (r#"{"id":null,"error":{}}"#, "Other"),
        ] {
            let message = Message::read(text).expect(text);
            assert_eq!(format!("{:?}", message.kind()), expected);
        }
        for text in ["", "hello", "[]", "{", r#"{"id":1,"id":2}"#] {
            assert!(Message::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn ids_are_the_same_however_they_are_spelled() {
        for (one, other, same) in [
            ("1", "1", true),
            ("1", "1.0", true),
            ("1", "\"1\"", false),
            (r#""a""#, r#""\u0061""#, true),
            ("1.5", "1", false),
        ] {
            assert_eq!(Key::read(one) == Key::read(other), same, "{one} {other}");
        }
        assert_eq!(Key::read("null"), None);
        assert_eq!(Key::read("{}"), None);
    }

    #[test]
    fn only_the_capabilities_are_spelled_anew() {
        for (text, expected) in [
            (
                r#"{"result": {"capabilities": {"tools":{}, "logging":{}} ,"x":1.0},"id":1}"#,
                r#"{"result": {"capabilities": {"logging":{},"tools":{"listChanged":true}} ,"x":1.0},"id":1}"#,
            ),
            (
                r#"{"id":1,"result":{"capabilities":{"resources":{"subscribe":true}}}}"#,
                r#"{"id":1,"result":{"capabilities":{"resources":{"listChanged":true,"subscribe":true}}}}"#,
            ),
        ] {
            assert_eq!(announce_changes(text).as_deref(), Some(expected));
        }
        assert_eq!(announce_changes(r#"{"id":1,"error":{}}"#), None);
    }
}
