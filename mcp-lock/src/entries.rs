//! Compares the entries of two locks.

use serde_json::{Map, Value};

use crate::schema::{self, Difference, Role};

/// A difference between two locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The effect of the change on existing callers.
    pub severity: Severity,
    /// The entry that changed, such as ``tool `add` ``.
    pub entry: String,
    /// The description of the change.
    pub text: String,
}

/// The meaning of a change for existing callers, the most severe first.
///
/// It is exhaustive, so that a report of changes does not compile until it treats a new severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The change can break them.
    Breaking,
    /// They continue to work.
    Compatible,
}

impl Severity {
    pub(crate) const ALL: [Self; 2] = [Self::Breaking, Self::Compatible];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Breaking => "breaking",
            Self::Compatible => "compatible",
        }
    }
}

/// A list of a lock.
pub(crate) struct List {
    /// The member of the lock that contains the list.
    pub(crate) name: &'static str,
    /// The name of an entry in reports.
    what: &'static str,
    /// The member that identifies an entry.
    pub(crate) key: &'static str,
    /// The other members that callers rely on.
    pub(crate) members: &'static [Member],
}

/// The name of a member, and the function that describes its change from one value to another. An absent member is
/// `null`.
pub(crate) type Member = (&'static str, fn(&mut Changes, &str, &Value, &Value));

/// Everything that a lock contains of the entries of a server.
pub(crate) const LISTS: [List; 4] = [
    List {
        name: "tools",
        what: "tool",
        key: "name",
        members: &[
            ("title", text_changed),
            ("description", text_changed),
            ("inputSchema", input_schema),
            ("outputSchema", output_schema),
            ("annotations", annotations),
        ],
    },
    List { name: "resources", what: "resource", key: "uri", members: RESOURCE },
    List { name: "resourceTemplates", what: "resource template", key: "uriTemplate", members: RESOURCE },
    List {
        name: "prompts",
        what: "prompt",
        key: "name",
        members: &[("title", text_changed), ("description", text_changed), ("arguments", arguments)],
    },
];

const RESOURCE: &[Member] =
    &[("title", text_changed), ("description", text_changed), ("name", value_changed), ("mimeType", mime_type)];

/// The changes found so far, and the name of the current entry.
pub(crate) struct Changes {
    entry: String,
    found: Vec<Change>,
}

/// Returns the changes from one lock to another.
pub(crate) fn changes(old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<Change> {
    let mut changes = Changes { entry: "server".to_owned(), found: Vec::new() };
    if old.get("instructions") != new.get("instructions") {
        changes.compatible("the instructions changed");
    }
    for List { name, what, key, members } in &LISTS {
        let items = |lock: &Map<String, Value>| lock.get(*name).and_then(Value::as_array).cloned().unwrap_or_default();
        let (before, after) = (items(old), items(new));
        for item in &before {
            changes.entry = format!("{what} `{}`", text(&item[key]));
            let Some(other) = after.iter().find(|other| other[key] == item[key]) else {
                changes.breaking("removed");
                continue;
            };
            for (member, compare) in members.iter().filter(|(member, _)| item[member] != other[member]) {
                let found = changes.found.len();
                compare(&mut changes, member, &item[member], &other[member]);
                if changes.found.len() == found {
                    changes.compatible(format!("the {member} changed without effect"));
                }
            }
        }
        for item in after.iter().filter(|item| !before.iter().any(|other| other[key] == item[key])) {
            changes.entry = format!("{what} `{}`", text(&item[key]));
            changes.compatible("added");
        }
    }
    changes.found
}

fn text_changed(changes: &mut Changes, member: &str, _: &Value, _: &Value) {
    changes.compatible(format!("the {member} changed"));
}

fn value_changed(changes: &mut Changes, member: &str, old: &Value, new: &Value) {
    changes.compatible(format!("`{member}` changed from `{}` to `{}`", text(old), text(new)));
}

fn input_schema(changes: &mut Changes, _: &str, old: &Value, new: &Value) {
    changes.schema(old, new, Role::Input);
}

fn output_schema(changes: &mut Changes, member: &str, old: &Value, new: &Value) {
    if old.is_null() {
        changes.compatible(format!("`{member}` added"));
    } else if new.is_null() {
        changes.breaking(format!("`{member}` removed"));
    } else {
        changes.schema(old, new, Role::Output);
    }
}

fn annotations(changes: &mut Changes, _: &str, old: &Value, new: &Value) {
    for ((property, before), (_, after)) in properties(old).into_iter().zip(properties(new)) {
        match (before, after) {
            (true, false) => changes.breaking(format!("no longer {property}")),
            (false, true) => changes.compatible(format!("now {property}")),
            _ => {}
        }
    }
}

/// Returns the properties that a caller may assume from the hints, with the defaults of the specification.
///
/// See [ToolAnnotations](https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations).
fn properties(annotations: &Value) -> [(&'static str, bool); 4] {
    let is = |hint: &str, default: bool| annotations[hint].as_bool().unwrap_or(default);
    let reads = is("readOnlyHint", false);
    [
        ("read-only (`readOnlyHint`)", reads),
        ("non-destructive (`destructiveHint`)", reads || !is("destructiveHint", true)),
        ("idempotent (`idempotentHint`)", reads || is("idempotentHint", false)),
        ("closed-world (`openWorldHint`)", !is("openWorldHint", true)),
    ]
}

fn mime_type(changes: &mut Changes, _: &str, old: &Value, new: &Value) {
    match (old.as_str(), new.as_str()) {
        (Some(old), Some(new)) => changes.breaking(format!("`mimeType` changed from {old} to {new}")),
        (Some(old), None) => changes.breaking(format!("`mimeType` {old} removed")),
        (None, Some(new)) => changes.compatible(format!("`mimeType` {new} added")),
        (None, None) => {}
    }
}

fn arguments(changes: &mut Changes, _: &str, old: &Value, new: &Value) {
    let list = |arguments: &Value| arguments.as_array().cloned().unwrap_or_default();
    let (before, after) = (list(old), list(new));
    let named = |arguments: &[Value], name: &Value| arguments.iter().find(|other| other["name"] == *name).cloned();
    for argument in &before {
        let name = text(&argument["name"]);
        let Some(other) = named(&after, &argument["name"]) else {
            changes.breaking(format!("argument `{name}` is removed"));
            continue;
        };
        match (argument["required"] == true, other["required"] == true) {
            (false, true) => changes.breaking(format!("argument `{name}` is now required")),
            (true, false) => changes.compatible(format!("argument `{name}` is no longer required")),
            _ => {}
        }
        if argument["description"] != other["description"] || argument["title"] != other["title"] {
            changes.compatible(format!("argument `{name}`: the description changed"));
        }
    }
    for argument in after.iter().filter(|argument| named(&before, &argument["name"]).is_none()) {
        let name = text(&argument["name"]);
        if argument["required"] == true {
            changes.breaking(format!("argument `{name}` is new and required"));
        } else {
            changes.compatible(format!("argument `{name}` is new and optional"));
        }
    }
}

impl Changes {
    fn breaking(&mut self, text: impl Into<String>) {
        self.add(Severity::Breaking, text.into());
    }

    fn compatible(&mut self, text: impl Into<String>) {
        self.add(Severity::Compatible, text.into());
    }

    fn add(&mut self, severity: Severity, text: String) {
        self.found.push(Change { severity, entry: self.entry.clone(), text });
    }

    fn schema(&mut self, old: &Value, new: &Value, role: Role) {
        let (root, member) = match role {
            Role::Input => ("the arguments", "argument"),
            Role::Output => ("the result", "field"),
        };
        let differences = schema::compare(old, new, role);
        if differences.is_empty() {
            return self.compatible(format!("the schema of {root} changed without effect"));
        }
        for Difference { path, effect, text } in differences {
            let subject = if path.is_empty() { root.to_owned() } else { format!("{member} `{path}`") };
            let is_predicate = text.starts_with("is ");
            let text = format!("{subject}{}{text}", if is_predicate { " " } else { ": " });
            if effect.breaks(role) {
                self.breaking(text);
            } else {
                self.compatible(text);
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
