//! The content of results and messages: text is printed, binary data is saved to files.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use rmcp::model::{ContentBlock, Resource, ResourceContents};

use crate::{
    failure::Failure,
    output::{DIM, NAME, errln, outln, sanitized},
};

/// The files for images, audio and other binary data.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    directory: PathBuf,
    stem: String,
}

impl Files {
    /// Creates files in `directory`, or in the current directory, with names that start with `name`.
    pub(crate) fn new(directory: Option<&Path>, name: &str) -> Self {
        Self { directory: directory.unwrap_or(Path::new("")).to_owned(), stem: stem(name) }
    }

    /// Prints or saves a content block.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written.
    pub(crate) fn print(&self, content: &ContentBlock) -> Result<(), Failure> {
        match content {
            ContentBlock::Text(text) => outln!("{}", text.text),
            ContentBlock::Image(image) => self.save(&image.data, &image.mime_type)?,
            ContentBlock::Audio(audio) => self.save(&audio.data, &audio.mime_type)?,
            ContentBlock::Resource(embedded) => self.print_resource(&embedded.resource)?,
            ContentBlock::ResourceLink(link) => outln!("{}", describe_link(link)),
            _ => errln!("unsupported content in the result; `--raw` shows it"),
        }
        Ok(())
    }

    fn print_resource(&self, resource: &ResourceContents) -> Result<(), Failure> {
        match resource {
            ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                let kind = mime_type.as_deref().map(|kind| format!(" ({kind})")).unwrap_or_default();
                outln!("{DIM}{uri}{kind}:{DIM:#}\n{text}");
                Ok(())
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                outln!("{DIM}{uri}{DIM:#}");
                self.save(blob, mime_type.as_deref().unwrap_or_default())
            }
            _ => Ok(()),
        }
    }

    fn save(&self, base64: &str, mime: &str) -> Result<(), Failure> {
        let path = self.write(&decode_base64(base64)?, mime)?;
        errln!("saved {}", path.display());
        Ok(())
    }

    /// Writes a file with an unused name. Returns its path.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub(crate) fn write(&self, bytes: &[u8], mime: &str) -> Result<PathBuf, Failure> {
        fs::create_dir_all(&self.directory).map_err(|error| unwritable(&self.directory, &error))?;
        for number in 1.. {
            let path = self.directory.join(format!("{}-{number}.{}", self.stem, extension(mime)));
            match write_new(&path, bytes) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(unwritable(&path, &error)),
                Ok(()) => return Ok(path),
            }
        }
        Err(Failure::usage("no unused file name left"))
    }
}

/// Creates a file.
///
/// # Errors
///
/// Fails if the file exists or cannot be written.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(bytes)
}

pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::usage(format_args!("`{}` already exists", path.display()))
            .help("existing files are not overwritten; specify another file or a directory"),
        _ => Failure::usage(format_args!("cannot write `{}`: {error}", path.display())),
    }
}

/// Decodes Base64, with or without padding.
///
/// # Errors
///
/// Fails if the text is not Base64.
pub(crate) fn decode_base64(base64: &str) -> Result<Vec<u8>, Failure> {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let decoded = GeneralPurpose::new(&STANDARD, config).decode(base64.trim());
    decoded.map_err(|error| Failure::tool(format_args!("the server sent invalid Base64: {error}")))
}

fn describe_link(link: &Resource) -> String {
    let title = link.title.as_deref().unwrap_or(&link.name);
    let kind = link.mime_type.as_deref().map(|kind| format!("  {DIM}[{kind}]{DIM:#}")).unwrap_or_default();
    format!("{NAME}{}{NAME:#}  {title}{kind}", link.uri)
}

/// Converts a name to a valid file name.
fn stem(name: &str) -> String {
    sanitized(name, 80, char::is_alphanumeric).unwrap_or_else(|| "content".to_owned())
}

fn extension(mime: &str) -> &str {
    let mime = mime.split(';').next().unwrap_or_default().trim();
    match mime {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "image/bmp" => "bmp",
        "image/avif" => "avif",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/ogg" => "ogg",
        "audio/flac" => "flac",
        "audio/mp4" | "audio/aac" => "m4a",
        "video/mp4" => "mp4",
        "application/pdf" => "pdf",
        "application/zip" => "zip",
        "application/gzip" => "gz",
        "application/json" => "json",
        "text/plain" => "txt",
        "text/html" => "html",
        "text/csv" => "csv",
        "text/markdown" => "md",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::{Files, decode_base64, extension, stem};

    #[test]
    fn file_names_are_sanitized() {
        for (name, safe) in [
            ("picture", "picture"),
            ("../../etc/passwd", "etc-passwd"),
            ("test://static-binary", "test---static-binary"),
            ("a b\n", "a-b"),
            ("...", "content"),
            (&"a".repeat(81), &"a".repeat(80)),
        ] {
            assert_eq!(stem(name), safe);
        }
        assert_eq!(extension("image/png; charset=x"), "png");
        assert_eq!(extension("../x"), "bin");
    }

    #[test]
    fn existing_files_are_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::new(Some(&directory.path().join("new")), "picture");
        let first = files.write(b"1", "image/png").unwrap();
        let second = files.write(b"2", "image/png").unwrap();
        assert_eq!(first, directory.path().join("new/picture-1.png"));
        assert_eq!(second, directory.path().join("new/picture-2.png"));
        assert_eq!(std::fs::read(first).unwrap(), b"1");
    }

    #[test]
    fn base64_padding_is_optional() {
        assert_eq!(decode_base64("YQ==").unwrap(), b"a");
        assert_eq!(decode_base64("YQ").unwrap(), b"a");
        assert_eq!(decode_base64("YQ==\n").unwrap(), b"a");
        assert!(decode_base64("Y*").is_err());
    }
}
