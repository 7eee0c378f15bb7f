//! What a configuration says of one server.

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;

/// How a server is started or reached.
#[derive(Clone, Debug)]
pub(crate) enum Launch {
    Program { program: String, args: Vec<String>, env: Vec<(String, String)> },
    Url { url: String, headers: Vec<(String, String)> },
}

/// An entry, in the order in which it is written.
#[derive(Clone, Debug)]
pub(crate) struct Entry(pub(crate) Vec<(&'static str, Field)>);

#[derive(Clone, Debug)]
pub(crate) enum Field {
    Text(String),
    List(Vec<String>),
    Table(Vec<(String, String)>),
}

/// What decides how a server is started or reached; the rest of an entry is the user's and the client's own.
const DECISIVE: [&str; 11] =
    ["type", "command", "args", "env", "cwd", "envFile", "url", "serverUrl", "httpUrl", "headers", "http_headers"];

impl Entry {
    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Every text in it.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|(_, field)| match field {
            Field::Text(text) => vec![text.as_str()],
            Field::List(list) => list.iter().map(String::as_str).collect(),
            Field::Table(table) => table.iter().map(|(_, value)| value.as_str()).collect(),
        })
    }

    /// Whether what is there starts or reaches the same server in the same way.
    pub(crate) fn is_same(&self, there: &Value) -> bool {
        let ours = self.to_value();
        DECISIVE.iter().all(|key| told(&ours, key) == told(there, key))
    }
}

/// A value that says something: an empty list, or the default, says as much as none.
fn told<'a>(entry: &'a Value, key: &str) -> Option<&'a Value> {
    entry.get(key).filter(|value| match value {
        Value::Null => false,
        Value::String(kind) if key == "type" => kind != "stdio",
        Value::Array(list) => !list.is_empty(),
        Value::Object(table) => !table.is_empty(),
        _ => true,
    })
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, field) in &self.0 {
            map.serialize_entry(key, field)?;
        }
        map.end()
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(list) => serializer.collect_seq(list),
            Self::Table(table) => serializer.collect_map(table.iter().map(|(name, value)| (name, value))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_starts_a_server_makes_a_difference() {
        let entry = Entry(vec![
            ("type", Field::Text("stdio".into())),
            ("command", Field::Text("/bin/notes".into())),
            ("args", Field::List(vec![])),
            ("env", Field::Table(vec![("A".into(), "1".into())])),
        ]);
        for (there, same) in [
            (json!({"type": "stdio", "command": "/bin/notes", "args": [], "env": {"A": "1"}}), true),
            (json!({"command": "/bin/notes", "env": {"A": "1"}, "disabled": true, "alwaysAllow": ["x"]}), true),
            (json!({"command": "/bin/notes", "env": {"A": "2"}}), false),
            (json!({"command": "/bin/notes"}), false),
            (json!({"command": "/bin/notes", "env": {"A": "1"}, "cwd": "/"}), false),
            (json!({"command": "/bin/notes", "args": ["x"], "env": {"A": "1"}}), false),
            (json!({"type": "http", "url": "http://127.0.0.1/mcp"}), false),
            (json!(null), false),
        ] {
            assert_eq!(entry.is_same(&there), same, "{there}");
        }
    }
}
