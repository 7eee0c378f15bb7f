use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{error::Category, value::RawValue};

use super::{Id, check, raw};

/// What one line or one body holds.
pub(crate) enum Transmission<'a> {
    One(Result<Incoming<'a>, Malformed<'a>>),
    /// A batch, whose members are to be read with [`Message::read`] one by one.
    Batch(raw::Elements<'a>),
}

/// A well-formed message.
pub(crate) enum Incoming<'a> {
    Request(Message<'a>, Id<'a>),
    Notification(Message<'a>),
    /// An answer to a request of ours; without an id where the client could not tell which.
    Response(Option<Id<'a>>, Answer<'a>),
}

/// What the other side answered, as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    /// The result.
    Result(&'a str),
    /// The error object.
    Error(&'a str),
}

/// A method and its parameters, still as JSON.
pub(crate) struct Message<'a> {
    pub(crate) method: Cow<'a, str>,
    /// None where the message has no parameters.
    pub(crate) params: Option<Object<'a>>,
}

/// An object as JSON, whose first members were found when it was checked.
#[derive(Clone, Copy)]
pub(crate) struct Object<'a> {
    json: &'a str,
    found: [(&'a str, &'a str); FEW],
    count: usize,
    /// Where the others start.
    rest: usize,
}

/// Nearly all messages have no more parameters.
const FEW: usize = 3;

impl<'a> Object<'a> {
    /// An object of whose members none has been found.
    fn unread(json: &'a str) -> Self {
        Self { json, found: [("", ""); FEW], count: 0, rest: raw::inside(json, b'{') }
    }

    pub(crate) fn json(&self) -> &'a str {
        self.json
    }

    /// The members: each key without its escapes, each value as it stands in the text.
    pub(crate) fn members(&self) -> impl Iterator<Item = (Cow<'a, str>, &'a str)> {
        let found = self.found[..self.count].iter().map(|&(name, value)| (Cow::Borrowed(name), value));
        found.chain(raw::members_from(self.json, self.rest))
    }

    /// Takes the next member, which ends at `end`.
    fn find(&mut self, name: &'a str, value: &'a str, end: usize) {
        if let Some(place) = self.found.get_mut(self.count) {
            *place = (name, value);
            self.count += 1;
            self.rest = end;
        }
    }
}

/// A message that cannot be understood.
pub(crate) enum Malformed<'a> {
    /// Not JSON.
    Parse(String),
    /// JSON, but no message; with its id, if that much could be read.
    Invalid(Option<Id<'a>>, &'static str),
}

/// Reads one transmission. The text is checked to be JSON as a whole here, so that nothing later has to.
pub(crate) fn parse(text: &str) -> Transmission<'_> {
    match raw::kind(text) {
        raw::Kind::Array => match serde_json::from_str::<&RawValue>(text) {
            Ok(batch) => Transmission::Batch(raw::elements(batch.get())),
            Err(error) => Transmission::One(Err(Malformed::Parse(describe(&error)))),
        },
        _ => Transmission::One(Message::read(text)),
    }
}

impl<'a> Message<'a> {
    /// Reads one message.
    pub(crate) fn read(text: &'a str) -> Result<Incoming<'a>, Malformed<'a>> {
        let mut found = Object::unread("");
        let envelope = match Envelope::read(text, &mut found) {
            Ok(envelope) => envelope,
            Err(error) if error.classify() != Category::Data => return Err(Malformed::Parse(describe(&error))),
            Err(_) => return Err(Self::refuse_shape(text)),
        };
        let id = match envelope.id {
            None => None,
            Some(json) => match Id::from_json(json) {
                Some(id) => Some(id),
                // A response to a request whose id we could not be told carries `null`; nobody waits for it.
                None if envelope.method.is_none() && envelope.error.is_some() => {
                    return Ok(Incoming::Response(None, Answer::Error(envelope.error.unwrap_or_default())));
                }
                None => return Err(Malformed::Invalid(None, "`id` must be a string or an integer")),
            },
        };
        if envelope.jsonrpc.is_none_or(|version| version != r#""2.0""#) {
            return Err(Malformed::Invalid(id, "`jsonrpc` must be \"2.0\""));
        }
        let Some(method) = envelope.method else {
            return match (envelope.result, envelope.error) {
                (_, Some(error)) => Ok(Incoming::Response(id, Answer::Error(error))),
                (Some(result), None) => Ok(Incoming::Response(id, Answer::Result(result))),
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
            Some(_) => return Err(Malformed::Invalid(id, "`params` must be an object")),
        };
        let message = Self { method, params };
        Ok(match id {
            Some(id) => Incoming::Request(message, id),
            None => Incoming::Notification(message),
        })
    }

    /// Says what is wrong with JSON that is not an object with the members of a message, each once.
    fn refuse_shape(text: &'a str) -> Malformed<'a> {
        if let Err(error) = serde_json::from_str::<&RawValue>(text) {
            return Malformed::Parse(describe(&error));
        }
        if raw::kind(text) != raw::Kind::Object {
            return Malformed::Invalid(None, "a message must be an object");
        }
        let mut ids = raw::members(text).filter(|(name, _)| name == "id");
        match (ids.next(), ids.next()) {
            (Some((_, id)), None) => Malformed::Invalid(Id::from_json(id), "a member of the message is there twice"),
            _ => Malformed::Invalid(None, "a member of the message is there twice"),
        }
    }
}

/// The members of any message, each as JSON so that a wrong one does not hide the others.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Envelope<'a> {
    #[serde(borrow, deserialize_with = "present")]
    jsonrpc: Option<&'a str>,
    #[serde(borrow, deserialize_with = "present")]
    id: Option<&'a str>,
    #[serde(borrow, deserialize_with = "present")]
    method: Option<&'a str>,
    #[serde(borrow, deserialize_with = "present")]
    params: Option<&'a str>,
    #[serde(borrow, deserialize_with = "present")]
    result: Option<&'a str>,
    #[serde(borrow, deserialize_with = "present")]
    error: Option<&'a str>,
}

impl<'a> Envelope<'a> {
    /// Reads the members of a message, and finds those of its parameters, if they are an object and easy to find.
    fn read(text: &'a str, params: &mut Object<'a>) -> Result<Self, serde_json::Error> {
        let mut envelope = Self::default();
        let each = |name, value| {
            let member = match name {
                "jsonrpc" => &mut envelope.jsonrpc,
                "id" => &mut envelope.id,
                "method" => &mut envelope.method,
                "params" => &mut envelope.params,
                "result" => &mut envelope.result,
                "error" => &mut envelope.error,
                _ => return Some(()),
            };
            // A member that is there twice is not told apart here.
            member.replace(value).is_none().then_some(())
        };
        match check::members(text, each, "params", |name, value, end| params.find(name, value, end)) {
            Some(()) => Ok(envelope),
            // What is derived would read an array as the members in their order.
            None if raw::kind(text) == raw::Kind::Array => Err(serde_json::Error::custom("an array")),
            None => {
                let envelope: Self = serde_json::from_str(text)?;
                *params = Object::unread(envelope.params.unwrap_or_default());
                Ok(envelope)
            }
        }
    }
}

/// Keeps `null` apart from a member that is not there.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de str>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(|json| Some(json.get()))
}

/// Says where the JSON breaks off, without the line: a message is one line.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    format!("{what} at byte {}", error.column())
}
