//! A file that belongs to another program: it is backed up and replaced atomically.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use similar::TextDiff;

use crate::{
    failure::Failure,
    output::{AnsiColor, Style, outln},
    temporary::{self, Access},
};

/// A file and its content when it was read.
#[derive(Debug)]
pub(crate) struct File {
    /// The path as given.
    pub(crate) path: PathBuf,
    /// The path with symbolic links resolved, so that writing preserves the links.
    real: PathBuf,
    before: Option<Vec<u8>>,
}

impl File {
    /// Reads a file, which need not exist.
    ///
    /// # Errors
    ///
    /// Fails if an existing file cannot be read.
    pub(crate) fn read(path: PathBuf) -> Result<Self, Failure> {
        let real = resolve_links(&path).map_err(|error| unreadable(&path, &error))?;
        let before = read_existing(&real).map_err(|error| unreadable(&path, &error))?;
        Ok(Self { path, real, before })
    }

    pub(crate) fn exists(&self) -> bool {
        self.before.is_some()
    }

    /// Returns the text of the file; empty if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the file is not UTF-8.
    pub(crate) fn text(&self) -> Result<&str, Failure> {
        std::str::from_utf8(self.before.as_deref().unwrap_or_default()).map_err(|error| {
            Failure::usage(format_args!(
                "`{}` is not valid UTF-8: invalid byte at offset {}",
                self.path.display(),
                error.valid_up_to()
            ))
            .help("save the file as UTF-8; nothing was changed")
        })
    }

    /// Backs up the file and replaces its content. `access` applies to a new file. Returns the path of the backup.
    ///
    /// # Errors
    ///
    /// Fails if the file has changed since it was read, or cannot be written.
    pub(crate) fn write(&self, text: &str, access: Access) -> Result<Option<PathBuf>, Failure> {
        let failed = |error: io::Error| unwritable(&self.path, &error);
        let permissions = fs::metadata(&self.real).ok().map(|metadata| metadata.permissions());
        if permissions.as_ref().is_some_and(fs::Permissions::readonly) {
            return Err(Failure::usage(format_args!("`{}` is read-only", self.path.display()))
                .help("make it writable, or edit the source it is generated from; `--dry-run` shows the changes"));
        }
        self.check_unchanged()?;
        let directory = self.real.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory).map_err(failed)?;
        // An existing file may be more private than `access`, so no other user can read its replacement before that
        // receives the same permissions.
        let access = if permissions.is_some() { Access::Private } else { access };
        let mut new = temporary::file_in(directory, access).map_err(failed)?;
        new.write_all(text.as_bytes()).and_then(|()| new.as_file().sync_all()).map_err(failed)?;
        if let Some(permissions) = permissions {
            fs::set_permissions(new.path(), permissions).map_err(failed)?;
        }
        let backup = self.back_up()?;
        self.check_unchanged()?;
        let persisted = if self.exists() { new.persist(&self.real) } else { new.persist_noclobber(&self.real) };
        persisted.map_err(|error| failed(error.error))?;
        Ok(backup)
    }

    /// Prints a unified diff of the file.
    pub(crate) fn print_diff(&self, before: &str, after: &str) {
        let path = self.path.display();
        if before == after {
            outln!("--- {path}\n    only masked values differ");
            return;
        }
        let old = if self.exists() { path.to_string() } else { "/dev/null".to_owned() };
        let diff = TextDiff::from_lines(before, after);
        let text = diff.unified_diff().context_radius(3).header(&old, &path.to_string()).to_string();
        for line in text.lines() {
            let line = line.trim_end_matches('\r');
            let style = match line.as_bytes() {
                [b'+', ..] => Style::color(AnsiColor::Green),
                [b'-', ..] => Style::color(AnsiColor::Red),
                [b'@', ..] => Style::color(AnsiColor::Cyan),
                _ => Style::NONE,
            };
            outln!("{style}{line}{style:#}");
        }
    }

    fn check_unchanged(&self) -> Result<(), Failure> {
        if read_existing(&self.real).map_err(|error| unreadable(&self.path, &error))? == self.before {
            return Ok(());
        }
        Err(Failure::usage(format_args!("`{}` was changed by another program in the meantime", self.path.display()))
            .help("run the command again; the file was not changed"))
    }

    /// Copies the file to the first free name next to it. Returns the last copy instead if that is identical.
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
        // `copy` preserves the permissions.
        fs::copy(&self.real, &backup).map_err(|error| unwritable(&backup, &error))?;
        Ok(Some(backup))
    }
}

/// Resolves symbolic links. The target need not exist.
fn resolve_links(path: &Path) -> io::Result<PathBuf> {
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
    Err(io::Error::other("too many symbolic links"))
}

/// Reads a file. Returns `None` if it does not exist.
fn read_existing(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format_args!("cannot read `{}`: {error}", path.display()))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format_args!("cannot write `{}`: {error}", path.display()))
        .help("the file was not changed; `--dry-run` shows the changes, to be made manually")
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::{Access, File};

    /// While the new content is written, it is in a temporary file. Writing takes long enough to look at this file.
    #[test]
    fn the_replacement_of_a_private_file_is_private_from_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mcp.json");
        fs::write(&path, "{}").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let file = File::read(path).unwrap();
        let text = "x".repeat(16 << 20);
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| file.write(&text, Access::Default));
            while !writing.is_finished() {
                for entry in fs::read_dir(directory.path()).unwrap() {
                    // A temporary file may disappear meanwhile.
                    let Ok(metadata) = entry.and_then(|entry| entry.metadata()) else { continue };
                    assert_eq!(metadata.permissions().mode() & 0o077, 0, "other users can read the content");
                }
            }
            writing.join().unwrap().unwrap();
        });
    }
}
