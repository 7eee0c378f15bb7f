//! The entry of one server in a configuration.

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;

/// How a client starts or reaches a server.
#[derive(Clone, Debug)]
pub(crate) enum Launch {
    Program { program: String, args: Vec<String>, env: Vec<(String, String)> },
    Url { url: String, headers: Vec<(String, String)> },
}

/// An entry: its members, in order.
#[derive(Clone, Debug)]
pub(crate) struct Entry(pub(crate) Vec<(&'static str, Field)>);

#[derive(Clone, Debug)]
pub(crate) enum Field {
    Text(String),
    List(Vec<String>),
    Table(Vec<(String, String)>),
}

/// The members that determine how a server is started or reached. All others belong to the user or the client.
const LAUNCH_MEMBERS: [&str; 11] =
    ["type", "command", "args", "env", "cwd", "envFile", "url", "serverUrl", "httpUrl", "headers", "http_headers"];

impl Entry {
    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Returns all strings in the entry.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|(_, field)| match field {
            Field::Text(text) => vec![text.as_str()],
            Field::List(list) => list.iter().map(String::as_str).collect(),
            Field::Table(table) => table.iter().map(|(_, value)| value.as_str()).collect(),
        })
    }

    /// Returns whether the entry has environment variables or headers, which may be secret.
    pub(crate) fn may_be_secret(&self) -> bool {
        self.0.iter().any(|(_, field)| matches!(field, Field::Table(_)))
    }

    /// Returns whether an existing entry starts or reaches the same server in the same way.
    pub(crate) fn is_same(&self, existing: &Value) -> bool {
        let ours = self.to_value();
        LAUNCH_MEMBERS.iter().all(|key| significant(&ours, key) == significant(existing, key))
    }
}

/// Returns a member, unless it is empty or the default and so equivalent to a missing one.
fn significant<'a>(entry: &'a Value, key: &str) -> Option<&'a Value> {
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
    fn only_launch_members_are_compared() {
        let entry = Entry(vec![
            ("type", Field::Text("stdio".into())),
            ("command", Field::Text("/bin/notes".into())),
            ("args", Field::List(vec![])),
            ("env", Field::Table(vec![("A".into(), "1".into())])),
        ]);
        for (existing, same) in [
            (json!({"type": "stdio", "command": "/bin/notes", "args": [], "env": {"A": "1"}}), true),
            (json!({"command": "/bin/notes", "env": {"A": "1"}, "disabled": true, "alwaysAllow": ["x"]}), true),
            (json!({"command": "/bin/notes", "env": {"A": "2"}}), false),
            (json!({"command": "/bin/notes"}), false),
            (json!({"command": "/bin/notes", "env": {"A": "1"}, "cwd": "/"}), false),
            (json!({"command": "/bin/notes", "args": ["x"], "env": {"A": "1"}}), false),
            (json!({"type": "http", "url": "http://127.0.0.1/mcp"}), false),
            (json!(null), false),
        ] {
            assert_eq!(entry.is_same(&existing), same, "{existing}");
        }
    }
}
