//! Snapshots of a server's lists, and the differences between two of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display, Write as _},
};

use serde_json::{Value, json};

use super::message::PROTOCOL_VERSION;
use crate::{client::identity, output::counted};

/// A list that a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum List {
    Tools,
    Resources,
    Templates,
    Prompts,
}

/// A capability with lists. Changes of resource templates are changes of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Capability {
    Tools,
    Resources,
    Prompts,
}

impl List {
    pub(super) const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::Templates, Self::Prompts];

    /// Formats a stateless request for a page of the list.
    pub(super) fn request(self, id: &str, cursor: Option<&str>) -> String {
        let mut params = json!({"_meta": {
            PROTOCOL_VERSION: "2026-07-28",
            "io.modelcontextprotocol/clientInfo": identity(),
            "io.modelcontextprotocol/clientCapabilities": {},
        }});
        if let Some(cursor) = cursor {
            params["cursor"] = cursor.into();
        }
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{}","params":{params}}}"#, self.names()[0])
    }

    /// Returns the method, the member of the result that holds the entries, the member that identifies an entry, and the
    /// noun for one entry.
    fn names(self) -> [&'static str; 4] {
        match self {
            Self::Tools => ["tools/list", "tools", "name", "tool"],
            Self::Resources => ["resources/list", "resources", "uri", "resource"],
            Self::Templates => ["resources/templates/list", "resourceTemplates", "uriTemplate", "template"],
            Self::Prompts => ["prompts/list", "prompts", "name", "prompt"],
        }
    }

    fn capability(self) -> Capability {
        match self {
            Self::Tools => Capability::Tools,
            Self::Resources | Self::Templates => Capability::Resources,
            Self::Prompts => Capability::Prompts,
        }
    }
}

impl Capability {
    pub(super) const ALL: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];

    /// Returns the name under which servers declare the capability.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Prompts => "prompts",
        }
    }

    /// Returns the method of the notification for changed lists.
    pub(super) fn changed_method(self) -> String {
        format!("notifications/{}/list_changed", self.name())
    }

    /// Returns the member of the filter of a `subscriptions/listen` request.
    pub(super) fn filter_member(self) -> String {
        format!("{}ListChanged", self.name())
    }
}

/// All entries of a server's lists.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Snapshot {
    entries: BTreeMap<(List, String), Value>,
}

impl Snapshot {
    /// Adds a page of a list and returns the cursor of the next page.
    pub(super) fn add_page(&mut self, list: List, result: &str) -> Option<String> {
        let mut result: Value = serde_json::from_str(result).ok()?;
        let [_, entries, name, _] = list.names();
        if let Some(Value::Array(entries)) = result.get_mut(entries).map(Value::take) {
            for entry in entries {
                let name = entry[name].as_str().unwrap_or_default().to_owned();
                self.entries.insert((list, name), entry);
            }
        }
        result["nextCursor"].as_str().map(str::to_owned)
    }

    /// Returns the entries that were added, removed or changed since another snapshot.
    pub(super) fn diff(&self, before: &Self) -> SnapshotDiff {
        let mut diff = SnapshotDiff::default();
        let keys: BTreeSet<_> = self.entries.keys().chain(before.entries.keys()).collect();
        for key @ (list, name) in keys {
            let [.., noun] = list.names();
            let line = match (before.entries.get(key), self.entries.get(key)) {
                (None, _) => format!("+ {noun} {name}"),
                (_, None) => format!("- {noun} {name}"),
                (Some(old), Some(new)) if old != new => {
                    format!("~ {noun} {name} ({})", changed_members(old, new).join(", "))
                }
                _ => continue,
            };
            diff.lines.push(line);
            diff.capabilities.insert(list.capability());
        }
        diff
    }
}

/// Returns the members in which two versions of an entry differ.
fn changed_members(old: &Value, new: &Value) -> Vec<String> {
    let members = |entry: &Value| entry.as_object().map(|entry| entry.keys().cloned().collect::<BTreeSet<_>>());
    let names = members(old).unwrap_or_default().into_iter().chain(members(new).unwrap_or_default());
    let differs = names.collect::<BTreeSet<_>>().into_iter().filter(|name| old.get(name) != new.get(name));
    differs
        .map(|name| match name.as_str() {
            "inputSchema" => "input schema".to_owned(),
            "outputSchema" => "output schema".to_owned(),
            _ => name,
        })
        .collect()
}

/// Formats the number of entries: `3 tools, 1 resource`.
impl Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for list in List::ALL {
            let count = self.entries.keys().filter(|(of, _)| *of == list).count();
            if count > 0 {
                let separator = if text.is_empty() { "" } else { ", " };
                write!(text, "{separator}{}", counted(count, list.names()[3]))?;
            }
        }
        f.write_str(if text.is_empty() { "no tools, resources or prompts" } else { &text })
    }
}

/// The differences between two snapshots.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SnapshotDiff {
    lines: Vec<String>,
    pub(super) capabilities: BTreeSet<Capability>,
}

/// Formats the differences: `+ tool add_note, - tool remove_note`.
impl Display for SnapshotDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.lines {
            [] => f.write_str("lists unchanged"),
            lines => f.write_str(&lines.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(tools: Value, templates: Value) -> Snapshot {
        let mut snapshot = Snapshot::default();
        assert_eq!(snapshot.add_page(List::Tools, &json!({"tools": tools}).to_string()), None);
        assert_eq!(snapshot.add_page(List::Templates, &json!({"resourceTemplates": templates}).to_string()), None);
        snapshot
    }

    #[test]
    fn diff_names_added_removed_and_changed_entries() {
        let before = snapshot(
            json!([{"name": "a", "description": "A"}, {"name": "b", "inputSchema": {}, "icons": []}, {"name": "c"}]),
            json!([{"uriTemplate": "x://{y}"}]),
        );
        let same = before.clone();
        let tools = json!([{"name": "a", "description": "B"}, {"name": "b", "inputSchema": {"x": 1}, "title": "B"}, {"name": "d"}]);
        let after = snapshot(tools, json!([]));
        for (before, after, text, capabilities) in [
            (&before, &same, "lists unchanged", &[][..]),
            (
                &before,
                &after,
                "~ tool a (description), ~ tool b (icons, input schema, title), - tool c, + tool d, - template x://{y}",
                &[Capability::Tools, Capability::Resources],
            ),
        ] {
            let diff = after.diff(before);
            assert_eq!(diff.to_string(), text);
            assert!(diff.capabilities.iter().eq(capabilities), "{diff:?}");
        }
    }

    #[test]
    fn display_counts_the_entries() {
        for (tools, templates, text) in [
            (json!([]), json!([]), "no tools, resources or prompts"),
            (json!([{"name": "a"}]), json!([]), "1 tool"),
            (json!([{"name": "a"}, {"name": "b"}]), json!([{"uriTemplate": "x"}]), "2 tools, 1 template"),
        ] {
            assert_eq!(snapshot(tools, templates).to_string(), text);
        }
    }

    #[test]
    fn a_page_returns_the_next_cursor() {
        let mut snapshot = Snapshot::default();
        let next = snapshot.add_page(List::Prompts, r#"{"prompts":[{"name":"p"}],"nextCursor":"more"}"#);
        assert_eq!(next.as_deref(), Some("more"));
        assert_eq!(snapshot.to_string(), "1 prompt");
    }
}
