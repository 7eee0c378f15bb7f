//! Locating and parsing the configuration file of a client.

use std::path::{Path, PathBuf};

use super::{
    client::{Client, Scope},
    document::Document,
    file::File,
    position::DocumentError,
};
use crate::{directories::Directories, failure::Failure};

/// Returns the configuration file of a client.
///
/// # Errors
///
/// Fails if the client has no documented file for the scope.
pub(crate) fn path(client: &Client, scope: Scope, directories: &Directories) -> Result<PathBuf, Failure> {
    client.file(scope, directories, &project()).ok_or_else(|| {
        let failure = Failure::usage(format_args!(
            "{} has no documented configuration file for scope `{}`",
            client.title,
            scope.as_str()
        ));
        match client.other_scope(scope) {
            Some(other) => failure.help(format_args!("use `--scope {}`", other.as_str())),
            None => failure,
        }
    })
}

/// Parses the configuration file of a client.
///
/// # Errors
///
/// Fails if the file is invalid.
pub(crate) fn parse(client: &Client, file: &File) -> Result<Document, Failure> {
    Document::parse(client, file.text()?).map_err(|error| invalid(&file.path, &error))
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
