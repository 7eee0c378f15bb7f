//! The output of `--list`, `--schema` and `--call`, and the text for users who start the server in a terminal.

use std::fmt::{self, Write as _};

use serde_json::{Value, json};

use super::package::Package;
use crate::{engine::Engine, handler::Contract, jsonrpc::syntax_error, testing::TestClient};

/// Returns a list of the server's tools, resources, skills and prompts.
pub(super) fn list(engine: &Engine) -> String {
    let registry = engine.registry();
    let mut out = format!("{} {}\n", engine.identity.name, engine.identity.version);
    let mut section = |title: &str, rows: Vec<(String, &str)>| {
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n{title}");
        for (left, description) in rows {
            let _ = writeln!(out, "  {left}");
            if let Some(line) = description.lines().next() {
                let _ = writeln!(out, "      {line}");
            }
        }
    };
    section(
        "Tools",
        registry
            .tools()
            .iter()
            .map(|tool| signature(tool.function.common.name, &tool.function.contract, tool.function.common.description))
            .collect(),
    );
    let resources = registry.resources().iter().chain(registry.templates());
    section(
        "Resources",
        resources.map(|resource| (resource.entry.uri.to_owned(), resource.function.common.description)).collect(),
    );
    let skills = registry.skills().all().iter();
    section("Skills", skills.map(|skill| (skill.uri.clone(), skill.description.as_str())).collect());
    section(
        "Prompts",
        registry
            .prompts()
            .iter()
            .map(|prompt| {
                signature(prompt.entry.common.name, &prompt.function.contract, prompt.entry.common.description)
            })
            .collect(),
    );
    out
}

/// Returns the name with the arguments, such as `add(a: number, b?: number)`, and the description.
fn signature<'a>(name: &str, contract: &Contract, description: &'a str) -> (String, &'a str) {
    let required = contract.schema["required"].as_array();
    let names: Vec<&str> = match contract.arguments {
        [argument] if argument.flattened => {
            contract.schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
        }
        arguments => arguments.iter().map(|argument| argument.name).collect(),
    };
    let arguments: Vec<_> = names
        .into_iter()
        .map(|name| {
            let optional = !required.is_some_and(|names| names.iter().any(|required| required == name));
            let kind = &contract.schema["properties"][name]["type"];
            let kind = kind.as_str().map_or_else(String::new, |kind| format!(": {kind}"));
            format!("{name}{}{kind}", if optional { "?" } else { "" })
        })
        .collect();
    (format!("{name}({})", arguments.join(", ")), description)
}

/// Returns everything that a client can discover, as JSON.
pub(super) async fn schema(client: &mut TestClient) -> String {
    let discovered = client.request("server/discover", json!({})).await.unwrap_or_default();
    let mut all = json!({
        "server": discovered["_meta"]["io.modelcontextprotocol/serverInfo"],
        "instructions": discovered["instructions"],
        "capabilities": discovered["capabilities"],
    });
    for (method, member) in [
        ("tools/list", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ] {
        let mut items = Vec::new();
        let mut params = json!({});
        while let Ok(mut page) = client.request(method, params).await {
            if let Value::Array(more) = page[member].take() {
                items.extend(more);
            }
            match page["nextCursor"].take() {
                Value::String(cursor) => params = json!({ "cursor": cursor }),
                _ => break,
            }
        }
        all[member] = Value::Array(items);
    }
    format!("{all:#}\n")
}

/// The messages of a call, as text.
pub(super) struct CallOutput {
    pub(super) text: String,
    pub(super) failed: bool,
}

/// The error for arguments that are not JSON.
#[derive(Debug)]
pub(super) struct ArgumentsError(serde_json::Error);

impl fmt::Display for ArgumentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the arguments are not valid JSON: {}", syntax_error(&self.0))
    }
}

/// Calls a tool and returns the request and the response, as they are sent.
///
/// # Errors
///
/// Returns an error if `arguments` is not JSON.
pub(super) async fn call(client: &mut TestClient, name: &str, arguments: &str) -> Result<CallOutput, ArgumentsError> {
    let arguments: Value = serde_json::from_str(arguments).map_err(ArgumentsError)?;
    let params = json!({ "name": name, "arguments": arguments });
    let request = client.request_message(1, "tools/call", params.clone());
    let response = client.request("tools/call", params).await;
    let mut text = format!("-> {request}\n");
    for notification in client.notifications() {
        let _ = writeln!(text, "<- {notification}");
    }
    let failed = match &response {
        Ok(result) => result["isError"] == true,
        Err(_) => true,
    };
    let response = match response {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": 1, "result": result }),
        Err(error) => {
            let mut object = json!({ "code": error.code, "message": error.message });
            if let Some(data) = error.data {
                object["data"] = data;
            }
            json!({ "jsonrpc": "2.0", "id": 1, "error": object })
        }
    };
    let _ = writeln!(text, "<- {response}");
    Ok(CallOutput { text, failed })
}

/// Returns the text that explains how to connect a client, for users who start the server in a terminal.
pub(super) fn terminal_banner(package: &Package, engine: &Engine) -> String {
    let name = package.name;
    let registry = engine.registry();
    let count = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
    let resources = registry.resources().len() + registry.templates().len();
    let program = std::env::current_exe().map_or_else(|_| name.to_owned(), |path| path.display().to_string());
    let config = json!({ "mcpServers": { name: { "command": program } } });
    format!(
        "{name} {version}: an MCP server with {tools}, {resources} and {prompts}.\n\
         It reads the messages of an MCP client from stdin. To connect a client:\n\
         \n  Claude Code    claude mcp add {name} -- {program}\n  \
         Inspector      npx @modelcontextprotocol/inspector {program}\n  \
         Other clients  {config}\n\
         \nPress Ctrl-D to exit. See `{name} --help` for all options.\n",
        version = package.version,
        tools = count(registry.tools().len(), "tool"),
        resources = count(resources, "resource"),
        prompts = count(registry.prompts().len(), "prompt"),
    )
}
