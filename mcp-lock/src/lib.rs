//! What an MCP server promises its callers, as a file beside its `Cargo.toml`, and what became of it.
//!
//! `cargo mcp lock` and `mcp_runtime::locked_test!` write the file, `cargo mcp check --locked` and the test compare it. Both take the
//! server's lists as a client reads them, so that they agree to the byte; nothing here connects, waits, or knows a revision.

mod entries;
mod schema;
mod template;

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

pub use schema::{Difference, Kind, Role, compare};
pub use template::covers;

/// The name of the file.
pub const FILE_NAME: &str = "mcp.lock.json";

/// The form of the file that this version reads and writes.
const VERSION: u64 = 1;

/// What a server lists, each entry as it came over the wire.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// How the model is told to use the server.
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

/// What a server promises: the content of a lock file.
#[derive(Debug, Clone, PartialEq)]
pub struct Lock(Map<String, Value>);

/// Something that differs between two locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Whether callers that were right before can be wrong now.
    pub breaking: bool,
    /// Whose promise it is, such as ``tool `add` ``.
    pub entry: String,
    /// What changed.
    pub text: String,
}

impl Lock {
    /// Keeps what callers rely on, in an order that does not depend on the server's.
    ///
    /// Left out is what says nothing of how to call: icons, sizes, `_meta`, how tasks are spelled in one revision, the server's version.
    /// A resource that one of the templates stands for is left out as well: it is data, which comes and goes.
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
        for (kind, items) in
            [("tools", tools), ("resources", &fixed), ("resourceTemplates", resource_templates), ("prompts", prompts)]
        {
            lock.insert(kind.to_owned(), kept(items, kind));
        }
        Self(lock)
    }

    /// Reads a lock file.
    ///
    /// # Errors
    ///
    /// A sentence that says why it is none.
    pub fn read(text: &str) -> Result<Self, String> {
        let lock: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        match &lock["lockVersion"] {
            Value::Number(version) if version.as_u64() == Some(VERSION) => match lock {
                Value::Object(lock) => Ok(Self(lock)),
                _ => Err("it is no object".to_owned()),
            },
            Value::Null => Err("it has no `lockVersion`".to_owned()),
            other => Err(format!("its `lockVersion` is {other}, and this program knows {VERSION}")),
        }
    }

    /// Writes a lock file: the same text for the same promises, whatever features of `serde_json` are on.
    #[must_use]
    pub fn write(&self) -> String {
        format!("{:#}\n", sorted(&Value::Object(self.0.clone())))
    }

    /// Says what a server promises now that it did not, and the other way round: what breaks callers first.
    #[must_use]
    pub fn changes(&self, now: &Self) -> Vec<Change> {
        let mut changes = entries::changes(&self.0, &now.0);
        changes.sort_by_key(|change| !change.breaking);
        changes
    }
}

/// Tells changes to a person: a line each.
#[must_use]
pub fn told(changes: &[Change]) -> String {
    let mut told = String::new();
    for Change { breaking, entry, text } in changes {
        let label = if *breaking { "breaking  " } else { "compatible" };
        let _ = writeln!(told, "{label}  {entry}: {text}");
    }
    told
}

/// Tells changes to a person, and what they amount to.
#[must_use]
pub fn report(changes: &[Change]) -> String {
    format!("{}\nthe server is not what `{FILE_NAME}` says: {}", told(changes), counted(changes))
}

/// How many changes there are, in words.
#[must_use]
pub fn counted(changes: &[Change]) -> String {
    let breaking = changes.iter().filter(|change| change.breaking).count();
    let compatible = changes.len() - breaking;
    let words = |count: usize, kind: &str| format!("{count} {kind} change{}", if count == 1 { "" } else { "s" });
    match (breaking, compatible) {
        (breaking, 0) => words(breaking, "breaking"),
        (0, compatible) => words(compatible, "compatible"),
        (breaking, compatible) => format!("{} and {}", words(breaking, "breaking"), words(compatible, "compatible")),
    }
}

/// What is kept of the entries of a list, sorted by what names them.
fn kept(items: &[Value], kind: &str) -> Value {
    let members: &[&str] = match kind {
        "tools" => &["name", "title", "description", "inputSchema", "outputSchema", "annotations"],
        "prompts" => &["name", "title", "description", "arguments"],
        "resources" => &["uri", "name", "title", "description", "mimeType"],
        _ => &["uriTemplate", "name", "title", "description", "mimeType"],
    };
    let mut kept: Vec<Value> = items
        .iter()
        .map(|item| {
            let members = members.iter().filter_map(|member| Some(((*member).to_owned(), item.get(*member)?.clone())));
            Value::Object(members.filter(|(_, value)| !value.is_null()).collect())
        })
        .collect();
    if kind == "prompts" {
        kept.iter_mut().for_each(plain_arguments);
    }
    kept.sort_by(|left, right| left[members[0]].as_str().cmp(&right[members[0]].as_str()));
    Value::Array(kept)
}

/// An argument that does not say whether it is required is not.
fn plain_arguments(prompt: &mut Value) {
    for argument in prompt.get_mut("arguments").and_then(Value::as_array_mut).into_iter().flatten() {
        if argument.get("required").is_none() && argument.is_object() {
            argument["required"] = json!(false);
        }
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort_unstable();
            Value::Object(names.into_iter().map(|name| (name.clone(), sorted(&members[name]))).collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
