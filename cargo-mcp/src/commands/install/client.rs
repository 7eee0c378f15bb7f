//! The description of an MCP client: where its configuration is, and the format of its entries.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{
    document::{Document, DocumentError, Entry, Launch},
    file::File,
};
use crate::{
    directories::{Base, Directories},
    failure::Failure,
};

/// The syntax of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// Plain JSON, without comments.
    Json,
    /// JSON with comments.
    Jsonc,
    Toml,
}

/// A client of MCP servers.
#[derive(Debug)]
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
    pub(super) project: Option<&'static str>,
    /// The `type` of a server that is started as a program.
    pub(super) program_type: Option<&'static str>,
    /// The entry of an HTTP server.
    pub(super) url_entry: UrlEntry,
    /// A member that every entry has in addition: a list with one string.
    pub(super) extra_list: Option<(&'static str, &'static str)>,
    /// The text that starts a variable in any string.
    pub(super) variable_prefix: Option<&'static str>,
    /// The step by which the user activates a new server.
    pub(crate) activation: &'static str,
}

/// A configuration file in the user's directories.
#[derive(Debug)]
pub(super) struct UserFile {
    pub(super) base: Base,
    /// The environment variable that overrides the directory of the file.
    pub(super) variable: Option<&'static str>,
    pub(super) path: &'static str,
    /// Paths below the base, of which one exists if the client is installed.
    pub(super) markers: &'static [&'static str],
}

/// The entry of an HTTP server.
#[derive(Debug)]
pub(super) enum UrlEntry {
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
        let document = Document::parse(self, file.text()?).map_err(|error| invalid(&file.path, &error))?;
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
    pub(crate) fn entry(&self, launch: &Launch) -> Result<Entry, &'static str> {
        let mut members = Map::new();
        let mut add = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
        let table = |pairs: &[(String, String)]| pairs.iter().map(|(name, value)| (name, value.as_str())).collect();
        match (launch, &self.url_entry) {
            (Launch::Program { program, args, env }, _) => {
                self.program_type.into_iter().for_each(|kind| add("type", kind.into()));
                add("command", program.as_str().into());
                add("args", args.as_slice().into());
                if !env.is_empty() {
                    add("env", table(env));
                }
            }
            (Launch::Url { .. }, UrlEntry::Unsupported(instead)) => return Err(instead),
            (Launch::Url { url, headers }, UrlEntry::Members { kind, url: url_key, headers: headers_key }) => {
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
