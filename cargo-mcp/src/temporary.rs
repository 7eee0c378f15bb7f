//! Temporary files that atomically replace other files, and temporary directories.

use std::{io, path::Path};

use tempfile::{NamedTempFile, TempDir};

/// The readers of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only the user.
    Private,
    /// All users that the umask allows.
    Default,
}

/// Creates a temporary file in `directory`. A file can be replaced atomically only within its file system.
///
/// # Errors
///
/// Fails if the directory cannot be written.
pub(crate) fn file_in(directory: &Path, access: Access) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    if access == Access::Default {
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    }
    #[cfg(not(unix))]
    let _ = access;
    builder.prefix(".cargo-mcp-").tempfile_in(directory)
}

/// Creates a temporary directory in `parent` that only the user can open. It is deleted when dropped.
///
/// # Errors
///
/// Fails if `parent` cannot be written.
pub(crate) fn private_directory_in(parent: &Path, prefix: &str) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.prefix(prefix).tempdir_in(parent)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn private_files_and_directories_are_for_the_user_only() {
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let directory = private_directory_in(&std::env::temp_dir(), "cargo-mcp-test-").unwrap();
        assert_eq!(mode(directory.path()), 0o700);
        assert_eq!(mode(file_in(directory.path(), Access::Private).unwrap().path()), 0o600);
    }
}
