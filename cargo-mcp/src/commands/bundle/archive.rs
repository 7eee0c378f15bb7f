//! Zip archives that depend on nothing but what is in them.

use std::{
    fs,
    io::{self, Cursor, Write as _},
    path::Path,
};

use zip::{CompressionMethod, DateTime, ZipWriter, write::SimpleFileOptions};

/// A file in an archive.
pub(super) struct File {
    /// With slashes.
    pub(super) path: String,
    /// The permissions of Unix.
    pub(super) mode: u32,
    pub(super) content: Vec<u8>,
}

/// Writes an archive, whole or not at all, and gives its size.
pub(super) fn write(path: &Path, files: &[File]) -> io::Result<u64> {
    let archive = archive(files)?;
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    fs::write(&partial, &archive)?;
    if let Err(error) = fs::rename(&partial, path) {
        let _ = fs::remove_file(&partial);
        return Err(error);
    }
    Ok(archive.len() as u64)
}

fn archive(files: &[File]) -> io::Result<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for file in files {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            // The first moment that the format knows, so that the same files are the same archive.
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

    use super::{File, archive};

    #[test]
    fn the_same_files_are_the_same_archive() {
        let files = || {
            [("manifest.json", 0o644, "{}"), ("server/notes", 0o755, "program")].map(|(path, mode, content)| File {
                path: path.to_owned(),
                mode,
                content: content.into(),
            })
        };
        let first = archive(&files()).expect("it is written");
        assert_eq!(first, archive(&files()).expect("it is written"));
        let mut zip = zip::ZipArchive::new(Cursor::new(first)).expect("it is a zip");
        let mut read = |at| {
            let mut file = zip.by_index(at).expect("it is there");
            let mut text = String::new();
            file.read_to_string(&mut text).expect("it is text");
            let day = file.last_modified().expect("it has a time");
            (
                file.name().expect("it has a name").into_owned(),
                file.unix_mode().map(|mode| mode & 0o777),
                text,
                (day.year(), day.month(), day.day()),
            )
        };
        assert_eq!(read(0), ("manifest.json".to_owned(), Some(0o644), "{}".to_owned(), (1980, 1, 1)));
        assert_eq!(read(1), ("server/notes".to_owned(), Some(0o755), "program".to_owned(), (1980, 1, 1)));
    }
}
