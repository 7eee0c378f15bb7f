//! The flags of a `#[server]` function, which behave like the flags of clap.
//!
//! | parameter | on the command line |
//! | --- | --- |
//! | `T` | `--name <NAME>`, required |
//! | `T` with a default, `Option<T>` | `--name <NAME>`, optional |
//! | `bool` | `--name`, or `--name=false` |
//! | `Vec<T>`, `&[T]` | `--name <NAME>`, any number of times |
//!
//! clap itself does not parse them. Without its default features, it takes 3.2 s of CPU time to compile, which is 8 % of
//! the cold build of the smallest server (41 s), and `--call <TOOL> [JSON]` needs a parser of its own anyway.

use serde_json::Value;

use crate::handler::{Contract, entry::ArgumentEntry, json_of_string};

/// The flags on the command line: the name of the parameter, and the value.
pub(super) type GivenFlags = [(String, String)];

/// How a flag takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlagKind {
    /// The flag alone means `true`.
    Switch,
    /// One value.
    Value,
    /// One item each time.
    List,
}

/// A flag of a `#[server]` function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flag<'a> {
    pub(super) entry: &'a ArgumentEntry,
    pub(super) schema: &'a Value,
    pub(super) kind: FlagKind,
}

impl<'a> Flag<'a> {
    /// Returns the flags with this contract, in the order of the parameters.
    pub(super) fn all(contract: &'a Contract) -> impl Iterator<Item = Self> {
        contract.arguments.iter().map(|entry| Self::new(entry, contract))
    }

    /// Returns the flag with a name, as it is written on the command line or in the code.
    pub(super) fn find(contract: &'a Contract, name: &str) -> Option<Self> {
        Self::all(contract).find(|flag| flag.name() == name || flag.entry.name == name)
    }

    fn new(entry: &'a ArgumentEntry, contract: &'a Contract) -> Self {
        let schema = &contract.schema()["properties"][&*entry.name];
        let kind = match schema["type"].as_str() {
            Some("boolean") => FlagKind::Switch,
            Some("array") => FlagKind::List,
            _ => FlagKind::Value,
        };
        Self { entry, schema, kind }
    }

    /// Returns the name on the command line, without the dashes.
    pub(super) fn name(&self) -> String {
        self.entry.name.replace('_', "-")
    }

    /// Returns how the flag is written: `--name`, or `--name <NAME>`.
    pub(super) fn usage(&self) -> String {
        let name = self.name();
        match self.kind {
            FlagKind::Switch => format!("--{name}"),
            FlagKind::Value | FlagKind::List => format!("--{name} <{}>", self.entry.name.to_uppercase()),
        }
    }

    /// Converts the given values to JSON. Returns `None` if there is none, and the function decides what that means.
    ///
    /// # Errors
    ///
    /// Returns an error if a switch has a value that is not a boolean.
    fn json(&self, values: &[String], given: &GivenFlags) -> Result<Option<String>, String> {
        Ok(match (self.kind, values) {
            // Like clap, a switch that is not given is `false`, and a list is empty.
            (FlagKind::Switch, []) if self.is_implied() => Some("false".to_owned()),
            (FlagKind::List, []) if self.is_implied() => Some("[]".to_owned()),
            (_, []) => None,
            (FlagKind::Switch, [value, ..]) => Some(self.boolean(value, given)?.to_string()),
            (FlagKind::Value, [value, ..]) => Some(json_of_string(Some(self.schema), value)),
            (FlagKind::List, [list]) if serde_json::from_str::<Vec<Value>>(list).is_ok() => Some(list.clone()),
            (FlagKind::List, items) => {
                let items: Vec<_> = items.iter().map(|item| json_of_string(self.schema.get("items"), item)).collect();
                Some(format!("[{}]", items.join(",")))
            }
        })
    }

    /// Returns whether the program does not start without a value.
    pub(super) fn is_required(&self) -> bool {
        self.kind == FlagKind::Value && self.is_implied()
    }

    /// Returns whether the parameter has neither a default nor an `Option`.
    fn is_implied(&self) -> bool {
        !(self.entry.ty.optional)() && self.entry.default.is_none()
    }

    /// Returns the values that are given on the command line.
    fn given<'g>(&self, given: &'g GivenFlags) -> impl Iterator<Item = &'g String> + use<'a, 'g> {
        let name = &*self.entry.name;
        given.iter().filter(move |(other, _)| other == name).map(|(_, value)| value)
    }

    /// Returns the value of the environment variable. An empty variable counts as unset: container files cannot leave
    /// one out conditionally.
    fn environment(&self) -> Option<String> {
        self.entry.env.and_then(|name| std::env::var(name).ok()).filter(|value| !value.is_empty())
    }

    /// Returns where the value comes from: `--name` or the environment variable.
    pub(super) fn source(&self, given: &GivenFlags) -> String {
        match self.entry.env {
            Some(variable) if self.given(given).next().is_none() && self.environment().is_some() => variable.to_owned(),
            _ => format!("--{}", self.name()),
        }
    }

    /// Parses a boolean as clap does.
    fn boolean(&self, text: &str, given: &GivenFlags) -> Result<bool, String> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
            "false" | "f" | "no" | "n" | "off" | "0" | "" => Ok(false),
            _ => {
                let source = self.source(given);
                Err(format!("invalid value `{text}` for `{source}`, expected `true` or `false`"))
            }
        }
    }
}

/// Returns the arguments of `main`: a JSON object with the values of the command line and the environment.
///
/// # Errors
///
/// Returns an error that names all required flags without a value, or one for an invalid boolean.
pub(super) fn arguments(contract: &Contract, given: &GivenFlags) -> Result<String, String> {
    let (mut members, mut missing) = (Vec::new(), Vec::new());
    for flag in Flag::all(contract) {
        let mut values: Vec<String> = flag.given(given).cloned().collect();
        if values.is_empty() {
            values.extend(flag.environment());
        }
        match flag.json(&values, given)? {
            Some(json) => members.push(format!("{}:{json}", Value::from(&*flag.entry.name))),
            None if flag.is_required() => missing.push(flag.usage()),
            None => {}
        }
    }
    if !missing.is_empty() {
        let missing = missing.join("\n  ");
        return Err(format!("the following required options were not provided:\n  {missing}"));
    }
    Ok(format!("{{{}}}", members.join(",")))
}

/// The words of a command line.
pub(super) struct Words {
    words: std::iter::Peekable<std::vec::IntoIter<String>>,
    /// The value of an option written as `--name=value`.
    inline: Option<String>,
}

impl Words {
    pub(super) fn new(words: Vec<String>) -> Self {
        Self { words: words.into_iter().peekable(), inline: None }
    }

    /// Returns the next option without its value.
    pub(super) fn option(&mut self) -> Option<String> {
        let word = self.words.next()?;
        match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => {
                self.inline = Some(value.to_owned());
                Some(name.to_owned())
            }
            _ => Some(word),
        }
    }

    /// Returns the value of an option.
    pub(super) fn value(&mut self, option: &str, expected: &str) -> Result<String, String> {
        // Like clap, takes an option for a forgotten value, except for a negative number.
        let is_value = |word: &String| !word.starts_with('-') || word.len() < 2 || word.parse::<f64>().is_ok();
        let value = self.inline.take().or_else(|| self.words.next_if(is_value));
        value.ok_or_else(|| format!("missing value for `{option}`, expected {expected}"))
    }

    /// Returns the value of an option written as `--name=value`.
    pub(super) fn inline(&mut self) -> Option<String> {
        self.inline.take()
    }

    /// Returns the next word if it is a JSON object.
    pub(super) fn json(&mut self) -> Option<String> {
        self.words.next_if(|word| word.trim_start().starts_with('{'))
    }

    /// Rejects a value written as `--name=value` that the option does not accept.
    pub(super) fn finish(&mut self, option: &str) -> Result<(), String> {
        match self.inline.take() {
            Some(value) => Err(format!("unexpected value `{value}` for `{option}`")),
            None => Ok(()),
        }
    }
}
