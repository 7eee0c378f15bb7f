//! The notes, in one SQLite file.

use std::{
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rusqlite::{Connection, OptionalExtension as _, Result, Row, params};
use schemars::JsonSchema;
use serde::Serialize;

/// One note.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Note {
    /// The number of the note.
    pub(crate) id: i64,
    /// The title.
    pub(crate) title: String,
    /// The text, in Markdown.
    pub(crate) body: String,
    /// The labels.
    pub(crate) tags: Vec<String>,
    /// The time of creation, in UTC.
    pub(crate) created: String,
}

/// The size of the notebook.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Counts {
    /// The number of notes.
    notes: u32,
    /// The number of distinct labels.
    tags: u32,
}

/// The notebook.
pub(crate) struct Store {
    connection: Mutex<Connection>,
}

/// The query for the columns of a note. The labels are joined by line breaks, which labels cannot contain.
const NOTES: &str = "SELECT id, title, body, created,
        (SELECT group_concat(tag, char(10)) FROM (SELECT tag FROM tags WHERE note = id ORDER BY tag)) FROM notes";

impl Store {
    pub(crate) fn open(file: &Path) -> Result<Self> {
        let connection = Connection::open(file)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA foreign_keys = ON;
             CREATE TABLE IF NOT EXISTS notes (
                 id INTEGER PRIMARY KEY AUTOINCREMENT,
                 title TEXT NOT NULL,
                 body TEXT NOT NULL,
                 created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
             );
             CREATE TABLE IF NOT EXISTS tags (
                 note INTEGER NOT NULL REFERENCES notes (id) ON DELETE CASCADE,
                 tag TEXT NOT NULL,
                 PRIMARY KEY (note, tag)
             );",
        )?;
        Ok(Self { connection: Mutex::new(connection) })
    }

    pub(crate) fn add(&self, title: &str, body: &str, tags: Vec<String>) -> Result<Note> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        transaction.execute("INSERT INTO notes (title, body) VALUES (?1, ?2)", [title, body])?;
        let id = transaction.last_insert_rowid();
        for tag in &tags {
            transaction.execute("INSERT OR IGNORE INTO tags (note, tag) VALUES (?1, ?2)", params![id, tag])?;
        }
        let note = transaction.query_row(&format!("{NOTES} WHERE id = ?1"), [id], read_note)?;
        transaction.commit()?;
        Ok(note)
    }

    pub(crate) fn get(&self, id: i64) -> Result<Option<Note>> {
        self.connection().query_row(&format!("{NOTES} WHERE id = ?1"), [id], read_note).optional()
    }

    pub(crate) fn all(&self) -> Result<Vec<Note>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(&format!("{NOTES} ORDER BY id"))?;
        statement.query_map([], read_note)?.collect()
    }

    pub(crate) fn search(&self, text: &str, tag: Option<&str>, limit: u32) -> Result<Vec<Note>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(&format!(
            "{NOTES}
             WHERE (instr(lower(title), lower(?1)) > 0 OR instr(lower(body), lower(?1)) > 0 OR ?1 = '')
               AND (?2 IS NULL OR EXISTS (SELECT 1 FROM tags WHERE note = id AND tag = ?2))
             ORDER BY id DESC LIMIT ?3"
        ))?;
        statement.query_map(params![text, tag, limit], read_note)?.collect()
    }

    pub(crate) fn delete(&self, id: i64) -> Result<bool> {
        self.connection().execute("DELETE FROM notes WHERE id = ?1", [id]).map(|deleted| deleted > 0)
    }

    pub(crate) fn tags(&self, prefix: &str) -> Result<Vec<String>> {
        let connection = self.connection();
        let mut statement = connection
            .prepare_cached("SELECT DISTINCT tag FROM tags WHERE substr(tag, 1, length(?1)) = ?1 ORDER BY tag")?;
        statement.query_map([prefix], |row| row.get(0))?.collect()
    }

    pub(crate) fn counts(&self) -> Result<Counts> {
        self.connection().query_row(
            "SELECT (SELECT count(*) FROM notes), (SELECT count(DISTINCT tag) FROM tags)",
            [],
            |row| Ok(Counts { notes: row.get(0)?, tags: row.get(1)? }),
        )
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_note(row: &Row<'_>) -> Result<Note> {
    let tags: Option<String> = row.get(4)?;
    Ok(Note {
        id: row.get(0)?,
        title: row.get(1)?,
        body: row.get(2)?,
        created: row.get(3)?,
        tags: tags.map(|tags| tags.lines().map(str::to_owned).collect()).unwrap_or_default(),
    })
}
