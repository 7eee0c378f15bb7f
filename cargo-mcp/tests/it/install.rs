//! `cargo mcp install` and `cargo mcp uninstall`, with a temporary home directory.

mod entries;
mod files;
mod mistakes;
#[cfg(unix)]
mod unix;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::{
    common::{CommandOutput, cargo_mcp},
    examples::example,
};

/// A temporary home directory.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    /// Creates a home with one file.
    fn with(path: &str, text: &str) -> Self {
        let home = Self::new();
        home.write(path, text);
        home
    }

    fn path(&self, path: &str) -> PathBuf {
        // Programs resolve the links in the path of the temporary directory.
        self.0.path().canonicalize().expect("the path exists").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a path in the home")).expect("directories are created");
        fs::write(path, text).expect("the file is written");
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Returns all files with their content and all directories.
    fn snapshot(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        fn walk(directory: &Path, found: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
            for entry in fs::read_dir(directory).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    walk(&path, found);
                    found.insert(path, None);
                } else {
                    found.insert(path.clone(), fs::read(path).ok());
                }
            }
        }
        let mut found = BTreeMap::new();
        walk(self.0.path(), &mut found);
        found
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = cargo_mcp(args);
        let cargo = |name: &str, below: &str| {
            std::env::var_os(name).unwrap_or_else(|| std::env::home_dir().unwrap_or_default().join(below).into())
        };
        command.env("CARGO_HOME", cargo("CARGO_HOME", ".cargo")).env("RUSTUP_HOME", cargo("RUSTUP_HOME", ".rustup"));
        for variable in ["XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "APPDATA"] {
            command.env_remove(variable);
        }
        command.env("HOME", self.path("")).env("RUST_LOG", "off");
        command
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        self.command(args).output().expect("cargo-mcp starts").into()
    }

    /// Installs the example `hello` as a command.
    fn install(&self, client: &str, options: &[&str]) -> CommandOutput {
        let hello = hello();
        let args = [&["install", "--client", client], options, &["--", &hello]].concat();
        self.run(&args)
    }
}

fn hello() -> String {
    example("hello").to_str().expect("a path in UTF-8").to_owned()
}

/// Returns the path of a client's file in the home on Linux.
fn file(client: &str) -> &'static str {
    match client {
        "claude-code" => ".claude.json",
        "claude-desktop" => ".config/Claude/claude_desktop_config.json",
        "cline" => ".cline/data/settings/cline_mcp_settings.json",
        "codex" => ".codex/config.toml",
        "copilot" => ".copilot/mcp-config.json",
        "cursor" => ".cursor/mcp.json",
        "gemini" => ".gemini/settings.json",
        "vscode" => ".config/Code/User/mcp.json",
        "vscode-insiders" => ".config/Code - Insiders/User/mcp.json",
        "windsurf" => ".codeium/windsurf/mcp_config.json",
        "zed" => ".config/zed/settings.json",
        other => panic!("{other}"),
    }
}

/// The clients with a configuration file in the home directory.
const LOCAL_CLIENTS: [&str; 11] = [
    "claude-code",
    "claude-desktop",
    "cline",
    "codex",
    "copilot",
    "cursor",
    "gemini",
    "vscode",
    "vscode-insiders",
    "windsurf",
    "zed",
];
