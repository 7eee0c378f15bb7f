//! The clients whose configuration is publicly documented.

use super::client::{Client, Syntax, UrlEntry, UserFile};
use crate::directories::Base;

const URL_ENTRY: UrlEntry = UrlEntry::Members { kind: None, url: "url", headers: "headers" };

/// All supported clients, sorted by id.
pub(crate) const CLIENTS: &[Client] = &[
    // https://code.claude.com/docs/en/mcp#mcp-installation-scopes
    // https://code.claude.com/docs/en/settings (CLAUDE_CONFIG_DIR)
    Client {
        id: "claude-code",
        title: "Claude Code",
        syntax: Syntax::Json,
        object: "mcpServers",
        user: Some(UserFile {
            base: Base::Home,
            variable: Some("CLAUDE_CONFIG_DIR"),
            path: ".claude.json",
            markers: &[".claude.json", ".claude"],
        }),
        project: Some(".mcp.json"),
        program_type: Some("stdio"),
        url_entry: UrlEntry::Members { kind: Some("http"), url: "url", headers: "headers" },
        extra_list: None,
        variable_prefix: Some("${"),
        activation: "start a new session of Claude Code",
    },
    // https://modelcontextprotocol.io/docs/develop/connect-local-servers (macOS, Windows)
    // The program for Linux is in beta. Like every Electron program, it keeps its data below `~/.config`.
    // https://support.claude.com/en/articles/11503834 (the file cannot contain remote servers)
    Client {
        id: "claude-desktop",
        title: "Claude Desktop",
        syntax: Syntax::Json,
        object: "mcpServers",
        user: Some(UserFile {
            base: Base::Data,
            variable: None,
            path: "Claude/claude_desktop_config.json",
            markers: &["Claude"],
        }),
        project: None,
        program_type: None,
        url_entry: UrlEntry::Unsupported("add the URL in Claude Desktop: Settings, then Connectors"),
        extra_list: None,
        variable_prefix: None,
        activation: "restart Claude Desktop",
    },
    // https://docs.cline.bot/mcp/mcp-overview (the file of the CLI; the editor extension uses another)
    Client {
        id: "cline",
        title: "Cline",
        syntax: Syntax::Json,
        object: "mcpServers",
        user: Some(UserFile {
            base: Base::Home,
            variable: None,
            path: ".cline/data/settings/cline_mcp_settings.json",
            markers: &[".cline"],
        }),
        project: None,
        program_type: None,
        url_entry: UrlEntry::Members { kind: Some("streamableHttp"), url: "url", headers: "headers" },
        extra_list: None,
        variable_prefix: None,
        activation: "restart Cline",
    },
    // https://developers.openai.com/codex/mcp
    // https://developers.openai.com/codex/config-reference (CODEX_HOME)
    Client {
        id: "codex",
        title: "Codex",
        syntax: Syntax::Toml,
        object: "mcp_servers",
        user: Some(UserFile {
            base: Base::Home,
            variable: Some("CODEX_HOME"),
            path: ".codex/config.toml",
            markers: &[".codex"],
        }),
        project: Some(".codex/config.toml"),
        program_type: None,
        url_entry: UrlEntry::Members { kind: None, url: "url", headers: "http_headers" },
        extra_list: None,
        variable_prefix: None,
        activation: "start a new session of Codex",
    },
    // https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers
    Client {
        id: "copilot",
        title: "Copilot CLI",
        syntax: Syntax::Json,
        object: "mcpServers",
        user: Some(UserFile {
            base: Base::Home,
            variable: None,
            path: ".copilot/mcp-config.json",
            markers: &[".copilot"],
        }),
        project: None,
        program_type: Some("local"),
        url_entry: UrlEntry::Members { kind: Some("http"), url: "url", headers: "headers" },
        extra_list: Some(("tools", "*")),
        variable_prefix: Some("${"),
        activation: "start a new session of Copilot CLI",
    },
    // https://cursor.com/docs/mcp
    Client {
        id: "cursor",
        title: "Cursor",
        syntax: Syntax::Json,
        object: "mcpServers",
        user: Some(UserFile { base: Base::Home, variable: None, path: ".cursor/mcp.json", markers: &[".cursor"] }),
        project: Some(".cursor/mcp.json"),
        program_type: Some("stdio"),
        url_entry: URL_ENTRY,
        extra_list: None,
        variable_prefix: Some("${"),
        activation: "enable the server in Cursor's settings, under Tools & MCP",
    },
    // https://geminicli.com/docs/tools/mcp-server/
    // https://geminicli.com/docs/cli/configuration
    Client {
        id: "gemini",
        title: "Gemini CLI",
        syntax: Syntax::Jsonc,
        object: "mcpServers",
        user: Some(UserFile { base: Base::Home, variable: None, path: ".gemini/settings.json", markers: &[".gemini"] }),
        project: Some(".gemini/settings.json"),
        program_type: None,
        url_entry: UrlEntry::Members { kind: None, url: "httpUrl", headers: "headers" },
        extra_list: None,
        variable_prefix: Some("$"),
        activation: "restart Gemini CLI",
    },
    // https://docs.roocode.com/features/mcp/using-mcp-in-roo (the user's file can only be edited in the application)
    Client {
        id: "roo",
        title: "Roo Code",
        syntax: Syntax::Json,
        object: "mcpServers",
        user: None,
        project: Some(".roo/mcp.json"),
        program_type: None,
        url_entry: UrlEntry::Members { kind: Some("streamable-http"), url: "url", headers: "headers" },
        extra_list: None,
        variable_prefix: Some("${"),
        activation: "nothing: Roo Code reloads the file",
    },
    // https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
    // https://code.visualstudio.com/docs/configure/settings#_settings-file-locations
    Client {
        id: "vscode",
        title: "VS Code",
        syntax: Syntax::Jsonc,
        object: "servers",
        user: Some(UserFile { base: Base::Data, variable: None, path: "Code/User/mcp.json", markers: &["Code"] }),
        project: Some(".vscode/mcp.json"),
        program_type: Some("stdio"),
        url_entry: UrlEntry::Members { kind: Some("http"), url: "url", headers: "headers" },
        extra_list: None,
        variable_prefix: Some("${"),
        activation: "start the server in VS Code with the command `MCP: List Servers`",
    },
    // https://code.visualstudio.com/docs/configure/settings#_settings-file-locations
    Client {
        id: "vscode-insiders",
        title: "VS Code Insiders",
        syntax: Syntax::Jsonc,
        object: "servers",
        user: Some(UserFile {
            base: Base::Data,
            variable: None,
            path: "Code - Insiders/User/mcp.json",
            markers: &["Code - Insiders"],
        }),
        project: Some(".vscode/mcp.json"),
        program_type: Some("stdio"),
        url_entry: UrlEntry::Members { kind: Some("http"), url: "url", headers: "headers" },
        extra_list: None,
        variable_prefix: Some("${"),
        activation: "start the server in VS Code with the command `MCP: List Servers`",
    },
    // https://docs.windsurf.com/windsurf/cascade/mcp
    Client {
        id: "windsurf",
        title: "Windsurf",
        syntax: Syntax::Json,
        object: "mcpServers",
        user: Some(UserFile {
            base: Base::Home,
            variable: None,
            path: ".codeium/windsurf/mcp_config.json",
            markers: &[".codeium/windsurf"],
        }),
        project: None,
        program_type: None,
        url_entry: UrlEntry::Members { kind: None, url: "serverUrl", headers: "headers" },
        extra_list: None,
        variable_prefix: Some("${"),
        activation: "refresh the servers in Windsurf's Cascade panel",
    },
    // https://zed.dev/docs/ai/mcp
    // https://zed.dev/docs/configuring-zed#user-settings-file
    Client {
        id: "zed",
        title: "Zed",
        syntax: Syntax::Jsonc,
        object: "context_servers",
        user: Some(UserFile { base: Base::Config, variable: None, path: "zed/settings.json", markers: &["zed"] }),
        project: None,
        program_type: None,
        url_entry: URL_ENTRY,
        extra_list: None,
        variable_prefix: None,
        activation: "nothing: Zed reloads the file",
    },
];

/// Returns the client with an id.
pub(crate) fn named(id: &str) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.id == id)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{super::client::Scope, *};
    use crate::directories::{Directories, System};

    fn files(system: System, home: &str, lookup: fn(&str) -> Option<PathBuf>) -> Vec<(&'static str, String)> {
        let directories = Directories::of(system, home, lookup);
        let file = |client: &Client| client.file(Scope::User, &directories, Path::new("/project"));
        CLIENTS
            .iter()
            .filter_map(|client| Some((client.id, file(client)?.to_string_lossy().replace('\\', "/"))))
            .collect()
    }

    #[test]
    fn paths_depend_on_the_system() {
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
    fn environment_variables_override_directories() {
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
        assert_eq!(relative, files(System::Linux, "/home/u", |_| None), "relative paths are ignored");
    }

    #[test]
    fn clients_are_sorted_by_id() {
        assert!(CLIENTS.is_sorted_by_key(|client| client.id));
    }
}
