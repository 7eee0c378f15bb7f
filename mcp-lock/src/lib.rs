//! The interface of an MCP server as a lock file, and the changes that break its callers.
//!
//! `cargo mcp lock` and `mcp_runtime::locked_test!` write the file next to `Cargo.toml`; `cargo mcp check --locked` and
//! the test compare it with the server. Both use the lists as a client receives them, so their results are identical.
//! This crate performs no I/O and is independent of protocol revisions.

#![warn(clippy::missing_errors_doc)]

mod entries;
mod schema;
mod template;

use std::fmt::{self, Write as _};

use entries::{LISTS, List};
use serde_json::{Map, Value, json};

pub use entries::{Change, Severity};
pub use schema::{Difference, Effect, Role, compare};
pub use template::covers;

/// The name of the file.
pub const FILE_NAME: &str = "mcp.lock.json";

/// The version of the file format.
const VERSION: u64 = 1;

/// The lists of a server, with the entries as a client receives them.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The instructions for the model.
    pub instructions: Option<String>,
    /// `tools/list`
    pub tools: Vec<Value>,
    /// `resources/list`
    pub resources: Vec<Value>,
    /// `resources/templates/list`
    pub resource_templates: Vec<Value>,
    /// `prompts/list`
    pub prompts: Vec<Value>,
}

/// The content of a lock file.
#[derive(Debug, Clone, PartialEq)]
pub struct Lock(Map<String, Value>);

/// The error of parsing a lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockError(String);

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LockError {}

impl Lock {
    /// Creates a lock of everything that callers rely on, sorted by name.
    ///
    /// Omits icons, sizes, `_meta`, task support and the version of the server, which do not affect calls, and
    /// resources that a template covers, which are data.
    #[must_use]
    pub fn of(listing: &Listing) -> Self {
        let Listing { instructions, tools, resources, resource_templates, prompts } = listing;
        let templates: Vec<&str> =
            resource_templates.iter().filter_map(|found| found["uriTemplate"].as_str()).collect();
        let is_data = |uri: &str| templates.iter().any(|template| template::covers(template, uri));
        let fixed: Vec<Value> =
            resources.iter().filter(|found| !found["uri"].as_str().is_some_and(is_data)).cloned().collect();
        let mut lock = Map::new();
        lock.insert("lockVersion".to_owned(), VERSION.into());
        if let Some(instructions) = instructions {
            lock.insert("instructions".to_owned(), instructions.as_str().into());
        }
        let items: [&[Value]; LISTS.len()] = [tools, &fixed, resource_templates, prompts];
        for (list, items) in LISTS.iter().zip(items) {
            lock.insert(list.name.to_owned(), lock_entries(items, list));
        }
        Self::without_order(lock)
    }

    /// Sorts the parts that have no meaningful order: the members of objects, the names in `required`, and a prompt's
    /// arguments.
    fn without_order(lock: Map<String, Value>) -> Self {
        let mut lock = Value::Object(lock);
        lock.sort_all_objects();
        sort_required(&mut lock);
        for prompt in lock.get_mut("prompts").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(Value::Array(arguments)) = prompt.get_mut("arguments") {
                arguments.sort_by(|left, right| left["name"].as_str().cmp(&right["name"].as_str()));
            }
        }
        Self(if let Value::Object(lock) = lock { lock } else { Map::new() })
    }

    /// Parses a lock file.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a JSON object or has an unsupported `lockVersion`.
    pub fn parse(text: &str) -> Result<Self, LockError> {
        let lock = match serde_json::from_str(text) {
            Ok(Value::Object(lock)) => lock,
            Ok(_) => return Err(LockError("not a JSON object".to_owned())),
            Err(error) => return Err(LockError(format!("not valid JSON: {error}"))),
        };
        match lock.get("lockVersion") {
            Some(version) if version.as_u64() == Some(VERSION) => Ok(Self::without_order(lock)),
            Some(other) => Err(LockError(format!("unsupported `lockVersion` {other}, expected {VERSION}"))),
            None => Err(LockError("missing `lockVersion`".to_owned())),
        }
    }

    /// Returns the content of the lock file, which does not depend on the order in which functions declare arguments.
    #[must_use]
    pub fn to_json(&self) -> String {
        format!("{:#}\n", Value::Object(self.0.clone()))
    }

    /// Returns the changes from this lock to a newer lock, breaking changes first.
    #[must_use]
    pub fn changes(&self, now: &Self) -> Vec<Change> {
        let mut changes = entries::changes(&self.0, &now.0);
        changes.sort_by_key(|change| change.severity);
        changes
    }
}

/// Formats changes, one per line.
#[must_use]
pub fn format_changes(changes: &[Change]) -> String {
    let mut lines = String::new();
    for Change { severity, entry, text } in changes {
        let _ = writeln!(lines, "{:<10}  {entry}: {text}", severity.as_str());
    }
    lines
}

/// Formats changes, one per line, followed by a summary.
#[must_use]
pub fn report(changes: &[Change]) -> String {
    format!("{}\nthe server does not match `{FILE_NAME}`: {}", format_changes(changes), summary(changes))
}

/// Summarizes the numbers of changes, as in `1 breaking change and 2 compatible changes`.
#[must_use]
pub fn summary(changes: &[Change]) -> String {
    let count = |severity: Severity| changes.iter().filter(|change| change.severity == severity).count();
    let words = |count: usize, kind: &str| format!("{count} {kind} change{}", if count == 1 { "" } else { "s" });
    let counts = Severity::ALL.map(|severity| (count(severity), severity.as_str())).into_iter();
    counts.filter(|(count, _)| *count > 0).map(|(count, kind)| words(count, kind)).collect::<Vec<_>>().join(" and ")
}

/// Returns the relevant members of the entries of a list, sorted by name or URI.
fn lock_entries(items: &[Value], list: &List) -> Value {
    let names = || list.members.iter().map(|(name, _)| *name).chain([list.key]);
    let mut entries: Vec<Value> = items
        .iter()
        .map(|item| {
            let members = names().filter_map(|name| Some((name.to_owned(), item.get(name)?.clone())));
            Value::Object(members.filter(|(_, value)| !value.is_null()).collect())
        })
        .collect();
    entries.iter_mut().for_each(add_required);
    entries.sort_by(|left, right| left[list.key].as_str().cmp(&right[list.key].as_str()));
    Value::Array(entries)
}

/// Adds `"required": false` to the arguments of a prompt that omit it.
fn add_required(prompt: &mut Value) {
    for argument in prompt.get_mut("arguments").and_then(Value::as_array_mut).into_iter().flatten() {
        if argument.get("required").is_none() && argument.is_object() {
            argument["required"] = json!(false);
        }
    }
}

/// Sorts the names in each `required` of a schema.
fn sort_required(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::Array(names) if name == "required" => {
                        names.sort_by(|left, right| left.as_str().cmp(&right.as_str()));
                    }
                    member => sort_required(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(sort_required),
        _ => {}
    }
}
