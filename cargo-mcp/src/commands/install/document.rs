//! The text of a configuration file, in JSON or TOML.

use serde_json::{Map, Value};

use super::{
    client::{Client, Syntax},
    entry::Entry,
    insertion::EntryInsertion,
    json,
    position::DocumentError,
    toml,
};

const BOM: &str = "\u{feff}";

/// The text of a client's configuration file.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    syntax: Syntax,
    object: &'static str,
    bom: bool,
    text: String,
}

impl Document {
    /// Parses the configuration of a client.
    ///
    /// # Errors
    ///
    /// Fails if the text is invalid or the servers are not in an object.
    pub(crate) fn parse(client: &Client, text: &str) -> Result<Self, DocumentError> {
        let stripped = text.strip_prefix(BOM);
        let document = Self {
            syntax: client.syntax,
            object: client.object,
            bom: stripped.is_some(),
            text: stripped.unwrap_or(text).to_owned(),
        };
        document.value()?;
        document.names()?;
        Ok(document)
    }

    pub(crate) fn text(&self) -> String {
        format!("{}{}", if self.bom { BOM } else { "" }, self.text)
    }

    /// Returns whether the document contains nothing, not even a comment.
    pub(crate) fn is_empty(&self) -> bool {
        let text = self.text.trim();
        text.is_empty() || (self.syntax != Syntax::Toml && text == "{}")
    }

    /// Returns the names of the servers, in order.
    ///
    /// # Errors
    ///
    /// Fails if the text is invalid.
    pub(crate) fn names(&self) -> Result<Vec<String>, DocumentError> {
        match self.syntax {
            Syntax::Toml => toml::names(&self.text, self.object),
            _ => json::names(&self.text, self.object),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        self.value().ok()?.get(self.object)?.get(name).cloned()
    }

    /// Returns the first syntax that this parser accepts and the client's own parser rejects.
    pub(crate) fn unsupported_syntax(&self) -> Option<DocumentError> {
        (self.syntax == Syntax::Json).then(|| json::extended_syntax(&self.text)).flatten()
    }

    /// Returns the document with a new entry, and a record of the insertion.
    ///
    /// # Errors
    ///
    /// Fails if the document cannot be edited safely.
    pub(crate) fn insert(&self, name: &str, entry: &Entry) -> Result<(Self, EntryInsertion), DocumentError> {
        let (text, inserted) = match self.syntax {
            Syntax::Toml => {
                let (text, insertion) = toml::insert(&self.text, self.object, name, entry)?;
                (text, EntryInsertion { entry: insertion, ..EntryInsertion::default() })
            }
            _ => json::insert(&self.text, self.object, name, entry)?,
        };
        Ok((self.checked(text, name, Some(entry.to_value()))?, inserted))
    }

    /// Returns the document with an entry replaced.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::insert`] does.
    pub(crate) fn replace(&self, name: &str, entry: &Entry) -> Result<Self, DocumentError> {
        let text = match self.syntax {
            Syntax::Toml => toml::replace(&self.text, self.object, name, entry)?,
            _ => json::replace(&self.text, self.object, name, entry)?,
        };
        self.checked(text, name, Some(entry.to_value()))
    }

    /// Returns the document without an entry and, if its insertion is recorded, without anything inserted with it.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::insert`] does.
    pub(crate) fn remove(&self, name: &str, inserted: Option<&EntryInsertion>) -> Result<Self, DocumentError> {
        let without = |inserted: Option<&EntryInsertion>| {
            let text = match self.syntax {
                Syntax::Toml => toml::remove(&self.text, self.object, name, inserted.map(|inserted| &inserted.entry))?,
                _ => json::remove(&self.text, self.object, name, inserted)?,
            };
            self.checked(text, name, None)
        };
        // The record may be outdated, in which case the entry alone is removed.
        without(inserted).or_else(|error| if inserted.is_some() { without(None) } else { Err(error) })
    }

    /// Returns the text with `***` in place of possible secrets.
    pub(crate) fn masked(&self) -> String {
        let ranges: Vec<_> = match self.syntax {
            Syntax::Toml => toml::secrets(&self.text, is_secret),
            _ => json::secrets(&self.text, is_secret),
        };
        let mut text = self.text.clone();
        for range in ranges.into_iter().rev() {
            text.replace_range(range, "\"***\"");
        }
        text
    }

    fn value(&self) -> Result<Value, DocumentError> {
        let value = match self.syntax {
            Syntax::Toml => Some(toml::parse(&self.text)?),
            _ => json::parse(&self.text)?,
        };
        Ok(value.unwrap_or_else(|| Map::new().into()))
    }

    /// Returns a document with a new text, after checking that it differs from this one only in an entry.
    fn checked(&self, text: String, name: &str, entry: Option<Value>) -> Result<Self, DocumentError> {
        let new = Self { text, ..self.clone() };
        let mut expected = self.value()?;
        let servers = expected.as_object_mut().map(|root| root.entry(self.object).or_insert_with(|| Map::new().into()));
        if let Some(servers) = servers.and_then(Value::as_object_mut) {
            match entry {
                Some(entry) => servers.insert(name.to_owned(), entry),
                None => servers.remove(name),
            };
        }
        match new.value() {
            Ok(value) if without_empty(value.clone(), self.object) == without_empty(expected, self.object) => Ok(new),
            _ => {
                let message = format!("`{}` cannot be edited safely in this form", self.object);
                Err(DocumentError::at(&self.text, 0, message))
            }
        }
    }
}

/// Removes an empty object of servers, so that it compares equal to a missing one.
fn without_empty(mut root: Value, object: &str) -> Value {
    if let Some(map) = root.as_object_mut()
        && map.get(object).and_then(Value::as_object).is_some_and(Map::is_empty)
    {
        map.remove(object);
    }
    root
}

/// Formats an entry on one line, with `***` in place of possible secrets.
pub(crate) fn masked(entry: &Value) -> String {
    fn walk(value: &mut Value, all: bool) {
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    let below = all || is_secret(name, value.is_string());
                    walk(value, below);
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|value| walk(value, all)),
            Value::String(text) if all => "***".clone_into(text),
            _ => {}
        }
    }
    let mut entry = entry.clone();
    walk(&mut entry, false);
    entry.to_string()
}

/// Returns whether a value may be secret or contain secrets, judging by its name.
fn is_secret(name: &str, is_text: bool) -> bool {
    let plain = name.to_lowercase().replace(['-', '_'], "");
    let words = ["token", "secret", "password", "apikey", "authorization", "credential", "oauth"];
    (!is_text && matches!(name, "env" | "environment" | "headers" | "http_headers"))
        || words.iter().any(|word| plain.contains(word))
}

#[cfg(test)]
mod tests;
