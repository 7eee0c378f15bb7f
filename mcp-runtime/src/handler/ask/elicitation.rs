//! Elicitation: forms and web pages.

use std::{
    marker::PhantomData,
    net::Ipv6Addr,
    sync::{Arc, LazyLock},
};

use serde_json::{Map, Value, json};

use super::{
    Ask, Capability, ElicitationSession, FormContent, FormField, InvalidAnswer, Question, TrackedElicitation,
    UrlCompletion,
    question::{Recipient, parse},
    requested_schema::{default_of, enforced_schema, requested_schema},
};
use crate::{
    error::{Fault, RequiredElicitation},
    handler::schema::Violation,
    jsonrpc::write::plain,
    loopback::{is_loopback, without_port},
    random,
    revision::{Feature, Features, encode::Object},
    stdx::debug,
};

/// The user's response to a question.
///
/// ```
/// use mcp_runtime::ask::Answer;
///
/// let answer = Answer::Accept(7);
/// assert_eq!(answer.accepted(), Some(7));
/// assert_eq!(Answer::<u8>::Decline.accepted(), None);
/// ```
///
/// See [Response actions](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#response-actions).
#[must_use = "the user may have declined"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<T> {
    /// The user accepted and provided a value.
    Accept(T),
    /// The user declined.
    Decline,
    /// The user dismissed the question.
    Cancel,
}

impl<T> Answer<T> {
    /// Returns the value if the user accepted.
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accept(value) => Some(value),
            Self::Decline | Self::Cancel => None,
        }
    }

    /// Returns whether the user accepted.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Self::Accept(_))
    }
}

/// A request to the user to fill in a form.
///
/// Forms must not ask for secrets. Use [`UrlElicitation`] for them.
///
/// Revisions before 2025-06-18 do not support forms. Revision 2025-06-18 does not support lists of choices, so each
/// choice becomes a boolean named `field.choice`, and it supports defaults of booleans only.
///
/// See [Form mode](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#form-mode-elicitation-requests).
///
/// ```
/// use mcp_runtime::{Elicit, ask::Elicitation};
///
/// #[derive(Elicit)]
/// struct Confirm {
///     /// Also delete the files in it.
///     recursive: bool,
/// }
///
/// let question = Elicitation::<Confirm>::new("confirm", "Delete notes/?");
/// ```
pub struct Elicitation<T> {
    key: String,
    message: String,
    form: PhantomData<fn() -> T>,
}

impl<T> Elicitation<T> {
    /// Creates a question. The key identifies it within the call.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self
    where
        T: Elicit,
    {
        Self { key: key.into(), message: message.into(), form: PhantomData }
    }
}

impl<T> Clone for Elicitation<T> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), message: self.message.clone(), form: PhantomData }
    }
}

debug!(Elicitation<T>, self, key: self.key, message: self.message);

impl<T: Elicit> Ask for Elicitation<T> {
    type Answer = Answer<T>;

    fn question(&self, features: Features) -> Result<Question, Fault> {
        if !features.has(Feature::Elicitation) {
            return Err(Capability::missing(&[Capability::Elicitation]));
        }
        check_defaults::<T>()?;
        Ok(form(&self.key, &self.message, features, &requested_schema(T::FIELDS, features)))
    }

    fn read(&self, result: &str) -> Result<Self::Answer, InvalidAnswer> {
        answer(result, |content| {
            if content.is_none() && T::FIELDS.iter().any(|field| field.is_required()) {
                return Err(InvalidAnswer::new("`content` is missing, expected an object: the form was accepted"));
            }
            T::read(&FormContent::new(T::FIELDS, &content.unwrap_or_default())?)
        })
    }
}

/// A request to the user to fill in a form whose schema is known at run time. For forms of the program, see [`Elicitation`].
///
/// The answer is checked against the schema. Revision 2025-06-18 supports no lists of choices and no titled choices: a form with
/// them is a [`Fault::MissingCapability`]. Forms are flat in every revision: fields that are not strings, numbers, booleans or
/// lists of choices are an error.
///
/// ```
/// use mcp_runtime::ask::FormElicitation;
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
/// let question = FormElicitation::new("name", "How is the branch called?", schema);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FormElicitation {
    key: String,
    message: String,
    schema: Value,
}

impl FormElicitation {
    /// Creates a question with a [requested
    /// schema](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema). The key identifies
    /// it within the call.
    pub fn new(key: impl Into<String>, message: impl Into<String>, schema: Value) -> Self {
        Self { key: key.into(), message: message.into(), schema }
    }
}

impl Ask for FormElicitation {
    type Answer = Answer<Map<String, Value>>;

    fn question(&self, features: Features) -> Result<Question, Fault> {
        let Some(fields) = self.schema["properties"].as_object().filter(|_| self.schema["type"] == "object") else {
            return Err(Fault::internal("the schema of a form must have the type `object` and `properties`"));
        };
        if let Some((name, _)) = fields.iter().find(|(_, field)| !is_flat(field)) {
            let expected = "a string, a number, a boolean or a list of choices: forms are flat";
            return Err(Fault::internal(format!("the field `{name}` of the form must be {expected}")));
        }
        let is_rich = features.has(Feature::RichForms);
        if !features.has(Feature::Elicitation) || !is_rich && has_rich_fields(&self.schema) {
            return Err(Capability::missing(&[Capability::Elicitation]));
        }
        let mut schema = self.schema.clone();
        if !is_rich {
            schema.as_object_mut().and_then(|schema| schema.shift_remove("$schema"));
            for field in schema["properties"].as_object_mut().into_iter().flat_map(Map::values_mut) {
                let is_boolean = field["type"] == "boolean";
                field.as_object_mut().filter(|_| !is_boolean).and_then(|field| field.shift_remove("default"));
            }
        }
        Ok(form(&self.key, &self.message, features, &schema))
    }

    fn read(&self, result: &str) -> Result<Self::Answer, InvalidAnswer> {
        answer(result, |content| {
            let content = content.unwrap_or_default();
            parse(&self.schema, &Value::Object(content.clone()).to_string()).map(|_| content)
        })
    }
}

/// Creates the question of a form.
fn form(key: &str, message: &str, features: Features, schema: &Value) -> Question {
    let mut params = Vec::new();
    let mut object = Object::begin(&mut params);
    if features.has(Feature::RichForms) {
        object.string("mode", "form");
    }
    object.string("message", message);
    plain(object.key("requestedSchema"), schema);
    object.end();
    create(key, params, &[Capability::Elicitation])
}

/// Returns whether a form has fields that revision 2025-06-18 does not support.
fn has_rich_fields(schema: &Value) -> bool {
    let mut fields = schema["properties"].as_object().into_iter().flat_map(Map::values);
    fields.any(|field| field["type"] == "array" || field.get("oneOf").is_some() || field.get("anyOf").is_some())
}

/// Returns whether a field is a string, a number, a boolean or a list of strings. No revision supports others.
fn is_flat(field: &Value) -> bool {
    let items = &field["items"];
    let is_choice = items["type"] == "string" || items.get("anyOf").is_some();
    is_primitive(field) || field["type"] == "array" && is_choice && is_primitive(items)
}

fn is_primitive(schema: &Value) -> bool {
    let types = schema["type"].as_array().map_or(std::slice::from_ref(&schema["type"]), Vec::as_slice);
    let is_composed = types.iter().any(|name| name == "object" || name == "array")
        || ["$ref", "properties", "items"].iter().any(|keyword| schema.get(keyword).is_some());
    let alternatives = ["anyOf", "oneOf", "allOf"].iter().filter_map(|keyword| schema.get(keyword)?.as_array());
    schema.is_object() && !is_composed && alternatives.flatten().all(is_primitive)
}

/// Checks that the defaults of a form are valid, since users may accept them unchanged.
fn check_defaults<T: Elicit>() -> Result<(), Fault> {
    let defaults = T::FIELDS.iter().filter_map(|field| Some((field.name.to_owned(), default_of(field)?))).collect();
    let all = enforced_schema(T::FIELDS);
    let schema = json!({ "type": "object", "properties": all["properties"] });
    parse(&schema, &Value::Object(defaults).to_string())
        .map(drop)
        .map_err(|error| Fault::internal(format!("invalid default in the form: {error}")))
}

/// A request to the user to open a web page, for data that must not pass through the client: secrets, payments, or the
/// consent of a third party.
///
/// [`Answer::Accept`] means that the page was opened, not that the interaction there is complete. See
/// [`with_completion`](Self::with_completion).
///
/// The page must be served over `https`, unless its host is `localhost` or a loopback address. Any other URL is
/// rejected before anything is sent.
///
/// Revisions before 2025-11-25 do not support it.
///
/// See [URL mode](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#url-mode-elicitation-requests).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlElicitation {
    key: String,
    url: String,
    message: String,
    /// The recipient, shared with the completion handle. `None` without a handle.
    recipient: Option<Recipient>,
}

impl UrlElicitation {
    /// Creates a question. The key identifies it within the call.
    pub fn new(key: impl Into<String>, url: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), url: url.into(), message: message.into(), recipient: None }
    }

    /// Returns the question with a handle that reports the completion of the interaction to the client, which may then
    /// retry a request or update its user interface.
    ///
    /// Only revision 2025-11-25 has such reports. A second call replaces the handle of the first.
    ///
    /// ```
    /// use std::{collections::HashMap, sync::Mutex};
    ///
    /// use mcp_runtime::{Context, Fault, ask::{UrlCompletion, UrlElicitation}, tool};
    ///
    /// #[derive(Default)]
    /// struct Logins {
    ///     /// By the `state` of the login.
    ///     pending: Mutex<HashMap<String, UrlCompletion>>,
    /// }
    ///
    /// impl Logins {
    ///     /// Called by the web page when the user has logged in.
    ///     fn finish(&self, state: &str) {
    ///         if let Some(completion) = self.pending.lock().unwrap().remove(state) {
    ///             completion.complete();
    ///         }
    ///     }
    /// }
    ///
    /// # fn new_state() -> String { String::new() }
    /// /// Log in.
    /// #[tool]
    /// async fn login(ctx: &Context, logins: &Logins) -> Result<&'static str, Fault> {
    ///     let state = ctx.once("state", async { new_state() }).await?;
    ///     let url = format!("https://example.com/login?state={state}");
    ///     let (page, completion) = UrlElicitation::new("login", url, "Please log in.").with_completion();
    ///     logins.pending.lock().unwrap().insert(state, completion);
    ///     Ok(if ctx.ask(page).await?.is_accepted() { "The page is open." } else { "declined" })
    /// }
    /// ```
    pub fn with_completion(self) -> (Self, UrlCompletion) {
        let recipient = Recipient::default();
        (Self { recipient: Some(recipient.clone()), ..self }, UrlCompletion(recipient))
    }

    /// Returns the elicitation as an entry of [`Fault::UrlElicitationRequired`], and records `session` as its
    /// recipient.
    ///
    /// # Errors
    ///
    /// Returns a fault if the URL is invalid.
    pub(crate) fn required(&self, session: Option<Arc<dyn ElicitationSession>>) -> Result<RequiredElicitation, Fault> {
        check_url(&self.url)?;
        let id = elicitation_id()?;
        if let (Some(tracked), Some(session)) = (self.tracked(&id), session) {
            tracked.received_by(session);
        }
        Ok(RequiredElicitation { id, url: self.url.clone(), message: self.message.clone() })
    }

    fn tracked(&self, id: &str) -> Option<TrackedElicitation> {
        let recipient = self.recipient.clone()?;
        Some(TrackedElicitation { id: id.to_owned(), recipient })
    }
}

impl Ask for UrlElicitation {
    type Answer = Answer<()>;

    fn question(&self, features: Features) -> Result<Question, Fault> {
        if !features.has(Feature::UrlElicitation) {
            return Err(Capability::missing(&[Capability::UrlElicitation]));
        }
        check_url(&self.url)?;
        let (mut params, mut tracked) = (Vec::new(), None);
        let mut object = Object::begin(&mut params);
        object.string("mode", "url");
        if features.has(Feature::ElicitationIds) {
            let id = elicitation_id()?;
            object.string("elicitationId", &id);
            tracked = self.tracked(&id);
        }
        object.string("url", &self.url);
        object.string("message", &self.message);
        object.end();
        Ok(Question { tracked, ..create(&self.key, params, &[Capability::UrlElicitation]) })
    }

    fn read(&self, result: &str) -> Result<Self::Answer, InvalidAnswer> {
        answer(result, |_| Ok(()))
    }
}

/// Returns a new `elicitationId`.
fn elicitation_id() -> Result<String, Fault> {
    random::id().ok_or_else(|| Fault::internal("cannot generate a random id for the elicitation"))
}

fn create(key: &str, params: Vec<u8>, capabilities: &'static [Capability]) -> Question {
    Question::new(key.to_owned(), "elicitation/create", params, capabilities)
}

/// Decodes the user's action, and the content, if any, with `accept`.
fn answer<T>(
    result: &str,
    accept: impl FnOnce(Option<Map<String, Value>>) -> Result<T, InvalidAnswer>,
) -> Result<Answer<T>, InvalidAnswer> {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        json!({
            "type": "object",
            "properties": { "action": { "enum": ["accept", "decline", "cancel"] } },
            "required": ["action"],
        })
    });

    let mut result = parse(&SCHEMA, result)?;
    Ok(match result["action"].as_str() {
        Some("accept") => Answer::Accept(accept(match result["content"].take() {
            Value::Object(content) => Some(content),
            Value::Null => None,
            other => return Err(Violation::new("content", Some(&other.to_string()), "must be an object").into()),
        })?),
        Some("decline") => Answer::Decline,
        _ => Answer::Cancel,
    })
}

/// Checks that the URL is an absolute `https` URL that any browser can open. Pages on the user's own machine may be
/// served over `http`.
///
/// See [Safe URL handling](https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#safe-url-handling).
fn check_url(url: &str) -> Result<(), Fault> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !br#""<>\^`{|}"#.contains(&byte);
    let parts = url.split_once("://").filter(|(_, rest)| rest.bytes().all(is_plain));
    let (scheme, rest) = parts.unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_http = scheme.eq_ignore_ascii_case("http");
    let expected =
        if !is_authority(authority) || !has_valid_escapes(rest) || !(is_http || scheme.eq_ignore_ascii_case("https")) {
            "an absolute URL such as `https://…`"
        } else if authority.contains('@') {
            "a URL without a user name or password"
        } else if is_http && !is_loopback(authority) {
            "`https`, because only pages on the user's own machine may use `http`"
        } else {
            return Ok(());
        };
    Err(Fault::internal(format!("the user cannot open `{url}`, expected {expected}")))
}

/// Returns whether a text is a host with an optional port.
fn is_authority(text: &str) -> bool {
    let text = text.rsplit('@').next().unwrap_or_default();
    let host = without_port(text);
    let port = text[host.len()..].trim_start_matches(':');
    let is_host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => !host.is_empty() && !host.contains([':', '[', ']']),
    };
    is_host && (port.is_empty() || port.parse::<u16>().is_ok())
}

/// Returns whether each `%` is followed by two hexadecimal digits.
fn has_valid_escapes(text: &str) -> bool {
    let is_hex = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    text.split('%').skip(1).all(|rest| rest.get(..2).is_some_and(is_hex))
}

/// A form that the user fills in: a struct that derives [`Elicit`](derive@crate::Elicit).
///
/// See [Form mode](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#form-mode-elicitation-requests).
///
/// ```
/// use mcp_runtime::{Elicit, ask::Elicitation};
///
/// #[derive(Elicit)]
/// struct Booking {
///     /// The name of the guest.
///     #[elicit(length = 1..=80)]
///     name: String,
///     #[elicit(range = 1..=12, default = 2)]
///     guests: u8,
///     #[elicit(format = "date")]
///     day: Option<String>,
///     seat: Seat,
///     wishes: Vec<Wish>,
/// }
///
/// #[derive(Elicit)]
/// enum Seat {
///     Inside,
///     #[elicit(title = "On the terrace")]
///     Outside,
/// }
///
/// #[derive(Elicit)]
/// enum Wish {
///     Quiet,
///     HighChair,
/// }
///
/// let question = Elicitation::<Booking>::new("booking", "When would you like to come?");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `Elicit`",
    label = "expected a struct that derives `Elicit`",
    note = "for a struct of your own, add `#[derive(mcp_runtime::Elicit)]`",
    note = "an enum, text or a number can only be a field of a form: make it a field of a struct"
)]
pub trait Elicit: Sized + Send + 'static {
    /// The fields, in order.
    #[doc(hidden)]
    const FIELDS: &'static [FormField];

    /// Creates the value from the content of a completed form.
    ///
    /// # Errors
    ///
    /// Returns an error if the content is invalid.
    #[doc(hidden)]
    fn read(content: &FormContent) -> Result<Self, InvalidAnswer>;
}
