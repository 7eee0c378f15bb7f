//! The text of a configuration file, in JSON or TOML, and the entry of a server in it.

use std::fmt;

use serde_json::{Map, Value};

use super::{
    client::{Client, Syntax},
    json, toml,
};

const BOM: &str = "\u{feff}";

/// The text of a client's configuration file.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    syntax: Syntax,
    object: &'static str,
    bom: bool,
    text: String,
    /// The content, with the object of the servers even if the text does not have one.
    value: Value,
}

impl Document {
    /// Parses the configuration of a client.
    ///
    /// # Errors
    ///
    /// Fails if the text is invalid or the servers are not in an object.
    pub(crate) fn parse(client: &Client, text: &str) -> Result<Self, DocumentError> {
        let stripped = text.strip_prefix(BOM);
        let (bom, text) = (stripped.is_some(), stripped.unwrap_or(text).to_owned());
        Self { syntax: client.syntax, object: client.object, bom, text: String::new(), value: Value::Null }.with(text)
    }

    fn with(&self, text: String) -> Result<Self, DocumentError> {
        let mut value = match self.syntax {
            Syntax::Toml => toml::parse(&text, self.object)?,
            Syntax::Json | Syntax::Jsonc => json::parse(&text, self.object)?,
        };
        servers(&mut value, self.object);
        Ok(Self { text, value, ..*self })
    }

    pub(crate) fn text(&self) -> String {
        format!("{}{}", if self.bom { BOM } else { "" }, self.text)
    }

    /// Returns the names of the servers, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.value[self.object].as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.value[self.object].get(name)
    }

    /// Returns the first syntax that this parser accepts and the client's own parser rejects.
    pub(crate) fn unsupported_syntax(&self) -> Option<DocumentError> {
        (self.syntax == Syntax::Json).then(|| json::extended_syntax(&self.text)).flatten()
    }

    /// Returns the document with an entry inserted or replaced or, without `entry`, removed.
    ///
    /// # Errors
    ///
    /// Fails if the result would differ from this document in anything else.
    pub(crate) fn set(&self, name: &str, entry: Option<&Entry>) -> Result<Self, DocumentError> {
        let text = match self.syntax {
            Syntax::Toml => toml::set(&self.text, self.object, name, entry),
            Syntax::Json | Syntax::Jsonc => json::set(&self.text, self.object, name, entry),
        };
        let mut expected = self.value.clone();
        if let Some(servers) = servers(&mut expected, self.object) {
            match entry {
                Some(entry) => servers.insert(name.to_owned(), entry.0.clone().into()),
                None => servers.shift_remove(name),
            };
        }
        let new = text.and_then(|text| self.with(text).ok()).filter(|new| new.value == expected);
        new.ok_or_else(|| {
            DocumentError::at(&self.text, 0, format!("`{}` cannot be edited safely in this form", self.object))
        })
    }

    /// Returns the text with `***` in place of possible secrets.
    pub(crate) fn masked(&self) -> String {
        match self.syntax {
            Syntax::Toml => toml::masked(&self.text),
            Syntax::Json | Syntax::Jsonc => json::masked(&self.text),
        }
    }
}

fn servers<'a>(root: &'a mut Value, object: &str) -> Option<&'a mut Map<String, Value>> {
    root.as_object_mut()?.entry(object).or_insert_with(|| Map::new().into()).as_object_mut()
}

/// Formats an entry on one line, with `***` in place of possible secrets.
pub(crate) fn masked(entry: &Value) -> String {
    json::masked(&entry.to_string())
}

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

/// How a client starts or reaches a server.
#[derive(Clone, Debug)]
pub(crate) enum Launch {
    Program { program: String, args: Vec<String>, env: Vec<(String, String)> },
    Url { url: String, headers: Vec<(String, String)> },
}

/// The entry of one server: strings, lists of strings and objects with strings.
#[derive(Clone, Debug)]
pub(crate) struct Entry(pub(crate) Map<String, Value>);

/// The members that determine how a server is started or reached. All others belong to the user or the client.
const LAUNCH_MEMBERS: [&str; 11] =
    ["type", "command", "args", "env", "cwd", "envFile", "url", "serverUrl", "httpUrl", "headers", "http_headers"];

impl Entry {
    /// Returns whether a string in the entry contains a text.
    pub(crate) fn contains(&self, text: &str) -> bool {
        fn contains(value: &Value, text: &str) -> bool {
            match value {
                Value::Array(list) => list.iter().any(|value| contains(value, text)),
                Value::Object(map) => map.values().any(|value| contains(value, text)),
                value => value.as_str().is_some_and(|value| value.contains(text)),
            }
        }
        self.0.values().any(|value| contains(value, text))
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

#[cfg(test)]
mod tests;
