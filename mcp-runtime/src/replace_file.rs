//! Replacing a file atomically, and locking its directory while that happens.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use crate::random;

/// The users who may read a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Only the user of the process, on Unix.
    User,
    /// Everyone that the umask allows.
    Default,
}

/// Replaces a file atomically, so that a reader never sees a part of the content.
///
/// # Errors
///
/// Returns an error if the directory cannot be written. In that case, the file is unchanged.
pub(crate) fn replace_file(file: &Path, content: &str, readers: Readers) -> io::Result<()> {
    let Some(id) = random::id() else { return Err(io::Error::other("the operating system provides no random bytes")) };
    // The name is unpredictable, so no other user can create a symbolic link with that name in advance.
    let temporary = file.with_file_name(format!(".mcp-{id}"));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if readers == Readers::User {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = readers;
    let mut output = options.open(&temporary)?;
    let written = output.write_all(content.as_bytes());
    drop(output);
    let replaced = written.and_then(|()| fs::rename(&temporary, file));
    if replaced.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    replaced
}

/// Locks the directory of a file until the returned file is dropped, so that of several servers that start at once, only
/// one creates the file. Waits for at most a second.
///
/// Returns `None` if the directory cannot be locked, as in some file systems, or if another program, which only has to
/// be able to read the directory, keeps it locked.
#[cfg(unix)]
pub(crate) fn lock_directory(file: &Path) -> Option<File> {
    use rustix::{
        fs::{FlockOperation, flock},
        io::Errno,
    };

    /// Other servers keep a directory locked only while they create a file.
    const ATTEMPTS: usize = 100;
    /// The time between two attempts.
    const INTERVAL: std::time::Duration = std::time::Duration::from_millis(10);

    let parent = file.parent()?;
    let directory = File::open(if parent.as_os_str().is_empty() { Path::new(".") } else { parent }).ok()?;
    for _ in 0..ATTEMPTS {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(INTERVAL),
            locked => return locked.ok().map(|()| directory),
        }
    }
    None
}

/// Returns `None`: only Unix can lock directories.
#[cfg(not(unix))]
pub(crate) fn lock_directory(_: &Path) -> Option<File> {
    None
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn only_the_named_file_changes() {
        let directory = env::temp_dir().join(random::id().expect("random bytes"));
        fs::create_dir_all(directory.join("directory")).unwrap();
        for (name, content) in [("existing", "old"), ("existing.tmp", "other"), ("new.tmp", "other")] {
            fs::write(directory.join(name), content).unwrap();
        }
        let results = ["existing", "new", "directory", "missing/new"]
            .map(|name| replace_file(&directory.join(name), "url\n", Readers::User).is_ok());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;

            let mode = fs::metadata(directory.join("existing")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let mut files: Vec<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap_or_default())
            })
            .collect();
        fs::remove_dir_all(&directory).unwrap();
        files.sort();
        let expected = [
            ("directory", ""),
            ("existing", "url\n"),
            ("existing.tmp", "other"),
            ("new", "url\n"),
            ("new.tmp", "other"),
        ];
        assert_eq!(results, [true, true, false, false]);
        assert_eq!(files, expected.map(|(name, content)| (name.to_owned(), content.to_owned())));
    }
}
