//! Temporary files that atomically replace other files.

use std::{io, path::Path};

use tempfile::NamedTempFile;

/// Who may read a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only the user.
    Private,
    /// Everyone that the umask allows.
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
