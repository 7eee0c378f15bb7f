//! Records of installations, so that uninstalling restores the files.
//!
//! A configuration file does not show whether its `"mcpServers": {}` existed before an installation. The records
//! contain which parts were inserted and the white space around them, but never the content of an entry, which may be
//! secret. Without a record, or if the client has rewritten its file since, only the entry is removed.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::insertion::{EntryInsertion, Insertion};
use crate::{
    output::errln,
    temporary::{self, Access},
};

/// The records of all files.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Records {
    files: BTreeMap<String, FileRecord>,
}

/// The record of one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    /// Whether the file was created.
    #[serde(default, rename = "made")]
    pub(crate) created: bool,
    /// The directories that were created for it.
    #[serde(default, rename = "directories")]
    pub(crate) created_directories: Vec<PathBuf>,
    #[serde(default)]
    root: Option<Insertion>,
    #[serde(default)]
    object: Option<Insertion>,
    #[serde(default)]
    entries: BTreeMap<String, Insertion>,
}

impl Records {
    /// Reads the records. Missing or invalid records count as empty.
    pub(crate) fn read(path: &Path) -> Self {
        fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Writes the records. Prints a warning if that fails, since the records are optional.
    pub(crate) fn save(&self, path: &Path) {
        if let Err(error) = self.write(path) {
            errln!("warning: cannot record the changes in `{}`: {error}", path.display());
        }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        let mut new = temporary::file_in(directory, Access::Private)?;
        new.write_all(&serde_json::to_vec_pretty(self)?)?;
        new.persist(path)?;
        Ok(())
    }

    /// Returns the record of a file.
    pub(crate) fn get(&self, key: &str) -> Option<&FileRecord> {
        self.files.get(key)
    }

    /// Records an insertion. `created_directories` is set if the file was created; `existing` are the names of the
    /// other servers in it.
    pub(crate) fn add(
        &mut self,
        key: &str,
        name: &str,
        inserted: EntryInsertion,
        created_directories: Option<Vec<PathBuf>>,
        existing: &[String],
    ) {
        let record = self.files.entry(key.to_owned()).or_default();
        record.entries.retain(|name, _| existing.contains(name));
        if record.entries.is_empty() {
            // Other programs have removed all recorded entries, so the rest of the insertions belongs to the user.
            *record = FileRecord::default();
        }
        if let Some(directories) = created_directories {
            record.created = true;
            record.created_directories = directories;
        }
        record.root = inserted.root.or(record.root.take());
        record.object = inserted.object.or(record.object.take());
        record.entries.insert(name.to_owned(), inserted.entry);
    }

    /// Removes the record of an entry. `next` is the entry after it, whose recorded insertion then includes the removed
    /// one.
    pub(crate) fn remove(&mut self, key: &str, name: &str, next: Option<&str>) {
        let Some(record) = self.files.get_mut(key) else { return };
        let removed = record.entries.remove(name);
        if let (Some(removed), Some(next)) = (removed, next.and_then(|next| record.entries.get_mut(next))) {
            *next = next.inherit(&removed);
        }
        if record.entries.is_empty() {
            self.files.remove(key);
        }
    }
}

impl FileRecord {
    /// Returns the recorded insertion of an entry.
    pub(crate) fn inserted(&self, name: &str) -> Option<EntryInsertion> {
        let entry = self.entries.get(name)?.clone();
        Some(EntryInsertion { root: self.root.clone(), object: self.object.clone(), entry })
    }
}
