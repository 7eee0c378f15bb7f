//! Reports the URL of an HTTP server: on stderr for people, in a file for programs.

use std::{
    env,
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use super::package::Package;
use crate::{random, stderr};

/// The environment variable that names the file to which the endpoint's URL is written once the server accepts
/// connections.
const ADDRESS_FILE: &str = "MCP_ADDRESS_FILE";

/// Reports the URL of the endpoint.
///
/// # Errors
///
/// Returns an error if `MCP_ADDRESS_FILE` is set and the file cannot be written.
pub(super) fn report(package: &Package, url: &str) -> io::Result<()> {
    let line = format!("{} listens on {url}\n", package.name);
    stderr::writer().push(line.as_bytes());
    let Some(file) = env::var_os(ADDRESS_FILE).filter(|file| !file.is_empty()) else { return Ok(()) };
    write(file.as_ref(), url).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot write the file that `{ADDRESS_FILE}` names: {error}"))
    })
}

/// Replaces the file atomically, so that a reader never sees a partial URL.
fn write(file: &Path, url: &str) -> io::Result<()> {
    let Some(id) = random::id() else { return Err(io::Error::other("the operating system provides no random bytes")) };
    // The name is unpredictable, so no other user can create a symbolic link with that name in advance.
    let temporary = file.with_file_name(format!(".mcp-address-{id}"));
    let mut output = File::create_new(&temporary)?;
    let written = writeln!(output, "{url}");
    drop(output);
    let replaced = written.and_then(|()| fs::rename(&temporary, file));
    if replaced.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_file_changes() {
        let directory = env::temp_dir().join(random::id().expect("random bytes"));
        fs::create_dir_all(directory.join("directory")).unwrap();
        for (name, content) in [("existing", "old"), ("existing.tmp", "other"), ("new.tmp", "other")] {
            fs::write(directory.join(name), content).unwrap();
        }
        let results =
            ["existing", "new", "directory", "missing/new"].map(|name| write(&directory.join(name), "url").is_ok());
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
