//! Prompts in the terminal.

use std::{fmt::Display, sync::Arc};

use inquire::{Confirm, InquireError, MultiSelect, Select, Text, list_option::ListOption, validator::Validation};
use rmcp::model::{ElicitResult, ElicitationAction};
use serde_json::{Map, Value};
use url::{Position, Url};

use super::check_field;
use crate::{
    arguments::{
        coerce::coerce,
        schema::{Choice, Schema, display_value},
    },
    failure::Failure,
    output::{DIM, NAME, WARNING, errln, escape, escape_line},
};

fn prompt_failure(error: InquireError) -> Failure {
    match error {
        InquireError::OperationInterrupted => Failure::interrupted(),
        error => Failure::usage(format_args!("cannot prompt in the terminal: {error}")),
    }
}

/// Prompts for the fields of a form that are not given.
pub(crate) fn form(
    server: &str,
    message: &str,
    schema: Map<String, Value>,
    given: Map<String, Value>,
) -> Result<Reply, Failure> {
    print_question(server, message);
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
                // The user pressed Escape.
                Err(InquireError::OperationCanceled) => match menu(&["Fill in the form", DECLINE, CANCEL])? {
                    DECLINE => return Ok(Reply::Decline),
                    CANCEL => return Ok(Reply::Cancel),
                    _ => return self::form(server, message, Arc::unwrap_or_clone(schema), given),
                },
                Err(error) => return Err(prompt_failure(error)),
            };
        }
        if names.len() == 1 {
            return Ok(Reply::Accept(form));
        }
        for (name, value) in &form {
            errln!("  {DIM}{name}:{DIM:#} {}", display_value(value));
        }
        match menu(&["Send it", "Change it", DECLINE, CANCEL])? {
            "Send it" => return Ok(Reply::Accept(form)),
            DECLINE => return Ok(Reply::Decline),
            CANCEL => return Ok(Reply::Cancel),
            _ => {}
        }
    }
}

/// Asks the user to visit a page.
pub(crate) fn url(server: &str, message: &str, url: &str) -> Result<Reply, Failure> {
    const OPEN: &str = "Open it in the browser";
    show_page(server, message, url);
    let web = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let choices: Vec<_> = web.iter().map(|_| OPEN).chain(["I will open it myself", DECLINE, CANCEL]).collect();
    match menu(&choices)? {
        OPEN => {
            if let Err(error) = open::that_detached(web.as_ref().map_or(url, Url::as_str)) {
                errln!("cannot start a browser ({error}); open the page yourself");
            }
            Ok(Reply::Consent)
        }
        DECLINE => Ok(Reply::Decline),
        CANCEL => Ok(Reply::Cancel),
        _ => Ok(Reply::Consent),
    }
}

/// Shows a page that the user is asked to visit.
pub(crate) fn show_page(server: &str, message: &str, url: &str) {
    print_question(server, message);
    errln!("  {}", escape_line(url));
    if let Some(host) = Url::parse(url).ok().as_ref().and_then(Url::host_str) {
        errln!("  {DIM}at{DIM:#} {NAME}{host}{NAME:#}");
    }
    if let Some(warning) = host_warning(url) {
        errln!("  {WARNING}warning{WARNING:#}: {warning}");
    }
}

/// Returns a warning if the host of a URL may be mistaken for another one.
pub(crate) fn host_warning(given: &str) -> Option<String> {
    let url = Url::parse(given).ok()?;
    let host = url.host_str()?;
    let is_as_given = given.to_ascii_lowercase().starts_with(&url[..Position::BeforePath].to_ascii_lowercase());
    let warnings = [
        (host.split('.').any(|label| label.starts_with("xn--")), "contains characters that may look like others"),
        (url.authority().contains('@'), "is not the text before the `@`"),
        (!is_as_given, "is spelled differently in the URL"),
    ];
    warnings.into_iter().find(|(applies, _)| *applies).map(|(_, warning)| format!("the host `{host}` {warning}"))
}

fn print_question(server: &str, message: &str) {
    errln!("{NAME}{server}{NAME:#} asks: {message}");
}

/// Waits until the user has completed a page.
pub(crate) fn done() -> Result<Reply, Failure> {
    const DONE: &str = "Done, continue";
    Ok(if menu(&[DONE, CANCEL])? == DONE { Reply::Consent } else { Reply::Cancel })
}

const DECLINE: &str = "Decline";
const CANCEL: &str = "Cancel";

/// Prompts for an action. Escape cancels.
fn menu(choices: &[&'static str]) -> Result<&'static str, Failure> {
    match Select::new("What would you like to do?", choices.to_vec()).without_filtering().prompt() {
        Err(InquireError::OperationCanceled) => Ok(CANCEL),
        chosen => chosen.map_err(prompt_failure),
    }
}

/// Prompts for a field. Returns `None` if the user omits it.
fn field(root: &Arc<Map<String, Value>>, name: &str, before: Option<&Value>) -> Result<Option<Value>, InquireError> {
    let schema = Schema::new(root);
    let required = schema.required().contains(&name);
    let Some(property) = schema.property(name) else { return Ok(None) };
    let prompt = FieldPrompt {
        root,
        name,
        label: format!("{}:", escape_line(property.title().unwrap_or(name))),
        help: help(property, required),
        initial: before.or(property.default()).cloned(),
        required,
    };
    if property.choices().is_some() {
        return prompt.choose(property);
    }
    match property.types().first() {
        Some(&"boolean") => prompt.confirm(),
        Some(&"array") if property.items().choices().is_some() => prompt.choose_several(property),
        _ => prompt.text(),
    }
}

fn help(property: Schema<'_>, required: bool) -> String {
    let what = match property.types().first() {
        // The choices are displayed anyway.
        _ if property.choices().is_some() || property.items().choices().is_some() => None,
        Some(&"boolean") => None,
        _ => Some(property.describe()),
    };
    let optional = (!required).then(|| "optional".to_owned());
    let parts =
        [property.description().map(str::to_owned), what, optional, Some("Esc to decline or cancel".to_owned())];
    escape(&parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")).into_owned()
}

/// A prompt for one field.
struct FieldPrompt<'a> {
    root: &'a Arc<Map<String, Value>>,
    name: &'a str,
    label: String,
    help: String,
    initial: Option<Value>,
    required: bool,
}

/// A choice: a value, or no value.
struct MenuItem {
    value: Option<Value>,
    label: String,
}

impl Display for MenuItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.label)
    }
}

fn entries(schema: Schema<'_>) -> Vec<MenuItem> {
    let choices = schema.choices().unwrap_or_default();
    let entry = |choice: &Choice<'_>| MenuItem {
        value: Some(choice.value.clone()),
        label: escape_line(&choice.title.map_or_else(|| choice.name(), str::to_owned)),
    };
    choices.iter().map(entry).collect()
}

fn no_value() -> MenuItem {
    MenuItem { value: None, label: "(none)".to_owned() }
}

impl FieldPrompt<'_> {
    fn choose(&self, schema: Schema<'_>) -> Result<Option<Value>, InquireError> {
        let mut entries = entries(schema);
        if !self.required {
            entries.push(no_value());
        }
        self.select(entries)
    }

    fn select(&self, entries: Vec<MenuItem>) -> Result<Option<Value>, InquireError> {
        let start = entries.iter().position(|entry| entry.value.is_some() && entry.value == self.initial);
        let chosen = Select::new(&self.label, entries)
            .with_help_message(&self.help)
            .with_starting_cursor(start.unwrap_or_default())
            .prompt()?;
        Ok(chosen.value)
    }

    fn confirm(&self) -> Result<Option<Value>, InquireError> {
        let start = self.initial.as_ref().and_then(Value::as_bool);
        if !self.required && start.is_none() {
            let entry = |value: bool, label: &str| MenuItem { value: Some(value.into()), label: label.to_owned() };
            return self.select(vec![entry(true, "yes"), entry(false, "no"), no_value()]);
        }
        let confirm = Confirm::new(&self.label).with_help_message(&self.help);
        let confirm = match start {
            Some(start) => confirm.with_default(start),
            None => confirm.with_placeholder("y/n"),
        };
        Ok(Some(confirm.prompt()?.into()))
    }

    fn choose_several(&self, schema: Schema<'_>) -> Result<Option<Value>, InquireError> {
        let entries = entries(schema.items());
        let initial = self.initial.as_ref().and_then(Value::as_array);
        let is_initial =
            |entry: &MenuItem| initial.is_some_and(|values| entry.value.iter().any(|it| values.contains(it)));
        let start: Vec<usize> = (0..entries.len()).filter(|at| is_initial(&entries[*at])).collect();
        let (root, name, required) = (self.root.clone(), self.name.to_owned(), self.required);
        let validator = move |chosen: &[ListOption<&MenuItem>]| {
            let values = chosen.iter().filter_map(|option| option.value.value.clone()).collect();
            let property = Schema::new(&root).property(&name).filter(|_| required || !chosen.is_empty());
            Ok(validation(property.map_or(Ok(()), |property| check_field(&values, property))))
        };
        let chosen = MultiSelect::new(&self.label, entries)
            .with_help_message(&self.help)
            .with_default(&start)
            .with_validator(validator)
            .prompt()?;
        let values: Vec<Value> = chosen.into_iter().filter_map(|entry| entry.value).collect();
        Ok((self.required || !values.is_empty()).then_some(Value::Array(values)))
    }

    fn text(&self) -> Result<Option<Value>, InquireError> {
        let (root, name, required) = (self.root.clone(), self.name.to_owned(), self.required);
        let has_default = self.initial.is_some();
        let validator = move |text: &str| {
            let empty = text.is_empty() && !has_default;
            Ok(match (empty, required) {
                (true, true) => Validation::Invalid("a value is required".into()),
                (true, false) => Validation::Valid,
                (false, _) => validation(value(text, &root, &name)),
            })
        };
        let default = self.initial.as_ref().map(display_value);
        let shown = default.as_deref().map(escape_line);
        let text = Text::new(&self.label).with_help_message(&self.help).with_validator(validator);
        let text = match &shown {
            Some(shown) => text.with_default(shown),
            None => text,
        };
        let text = text.prompt()?;
        let text = default.filter(|_| shown.as_ref() == Some(&text)).unwrap_or(text);
        if text.is_empty() && !has_default && !self.required {
            return Ok(None);
        }
        Ok(value(&text, self.root, self.name).ok())
    }
}

fn validation<T>(checked: Result<T, String>) -> Validation {
    match checked {
        Ok(_) => Validation::Valid,
        Err(error) => Validation::Invalid(escape(&error).into_owned().into()),
    }
}

/// Converts the text that the user typed to a valid value.
fn value(text: &str, root: &Map<String, Value>, name: &str) -> Result<Value, String> {
    let Some(property) = Schema::new(root).property(name) else { return Ok(text.into()) };
    let value = coerce(text, property)?;
    check_field(&value, property)?;
    Ok(value)
}

/// A user's reply to a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Accept(Map<String, Value>),
    /// The user agrees to visit a page.
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

#[cfg(test)]
mod tests {
    use super::host_warning;

    #[test]
    fn hosts_that_may_be_mistaken_are_recognized() {
        for (url, warning) in [
            ("https://example.com", ""),
            ("HTTPS://Example.com:443/a@b?c=xn--d", ""),
            ("http://127.0.0.1:8080/", ""),
            ("http://[::1]:8080/", ""),
            ("https://fooxn--bar.example.com/", ""),
            ("mailto:a@example.com", ""),
            ("custom://Example.com/", ""),
            ("no URL", ""),
            ("https://xn--80a3b.com/", "the host `xn--80a3b.com` contains characters that may look like others"),
            ("https://id.XN--80a3b.com/", "`id.xn--80a3b.com` contains"),
            ("https://\u{444}\u{430}.com/", "`xn--80a3b.com` contains"),
            ("https://example.com@evil.example/", "the host `evil.example` is not the text before the `@`"),
            ("https://:secret@evil.example/", "is not the text"),
            ("custom://ex\u{e4}mple.com/", "the host `ex%C3%A4mple.com` is spelled differently in the URL"),
            // These characters are replaced, and do not end the host.
            ("https://\u{ff45}xample.com/", "`example.com` is spelled"),
            ("https://example.com\u{3002}evil.example/", "`example.com.evil.example` is spelled"),
            ("https://example.com\n.evil.example/", "`example.com.evil.example` is spelled"),
            ("https://%65xample.com/", "`example.com` is spelled"),
            ("http://2130706433/", "`127.0.0.1` is spelled"),
            ("https:example.com/", "`example.com` is spelled"),
        ] {
            let found = host_warning(url);
            assert_eq!(found.is_some(), !warning.is_empty(), "{url:?}: {found:?}");
            assert!(found.unwrap_or_default().contains(warning), "{url:?}");
        }
    }
}
