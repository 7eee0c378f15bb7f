//! The README of a new project: how it is run and tested, and how clients are told of it.

use std::fmt;

use super::template::Template;

/// Where a server listens, if it is told nothing else.
pub(super) const ADDRESS: &str = "127.0.0.1:8080";
/// What clients reach there.
pub(super) const URL: &str = "http://127.0.0.1:8080/mcp";

pub(super) struct Readme<'a> {
    pub(super) name: &'a str,
    pub(super) template: Template,
    /// Where it serves HTTP, if it does.
    pub(super) url: Option<&'a str>,
    /// Whether it serves its standard input and output.
    pub(super) is_stdio: bool,
}

impl fmt::Display for Readme<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, .. } = self;
        writeln!(f, "# {name}\n")?;
        writeln!(
            f,
            "A [Model Context Protocol](https://modelcontextprotocol.io) (MCP) server in Rust, on `mcp-runtime`.\n\
             It began as the example `{}` ({}).\n",
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
            writeln!(f, "$ cargo run -- --list                 # what it offers")?;
            writeln!(f, "$ cargo run -- --help                 # what else it can be told")?;
            writeln!(f, "$ cargo mcp call TOOL NAME=VALUE      # call a tool")?;
            writeln!(f, "$ cargo mcp check                     # what clients may stumble over")?;
        } else {
            writeln!(f, "$ cargo run                           # serve HTTP")?;
        }
        writeln!(f, "$ cargo test                          # its tests, which need no process and no port")?;
        writeln!(f, "$ cargo build --release               # the program, as `target/release/{}`\n```\n", self.name)?;
        if self.is_stdio {
            writeln!(f, "`cargo mcp` is the command line of `mcp-runtime`; `cargo install cargo-mcp` installs it.\n")?;
        }
        Ok(())
    }

    fn connect(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, .. } = self;
        write!(
            f,
            "## Connect a client

`cargo mcp install --client claude-code` builds the server and tells the client of it; so it does for `claude-desktop`, `cursor`
and `vscode`. By hand, build it, and tell the client where it is. `/path/to/{name}` stands for the whole path of
`target/release/{name}`.

| client | how |
| --- | --- |
| Claude Code | `claude mcp add {name} -- /path/to/{name}` |
| Claude Desktop | *Settings → Developer → Edit Config*, then the JSON below |
| Cursor | the same JSON in `~/.cursor/mcp.json`, or `.cursor/mcp.json` in a project |
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
            writeln!(f, "## Connect a client\n\nStart it with `cargo run --release`.\n")?;
        }
        write!(
            f,
            "Clients reach it at `{url}`:

| client | how |
| --- | --- |
| Claude Code | `claude mcp add --transport http {name} {url}` |
| Claude Desktop | *Settings → Connectors*, for a server that can be reached from the internet |
| Cursor | the JSON below in `~/.cursor/mcp.json`, or `.cursor/mcp.json` in a project |
| VS Code | `code --add-mcp '{{\"name\":\"{name}\",\"type\":\"http\",\"url\":\"{url}\"}}'` |

```json
{{ \"mcpServers\": {{ \"{name}\": {{ \"url\": \"{url}\" }} }} }}
```
"
        )
    }
}

/// A description as it goes on in a sentence: `A notebook` becomes `a notebook`, `MCP tools` stays.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), second) if !second.is_some_and(char::is_uppercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}
