//! Asking the user in the terminal.

use std::{fmt::Display, sync::Arc};

use inquire::{Confirm, InquireError, MultiSelect, Select, Text, list_option::ListOption, validator::Validation};
use serde_json::{Map, Value};

use super::{Reply, check};
use crate::{
    coerce::text_as,
    failure::Failure,
    schema::{Schema, typed},
    style::{DIM, NAME, tame},
};

/// How a question ends that is not answered.
enum Stop {
    /// Escape: the user would rather not.
    Escape,
    Failed(Failure),
}

impl From<InquireError> for Stop {
    fn from(error: InquireError) -> Self {
        match error {
            InquireError::OperationCanceled => Self::Escape,
            InquireError::OperationInterrupted => Self::Failed(Failure::interrupted()),
            error => Self::Failed(Failure::usage(format_args!("the terminal cannot be asked: {error}"))),
        }
    }
}

/// A form, but for the fields that are filled in.
pub(crate) fn form(
    server: &str,
    message: &str,
    schema: Map<String, Value>,
    given: Map<String, Value>,
) -> Result<Reply, Failure> {
    asks(server, message);
    let schema = Arc::new(schema);
    let names: Vec<String> = Schema::new(&schema)
        .properties()
        .into_iter()
        .map(|(name, _)| name.to_owned())
        .filter(|name| !given.contains_key(name))
        .collect();
    let mut form = given.clone();
    loop {
        for name in &names {
            match field(&schema, name, form.get(name)) {
                Ok(Some(value)) => form.insert(name.clone(), value),
                Ok(None) => form.remove(name),
                Err(Stop::Failed(failure)) => return Err(failure),
                Err(Stop::Escape) => match menu(&["Fill in the form", DECLINE, CANCEL])? {
                    DECLINE => return Ok(Reply::Decline),
                    CANCEL => return Ok(Reply::Cancel),
                    _ => return self::form(server, message, Arc::unwrap_or_clone(schema), given),
                },
            };
        }
        if names.len() == 1 {
            return Ok(Reply::Accept(form));
        }
        for (name, value) in &form {
            anstream::eprintln!("  {DIM}{name}:{DIM:#} {}", typed(value));
        }
        match menu(&["Send it", "Change it", DECLINE, CANCEL])? {
            "Send it" => return Ok(Reply::Accept(form)),
            DECLINE => return Ok(Reply::Decline),
            CANCEL => return Ok(Reply::Cancel),
            _ => {}
        }
    }
}

/// A page that the user is to visit.
pub(crate) fn url(server: &str, message: &str, url: &str) -> Result<Reply, Failure> {
    const OPEN: &str = "Open it in the browser";
    asks(server, message);
    anstream::eprintln!("  {}", tame(url));
    let parsed = url::Url::parse(url).ok();
    let web = parsed.as_ref().filter(|url| matches!(url.scheme(), "http" | "https"));
    if let Some(host) = web.and_then(url::Url::host_str) {
        anstream::eprintln!("  {DIM}at{DIM:#} {NAME}{host}{NAME:#}");
    }
    let choices = ["I open it myself", DECLINE, CANCEL];
    let choices: Vec<&'static str> = web.map(|_| OPEN).into_iter().chain(choices).collect();
    match menu(&choices)? {
        OPEN => {
            if let Err(error) = open::that_detached(url) {
                anstream::eprintln!("no browser could be started ({error}): open it yourself");
            }
            Ok(Reply::Consent)
        }
        DECLINE => Ok(Reply::Decline),
        CANCEL => Ok(Reply::Cancel),
        _ => Ok(Reply::Consent),
    }
}

fn asks(server: &str, message: &str) {
    anstream::eprintln!("{NAME}{}{NAME:#} asks: {}", tame(server), tame(message));
}

/// Waits for a page to be done with.
pub(crate) fn done() -> Result<Reply, Failure> {
    const DONE: &str = "It is done: go on";
    Ok(if menu(&[DONE, CANCEL])? == DONE { Reply::Consent } else { Reply::Cancel })
}

const DECLINE: &str = "Decline";
const CANCEL: &str = "Cancel";

/// What to do; escape is to cancel.
fn menu(choices: &[&'static str]) -> Result<&'static str, Failure> {
    match Select::new("What would you like to do?", choices.to_vec()).without_filtering().prompt().map_err(Stop::from) {
        Ok(choice) => Ok(choice),
        Err(Stop::Escape) => Ok(CANCEL),
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

/// One field; none if it is left out.
fn field(root: &Arc<Map<String, Value>>, name: &str, before: Option<&Value>) -> Result<Option<Value>, Stop> {
    let schema = Schema::new(root);
    let required = schema.required().contains(&name);
    let Some(property) = schema.property(name) else { return Ok(None) };
    let question = Question {
        root,
        name,
        label: format!("{}:", tame(property.title().unwrap_or(name))),
        help: help(property, required),
        start: before.or(property.default()).cloned(),
        required,
    };
    if property.choices().is_some() {
        return question.choose(property);
    }
    match property.types().first() {
        Some(&"boolean") => question.confirm(),
        Some(&"array") if property.items().choices().is_some() => question.choose_several(property),
        _ => question.text(),
    }
}

fn help(property: Schema<'_>, required: bool) -> String {
    let what = match property.types().first() {
        // Choices show themselves.
        _ if property.choices().is_some() || property.items().choices().is_some() => None,
        Some(&"boolean") => None,
        _ => Some(property.in_words()),
    };
    let optional = (!required).then(|| "may be left out".to_owned());
    let parts =
        [property.description().map(str::to_owned), what, optional, Some("Esc to decline or cancel".to_owned())];
    tame(&parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")).into_owned()
}

struct Question<'a> {
    root: &'a Arc<Map<String, Value>>,
    name: &'a str,
    label: String,
    help: String,
    start: Option<Value>,
    required: bool,
}

/// Something to choose: a value, or that there is none.
struct Entry {
    value: Option<Value>,
    label: String,
}

impl Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.label)
    }
}

fn entries(schema: Schema<'_>) -> Vec<Entry> {
    let choices = schema.choices().unwrap_or_default();
    let entry = |choice: &crate::schema::Choice<'_>| Entry {
        value: Some(choice.value.clone()),
        label: tame(&choice.title.map_or_else(|| choice.name(), str::to_owned)).into_owned(),
    };
    choices.iter().map(entry).collect()
}

fn nothing() -> Entry {
    Entry { value: None, label: "(leave it out)".to_owned() }
}

impl Question<'_> {
    fn choose(&self, schema: Schema<'_>) -> Result<Option<Value>, Stop> {
        let mut entries = entries(schema);
        if !self.required {
            entries.push(nothing());
        }
        self.select(entries)
    }

    fn select(&self, entries: Vec<Entry>) -> Result<Option<Value>, Stop> {
        let start = entries.iter().position(|entry| entry.value.is_some() && entry.value == self.start);
        let chosen = Select::new(&self.label, entries)
            .with_help_message(&self.help)
            .with_starting_cursor(start.unwrap_or_default())
            .prompt()?;
        Ok(chosen.value)
    }

    fn confirm(&self) -> Result<Option<Value>, Stop> {
        let start = self.start.as_ref().and_then(Value::as_bool);
        if !self.required && start.is_none() {
            let entry = |value: bool, label: &str| Entry { value: Some(value.into()), label: label.to_owned() };
            return self.select(vec![entry(true, "yes"), entry(false, "no"), nothing()]);
        }
        let confirm = Confirm::new(&self.label).with_help_message(&self.help);
        let confirm = match start {
            Some(start) => confirm.with_default(start),
            None => confirm.with_placeholder("y/n"),
        };
        Ok(Some(confirm.prompt()?.into()))
    }

    fn choose_several(&self, schema: Schema<'_>) -> Result<Option<Value>, Stop> {
        let entries = entries(schema.items());
        let started = self.start.as_ref().and_then(Value::as_array);
        let is_started = |entry: &Entry| started.is_some_and(|values| entry.value.iter().any(|it| values.contains(it)));
        let start: Vec<usize> = (0..entries.len()).filter(|at| is_started(&entries[*at])).collect();
        let (least, most) = (schema.number("minItems"), schema.number("maxItems"));
        let words = schema.in_words();
        let optional = !self.required;
        let validator = move |chosen: &[ListOption<&Entry>]| {
            let count = chosen.len() as f64;
            let fits = least.is_none_or(|least| count >= least) && most.is_none_or(|most| count <= most);
            Ok(match fits || (optional && chosen.is_empty()) {
                true => Validation::Valid,
                false => Validation::Invalid(format!("it must be {words}").into()),
            })
        };
        let chosen = MultiSelect::new(&self.label, entries)
            .with_help_message(&self.help)
            .with_default(&start)
            .with_validator(validator)
            .prompt()?;
        let values: Vec<Value> = chosen.into_iter().filter_map(|entry| entry.value).collect();
        Ok((self.required || !values.is_empty()).then_some(Value::Array(values)))
    }

    fn text(&self) -> Result<Option<Value>, Stop> {
        let (root, name, required) = (self.root.clone(), self.name.to_owned(), self.required);
        let has_default = self.start.is_some();
        let validator = move |text: &str| {
            let empty = text.is_empty() && !has_default;
            Ok(match (empty, required) {
                (true, true) => Validation::Invalid("it must be filled in".into()),
                (true, false) => Validation::Valid,
                (false, _) => match value(text, &root, &name) {
                    Ok(_) => Validation::Valid,
                    Err(wrong) => Validation::Invalid(format!("it {wrong}").into()),
                },
            })
        };
        let default = self.start.as_ref().map(typed);
        let text = Text::new(&self.label).with_help_message(&self.help).with_validator(validator);
        let text = match &default {
            Some(default) => text.with_default(default),
            None => text,
        };
        let text = text.prompt()?;
        if text.is_empty() && !has_default && !self.required {
            return Ok(None);
        }
        Ok(value(&text, self.root, self.name).ok())
    }
}

/// What was typed, as the form wants it.
fn value(text: &str, root: &Map<String, Value>, name: &str) -> Result<Value, String> {
    let Some(property) = Schema::new(root).property(name) else { return Ok(text.into()) };
    let value = text_as(text, property)?;
    check::field(&value, property)?;
    Ok(value)
}
