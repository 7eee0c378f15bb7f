//! Questions from the server to the user, answered by command-line options or in the terminal.

mod terminal;

use std::{
    collections::VecDeque,
    io::IsTerminal,
    sync::{Mutex, PoisonError},
};

use rmcp::model::{ElicitRequestParams, ElicitResult};
use serde_json::{Map, Value};

use self::terminal::Reply;
use crate::{
    arguments::{
        coerce::{ArgumentErrors, ArgumentWords, arguments},
        schema::Schema,
    },
    failure::{Failure, nearest},
};

/// Returns whether the user can be asked.
pub(crate) fn in_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// The answers from the command line.
#[derive(Debug)]
pub(crate) struct Answers {
    /// The values of `--answer`, for all forms with such a field.
    fields: Mutex<Vec<FieldAnswer>>,
    /// The values of `--answer-json`, one per question.
    replies: Mutex<VecDeque<Reply>>,
    /// The name of the server.
    server: Mutex<String>,
}

/// A value of `--answer`.
#[derive(Debug)]
struct FieldAnswer {
    word: String,
    is_used: bool,
}

impl Answers {
    /// Creates the answers from the values of `--answer` and `--answer-json`.
    ///
    /// # Errors
    ///
    /// Fails if a value is invalid.
    pub(crate) fn new(fields: &[String], replies: &[String]) -> Result<Self, Failure> {
        if let Some(word) = fields.iter().find(|word| name(word).is_none()) {
            return Err(Failure::usage(format_args!("`--answer {word}`: expected KEY=VALUE")));
        }
        Ok(Self {
            fields: Mutex::new(fields.iter().map(|word| FieldAnswer { word: word.clone(), is_used: false }).collect()),
            replies: Mutex::new(replies.iter().map(|text| reply(text)).collect::<Result<_, _>>()?),
            server: Mutex::default(),
        })
    }

    /// Sets the name of the server, which prompts show.
    pub(crate) fn set_server_name(&self, server: String) {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = server;
    }

    /// Returns the options that no question has used.
    pub(crate) fn unused(&self) -> Vec<String> {
        let unused = self.replies.lock().unwrap_or_else(PoisonError::into_inner).len();
        let fields = self.unused_fields().into_iter().map(|word| format!("--answer {word}"));
        fields.chain((unused > 0).then(|| format!("the last {unused} of --answer-json"))).collect()
    }

    fn unused_fields(&self) -> Vec<String> {
        let fields = self.fields.lock().unwrap_or_else(PoisonError::into_inner);
        fields.iter().filter(|field| !field.is_used).map(|field| field.word.clone()).collect()
    }

    /// Answers a question.
    ///
    /// # Errors
    ///
    /// Fails if an answer of the command line is invalid, if there is neither an answer nor a terminal, and on Ctrl-C.
    pub(crate) async fn answer(&self, question: ElicitRequestParams) -> Result<ElicitResult, Failure> {
        let given = {
            let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
            // The fields of a form do not count as consent to visit a page.
            let is_for_form = matches!(replies.front(), Some(Reply::Accept(form)) if !form.is_empty());
            let is_page = matches!(question, ElicitRequestParams::UrlElicitationParams { .. });
            if is_page && is_for_form { None } else { replies.pop_front() }
        };
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reply = match (question, given) {
            (_, Some(reply @ (Reply::Decline | Reply::Cancel))) => reply,
            (ElicitRequestParams::FormElicitationParams { message, requested_schema, .. }, given) => {
                let schema =
                    serde_json::to_value(&requested_schema).map_err(|error| Failure::tool(error.to_string()))?;
                let Value::Object(schema) = schema else { return Ok(Reply::Cancel.into()) };
                match given {
                    Some(Reply::Accept(form)) => validate_form(form, &schema, &message)?,
                    _ => self.form(&server, message, schema).await?,
                }
            }
            (ElicitRequestParams::UrlElicitationParams { message, url, .. }, Some(_)) => {
                terminal::show_page(&server, &message, &url);
                Reply::Consent
            }
            (ElicitRequestParams::UrlElicitationParams { message, url, .. }, None) if in_terminal() => {
                run_prompt(move || terminal::url(&server, &message, &url)).await?
            }
            (ElicitRequestParams::UrlElicitationParams { message, url, .. }, None) => {
                return Err(Failure::usage(format_args!("the server asks the user to visit `{url}`: {message}"))
                    .help_if(terminal::host_warning(&url))
                    .help("visit it and add `--answer-json '{}'`, or add `--answer-json decline`"));
            }
            _ => Reply::Decline,
        };
        Ok(reply.into())
    }

    async fn form(&self, server: &str, message: String, schema: Map<String, Value>) -> Result<Reply, Failure> {
        let given = self.given(&schema, &message)?;
        if in_terminal() {
            let server = server.to_owned();
            return run_prompt(move || terminal::form(&server, &message, schema, given)).await;
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
        let asked: Vec<_> = if missing.is_empty() {
            properties.properties().into_iter().map(|(name, _)| name).collect()
        } else {
            missing
        };
        let expected = |name: &str| properties.property(name).map(Schema::describe).unwrap_or_default();
        let unused = self.unused_fields();
        let near = |field: &str| nearest(field, unused.iter().filter_map(|word| name(word)));
        let hint = |field: &str| near(field).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        Err(asked.into_iter().fold(failure, |failure, name| {
            failure.help(format_args!("`--answer {name}=…` is missing ({}){}", expected(name), hint(name)))
        }))
    }

    /// Returns the answers of the command line to a form's fields.
    fn given(&self, schema: &Map<String, Value>, message: &str) -> Result<Map<String, Value>, Failure> {
        let properties = Schema::new(schema);
        let mut words = Vec::new();
        for field in &mut *self.fields.lock().unwrap_or_else(PoisonError::into_inner) {
            if name(&field.word).is_some_and(|name| properties.property(name).is_some()) {
                field.is_used = true;
                words.push(field.word.clone());
            }
        }
        let mut errors = ArgumentErrors::default();
        let given = arguments(ArgumentWords { words: &words, is_complete: false }, properties, &mut errors);
        check_form(&given, properties, &mut errors);
        errors.into_result(&format!("the answer to “{message}”"))?;
        Ok(given)
    }
}

/// Returns the name in `KEY=VALUE` or `KEY:=JSON`.
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

fn validate_form(form: Map<String, Value>, schema: &Map<String, Value>, message: &str) -> Result<Reply, Failure> {
    let schema = Schema::new(schema);
    let mut errors = ArgumentErrors::default();
    check_form(&form, schema, &mut errors);
    for name in schema.required().into_iter().filter(|name| !form.contains_key(*name)) {
        errors.add(format!("missing field `{name}`"));
    }
    errors.into_result(&format!("the answer to “{message}”"))?;
    Ok(Reply::Accept(form))
}

/// Waits until the user has completed a page. Returns `false` if the user cancels.
///
/// # Errors
///
/// Fails on Ctrl-C.
pub(crate) async fn wait_until_visited() -> Result<bool, Failure> {
    Ok(run_prompt(terminal::done).await? == Reply::Consent)
}

/// Runs a prompt on a blocking thread.
async fn run_prompt(ask: impl FnOnce() -> Result<Reply, Failure> + Send + 'static) -> Result<Reply, Failure> {
    match tokio::task::spawn_blocking(ask).await {
        Ok(reply) => reply,
        Err(_) => Ok(Reply::Cancel),
    }
}

/// Checks the fields that are present.
fn check_form(form: &Map<String, Value>, schema: Schema<'_>, errors: &mut ArgumentErrors) {
    for (name, value) in form {
        match schema.property(name) {
            Some(property) => {
                if let Err(error) = check_field(value, property) {
                    errors.add(format!("field `{name}`: {error}"));
                }
            }
            None => errors.add(format!("unknown field `{name}`")),
        }
    }
}

/// Checks one value.
///
/// # Errors
///
/// Fails if the value does not match the schema.
fn check_field(value: &Value, schema: Schema<'_>) -> Result<(), String> {
    if schema.admits(value) { Ok(()) } else { Err(schema.expected()) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::check_field;
    use crate::arguments::schema::Schema;

    #[test]
    fn answers_are_validated() {
        for (schema, good, bad) in [
            (json!({"type": "string"}), vec![json!(""), json!("x")], vec![json!(1), json!(null)]),
            (
                json!({"type": "string", "minLength": 2, "maxLength": 3}),
                vec![json!("äö"), json!("abc")],
                vec![json!("a"), json!("abcd")],
            ),
            (
                json!({"type": "string", "format": "email"}),
                vec![json!("a@b.ch"), json!("a@localhost")],
                vec![json!("a"), json!("a@"), json!("a b@c"), json!("@b"), json!("a@b..c")],
            ),
            (
                json!({"type": "string", "format": "uri"}),
                vec![json!("https://a.b/c"), json!("mailto:a@b")],
                vec![json!("a.b/c"), json!("")],
            ),
            (
                json!({"type": "string", "format": "date"}),
                vec![json!("2024-02-29")],
                vec![json!("2023-02-29"), json!("24-1-1"), json!("2024-2-9")],
            ),
            (
                json!({"type": "string", "format": "date-time"}),
                vec![json!("2024-02-29T12:00:00Z"), json!("2024-02-29T12:00:00+01:00")],
                vec![json!("2024-02-29"), json!("2024-02-29T25:00:00Z")],
            ),
            (
                json!({"type": "integer", "minimum": 1, "maximum": 8}),
                vec![json!(1), json!(8)],
                vec![json!(0), json!(9), json!(1.5), json!("1")],
            ),
            (json!({"type": "number", "exclusiveMinimum": 0}), vec![json!(0.1), json!(1)], vec![json!(0), json!(-1)]),
            (json!({"type": "boolean"}), vec![json!(true)], vec![json!("true")]),
            (
                json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}),
                vec![json!("a")],
                vec![json!("A"), json!("c")],
            ),
            (json!({"oneOf": [{"const": "a", "title": "A"}]}), vec![json!("a")], vec![json!("A")]),
            (
                json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"enum": ["a", "b", "c"]}}),
                vec![json!(["a"]), json!(["a", "c"])],
                vec![json!([]), json!(["a", "b", "c"]), json!(["z"]), json!("a")],
            ),
            (
                json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}),
                vec![json!([]), json!(["a"])],
                vec![json!(["b"])],
            ),
        ] {
            let Value::Object(root) = json!({"properties": {"it": schema}}) else { unreachable!() };
            let property = Schema::new(&root).property("it").expect("the property exists");
            for value in good {
                assert_eq!(check_field(&value, property), Ok(()), "{value} {schema}");
            }
            for value in bad {
                assert!(check_field(&value, property).is_err(), "{value} {schema}");
            }
        }
    }
}
