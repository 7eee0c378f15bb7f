//! The entry of a server in a configuration file.

use std::fmt;

use serde_json::{Map, Value};

/// Returns whether a value may be secret or contain secrets, judging by its name.
pub(super) fn is_secret(name: &str, is_text: bool) -> bool {
    let plain = name.to_lowercase().replace(['-', '_'], "");
    let words = ["token", "secret", "password", "apikey", "authorization", "credential", "oauth"];
    (!is_text && matches!(name, "env" | "environment" | "headers" | "http_headers"))
        || words.iter().any(|word| plain.contains(word))
}

/// Why a configuration file cannot be read or edited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DocumentError {
    line: usize,
    column: usize,
    message: String,
}

impl DocumentError {
    /// Creates an error at the byte `offset` of a text.
    pub(super) fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let (lines, last) =
            before.rsplit_once('\n').map_or((0, before), |(lines, last)| (lines.split('\n').count(), last));
        Self { line: lines + 1, column: last.chars().count() + 1, message: message.into() }
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

/// The entry of one server: strings, lists of strings and objects with strings.
#[derive(Clone, Debug)]
pub(crate) struct Entry(pub(crate) Map<String, Value>);

/// The members that determine how a server is started or reached. All other members belong to the user or the client.
const LAUNCH_MEMBERS: [&str; 11] =
    ["type", "command", "args", "env", "cwd", "envFile", "url", "serverUrl", "httpUrl", "headers", "http_headers"];

impl Entry {
    /// Returns whether the entry contains a text.
    pub(crate) fn contains(&self, text: &str) -> bool {
        Value::Object(self.0.clone()).to_string().contains(text)
    }

    /// Returns whether the entry has environment variables or headers, which may be secret.
    pub(crate) fn may_be_secret(&self) -> bool {
        self.0.values().any(Value::is_object)
    }

    /// Returns whether an existing entry starts or reaches the same server in the same way.
    pub(crate) fn is_same(&self, existing: &Value) -> bool {
        LAUNCH_MEMBERS.iter().all(|key| significant(key, self.0.get(*key)) == significant(key, existing.get(key)))
    }
}

/// Returns a member, unless it is empty or the default and so equivalent to a missing one.
fn significant<'a>(key: &str, member: Option<&'a Value>) -> Option<&'a Value> {
    member.filter(|value| match value {
        Value::Null => false,
        Value::String(kind) if key == "type" => kind != "stdio",
        Value::Array(list) => !list.is_empty(),
        Value::Object(table) => !table.is_empty(),
        _ => true,
    })
}
