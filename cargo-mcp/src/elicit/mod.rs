//! Questions of a server to the user: answered by the command line's options, or asked in the terminal.

mod check;
mod terminal;

use std::{
    collections::VecDeque,
    io::IsTerminal,
    sync::{Mutex, PoisonError},
};

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value};

use crate::{
    coerce::{Mistakes, Words, arguments},
    failure::Failure,
    near::nearest,
    schema::Schema,
};

/// Whether somebody can be asked.
pub(crate) fn in_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// What a user does with a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Accept(Map<String, Value>),
    /// Something that is done elsewhere is agreed to.
    Consent,
    Decline,
    Cancel,
}

impl From<Reply> for ElicitResult {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Accept(form) => Self::new(ElicitationAction::Accept).with_content(Value::Object(form)),
            Reply::Consent => Self::new(ElicitationAction::Accept),
            Reply::Decline => Self::new(ElicitationAction::Decline),
            Reply::Cancel => Self::new(ElicitationAction::Cancel),
        }
    }
}

/// The answers that the command line gives.
#[derive(Debug)]
pub(crate) struct Answers {
    /// By name, for every form that has such a field: the word, and whether a form had it.
    fields: Mutex<Vec<(String, bool)>>,
    /// One a question, in order.
    whole: Mutex<VecDeque<Reply>>,
    none: bool,
    /// Who asks.
    server: Mutex<String>,
}

impl Answers {
    /// # Errors
    ///
    /// An answer is no JSON object, or has no name.
    pub(crate) fn new(fields: &[String], whole: &[String]) -> Result<Self, Failure> {
        if let Some(word) = fields.iter().find(|word| name(word).is_none()) {
            return Err(Failure::usage(format_args!("`--answer {word}`: expected KEY=VALUE")));
        }
        Ok(Self {
            none: fields.is_empty() && whole.is_empty(),
            fields: Mutex::new(fields.iter().map(|word| (word.clone(), false)).collect()),
            whole: Mutex::new(whole.iter().map(|text| reply(text)).collect::<Result<_, _>>()?),
            server: Mutex::default(),
        })
    }

    pub(crate) fn are_none(&self) -> bool {
        self.none
    }

    pub(crate) fn connected(&self, server: String) {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = server;
    }

    /// The options that no question wanted.
    pub(crate) fn unused(&self) -> Vec<String> {
        let whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner).len();
        let fields = self.unused_fields().into_iter().map(|word| format!("--answer {word}"));
        fields.chain((whole > 0).then(|| format!("the last {whole} of --answer-json"))).collect()
    }

    fn unused_fields(&self) -> Vec<String> {
        let fields = self.fields.lock().unwrap_or_else(PoisonError::into_inner);
        fields.iter().filter(|(_, used)| !used).map(|(word, _)| word.clone()).collect()
    }

    /// Answers a question.
    ///
    /// # Errors
    ///
    /// The command line's answers do not fit, or say nothing of it and nobody can be asked; Ctrl-C.
    pub(crate) async fn answer(&self, question: ElicitRequestParams) -> Result<ElicitResult, Failure> {
        let given = self.whole.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reply = match (question, given) {
            (_, Some(reply @ (Reply::Decline | Reply::Cancel))) => reply,
            (ElicitRequestParams::FormElicitationParams { message, requested_schema, .. }, given) => {
                let schema =
                    serde_json::to_value(&requested_schema).map_err(|error| Failure::tool(error.to_string()))?;
                let Value::Object(schema) = schema else { return Ok(Reply::Cancel.into()) };
                match given {
                    Some(Reply::Accept(form)) => checked(form, &schema, &message)?,
                    _ => self.form(&server, message, schema).await?,
                }
            }
            (ElicitRequestParams::UrlElicitationParams { .. }, Some(_)) => Reply::Consent,
            (ElicitRequestParams::UrlElicitationParams { message, url, .. }, None) if in_terminal() => {
                asked(move || terminal::url(&server, &message, &url)).await?
            }
            (ElicitRequestParams::UrlElicitationParams { message, url, .. }, None) => {
                return Err(Failure::usage(format_args!("the server sends the user to `{url}`: {message}"))
                    .help("open it, and answer with `--answer-json '{}'`, or with `--answer-json decline`"));
            }
            _ => Reply::Decline,
        };
        Ok(reply.into())
    }

    async fn form(&self, server: &str, message: String, schema: Map<String, Value>) -> Result<Reply, Failure> {
        let given = self.given(&schema, &message)?;
        if in_terminal() {
            let server = server.to_owned();
            return asked(move || terminal::form(&server, &message, schema, given)).await;
        }
        let properties = Schema::new(&schema);
        let mut form = given.clone();
        for (name, property) in properties.properties() {
            if let (false, Some(default)) = (form.contains_key(name), property.default()) {
                form.insert(name.to_owned(), default.clone());
            }
        }
        let missing: Vec<_> = properties.required().into_iter().filter(|name| !form.contains_key(*name)).collect();
        let answered = !given.is_empty() || properties.properties().is_empty();
        if answered && missing.is_empty() {
            return Ok(Reply::Accept(form));
        }
        let failure = Failure::usage(format_args!("the server asks: {message}"));
        let asked: Vec<_> = match missing.is_empty() {
            true => properties.properties().into_iter().map(|(name, _)| name).collect(),
            false => missing,
        };
        let is = |name: &str| properties.property(name).map(Schema::in_words).unwrap_or_default();
        let unused = self.unused_fields();
        let near = |field: &str| nearest(field, unused.iter().filter_map(|word| name(word))).map(str::to_owned);
        Err(asked.into_iter().fold(failure, |failure, name| match near(name) {
            Some(near) => failure.help(format_args!("`--answer {name}=…` is missing ({}), is `{near}` it?", is(name))),
            None => failure.help(format_args!("`--answer {name}=…` is missing ({})", is(name))),
        }))
    }

    /// What the command line says of a form's fields.
    fn given(&self, schema: &Map<String, Value>, message: &str) -> Result<Map<String, Value>, Failure> {
        let properties = Schema::new(schema);
        let mut words = Vec::new();
        for (word, used) in &mut *self.fields.lock().unwrap_or_else(PoisonError::into_inner) {
            if name(word).is_some_and(|name| properties.property(name).is_some()) {
                *used = true;
                words.push(word.clone());
            }
        }
        let mut mistakes = Mistakes::default();
        let given = arguments(Words { words: &words, complete: false }, properties, &mut mistakes);
        check::form(&given, properties, &mut mistakes);
        mistakes.none(&format!("the answer to “{message}”"))?;
        Ok(given)
    }
}

/// The name in `KEY=VALUE` and `KEY:=JSON`.
fn name(word: &str) -> Option<&str> {
    let name = word.split_once('=')?.0;
    Some(name.strip_suffix(':').unwrap_or(name)).filter(|name| !name.is_empty())
}

fn reply(text: &str) -> Result<Reply, Failure> {
    match (text, serde_json::from_str(text)) {
        ("decline", _) => Ok(Reply::Decline),
        ("cancel", _) => Ok(Reply::Cancel),
        (_, Ok(Value::Object(form))) => Ok(Reply::Accept(form)),
        _ => Err(Failure::usage(format_args!("`--answer-json {text}`: expected a JSON object, `decline` or `cancel`"))),
    }
}

fn checked(form: Map<String, Value>, schema: &Map<String, Value>, message: &str) -> Result<Reply, Failure> {
    let schema = Schema::new(schema);
    let mut mistakes = Mistakes::default();
    check::form(&form, schema, &mut mistakes);
    check::required(&form, schema, &mut mistakes);
    mistakes.none(&format!("the answer to “{message}”"))?;
    Ok(Reply::Accept(form))
}

/// Waits until the user has done what a page was for; whether they have.
///
/// # Errors
///
/// Ctrl-C.
pub(crate) async fn until_done() -> Result<bool, Failure> {
    Ok(asked(terminal::done).await? == Reply::Consent)
}

/// Asks on a thread that may wait for the keyboard.
async fn asked(ask: impl FnOnce() -> Result<Reply, Failure> + Send + 'static) -> Result<Reply, Failure> {
    match tokio::task::spawn_blocking(ask).await {
        Ok(reply) => reply,
        Err(_) => Ok(Reply::Cancel),
    }
}
