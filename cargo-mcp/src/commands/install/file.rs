//! A file that belongs to somebody else: read, kept a copy of, and written as a whole or not at all.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use crate::failure::Failure;

/// A file as it was read.
#[derive(Debug)]
pub(crate) struct File {
    /// Where it is looked for.
    pub(crate) path: PathBuf,
    /// Where it really is: links are followed, so that they stay.
    real: PathBuf,
    before: Option<Vec<u8>>,
}

impl File {
    /// Reads a file, or notes that there is none.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub(crate) fn read(path: PathBuf) -> Result<Self, Failure> {
        let real = followed(&path).map_err(|error| unreadable(&path, &error))?;
        let before = match fs::read(&real) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(&path, &error)),
        };
        Ok(Self { path, real, before })
    }

    pub(crate) fn exists(&self) -> bool {
        self.before.is_some()
    }

    /// Its name for notes: the same one however it is reached.
    pub(crate) fn key(&self) -> String {
        let directory = self.real.parent().and_then(|directory| fs::canonicalize(directory).ok());
        match (directory, self.real.file_name()) {
            (Some(directory), Some(name)) => directory.join(name),
            _ => self.real.clone(),
        }
        .to_string_lossy()
        .into_owned()
    }

    /// Its text; none if it does not exist.
    ///
    /// # Errors
    ///
    /// It is not UTF-8.
    pub(crate) fn text(&self) -> Result<&str, Failure> {
        std::str::from_utf8(self.before.as_deref().unwrap_or_default()).map_err(|error| {
            Failure::usage(format_args!(
                "`{}` is not UTF-8: byte {} is wrong",
                self.path.display(),
                error.valid_up_to() + 1
            ))
            .help("save it as UTF-8; nothing was changed")
        })
    }

    /// Replaces the file by a text, and keeps a copy of what it was. A new file can be kept from others.
    ///
    /// # Errors
    ///
    /// It has changed since it was read, or cannot be written.
    pub(crate) fn write(&self, text: &str, private: bool) -> Result<Written, Failure> {
        let failed = |error: io::Error| unwritable(&self.path, &error);
        let permissions = fs::metadata(&self.real).ok().map(|metadata| metadata.permissions());
        if permissions.as_ref().is_some_and(fs::Permissions::readonly) {
            return Err(Failure::usage(format_args!("`{}` is read-only", self.path.display()))
                .help("make it writable, or change it where it is made; `--dry-run` shows what to change"));
        }
        self.unchanged()?;
        let directory = self.real.parent().unwrap_or(Path::new("."));
        let directories = make(directory).map_err(failed)?;
        // In the same directory, since a file is replaced at once only within one file system.
        let mut new = temporary(directory, private).map_err(failed)?;
        new.write_all(text.as_bytes()).and_then(|()| new.as_file().sync_all()).map_err(failed)?;
        if let Some(permissions) = permissions {
            fs::set_permissions(new.path(), permissions).map_err(failed)?;
        }
        let backup = self.back_up()?;
        self.unchanged()?;
        new.persist(&self.real).map_err(|error| failed(error.error))?;
        Ok(Written { directories, backup })
    }

    /// Removes the file, and directories that are empty then.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub(crate) fn remove(&self, directories: &[PathBuf]) -> Result<(), Failure> {
        self.unchanged()?;
        fs::remove_file(&self.real).map_err(|error| unwritable(&self.path, &error))?;
        for directory in directories.iter().rev() {
            // One that has something in it by now is somebody's.
            let _ = fs::remove_dir(directory);
        }
        Ok(())
    }

    fn unchanged(&self) -> Result<(), Failure> {
        let now = match fs::read(&self.real) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(&self.path, &error)),
        };
        match now == self.before {
            true => Ok(()),
            false => {
                Err(Failure::usage(format_args!("`{}` was changed by another program meanwhile", self.path.display()))
                    .help("nothing was changed here; run this again"))
            }
        }
    }

    /// A copy beside the file, with the first name that is free; none if the last copy is the same.
    fn back_up(&self) -> Result<Option<PathBuf>, Failure> {
        let Some(before) = &self.before else { return Ok(None) };
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let numbered = |number: u32| match number {
            0 => self.path.with_file_name(format!("{name}.bak")),
            number => self.path.with_file_name(format!("{name}.bak{number}")),
        };
        let free = (0..).find(|number| fs::symlink_metadata(numbered(*number)).is_err()).unwrap_or_default();
        if let Some(last) = free.checked_sub(1).map(numbered)
            && fs::read(&last).is_ok_and(|bytes| bytes == *before)
        {
            return Ok(Some(last));
        }
        let backup = numbered(free);
        // `copy` keeps the permissions; the content is what was read, even if the file is another one by now.
        fs::copy(&self.real, &backup).map_err(|error| unwritable(&backup, &error))?;
        Ok(Some(backup))
    }
}

/// What came of writing.
#[derive(Debug)]
pub(crate) struct Written {
    /// Those that were made, the outermost first.
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) backup: Option<PathBuf>,
}

fn temporary(directory: &Path, private: bool) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    if !private {
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    }
    #[cfg(not(unix))]
    let _ = private;
    builder.prefix(".cargo-mcp-").tempfile_in(directory)
}

/// Where a path leads, though there may be nothing.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..40 {
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                let target = fs::read_link(&path)?;
                path = path.parent().unwrap_or(Path::new("")).join(target);
            }
            _ => return Ok(path),
        }
    }
    Err(io::Error::other("too many links"))
}

/// Makes a directory and those above it; gives those that were made, the outermost first.
fn make(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let missing: Vec<PathBuf> =
        directory.ancestors().take_while(|ancestor| !ancestor.exists()).map(Path::to_owned).collect();
    fs::create_dir_all(directory)?;
    Ok(missing.into_iter().rev().collect())
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format_args!("`{}` cannot be read: {error}", path.display()))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format_args!("`{}` cannot be written: {error}", path.display()))
        .help("nothing was changed; `--dry-run` shows what to change by hand")
}
