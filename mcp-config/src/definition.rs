//! Definitions as they are written, and the tools that they become.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use mcp_runtime::{
    Server,
    auth::Scopes,
    function::{Entry, ToolEntry},
    layers::Hints,
};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use toml::Spanned;

use crate::{
    arguments::Arguments,
    command::Command,
    http,
    mistake::{Members, Mistake, offset},
};

/// The tag of all tools.
const TAG: &str = "definition";

/// The definitions of a file, each with its offset.
pub(crate) struct File {
    pub(crate) service: Option<http::Service>,
    pub(crate) tools: Vec<(String, usize, Definition)>,
}

/// A mistake of the syntax or the structure, and its offset.
type Invalid = (usize, String);

impl File {
    /// Reads TOML.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub(crate) fn from_toml(text: &str) -> Result<Self, Invalid> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Toml {
            service: Option<http::Service>,
            #[serde(default)]
            tools: BTreeMap<String, Spanned<Definition>>,
        }
        let file: Toml = toml::from_str(text)
            .map_err(|error| (error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
        let tools = file.tools.into_iter().map(|(name, tool)| (name, tool.span().start, tool.into_inner()));
        Ok(Self { service: file.service, tools: tools.collect() })
    }

    /// Reads JSON of the same structure.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub(crate) fn from_json(text: &str) -> Result<Self, Invalid> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Json<'a> {
            #[serde(borrow)]
            service: Option<&'a RawValue>,
            #[serde(borrow, default)]
            tools: Members<'a>,
        }
        let file: Json<'_> = parsed(text, text)?;
        let service = file.service.map(|part| parsed(text, part.get())).transpose()?;
        let mut tools: Vec<(String, usize, Definition)> = Vec::new();
        let mut names = HashSet::new();
        for (name, part) in file.tools.0 {
            let offset = offset(text, part.get());
            if !names.insert(name.clone()) {
                return Err((offset, format!("the tool `{name}` is defined twice")));
            }
            tools.push((name, offset, parsed(text, part.get())?));
        }
        Ok(Self { service, tools })
    }
}

/// Reads a part of a text.
fn parsed<'a, T: Deserialize<'a>>(text: &str, part: &'a str) -> Result<T, Invalid> {
    serde_json::from_str(part).map_err(|error| {
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
        let before: usize = part.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        (offset(text, part) + before + error.column().saturating_sub(1), message.to_owned())
    })
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
) -> Result<Entry, Mistake> {
    let Definition { title, description, tags, scopes, timeout, arguments, command, http, .. } = definition;
    let timeout = timeout.map(Duration::try_from_secs_f64).transpose();
    let timeout = timeout.map_err(|error| Mistake::at(&["timeout"], format!("`timeout`: {error}")))?;
    let arguments = Arguments::new(arguments)?;
    let mut tool = match (command, http) {
        (Some(command), None) => command.tool(name, arguments)?,
        (None, Some(call)) => {
            let missing = || Mistake::at(&["http"], "its file has no `service` with a `url`");
            call.tool(name, arguments, service.ok_or_else(missing)?)?
        }
        _ => return Err("a tool has either a `command` or an `http` table".into()),
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
    if let Some(timeout) = timeout {
        tool = tool.timeout(timeout);
    }
    if !scopes.is_empty() {
        // Mistakes in other members do not concern the scopes.
        check(ToolEntry::new(name.to_owned(), json!({"type": "object"}), async |_: Value, _| ""))?;
        tool = tool.scopes(Scopes::all(scopes));
    }
    // Without scopes, the position is that of the tool.
    check(tool).map_err(|problems| Mistake::at(&["scopes"], problems))
}

/// Checks a tool as the server does, so that the problem has a position.
fn check(tool: ToolEntry) -> Result<Entry, String> {
    let entry = Entry::from(tool);
    match Server::empty("definitions", "0.0.0").with_entry(entry.clone()).check() {
        Ok(()) => Ok(entry),
        Err(error) => Err(error.problems().join("; ")),
    }
}
