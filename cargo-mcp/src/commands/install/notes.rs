//! What was installed, and what was made for it: so that taking it out leaves the file as it was.
//!
//! A file after an installation does not tell whether its `"mcpServers": {}` was there before. It is noted which parts were put
//! in, by the white space around them: never what an entry says, which may be secret. Without notes, or when the file has been
//! written anew since, the entry alone is taken out.

use std::{
    collections::BTreeMap,
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::json::{Inserted, Seam};

/// The notes of all files.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Notes {
    files: BTreeMap<String, Noted>,
}

/// The notes of one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Noted {
    /// There was no such file.
    #[serde(default)]
    pub(crate) made: bool,
    /// The directories that were made for it.
    #[serde(default)]
    pub(crate) directories: Vec<PathBuf>,
    #[serde(default)]
    root: Option<Seam>,
    #[serde(default)]
    object: Option<Seam>,
    #[serde(default)]
    entries: BTreeMap<String, Seam>,
}

impl Notes {
    /// Reads the notes; there being none, or broken ones, is no reason to fail.
    pub(crate) fn read(path: &Path) -> Self {
        fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Writes the notes.
    ///
    /// # Errors
    ///
    /// The file system refuses.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        let mut new = tempfile::NamedTempFile::new_in(directory)?;
        new.write_all(&serde_json::to_vec_pretty(self)?)?;
        new.persist(path)?;
        Ok(())
    }

    /// The notes of a file.
    pub(crate) fn of(&self, key: &str) -> Option<&Noted> {
        self.files.get(key)
    }

    /// Notes an installation in a file that has some servers.
    pub(crate) fn add(
        &mut self,
        key: &str,
        name: &str,
        inserted: Inserted,
        made: Option<Vec<PathBuf>>,
        there: &[String],
    ) {
        let noted = self.files.entry(key.to_owned()).or_default();
        noted.entries.retain(|name, _| there.contains(name));
        if noted.entries.is_empty() {
            // Whatever was made then is the user's by now.
            *noted = Noted::default();
        }
        if let Some(directories) = made {
            noted.made = true;
            noted.directories = directories;
        }
        noted.root = inserted.root.or(noted.root.take());
        noted.object = inserted.object.or(noted.object.take());
        noted.entries.insert(name.to_owned(), inserted.entry);
    }

    /// Notes that an entry is gone; the one behind it may have to keep what came with it.
    pub(crate) fn drop(&mut self, key: &str, name: &str, next: Option<&str>) {
        let Some(noted) = self.files.get_mut(key) else { return };
        let gone = noted.entries.remove(name);
        if let (Some(gone), Some(next)) = (gone, next.and_then(|next| noted.entries.get_mut(next))) {
            *next = next.inherit(&gone);
        }
        if noted.entries.is_empty() {
            self.files.remove(key);
        }
    }
}

impl Noted {
    /// What was made for an entry, and for the file if nobody else's is in it.
    pub(crate) fn inserted(&self, name: &str) -> Option<Inserted> {
        let entry = self.entries.get(name)?.clone();
        Some(Inserted { root: self.root.clone(), object: self.object.clone(), entry })
    }
}
