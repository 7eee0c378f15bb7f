//! The output of `--list`, `--schema` and `--call`, and the text for users who start the server in a terminal.

use std::{fmt::Write as _, future::poll_fn, process::ExitCode, sync::Arc, time::Instant};

use serde_json::{Value, json, value::RawValue};

use crate::{
    engine::{Connection, Engine, RequestIds},
    handler::Function,
    jsonrpc::syntax_error,
    revision,
    server::BuiltServer,
};

/// Returns a list of the server's tools, resources, skills and prompts.
pub(super) fn list(engine: &Engine) -> String {
    let registry = engine.registry();
    let mut out = format!("{} {}\n", engine.profile.identity.name, engine.profile.identity.version);
    let mut section = |title: &str, rows: Vec<(String, &str)>| {
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n{title}");
        for (left, description) in rows {
            let _ = writeln!(out, "  {left}");
            for line in summary(description) {
                let _ = writeln!(out, "      {line}");
            }
        }
    };
    section("Tools", registry.tools.enabled().iter().map(signature).collect());
    let resources = registry.resources.enabled().iter().chain(registry.templates.enabled());
    section(
        "Resources",
        resources.map(|resource| (resource.key().to_string(), &*resource.common().description)).collect(),
    );
    let skills = registry.skills.all().iter();
    section("Skills", skills.map(|skill| (skill.uri.clone(), skill.description.as_str())).collect());
    section("Prompts", registry.prompts.enabled().iter().map(signature).collect());
    out
}

/// Returns the first line of a description, and the note of a deprecation.
fn summary(description: &str) -> impl Iterator<Item = &str> {
    let mut lines = description.lines();
    lines.next().into_iter().chain(lines.filter(|line| line.starts_with("Deprecated")))
}

/// Returns the name with the arguments, such as `add(a: number, b?: number)`, and the description.
fn signature(function: &Arc<Function>) -> (String, &str) {
    let schema = function.contract.schema();
    let required = schema["required"].as_array();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let arguments: Vec<_> = properties
        .map(|(name, property)| {
            let optional = !required.is_some_and(|names| names.iter().any(|required| required == name));
            let kind = property["type"].as_str().map_or_else(String::new, |kind| format!(": {kind}"));
            format!("{name}{}{kind}", if optional { "?" } else { "" })
        })
        .collect();
    (format!("{}({})", function.name, arguments.join(", ")), &function.common().description)
}

/// Returns everything that a client can discover, as JSON.
pub(super) async fn schema(server: &BuiltServer) -> String {
    let mut client = Client::new(server);
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
        while let Some(mut page) = client.request(method, params).await {
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

/// Calls a tool. Returns the request and the response, as they are sent, and the exit code of the program, which shows
/// whether the call has failed.
///
/// # Errors
///
/// Returns an error if `arguments` is not JSON.
pub(super) async fn call(server: &BuiltServer, name: &str, arguments: &str) -> Result<(String, ExitCode), String> {
    // JSON has line breaks only between its tokens, and a message is a line.
    let arguments = arguments.replace(['\r', '\n'], " ");
    // Unchanged text, because a `Value` cannot represent every number.
    let arguments: &RawValue = serde_json::from_str(&arguments)
        .map_err(|error| format!("the arguments are not valid JSON: {}", syntax_error(&error)))?;
    let (name, meta) = (Value::from(name), Client::meta());
    let request = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":{name},"arguments":{arguments},"_meta":{meta}}}}}"#
    );
    let output = Client::new(server).exchange(&request).await;
    let lines = output.lines().map(|line| format!("<- {line}\n"));
    let text = std::iter::once(format!("-> {request}\n")).chain(lines).collect();
    let response: Value = output.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let failed = response.get("error").is_some() || response["result"]["isError"] == true;
    Ok((text, if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }))
}

/// Returns the text that explains how to connect a client, for users who start the server in a terminal.
pub(super) fn terminal_banner(package: &Package, engine: &Engine) -> String {
    let name = package.name;
    let registry = engine.registry();
    let count = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
    let resources = registry.resources.enabled().len() + registry.templates.enabled().len();
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
        tools = count(registry.tools.enabled().len(), "tool"),
        resources = count(resources, "resource"),
        prompts = count(registry.prompts.enabled().len(), "prompt"),
    )
}

/// The metadata of a crate that Cargo provides at compile time.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// `CARGO_PKG_NAME`
    pub name: &'static str,
    /// `CARGO_PKG_VERSION`
    pub version: &'static str,
    /// `CARGO_PKG_DESCRIPTION`
    pub description: &'static str,
    /// `CARGO_PKG_HOMEPAGE`
    pub homepage: &'static str,
    /// The dependencies with a path that have annotated functions, and this package if its library is not linked.
    pub libraries: &'static [&'static str],
}

/// Returns the [`Package`] of the crate that invokes the macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __package {
    () => {
        $crate::__private::Package {
            name: ::core::env!("CARGO_PKG_NAME"),
            version: ::core::env!("CARGO_PKG_VERSION"),
            description: ::core::env!("CARGO_PKG_DESCRIPTION"),
            homepage: ::core::env!("CARGO_PKG_HOMEPAGE"),
            libraries: $crate::__private::libraries!(),
        }
    };
}

/// The client of `--schema` and `--call`: a connection in memory, in the newest revision.
struct Client(Connection);

impl Client {
    fn new(server: &BuiltServer) -> Self {
        Self(Connection::new(Arc::clone(server.engine())))
    }

    /// Returns the `_meta` of each request.
    fn meta() -> Value {
        json!({
            "io.modelcontextprotocol/protocolVersion": revision::newest().revision().as_str(),
            "io.modelcontextprotocol/clientInfo": {"name": "test-client", "version": "1.0.0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        })
    }

    /// Sends a message, and returns the lines that the server writes until no request is in flight.
    async fn exchange(&mut self, message: &str) -> String {
        let (mut response, mut output) = (Vec::new(), Vec::new());
        self.0.receive(message.as_bytes(), Instant::now(), &mut RequestIds::default(), &mut response);
        // The messages that a function sends while it runs precede its response.
        self.0.outbox().drain(&mut output);
        output.append(&mut response);
        while self.0.outbox().call_count() > 0 {
            poll_fn(|cx| self.0.outbox().poll_output(cx)).await;
            self.0.outbox().drain(&mut output);
        }
        String::from_utf8_lossy(&output).into_owned()
    }

    /// Sends a request. Returns its result, or `None` if it has failed.
    async fn request(&mut self, method: &str, mut params: Value) -> Option<Value> {
        params["_meta"] = Self::meta();
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let lines = self.exchange(&request.to_string()).await;
        let mut response: Value = serde_json::from_str(lines.lines().last()?).ok()?;
        response.get_mut("result").map(Value::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Context, Server,
        function::{ResourceEntry, ToolEntry},
    };

    #[test]
    fn the_schema_contains_every_page_of_a_list() {
        let tool =
            |name: &'static str| ToolEntry::new(name, json!({"type": "object"}), async |_: Value, _: Context| "text");
        let server =
            ["one", "two", "three"].map(tool).into_iter().fold(Server::empty("pages", "1"), Server::with_entry);
        let server = server.page_size(1).build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let all: Value = serde_json::from_str(&runtime.block_on(schema(&server))).unwrap();
        let names: Vec<_> = all["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["one", "three", "two"]);
    }

    #[test]
    fn the_banner_counts_what_the_server_offers() {
        let tool = |name| ToolEntry::new(name, json!({"type": "object"}), async |_: Value, _: Context| "text");
        let resource = |uri, name| ResourceEntry::new(uri, name, async |_: Value, _: Context| "text");
        let server = Server::empty("notes", "1").with_entry(tool("one"));
        let server = server.with_entry(resource("notes://all", "all")).with_entry(resource("notes://{id}", "note"));
        let package = Package { name: "notes", version: "1.2.3", description: "", homepage: "", libraries: &[] };
        let banner = terminal_banner(&package, server.build().unwrap().engine());
        let expected = "notes 1.2.3: an MCP server with 1 tool, 2 resources and 0 prompts.\n";
        assert!(banner.starts_with(expected), "{banner}");
    }

    #[cfg(feature = "skills")]
    #[test]
    fn the_list_contains_the_skills() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/skills");
        let server = Server::empty("skilled", "1").with_skills(directory).build().unwrap();
        let list = list(server.engine());
        let expected = "\n\nSkills\n  skill://acme/refunds/SKILL.md\n      Process refunds by the book\n";
        assert!(list.contains(expected), "{list}");
    }
}
