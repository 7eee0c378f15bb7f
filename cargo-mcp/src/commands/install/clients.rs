//! The clients whose configuration is publicly documented: where it is, and what an entry looks like.

use std::path::{Path, PathBuf};

use super::{
    entry::{Entry, Field, Launch},
    places::{Base, Places},
};

/// What a configuration file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// JSON whose reader refuses comments.
    Json,
    /// JSON with comments.
    Jsonc,
    Toml,
}

/// A client of MCP servers.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its name on the command line.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) syntax: Syntax,
    /// The object that has the servers by their names.
    pub(crate) object: &'static str,
    user: Option<Place>,
    project: Option<&'static str>,
    local: Local,
    remote: Remote,
    /// A list of one text that each entry has besides.
    besides: Option<(&'static str, &'static str)>,
    /// What it takes for the beginning of a variable, wherever it is.
    expands: Option<&'static str>,
    /// What the user must do for the client to notice.
    pub(crate) then: &'static str,
}

/// A file of the user.
#[derive(Debug)]
struct Place {
    base: Base,
    /// A variable that moves the directory of the file.
    variable: Option<&'static str>,
    path: &'static str,
    /// What exists where the client is installed, below the base.
    marks: &'static [&'static str],
}

/// How a program is written.
#[derive(Debug)]
struct Local {
    kind: Option<&'static str>,
}

/// How an HTTP server is written.
#[derive(Debug)]
enum Remote {
    Keys {
        kind: Option<&'static str>,
        url: &'static str,
        headers: &'static str,
    },
    /// It cannot be, and this is what to do instead.
    Unsupported(&'static str),
}

/// Whose configuration is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scope {
    /// Of all projects
    #[default]
    User,
    /// Of the repository around the current directory
    Project,
}

impl Scope {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

const REMOTE: Remote = Remote::Keys { kind: None, url: "url", headers: "headers" };

/// All of them, in the order of their names.
pub(crate) const CLIENTS: &[Client] = &[
    // https://code.claude.com/docs/en/mcp#mcp-installation-scopes
    // https://code.claude.com/docs/en/settings (CLAUDE_CONFIG_DIR)
    Client {
        id: "claude-code",
        title: "Claude Code",
        syntax: Syntax::Json,
        object: "mcpServers",
        user: Some(Place {
            base: Base::Home,
            variable: Some("CLAUDE_CONFIG_DIR"),
            path: ".claude.json",
            marks: &[".claude.json", ".claude"],
        }),
        project: Some(".mcp.json"),
        local: Local { kind: Some("stdio") },
        remote: Remote::Keys { kind: Some("http"), url: "url", headers: "headers" },
        besides: None,
        expands: Some("${"),
        then: "start a new session of Claude Code",
    },
    // https://modelcontextprotocol.io/docs/develop/connect-local-servers (macOS, Windows)
    // On Linux the program is a beta; as every Electron program it keeps its data below `~/.config`.
    // https://support.claude.com/en/articles/11503834 (remote servers are not taken from the file)
    Client {
        id: "claude-desktop",
        title: "Claude Desktop",
        syntax: Syntax::Json,
        object: "mcpServers",
        user: Some(Place {
            base: Base::Data,
            variable: None,
            path: "Claude/claude_desktop_config.json",
            marks: &["Claude"],
        }),
        project: None,
        local: Local { kind: None },
        remote: Remote::Unsupported("add the URL in Claude Desktop: Settings, then Connectors"),
        besides: None,
        expands: None,
        then: "restart Claude Desktop",
    },
    // https://docs.cline.bot/mcp/mcp-overview (the command line's file; the editor extension has one of its own)
    Client {
        id: "cline",
        title: "Cline",
        syntax: Syntax::Json,
        object: "mcpServers",
        user: Some(Place {
            base: Base::Home,
            variable: None,
            path: ".cline/data/settings/cline_mcp_settings.json",
            marks: &[".cline"],
        }),
        project: None,
        local: Local { kind: None },
        remote: Remote::Keys { kind: Some("streamableHttp"), url: "url", headers: "headers" },
        besides: None,
        expands: None,
        then: "start Cline again",
    },
    // https://developers.openai.com/codex/mcp
    // https://developers.openai.com/codex/config-reference (CODEX_HOME)
    Client {
        id: "codex",
        title: "Codex",
        syntax: Syntax::Toml,
        object: "mcp_servers",
        user: Some(Place {
            base: Base::Home,
            variable: Some("CODEX_HOME"),
            path: ".codex/config.toml",
            marks: &[".codex"],
        }),
        project: Some(".codex/config.toml"),
        local: Local { kind: None },
        remote: Remote::Keys { kind: None, url: "url", headers: "http_headers" },
        besides: None,
        expands: None,
        then: "start a new session of Codex",
    },
    // https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers
    Client {
        id: "copilot",
        title: "Copilot CLI",
        syntax: Syntax::Json,
        object: "mcpServers",
        user: Some(Place { base: Base::Home, variable: None, path: ".copilot/mcp-config.json", marks: &[".copilot"] }),
        project: None,
        local: Local { kind: Some("local") },
        remote: Remote::Keys { kind: Some("http"), url: "url", headers: "headers" },
        besides: Some(("tools", "*")),
        expands: Some("${"),
        then: "start a new session of Copilot CLI",
    },
    // https://cursor.com/docs/mcp
    Client {
        id: "cursor",
        title: "Cursor",
        syntax: Syntax::Json,
        object: "mcpServers",
        user: Some(Place { base: Base::Home, variable: None, path: ".cursor/mcp.json", marks: &[".cursor"] }),
        project: Some(".cursor/mcp.json"),
        local: Local { kind: Some("stdio") },
        remote: REMOTE,
        besides: None,
        expands: Some("${"),
        then: "switch it on in Cursor's settings, under Tools & MCP",
    },
    // https://geminicli.com/docs/tools/mcp-server/
    // https://geminicli.com/docs/cli/configuration
    Client {
        id: "gemini",
        title: "Gemini CLI",
        syntax: Syntax::Jsonc,
        object: "mcpServers",
        user: Some(Place { base: Base::Home, variable: None, path: ".gemini/settings.json", marks: &[".gemini"] }),
        project: Some(".gemini/settings.json"),
        local: Local { kind: None },
        remote: Remote::Keys { kind: None, url: "httpUrl", headers: "headers" },
        besides: None,
        expands: Some("$"),
        then: "start Gemini CLI again",
    },
    // https://docs.roocode.com/features/mcp/using-mcp-in-roo (the file of the user is only reached through its window)
    Client {
        id: "roo",
        title: "Roo Code",
        syntax: Syntax::Json,
        object: "mcpServers",
        user: None,
        project: Some(".roo/mcp.json"),
        local: Local { kind: None },
        remote: Remote::Keys { kind: Some("streamable-http"), url: "url", headers: "headers" },
        besides: None,
        expands: Some("${"),
        then: "Roo Code notices by itself",
    },
    // https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
    // https://code.visualstudio.com/docs/configure/settings#_settings-file-locations
    Client {
        id: "vscode",
        title: "VS Code",
        syntax: Syntax::Jsonc,
        object: "servers",
        user: Some(Place { base: Base::Data, variable: None, path: "Code/User/mcp.json", marks: &["Code"] }),
        project: Some(".vscode/mcp.json"),
        local: Local { kind: Some("stdio") },
        remote: Remote::Keys { kind: Some("http"), url: "url", headers: "headers" },
        besides: None,
        expands: Some("${"),
        then: "start it in VS Code with the command `MCP: List Servers`",
    },
    // https://code.visualstudio.com/docs/configure/settings#_settings-file-locations
    Client {
        id: "vscode-insiders",
        title: "VS Code Insiders",
        syntax: Syntax::Jsonc,
        object: "servers",
        user: Some(Place {
            base: Base::Data,
            variable: None,
            path: "Code - Insiders/User/mcp.json",
            marks: &["Code - Insiders"],
        }),
        project: Some(".vscode/mcp.json"),
        local: Local { kind: Some("stdio") },
        remote: Remote::Keys { kind: Some("http"), url: "url", headers: "headers" },
        besides: None,
        expands: Some("${"),
        then: "start it in VS Code with the command `MCP: List Servers`",
    },
    // https://docs.windsurf.com/windsurf/cascade/mcp
    Client {
        id: "windsurf",
        title: "Windsurf",
        syntax: Syntax::Json,
        object: "mcpServers",
        user: Some(Place {
            base: Base::Home,
            variable: None,
            path: ".codeium/windsurf/mcp_config.json",
            marks: &[".codeium/windsurf"],
        }),
        project: None,
        local: Local { kind: None },
        remote: Remote::Keys { kind: None, url: "serverUrl", headers: "headers" },
        besides: None,
        expands: Some("${"),
        then: "refresh the servers in Windsurf's Cascade panel",
    },
    // https://zed.dev/docs/ai/mcp
    // https://zed.dev/docs/configuring-zed#user-settings-file
    Client {
        id: "zed",
        title: "Zed",
        syntax: Syntax::Jsonc,
        object: "context_servers",
        user: Some(Place { base: Base::Config, variable: None, path: "zed/settings.json", marks: &["zed"] }),
        project: None,
        local: Local { kind: None },
        remote: REMOTE,
        besides: None,
        expands: None,
        then: "Zed notices by itself",
    },
];

impl Client {
    pub(crate) fn named(id: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| client.id == id)
    }

    /// The file of a scope, if the client has one.
    pub(crate) fn file(&self, scope: Scope, places: &Places, project: &Path) -> Option<PathBuf> {
        match scope {
            Scope::Project => self.project.map(|path| project.join(path)),
            Scope::User => self.user.as_ref().map(|place| place.file(places)),
        }
    }

    /// The other scope, if the client has a file there.
    pub(crate) fn other(&self, scope: Scope) -> Option<Scope> {
        match scope {
            Scope::User => self.project.map(|_| Scope::Project),
            Scope::Project => self.user.as_ref().map(|_| Scope::User),
        }
    }

    /// What would be there if the client were installed, and is not.
    pub(crate) fn missing(&self, places: &Places) -> Option<PathBuf> {
        let place = self.user.as_ref()?;
        let marks = place.marks(places);
        match marks.iter().any(|mark| mark.exists()) {
            true => None,
            false => marks.into_iter().next_back(),
        }
    }

    /// Whether it seems to be installed here.
    pub(crate) fn is_here(&self, places: &Places) -> bool {
        self.user.is_some() && self.missing(places).is_none()
    }

    /// What it will take for a variable in an entry, if it finds any.
    pub(crate) fn expands(&self, entry: &Entry) -> Option<&'static str> {
        let beginning = self.expands?;
        entry.texts().any(|text| text.contains(beginning)).then_some(beginning)
    }

    /// The entry of a server.
    ///
    /// # Errors
    ///
    /// The client cannot have such a server; says what to do instead.
    pub(crate) fn entry(&self, launch: &Launch) -> Result<Entry, &'static str> {
        let mut fields = Vec::new();
        let kind = |kind: Option<&'static str>| kind.map(|kind| ("type", Field::Text(kind.to_owned())));
        match launch {
            Launch::Program { program, args, env } => {
                fields.extend(kind(self.local.kind));
                fields.push(("command", Field::Text(program.clone())));
                fields.push(("args", Field::List(args.clone())));
                if !env.is_empty() {
                    fields.push(("env", Field::Table(env.clone())));
                }
            }
            Launch::Url { url, headers } => match &self.remote {
                Remote::Unsupported(instead) => return Err(instead),
                Remote::Keys { kind: name, url: url_key, headers: headers_key } => {
                    fields.extend(kind(*name));
                    fields.push((*url_key, Field::Text(url.clone())));
                    if !headers.is_empty() {
                        fields.push((*headers_key, Field::Table(headers.clone())));
                    }
                }
            },
        }
        fields.extend(self.besides.map(|(key, text)| (key, Field::List(vec![text.to_owned()]))));
        Ok(Entry(fields))
    }
}

impl Place {
    fn file(&self, places: &Places) -> PathBuf {
        match self.moved(places) {
            Some(directory) => directory.join(Path::new(self.path).file_name().unwrap_or_default()),
            None => places.base(self.base).join(self.path),
        }
    }

    fn marks(&self, places: &Places) -> Vec<PathBuf> {
        match self.moved(places) {
            Some(directory) => vec![directory],
            None => self.marks.iter().map(|mark| places.base(self.base).join(mark)).collect(),
        }
    }

    fn moved(&self, places: &Places) -> Option<PathBuf> {
        self.variable.and_then(|name| places.variable(name))
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{super::places::System, *};

    fn files(system: System, home: &str, lookup: fn(&str) -> Option<PathBuf>) -> Vec<(&'static str, String)> {
        let places = Places::of(system, home, lookup);
        let file = |client: &Client| client.file(Scope::User, &places, Path::new("/project"));
        CLIENTS
            .iter()
            .filter_map(|client| Some((client.id, file(client)?.to_string_lossy().replace('\\', "/"))))
            .collect()
    }

    #[test]
    fn each_system_has_its_places() {
        let data = |system: System| match system {
            System::Linux => "/home/u/.config",
            System::Mac => "/home/u/Library/Application Support",
            System::Windows => "/home/u/AppData/Roaming",
        };
        for system in [System::Linux, System::Mac, System::Windows] {
            let data = data(system);
            let zed = if system == System::Mac { "/home/u/.config" } else { data };
            let expected = [
                ("claude-code", "/home/u/.claude.json".to_owned()),
                ("claude-desktop", format!("{data}/Claude/claude_desktop_config.json")),
                ("cline", "/home/u/.cline/data/settings/cline_mcp_settings.json".to_owned()),
                ("codex", "/home/u/.codex/config.toml".to_owned()),
                ("copilot", "/home/u/.copilot/mcp-config.json".to_owned()),
                ("cursor", "/home/u/.cursor/mcp.json".to_owned()),
                ("gemini", "/home/u/.gemini/settings.json".to_owned()),
                ("vscode", format!("{data}/Code/User/mcp.json")),
                ("vscode-insiders", format!("{data}/Code - Insiders/User/mcp.json")),
                ("windsurf", "/home/u/.codeium/windsurf/mcp_config.json".to_owned()),
                ("zed", format!("{zed}/zed/settings.json")),
            ];
            assert_eq!(files(system, "/home/u", |_| None), expected, "{system:?}");
        }
    }

    #[test]
    fn variables_move_files() {
        for (system, id, expected) in [
            (System::Linux, "claude-code", "/moved/CLAUDE_CONFIG_DIR/.claude.json"),
            (System::Linux, "codex", "/moved/CODEX_HOME/config.toml"),
            (System::Linux, "vscode", "/moved/XDG_CONFIG_HOME/Code/User/mcp.json"),
            (System::Mac, "vscode", "/home/u/Library/Application Support/Code/User/mcp.json"),
            (System::Windows, "zed", "/moved/APPDATA/zed/settings.json"),
        ] {
            let files = files(system, "/home/u", |name| Some(Path::new("/moved").join(name)));
            let found = files.iter().find(|(name, _)| *name == id).map(|(_, path)| path.as_str());
            assert_eq!(found, Some(expected), "{system:?} {id}");
        }
        let relative = files(System::Linux, "/home/u", |_| Some("relative".into()));
        assert_eq!(relative, files(System::Linux, "/home/u", |_| None), "a relative path counts as none");
    }

    #[test]
    fn the_order_is_that_of_the_names() {
        assert!(CLIENTS.is_sorted_by_key(|client| client.id));
    }
}
