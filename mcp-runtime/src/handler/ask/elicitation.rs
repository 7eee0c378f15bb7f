use std::{fmt, marker::PhantomData, sync::LazyLock};

use serde_json::{Map, Value, json};

use super::{
    Ask, Capability, Question, conforming,
    filled::Filled,
    form::Elicit,
    mistaken,
    requested::{default_of, enforced_schema, requested_schema},
};
use crate::{
    error::Fault,
    handler::schema::Violation,
    random,
    revision::{Feature, Features, encode::Object},
};

/// What a person did with a question.
///
/// See [Response actions](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#response-actions).
#[must_use = "a person may have declined"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<T> {
    /// The person agreed, with this.
    Accept(T),
    /// The person refused.
    Decline,
    /// The person made no choice.
    Cancel,
}

impl<T> Answer<T> {
    /// Returns what the person agreed with.
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accept(value) => Some(value),
            Self::Decline | Self::Cancel => None,
        }
    }

    /// Tells whether the person agreed.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Self::Accept(_))
    }
}

/// Asks a person to fill in a form.
///
/// Secrets may not be asked for in this way, but by a [`UrlElicitation`].
///
/// Revisions before 2025-06-18 cannot ask. 2025-06-18 has no list of choices: there each choice is a yes or no of its own, named
/// `field.choice`, and the answers are put together again; and it knows the default of a yes or no only.
///
/// See [Form mode](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#form-mode-elicitation-requests).
///
/// ```
/// use mcp_runtime::{Elicit, Elicitation};
///
/// #[derive(Elicit)]
/// struct Confirm {
///     /// Files go, too.
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
    /// Makes a question; the key tells it from the others of the same call.
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

impl<T> fmt::Debug for Elicitation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elicitation").field("key", &self.key).field("message", &self.message).finish_non_exhaustive()
    }
}

impl<T: Elicit> Ask for Elicitation<T> {
    type Answer = Answer<T>;

    fn question(&self, features: Features) -> Result<Question, Fault> {
        if !features.has(Feature::Elicitation) {
            return Err(Capability::Elicitation.missing());
        }
        check_defaults::<T>()?;
        let mut params = Vec::new();
        let mut object = Object::begin(&mut params);
        if features.has(Feature::RichForms) {
            object.string("mode", "form");
        }
        object.string("message", &self.message);
        requested_schema(object.key("requestedSchema"), T::FORM, features);
        object.end();
        Ok(create(&self.key, params, Capability::Elicitation))
    }

    fn read(&self, result: &str) -> Result<Self::Answer, String> {
        match action(result)? {
            Answer::Accept(content) => {
                let content = match content {
                    Some(content) => content,
                    None if T::FORM.iter().any(|field| field.is_required()) => {
                        return Err("`content` is missing: a form that is accepted has one".to_owned());
                    }
                    None => Map::new(),
                };
                T::read(&Filled::check(T::FORM, &content)?).map(Answer::Accept)
            }
            Answer::Decline => Ok(Answer::Decline),
            Answer::Cancel => Ok(Answer::Cancel),
        }
    }
}

/// Makes sure that a form's defaults keep to its own rules, since a person may leave them as they are.
fn check_defaults<T: Elicit>() -> Result<(), Fault> {
    let defaults = T::FORM.iter().filter_map(|field| Some((field.name.to_owned(), default_of(field)?))).collect();
    let all = enforced_schema(T::FORM);
    let schema = json!({ "type": "object", "properties": all["properties"] });
    conforming(&schema, &Value::Object(defaults).to_string())
        .map(drop)
        .map_err(|why| mistaken(format!("a default of the form breaks its own rules: {why}")))
}

/// Sends a person to a web page, for what must not pass through the client: secrets, payments, the consent of a third party.
///
/// That a person accepts means that the page was opened, and not that anything was done there.
///
/// Revisions before 2025-11-25 cannot ask for it.
///
/// See [URL mode](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#url-mode-elicitation-requests).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlElicitation {
    key: String,
    url: String,
    message: String,
}

impl UrlElicitation {
    /// Makes a question; the key tells it from the others of the same call.
    pub fn new(key: impl Into<String>, url: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), url: url.into(), message: message.into() }
    }
}

impl Ask for UrlElicitation {
    type Answer = Answer<()>;

    fn question(&self, features: Features) -> Result<Question, Fault> {
        if !features.has(Feature::UrlElicitation) {
            return Err(Capability::UrlElicitation.missing());
        }
        if !is_web_page(&self.url) {
            let why = format!("a person cannot be sent to {:?}, expected an absolute URL such as https://…", self.url);
            return Err(mistaken(why));
        }
        let mut params = Vec::new();
        let mut object = Object::begin(&mut params);
        object.string("mode", "url");
        if features.has(Feature::ElicitationIds) {
            let id = random::id().ok_or_else(|| Fault::internal("there is no id for the question"))?;
            object.string("elicitationId", &id);
        }
        object.string("url", &self.url);
        object.string("message", &self.message);
        object.end();
        Ok(create(&self.key, params, Capability::UrlElicitation))
    }

    fn read(&self, result: &str) -> Result<Self::Answer, String> {
        Ok(match action(result)? {
            Answer::Accept(_) => Answer::Accept(()),
            Answer::Decline => Answer::Decline,
            Answer::Cancel => Answer::Cancel,
        })
    }
}

fn create(key: &str, params: Vec<u8>, needs: Capability) -> Question {
    let params = String::from_utf8(params).unwrap_or_default();
    Question { key: key.to_owned(), method: "elicitation/create", params, needs }
}

/// Reads what a person did, and the content, if there is one.
fn action(result: &str) -> Result<Answer<Option<Map<String, Value>>>, String> {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        json!({
            "type": "object",
            "properties": { "action": { "enum": ["accept", "decline", "cancel"] } },
            "required": ["action"],
        })
    });

    let mut result = conforming(&SCHEMA, result)?;
    Ok(match result["action"].as_str() {
        Some("accept") => Answer::Accept(match result["content"].take() {
            Value::Object(content) => Some(content),
            Value::Null => None,
            other => {
                return Err(Violation::new("content", Some(&other.to_string()), "must be an object").to_string());
            }
        }),
        Some("decline") => Answer::Decline,
        _ => Answer::Cancel,
    })
}

/// Tells whether a browser can open the URL wherever it runs.
fn is_web_page(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !br#""<>\^`{|}"#.contains(&byte);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http"))
        && !host.is_empty()
        && rest.bytes().all(is_plain)
}
