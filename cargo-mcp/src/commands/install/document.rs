//! The text of a configuration file, in JSON or TOML, and the entry of a server in it.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    entry::{DocumentError, Entry},
    json, toml,
};

const BOM: &str = "\u{feff}";

/// The syntax of a configuration file.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Syntax {
    /// Plain JSON, without comments.
    Json,
    /// JSON with comments.
    Jsonc,
    Toml,
}

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
    /// Parses a configuration whose member `object` maps names to servers.
    ///
    /// # Errors
    ///
    /// Fails if the text is invalid or the servers are not in an object.
    pub(crate) fn parse(syntax: Syntax, object: &'static str, text: &str) -> Result<Self, DocumentError> {
        let stripped = text.strip_prefix(BOM);
        let (bom, text) = (stripped.is_some(), stripped.unwrap_or(text).to_owned());
        Self { syntax, object, bom, text: String::new(), value: Value::Null }.with(text)
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

#[cfg(test)]
mod tests;
