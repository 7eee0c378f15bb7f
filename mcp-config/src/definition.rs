//! Definitions as they are written, and the tools that they become.

use std::{collections::BTreeMap, time::Duration};

use mcp_runtime::{function::Entry, layers::Hints};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toml::Spanned;

use crate::{command::Command, http};

/// The tag of all tools.
const TAG: &str = "definition";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) service: Option<Spanned<http::Service>>,
    #[serde(default)]
    pub(crate) tools: BTreeMap<String, Spanned<Definition>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Definition {
    title: Option<String>,
    description: String,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    scopes: Vec<String>,
    /// In seconds.
    timeout: Option<f64>,
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    open_world: Option<bool>,
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
    command: Option<Command>,
    http: Option<http::Call>,
}

/// Returns the tool of a definition.
///
/// # Errors
///
/// Returns what is wrong with it.
pub(crate) fn tool(
    name: &str,
    definition: Definition,
    service: Option<&http::Connection>,
    folder_tag: &str,
) -> Result<Entry, String> {
    let Definition { title, description, tags, scopes, timeout, arguments, command, http, .. } = definition;
    let timeout =
        timeout.map(Duration::try_from_secs_f64).transpose().map_err(|error| format!("`timeout`: {error}"))?;
    let arguments = Arguments::new(arguments)?;
    let mut tool = match (command, http) {
        (Some(command), None) => command.tool(name, arguments)?,
        (None, Some(call)) => {
            let service = service.ok_or("its file has no `service` with a `url`")?;
            call.tool(name, arguments, service)?
        }
        _ => return Err("a tool has either a `command` or an `http` table".to_owned()),
    };
    let hints = Hints {
        read_only: definition.read_only,
        destructive: definition.destructive,
        idempotent: definition.idempotent,
        open_world: definition.open_world,
    };
    tool = tool
        .description(description)
        .hints(hints)
        .tags(tags.into_iter().chain([TAG.to_owned(), folder_tag.to_owned()]));
    if let Some(title) = title {
        tool = tool.title(title);
    }
    if !scopes.is_empty() {
        tool = tool.scopes(mcp_runtime::auth::Scopes::all(scopes));
    }
    if let Some(timeout) = timeout {
        tool = tool.timeout(timeout);
    }
    Ok(tool.into())
}

/// The arguments of a tool.
pub(crate) struct Arguments {
    schemas: Map<String, Value>,
    required: Vec<String>,
}

impl Arguments {
    fn new(mut schemas: Map<String, Value>) -> Result<Self, String> {
        let mut required = Vec::new();
        for (name, schema) in &mut schemas {
            let Some(members) = schema.as_object_mut() else {
                return Err(format!("the argument `{name}` is not a table"));
            };
            let optional = members.shift_remove("optional");
            if optional.as_ref().is_some_and(|optional| !optional.is_boolean()) {
                return Err(format!("`optional` of the argument `{name}` is neither `true` nor `false`"));
            }
            if optional != Some(Value::Bool(true)) && !members.contains_key("default") {
                required.push(name.clone());
            }
        }
        Ok(Self { schemas, required })
    }

    /// Returns the schema of the arguments.
    pub(crate) fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": self.schemas,
            "required": self.required,
            "additionalProperties": false,
        })
    }

    /// Returns the defaults of the arguments that have one.
    pub(crate) fn defaults(&self) -> Map<String, Value> {
        let defaults =
            self.schemas.iter().filter_map(|(name, schema)| Some((name.clone(), schema.get("default")?.clone())));
        defaults.collect()
    }

    /// Returns whether a call may leave out the argument, or give any number of values for it.
    pub(crate) fn may_be_absent(&self, name: &str) -> bool {
        let Some(schema) = self.schemas.get(name) else { return true };
        let is_one_value = ["string", "integer", "number", "boolean"].iter().any(|kind| schema["type"] == *kind);
        !is_one_value || !(self.required.iter().any(|required| required == name) || schema.get("default").is_some())
    }

    /// Checks that the names that a definition uses are arguments, and that it uses all of them.
    pub(crate) fn check_used<'a>(&self, used: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        let used: Vec<_> = used.into_iter().collect();
        if let Some(unknown) = used.iter().find(|name| !self.schemas.contains_key(**name)) {
            return Err(format!("`{unknown}` is not an argument"));
        }
        match self.schemas.keys().find(|name| !used.contains(&name.as_str())) {
            Some(unused) => Err(format!("the argument `{unused}` is not used")),
            None => Ok(()),
        }
    }
}

/// Adds defaults to the arguments of a call.
pub(crate) fn with_defaults(defaults: &Map<String, Value>, mut arguments: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in defaults {
        arguments.entry(name).or_insert_with(|| value.clone());
    }
    arguments
}
