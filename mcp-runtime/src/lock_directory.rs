//! Locking a directory while one of its files is created or replaced.

#[cfg(unix)]
use std::time::Duration;
use std::{fs::File, path::Path};

#[cfg(unix)]
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// The number of attempts to lock a directory, which other servers keep locked only while they create a file.
#[cfg(unix)]
const ATTEMPTS: usize = 100;
/// The time between two attempts.
#[cfg(unix)]
const INTERVAL: Duration = Duration::from_millis(10);

/// Locks the directory of a file until the returned file is dropped, so that of several servers that start at once, only
/// one creates the file. Waits for at most a second.
///
/// Returns `None` if the directory cannot be locked, as in some file systems, or if another program, which only has to
/// be able to read the directory, keeps it locked.
#[cfg(unix)]
pub(crate) fn lock_directory(file: &Path) -> Option<File> {
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
