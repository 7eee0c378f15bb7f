//! JSON-RPC 2.0: ids, requests, notifications and responses. Independent of the Model Context Protocol.

mod check;
pub(crate) mod write;

use std::{
    borrow::Cow,
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use serde::Deserialize;
use serde_json::{error::Category, value::RawValue};

pub(crate) use mcp_schema::json::{self as raw, RawJson, canonical};

/// The content of a line or an HTTP body.
pub(crate) enum Transmission<'a> {
    One(Result<Incoming<'a>, Malformed>),
    /// A batch, whose elements are read with [`Message::read`].
    Batch(raw::Elements<'a>),
}

/// A valid message.
pub(crate) enum Incoming<'a> {
    Request(Message<'a>, Id),
    Notification(Message<'a>),
    /// A response to a request of the server. It has no id if the client could not read the id of the request.
    Response(Option<Id>, ResponseBody<'a>),
}

/// The outcome in a response, as raw JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseBody<'a> {
    /// The result.
    Result(&'a str),
    /// The error object.
    Error(&'a str),
}

/// A method and its parameters, as raw JSON.
pub(crate) struct Message<'a> {
    pub(crate) method: Cow<'a, str>,
    /// The parameters; `None` if absent or `null`.
    pub(crate) params: Option<Object<'a>>,
}

/// A raw JSON object with its first members, which were found during validation.
#[derive(Clone, Copy)]
pub(crate) struct Object<'a> {
    json: &'a str,
    found: [(&'a str, &'a str); REMEMBERED],
    count: usize,
    /// The position after the found members.
    rest: usize,
}

const ID_TOO_LONG: &str = "`id` must have at most 1024 bytes";
const _: () = assert!(MAX_ID_BYTES == 1024, "the message states the limit");

/// The maximum number of members that are remembered. Few messages have more parameters.
const REMEMBERED: usize = 3;

impl<'a> Object<'a> {
    /// Creates an object without remembered members.
    fn unread(json: &'a str) -> Self {
        Self { json, found: [("", ""); REMEMBERED], count: 0, rest: raw::inside(json, b'{') }
    }

    pub(crate) fn json(&self) -> &'a str {
        self.json
    }

    /// Returns the members: unescaped keys and raw values.
    pub(crate) fn members(&self) -> impl Iterator<Item = (Cow<'a, str>, &'a str)> {
        let found = self.found[..self.count].iter().map(|&(name, value)| (Cow::Borrowed(name), value));
        found.chain(raw::members_from(self.json, self.rest))
    }

    /// Remembers the next member, which ends at `end`, unless [`REMEMBERED`] members are remembered already.
    fn remember(&mut self, name: &'a str, value: &'a str, end: usize) {
        if let Some(slot) = self.found.get_mut(self.count) {
            *slot = (name, value);
            self.count += 1;
            self.rest = end;
        }
    }
}

/// An invalid message.
pub(crate) enum Malformed {
    /// The text is not JSON.
    Parse(String),
    /// The JSON is not a message. Contains the id if it is valid.
    Invalid(Option<Id>, &'static str),
}

/// Parses a transmission. Validates all of the JSON, so that later stages can rely on it.
pub(crate) fn parse(text: &str) -> Transmission<'_> {
    match raw::kind(text) {
        raw::Kind::Array => match serde_json::from_str::<&RawValue>(text) {
            Ok(batch) => Transmission::Batch(raw::elements(batch.get())),
            Err(error) => Transmission::One(Err(Malformed::Parse(syntax_error(&error)))),
        },
        _ => Transmission::One(Message::read(text)),
    }
}

impl<'a> Message<'a> {
    /// Parses a message.
    pub(crate) fn read(text: &'a str) -> Result<Incoming<'a>, Malformed> {
        let mut found = Object::unread("");
        let envelope = Envelope::read(text, &mut found)?;
        let id = match envelope.id {
            None => None,
            // The id of a response is only compared.
            Some(json) if json.len() > MAX_ID_BYTES && envelope.method.is_some() => {
                return Err(Malformed::Invalid(None, ID_TOO_LONG));
            }
            Some(json) => match Id::from_json(json) {
                Some(id) => Some(id),
                // An error response without a valid id: the client could not read the request.
                None if envelope.method.is_none() && envelope.error.is_some() => {
                    return Ok(Incoming::Response(None, ResponseBody::Error(envelope.error.unwrap_or_default())));
                }
                None => return Err(Malformed::Invalid(None, "`id` must be a string or an integer")),
            },
        };
        if envelope.jsonrpc.is_none_or(|version| version != r#""2.0""#) {
            // The id of a response is one of this server. A request of the client may have the same.
            let is_response = envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some());
            let id = id.filter(|_| !is_response);
            return Err(Malformed::Invalid(id, "`jsonrpc` must be \"2.0\""));
        }
        let Some(method) = envelope.method else {
            return match (envelope.result, envelope.error) {
                (_, Some(error)) => Ok(Incoming::Response(id, ResponseBody::Error(error))),
                (Some(result), None) => Ok(Incoming::Response(id, ResponseBody::Result(result))),
                (None, None) => Err(Malformed::Invalid(id, "a message needs a `method`, a `result` or an `error`")),
            };
        };
        let Some(method) = raw::string(method) else {
            return Err(Malformed::Invalid(id, "`method` must be a string"));
        };
        let params = match envelope.params {
            None | Some("null") => None,
            Some(json) if raw::kind(json) == raw::Kind::Object => {
                found.json = json;
                Some(found)
            }
            // A notification is not answered, and one without its parameters is ignored or needs none.
            Some(_) if id.is_none() => None,
            Some(_) => return Err(Malformed::Invalid(id, "`params` must be an object")),
        };
        let message = Self { method, params };
        Ok(match id {
            Some(id) => Incoming::Request(message, id),
            None => Incoming::Notification(message),
        })
    }
}

/// The members of a message as raw JSON, so that an invalid member does not hide the other members.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a str>,
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
}

/// Any object, which `serde_json` validates.
#[derive(Deserialize)]
struct AnyObject {}

impl<'a> Envelope<'a> {
    /// Parses the members of a message and remembers the members of its parameters, if the fast path applies.
    fn read(text: &'a str, params: &mut Object<'a>) -> Result<Self, Malformed> {
        let mut envelope = Self::default();
        let each = |name, value| envelope.set(name, value);
        if check::members(text, each, "params", |name, value, end| params.remember(name, value, end)).is_some() {
            return Ok(envelope);
        }
        match serde_json::from_str::<AnyObject>(text) {
            Ok(_) if raw::kind(text) == raw::Kind::Object => {}
            Err(error) if raw::kind(text) != raw::Kind::Array && error.classify() != Category::Data => {
                return Err(Malformed::Parse(syntax_error(&error)));
            }
            // The derived implementation also reads arrays, and reports another type before it has read all of the text.
            _ => {
                return Err(match serde_json::from_str::<&RawValue>(text) {
                    Ok(_) => Malformed::Invalid(None, "a message must be an object"),
                    Err(error) => Malformed::Parse(syntax_error(&error)),
                });
            }
        }
        envelope = Self::default();
        if raw::members(text).try_for_each(|(name, value)| envelope.set(&name, value)).is_none() {
            let mut ids = raw::members(text).filter(|(name, _)| name == "id").map(|(_, id)| id);
            let id = ids.next().filter(|id| ids.next().is_none() && id.len() <= MAX_ID_BYTES);
            return Err(Malformed::Invalid(id.and_then(Id::from_json), "duplicate member in the message"));
        }
        *params = Object::unread(envelope.params.unwrap_or_default());
        Ok(envelope)
    }

    /// Sets a member. Returns `None` if it is a duplicate.
    fn set(&mut self, name: &str, value: &'a str) -> Option<()> {
        let member = match name {
            "jsonrpc" => &mut self.jsonrpc,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "params" => &mut self.params,
            "result" => &mut self.result,
            "error" => &mut self.error,
            _ => return Some(()),
        };
        member.replace(value).is_none().then_some(())
    }
}

/// Describes a syntax error in JSON. Omits the line number if it is the first, since most messages are a single line.
pub(crate) fn syntax_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    match error.line() {
        0 | 1 => format!("{what} at byte {}", error.column()),
        line => format!("{what} at byte {} of line {line}", error.column()),
    }
}

/// The id of a request: the JSON text of a string or an integer.
///
/// The text is preserved, so a response repeats the id as the client wrote it. Only the escapes of strings are
/// normalized, so that equal strings have equal texts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Id(IdText);

/// Short ids are stored in place, since every call has one.
#[derive(Clone, PartialEq, Eq, Hash)]
enum IdText {
    Short { len: u8, bytes: [u8; SHORT_ID_BYTES] },
    Long(Box<str>),
}

/// The maximum size of an id or a progress token as JSON, in bytes. The server stores and repeats both.
pub(crate) const MAX_ID_BYTES: usize = 1024;

/// The size of a UUID as JSON, in bytes. Longer ids are allocated.
const SHORT_ID_BYTES: usize = 38;

impl Id {
    /// Creates an id from raw JSON. Returns `None` if it is neither a string nor an integer.
    pub(crate) fn from_json(json: &str) -> Option<Self> {
        match raw::kind(json) {
            raw::Kind::String if json.contains('\\') => {
                let text = raw::string(json)?;
                let mut canonical = Vec::with_capacity(json.len());
                write::string(&mut canonical, &text);
                Some(Self::new(std::str::from_utf8(&canonical).ok()?))
            }
            raw::Kind::String => Some(Self::new(json)),
            raw::Kind::Number if is_integer(json) => Some(Self::new(json)),
            _ => None,
        }
    }

    /// Returns a new id for the call of a notification. It is no JSON, so no request can have it.
    pub(crate) fn of_notification() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self::new(&format!("notification-{}", LAST.fetch_add(1, Ordering::Relaxed)))
    }

    /// Returns whether the call has no response.
    pub(crate) fn is_of_notification(&self) -> bool {
        self.as_bytes().starts_with(b"n")
    }

    fn new(json: &str) -> Self {
        let mut bytes = [0; SHORT_ID_BYTES];
        Self(match bytes.get_mut(..json.len()) {
            Some(start) => {
                start.copy_from_slice(json.as_bytes());
                IdText::Short { len: json.len() as u8, bytes }
            }
            None => IdText::Long(json.into()),
        })
    }

    pub(crate) fn as_json(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// Returns the JSON without validating it again as UTF-8.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            IdText::Short { len, bytes } => &bytes[..usize::from(*len)],
            IdText::Long(text) => text.as_bytes(),
        }
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_json())
    }
}

/// Returns whether a number is an integer, such as `1` or `1.0`.
fn is_integer(number: &str) -> bool {
    number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        || number.parse::<f64>().is_ok_and(|value| value.is_finite() && value.fract() == 0.0)
}

/// Returns a member if it is an object.
pub(crate) fn object_member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    raw::member(object, name).filter(|value| raw::kind(value) == raw::Kind::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_errors_name_their_position() {
        for (text, expected) in [
            ("{x", "key must be a string at byte 2"),
            ("{\n  \"id\": x", "expected value at byte 9 of line 2"),
            ("[\n\n1,]", "expected value at byte 3 of line 3"),
            ("1 x", "trailing characters at byte 3"),
            ("\"a\" b", "trailing characters at byte 5"),
            ("nullx", "trailing characters at byte 5"),
            ("{\"id\":1,", "EOF while parsing a value at byte 8"),
            ("{\"id\":1,}", "trailing comma at byte 9"),
        ] {
            let Transmission::One(Err(Malformed::Parse(error))) = parse(text) else { panic!("{text} is valid") };
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn malformed_messages_are_answered_where_their_id_is_certain() {
        let read = |text: &str| match parse(text) {
            Transmission::One(Ok(Incoming::Request(message, id))) => format!("request {id:?} of {}", message.method),
            Transmission::One(Ok(Incoming::Notification(message))) => format!("notification of {}", message.method),
            Transmission::One(Ok(Incoming::Response(id, body))) => format!("response to {id:?}: {body:?}"),
            Transmission::One(Err(Malformed::Invalid(id, reason))) => format!("{id:?}: {reason}"),
            Transmission::One(Err(Malformed::Parse(reason))) => reason,
            Transmission::Batch(_) => "batch".to_owned(),
        };
        let (longest, long) = ("1".repeat(MAX_ID_BYTES), "1".repeat(MAX_ID_BYTES + 1));
        for (members, expected) in [
            (r#""id":1,"result":2,"error":3"#, r#"response to Some(1): Error("3")"#.to_owned()),
            (r#""id":null,"error":3"#, r#"response to None: Error("3")"#.to_owned()),
            (&format!(r#""id":{long},"result":2"#), format!(r#"response to Some({long}): Result("2")"#)),
            (&format!(r#""id":{long},"method":"a""#), format!("None: {ID_TOO_LONG}")),
            (r#""method":"a","params":[1]"#, "notification of a".to_owned()),
            (r#""id":1,"method":"a","params":[1]"#, "Some(1): `params` must be an object".to_owned()),
            (r#""id":1,"method":"a","method":"b""#, "Some(1): duplicate member in the message".to_owned()),
            (r#""id":1,"id":2,"method":"a""#, "None: duplicate member in the message".to_owned()),
            // The duplicate precedes the syntax error.
            (r#""id":1,"id":2,x"#, "key must be a string at byte 32".to_owned()),
            (
                &format!(r#""id":{longest},"method":"a","method":"b""#),
                format!("Some({longest}): duplicate member in the message"),
            ),
            (&format!(r#""id":{long},"method":"a","method":"b""#), "None: duplicate member in the message".to_owned()),
        ] {
            assert_eq!(read(&format!(r#"{{"jsonrpc":"2.0",{members}}}"#)), expected, "{members}");
        }
        for (text, expected) in [
            (r#"{"id":1,"method":"a"}"#, "Some(1): `jsonrpc` must be \"2.0\""),
            (r#"{"jsonrpc":"1.0","id":1,"result":2}"#, "None: `jsonrpc` must be \"2.0\""),
            (r#"{"id":1,"error":2}"#, "None: `jsonrpc` must be \"2.0\""),
        ] {
            assert_eq!(read(text), expected);
        }
    }

    #[test]
    fn parameters_are_found_if_names_are_escaped() {
        for text in [
            r#"{"jsonrpc":"2.0","method":"a","params":{"x":1,"y":2}}"#,
            r#"{"\u006asonrpc":"2.0","method":"a","params":{"x":1,"y":2}}"#,
            r#"{"jsonrpc":"2.0","method":"a","p\u0061rams":{"x":1,"y":2}}"#,
            r#"{"jsonrpc":"2.0","method":"a","params":{"x":1,"\u0079":2}}"#,
        ] {
            let Transmission::One(Ok(Incoming::Notification(message))) = parse(text) else { panic!("{text}") };
            let members = message.params.as_ref().unwrap().members();
            let members: Vec<_> = members.map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(members, ["x=1", "y=2"], "{text}");
        }
    }

    #[test]
    fn ids_are_strings_or_integers() {
        for (json, canonical) in [
            ("1", Some("1")),
            ("-7", Some("-7")),
            ("1752345678901", Some("1752345678901")),
            ("123456789012345678901234567890", Some("123456789012345678901234567890")),
            ("1.0", Some("1.0")),
            (r#""a""#, Some(r#""a""#)),
            (r#""\u0061""#, Some(r#""a""#)),
            (r#""""#, Some(r#""""#)),
            ("1.5", None),
            ("null", None),
            ("true", None),
            ("[1]", None),
            ("{}", None),
        ] {
            assert_eq!(Id::from_json(json).as_ref().map(Id::as_json), canonical, "{json}");
        }
    }
}
