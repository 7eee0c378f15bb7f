//! A sandboxed directory: every path is resolved inside it, using capability-based file access.

use std::{
    ffi::OsStr,
    io::{self, Read as _},
    path::{Component, Path},
};

use cap_std::{ambient_authority, fs::Dir};

/// The maximum number of files listed.
const MAX_FILES: usize = 10_000;
/// The maximum size of a file, in bytes.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// The directory.
pub(crate) struct Root {
    dir: Dir,
}

/// A file in the directory.
pub(crate) struct Found {
    /// The path relative to the directory, with slashes.
    pub(crate) path: String,
    /// The size in bytes.
    pub(crate) size: u64,
}

impl Root {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { dir: Dir::open_ambient_dir(path, ambient_authority())? })
    }

    /// Reads a file. Anything that is not a file inside the directory is reported as not found, and so are hidden files
    /// and the contents of hidden directories, such as `.env` and `.git`.
    pub(crate) fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let path = Path::new(path);
        if !is_visible(path) {
            return Err(missing());
        }
        // A link must not make a hidden file visible.
        let path = self.dir.canonicalize(path).ok().filter(|path| is_visible(path)).ok_or_else(missing)?;
        // Checked before opening: opening a named pipe blocks until there is a writer.
        let metadata = self.dir.metadata(&path).map_err(|_| missing())?;
        if !metadata.is_file() {
            return Err(missing());
        }
        let file = self.dir.open(&path).map_err(|_| missing())?;
        if metadata.len() > MAX_FILE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("the file has more than {MAX_FILE_BYTES} bytes"),
            ));
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Lists all files, sorted. Links, hidden files and unreadable directories are omitted.
    pub(crate) fn files(&self) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        visit(&self.dir, "", &mut found)?;
        found.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(found)
    }
}

/// Returns whether a path consists only of names, none of which is hidden.
fn is_visible(path: &Path) -> bool {
    path.components().all(|component| matches!(component, Component::Normal(name) if !is_hidden(name)))
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

fn visit(dir: &Dir, prefix: &str, found: &mut Vec<Found>) -> io::Result<()> {
    for entry in dir.entries()?.flatten() {
        if found.len() >= MAX_FILES {
            break;
        }
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| !is_hidden(name.as_ref())) else { continue };
        let path = format!("{prefix}{name}");
        // A directory that vanished in the meantime or cannot be read is omitted.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            let _ = entry.open_dir().and_then(|dir| visit(&dir, &format!("{path}/"), found));
        } else if metadata.is_file() {
            found.push(Found { path, size: metadata.len() });
        }
    }
    Ok(())
}
