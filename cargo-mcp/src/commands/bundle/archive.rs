//! Reproducible zip archives.

use std::{
    io::{self, Cursor, Write as _},
    path::Path,
};

use zip::{CompressionMethod, DateTime, ZipWriter, write::SimpleFileOptions};

use crate::temporary::{self, Access};

/// A file in an archive.
pub(super) struct ArchiveFile {
    /// The path in the archive, with slashes.
    pub(super) path: String,
    /// The Unix permissions.
    pub(super) mode: u32,
    pub(super) content: Vec<u8>,
}

/// Writes an archive atomically. Returns its size in bytes.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub(super) fn write(path: &Path, files: &[ArchiveFile]) -> io::Result<u64> {
    let archive = archive(files)?;
    let mut new = temporary::file_in(path.parent().unwrap_or(Path::new(".")), Access::Default)?;
    new.write_all(&archive)?;
    new.persist(path)?;
    Ok(archive.len() as u64)
}

fn archive(files: &[ArchiveFile]) -> io::Result<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for file in files {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            // The earliest time of the format, so that the archive depends only on the content of its files.
            .last_modified_time(DateTime::default())
            .unix_permissions(file.mode);
        zip.start_file(&*file.path, options)?;
        zip.write_all(&file.content)?;
    }
    Ok(zip.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read as _};

    use super::{ArchiveFile, archive};

    #[test]
    fn archives_are_reproducible() {
        let files = || {
            [("manifest.json", 0o644, "{}"), ("server/notes", 0o755, "program")]
                .map(|(path, mode, content)| ArchiveFile { path: path.to_owned(), mode, content: content.into() })
        };
        let first = archive(&files()).expect("the archive is created");
        assert_eq!(first, archive(&files()).expect("the archive is created"));
        let mut zip = zip::ZipArchive::new(Cursor::new(first)).expect("a zip archive");
        let mut read = |at| {
            let mut file = zip.by_index(at).expect("the file exists");
            let mut text = String::new();
            file.read_to_string(&mut text).expect("the content is text");
            let day = file.last_modified().expect("the file has a time");
            (
                file.name().expect("the file has a name").into_owned(),
                file.unix_mode().map(|mode| mode & 0o777),
                text,
                (day.year(), day.month(), day.day()),
            )
        };
        assert_eq!(read(0), ("manifest.json".to_owned(), Some(0o644), "{}".to_owned(), (1980, 1, 1)));
        assert_eq!(read(1), ("server/notes".to_owned(), Some(0o755), "program".to_owned(), (1980, 1, 1)));
    }
}
