//! Definitions as they are written, and the tools that they become.

use std::{collections::BTreeMap, time::Duration};

use mcp_runtime::{function::Entry, layers::Hints};
use serde::Deserialize;
use serde_json::{Map, Value};
use toml::Spanned;

use crate::{arguments::Arguments, command::Command, http};

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
