//! Compares the entries of two locks.

use serde_json::{Map, Value};

use crate::{
    change::Change,
    schema::{self, Difference, Role},
};

/// The changes found so far, and the name of the current entry.
struct Changes {
    entry: String,
    found: Vec<Change>,
}

/// Returns the changes from one lock to another.
pub(crate) fn changes(old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<Change> {
    let mut changes = Changes { entry: "server".to_owned(), found: Vec::new() };
    if old.get("instructions") != new.get("instructions") {
        changes.compatible("the instructions changed");
    }
    for (list, what, key, compare) in [
        ("tools", "tool", "name", tool as fn(&mut Changes, &Value, &Value)),
        ("resources", "resource", "uri", resource),
        ("resourceTemplates", "resource template", "uriTemplate", resource),
        ("prompts", "prompt", "name", prompt),
    ] {
        let items = |lock: &Map<String, Value>| lock.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
        let (before, after) = (items(old), items(new));
        for item in &before {
            changes.entry = format!("{what} `{}`", text(item, key));
            match after.iter().find(|other| other[key] == item[key]) {
                None => changes.breaking("removed"),
                Some(other) if other != item => compare(&mut changes, item, other),
                Some(_) => {}
            }
        }
        for item in after.iter().filter(|item| !before.iter().any(|other| other[key] == item[key])) {
            changes.entry = format!("{what} `{}`", text(item, key));
            changes.compatible("added");
        }
    }
    changes.found
}

fn tool(changes: &mut Changes, old: &Value, new: &Value) {
    changes.texts(old, new);
    if old["inputSchema"] != new["inputSchema"] {
        changes.schema(&old["inputSchema"], &new["inputSchema"], Role::Input);
    }
    match (old.get("outputSchema"), new.get("outputSchema")) {
        (None, Some(_)) => changes.compatible("`outputSchema` added"),
        (Some(_), None) => changes.breaking("`outputSchema` removed"),
        (Some(old), Some(new)) if old != new => changes.schema(old, new, Role::Output),
        _ => {}
    }
    if old.get("annotations") != new.get("annotations") {
        annotations(changes, &old["annotations"], &new["annotations"]);
    }
}

fn annotations(changes: &mut Changes, old: &Value, new: &Value) {
    let before = changes.found.len();
    for ((property, before), (_, after)) in properties(old).into_iter().zip(properties(new)) {
        match (before, after) {
            (true, false) => changes.breaking(format!("no longer {property}")),
            (false, true) => changes.compatible(format!("now {property}")),
            _ => {}
        }
    }
    if changes.found.len() == before {
        changes.compatible("the annotations changed without effect");
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

fn resource(changes: &mut Changes, old: &Value, new: &Value) {
    changes.texts(old, new);
    if old["name"] != new["name"] {
        changes.compatible(format!("`name` changed from `{}` to `{}`", text(old, "name"), text(new, "name")));
    }
    match (old["mimeType"].as_str(), new["mimeType"].as_str()) {
        (Some(old), Some(new)) if old != new => changes.breaking(format!("`mimeType` changed from {old} to {new}")),
        (Some(old), None) => changes.breaking(format!("`mimeType` {old} removed")),
        (None, Some(new)) => changes.compatible(format!("`mimeType` {new} added")),
        _ => {}
    }
}

fn prompt(changes: &mut Changes, old: &Value, new: &Value) {
    changes.texts(old, new);
    let arguments = |prompt: &Value| prompt["arguments"].as_array().cloned().unwrap_or_default();
    let (before, after) = (arguments(old), arguments(new));
    let named = |arguments: &[Value], name: &Value| arguments.iter().find(|other| other["name"] == *name).cloned();
    let found = changes.found.len();
    for argument in &before {
        let name = text(argument, "name");
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
        let name = text(argument, "name");
        if argument["required"] == true {
            changes.breaking(format!("argument `{name}` is new and required"));
        } else {
            changes.compatible(format!("argument `{name}` is new and optional"));
        }
    }
    if before != after && changes.found.len() == found {
        changes.compatible("the arguments changed without effect");
    }
}

impl Changes {
    fn breaking(&mut self, text: impl Into<String>) {
        self.found.push(Change { breaking: true, entry: self.entry.clone(), text: text.into() });
    }

    fn compatible(&mut self, text: impl Into<String>) {
        self.found.push(Change { breaking: false, entry: self.entry.clone(), text: text.into() });
    }

    /// Compares the titles and descriptions.
    fn texts(&mut self, old: &Value, new: &Value) {
        for member in ["title", "description"] {
            if old.get(member) != new.get(member) {
                self.compatible(format!("the {member} changed"));
            }
        }
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

fn text<'a>(item: &'a Value, member: &str) -> &'a str {
    item[member].as_str().unwrap_or_default()
}
