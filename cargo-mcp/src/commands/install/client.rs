//! The description of an MCP client: where its configuration is, and the format of its entries.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    document::{Document, Syntax},
    entry::{DocumentError, Entry},
    file::File,
};
use crate::{
    directories::{Base, Directories},
    failure::Failure,
    target::Target,
};

/// The clients whose configuration is publicly documented, sorted by id.
pub(crate) static CLIENTS: LazyLock<Vec<Client>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("clients.json")).expect("the descriptions of clients are valid")
});

/// Returns the client with an id.
pub(crate) fn named(id: &str) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.id == id)
}

/// A client of MCP servers.
#[derive(Debug, Deserialize)]
pub(crate) struct Client {
    /// The name on the command line.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) syntax: Syntax,
    /// The name of the object that maps names to servers.
    pub(crate) object: &'static str,
    /// The user's file.
    pub(super) user: Option<UserFile>,
    /// The path of a project's file.
    project: Option<&'static str>,
    /// The `type` of a server that is started as a program.
    program_type: Option<&'static str>,
    /// The entry of an HTTP server.
    url_entry: UrlEntry,
    /// A member that every entry has in addition: a list with one string.
    extra_list: Option<(&'static str, &'static str)>,
    /// The text that starts a variable in any string.
    variable_prefix: Option<&'static str>,
    /// The step by which the user activates a new server.
    pub(crate) activation: &'static str,
}

/// A configuration file in the user's directories.
#[derive(Debug, Deserialize)]
pub(super) struct UserFile {
    base: Base,
    /// The environment variable that overrides the directory of the file.
    variable: Option<&'static str>,
    path: &'static str,
    /// Paths below the base, of which one exists if the client is installed.
    markers: Vec<&'static str>,
}

/// The entry of an HTTP server.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum UrlEntry {
    Members {
        /// The value of the member `type`.
        kind: Option<&'static str>,
        /// The name of the member with the URL.
        url: &'static str,
        /// The name of the member with the headers.
        headers: &'static str,
    },
    /// The file cannot contain HTTP servers. The text is the help for the user.
    Unsupported(&'static str),
}

/// The scope of a configuration file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scope {
    /// All projects of the user
    #[default]
    User,
    /// The repository that contains the current directory
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

impl Client {
    /// Returns the configuration file for a scope, if the client has one.
    pub(crate) fn file(&self, scope: Scope, directories: &Directories, project: &Path) -> Option<PathBuf> {
        match scope {
            Scope::Project => self.project.map(|path| project.join(path)),
            Scope::User => self.user.as_ref().map(|file| file.path(directories)),
        }
    }

    /// Reads and parses the configuration file for a scope.
    ///
    /// # Errors
    ///
    /// Fails if the client has no documented file for the scope, or if the file is invalid.
    pub(crate) fn read(&self, scope: Scope, directories: &Directories) -> Result<(File, Document), Failure> {
        let Some(path) = self.file(scope, directories, &project()) else {
            let failure = Failure::usage(format_args!(
                "{} has no documented configuration file for scope `{}`",
                self.title,
                scope.as_str()
            ));
            // Every client has at least one file.
            let other = if scope == Scope::User { Scope::Project } else { Scope::User };
            return Err(failure.help(format_args!("use `--scope {}`", other.as_str())));
        };
        let file = File::read(path)?;
        let document =
            Document::parse(self.syntax, self.object, file.text()?).map_err(|error| invalid(&file.path, &error))?;
        Ok((file, document))
    }

    /// Returns one of the paths that indicate that the client is installed, if none of them exists.
    pub(crate) fn missing(&self, directories: &Directories) -> Option<PathBuf> {
        let mut markers = self.user.as_ref()?.markers(directories);
        if markers.iter().any(|marker| marker.exists()) { None } else { markers.pop() }
    }

    /// Returns whether the client seems to be installed.
    pub(crate) fn is_installed(&self, directories: &Directories) -> bool {
        self.user.is_some() && self.missing(directories).is_none()
    }

    /// Returns the client's prefix of variables if the entry contains it, because the client would expand the variable.
    pub(crate) fn variable_prefix_in(&self, entry: &Entry) -> Option<&'static str> {
        let prefix = self.variable_prefix?;
        entry.contains(prefix).then_some(prefix)
    }

    /// Returns the entry of a server.
    ///
    /// # Errors
    ///
    /// Fails if the client does not support such servers, with what to do instead.
    pub(crate) fn entry(&self, launch: &Target) -> Result<Entry, &'static str> {
        let mut members = Map::new();
        let mut add = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
        let table = |pairs: &[(String, String)]| pairs.iter().map(|(name, value)| (name, value.as_str())).collect();
        match (launch, &self.url_entry) {
            (Target::Program { program, args, env, .. }, _) => {
                self.program_type.into_iter().for_each(|kind| add("type", kind.into()));
                add("command", program.to_string_lossy().into());
                add("args", args.as_slice().into());
                if !env.is_empty() {
                    add("env", table(env));
                }
            }
            (Target::Url { .. }, UrlEntry::Unsupported(instead)) => return Err(instead),
            (Target::Url { url, headers }, UrlEntry::Members { kind, url: url_key, headers: headers_key }) => {
                kind.iter().for_each(|kind| add("type", (*kind).into()));
                add(url_key, url.as_str().into());
                if !headers.is_empty() {
                    add(headers_key, table(headers));
                }
            }
        }
        self.extra_list.iter().for_each(|(key, text)| add(key, json!([text])));
        Ok(Entry(members))
    }
}

impl UserFile {
    fn path(&self, directories: &Directories) -> PathBuf {
        match self.overridden_directory(directories) {
            Some(directory) => directory.join(Path::new(self.path).file_name().unwrap_or_default()),
            None => directories.base(self.base).join(self.path),
        }
    }

    fn markers(&self, directories: &Directories) -> Vec<PathBuf> {
        match self.overridden_directory(directories) {
            Some(directory) => vec![directory],
            None => self.markers.iter().map(|marker| directories.base(self.base).join(marker)).collect(),
        }
    }

    fn overridden_directory(&self, directories: &Directories) -> Option<PathBuf> {
        self.variable.and_then(|name| directories.variable(name))
    }
}

/// Returns the failure for a file that cannot be read or edited.
pub(crate) fn invalid(path: &Path, error: &DocumentError) -> Failure {
    Failure::usage(format_args!("`{}`, {error}", path.display())).help("fix the file; nothing was changed")
}

/// Returns the root of the repository that contains the current directory, or that directory.
pub(crate) fn project() -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    let root = here.ancestors().find(|directory| directory.join(".git").exists());
    root.map_or_else(|| here.clone(), Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(system: &'static str, home: &str, lookup: fn(&str) -> Option<PathBuf>) -> Vec<(&'static str, String)> {
        let directories = Directories::of(system, home, lookup);
        let file = |client: &Client| client.file(Scope::User, &directories, Path::new("/project"));
        CLIENTS
            .iter()
            .filter_map(|client| Some((client.id, file(client)?.to_string_lossy().replace('\\', "/"))))
            .collect()
    }

    #[test]
    fn paths_depend_on_the_system() {
        let data = [
            ("linux", "/home/u/.config"),
            ("macos", "/home/u/Library/Application Support"),
            ("windows", "/home/u/AppData/Roaming"),
        ];
        for (system, data) in data {
            let zed = if system == "macos" { "/home/u/.config" } else { data };
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
            assert_eq!(files(system, "/home/u", |_| None), expected, "{system}");
        }
    }

    #[test]
    fn environment_variables_override_directories() {
        for (system, id, expected) in [
            ("linux", "claude-code", "/moved/CLAUDE_CONFIG_DIR/.claude.json"),
            ("linux", "codex", "/moved/CODEX_HOME/config.toml"),
            ("linux", "vscode", "/moved/XDG_CONFIG_HOME/Code/User/mcp.json"),
            ("macos", "vscode", "/home/u/Library/Application Support/Code/User/mcp.json"),
            ("windows", "zed", "/moved/APPDATA/zed/settings.json"),
        ] {
            let files = files(system, "/home/u", |name| Some(Path::new("/moved").join(name)));
            let found = files.iter().find(|(name, _)| *name == id).map(|(_, path)| path.as_str());
            assert_eq!(found, Some(expected), "{system} {id}");
        }
        let relative = files("linux", "/home/u", |_| Some("relative".into()));
        assert_eq!(relative, files("linux", "/home/u", |_| None), "relative paths are ignored");
    }

    #[test]
    fn clients_are_sorted_by_id() {
        assert!(CLIENTS.is_sorted_by_key(|client| client.id));
    }
}
