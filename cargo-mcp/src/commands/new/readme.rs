//! The README of a new package: how to run and test it, and how to connect clients.

use std::fmt;

use super::template::Template;

/// The default address of a server.
pub(super) const ADDRESS: &str = "127.0.0.1:8080";
/// The URL of the server at that address.
pub(super) const URL: &str = "http://127.0.0.1:8080/mcp";

pub(super) struct Readme<'a> {
    pub(super) name: &'a str,
    pub(super) template: Template,
    /// The URL of the server, if it supports HTTP.
    pub(super) url: Option<&'a str>,
    /// Whether the server supports stdio.
    pub(super) is_stdio: bool,
}

impl fmt::Display for Readme<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, .. } = self;
        writeln!(f, "# {name}\n")?;
        writeln!(
            f,
            "A [Model Context Protocol](https://modelcontextprotocol.io) (MCP) server in Rust, built with `mcp-runtime`.\n\
             Created from the example `{}` ({}).\n",
            self.template.name(),
            lower(&self.template.description())
        )?;
        self.run(f)?;
        if self.is_stdio {
            self.connect(f)?;
        }
        match self.url {
            Some(url) => self.connect_by_url(f, url),
            None => Ok(()),
        }
    }
}

impl Readme<'_> {
    fn run(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## Run and test\n\n```console")?;
        if self.is_stdio {
            writeln!(f, "$ cargo run -- --list                 # list tools, resources and prompts")?;
            writeln!(f, "$ cargo run -- --help                 # show all options")?;
            writeln!(f, "$ cargo mcp call TOOL NAME=VALUE      # call a tool")?;
            writeln!(f, "$ cargo mcp check                     # check for problems with known clients")?;
        } else {
            writeln!(f, "$ cargo run                           # serve HTTP")?;
        }
        writeln!(f, "$ cargo test                          # run the tests, without processes or ports")?;
        writeln!(f, "$ cargo build --release               # build `target/release/{}`\n```\n", self.name)?;
        if self.is_stdio {
            writeln!(
                f,
                "`cargo mcp` is the command line of `mcp-runtime`. Install it with `cargo install --path cargo-mcp` in a checkout of its repository.\n"
            )?;
        }
        Ok(())
    }

    fn connect(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, .. } = self;
        write!(
            f,
            "## Connect a client

`cargo mcp install --client claude-code` builds the server and adds it to the configuration of the client. Other clients
are supported too, such as `claude-desktop`, `cursor` and `vscode`. To configure a client manually, build the server and
replace `/path/to/{name}` by the absolute path of `target/release/{name}`.

| client | how |
| --- | --- |
| Claude Code | `claude mcp add {name} -- /path/to/{name}` |
| Claude Desktop | *Settings → Developer → Edit Config*, then add the JSON below |
| Cursor | add the same JSON to `~/.cursor/mcp.json`, or `.cursor/mcp.json` in a project |
| VS Code | `code --add-mcp '{{\"name\":\"{name}\",\"command\":\"/path/to/{name}\"}}'` |

```json
{{ \"mcpServers\": {{ \"{name}\": {{ \"command\": \"/path/to/{name}\" }} }} }}
```
"
        )
    }

    fn connect_by_url(&self, f: &mut fmt::Formatter<'_>, url: &str) -> fmt::Result {
        let Self { name, .. } = self;
        if self.is_stdio {
            writeln!(f, "\n## Serve HTTP\n\n```console\n$ cargo run --release -- --http {ADDRESS}\n```\n")?;
        } else {
            writeln!(f, "## Connect a client\n\nStart the server with `cargo run --release`.\n")?;
        }
        write!(
            f,
            "Clients connect to `{url}`:

| client | how |
| --- | --- |
| Claude Code | `claude mcp add --transport http {name} {url}` |
| Claude Desktop | *Settings → Connectors*, if the server is reachable from the internet |
| Cursor | add the JSON below to `~/.cursor/mcp.json`, or `.cursor/mcp.json` in a project |
| VS Code | `code --add-mcp '{{\"name\":\"{name}\",\"type\":\"http\",\"url\":\"{url}\"}}'` |

```json
{{ \"mcpServers\": {{ \"{name}\": {{ \"url\": \"{url}\" }} }} }}
```
"
        )
    }
}

/// Adapts a description to the middle of a sentence: `A notebook` becomes `a notebook`, but `MCP tools` is unchanged.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), second) if !second.is_some_and(char::is_uppercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}
