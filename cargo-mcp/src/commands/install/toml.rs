//! Edits TOML with `toml_edit`, which keeps comments and order.

use serde_json::Value;
use toml_edit::{DocumentMut, Item, RawString, Table, TableLike, Value as Toml};

use super::entry::{DocumentError, Entry, is_secret};

/// The end of the header of a table that is removed without the comments above it.
const REMOVED: &str = "# removed by cargo-mcp";

/// Parses TOML.
///
/// # Errors
///
/// Fails if the text is not TOML, or if the member `object` is not a table.
pub(super) fn parse(text: &str, object: &str) -> Result<Value, DocumentError> {
    let tree = toml_edit::Document::parse(text.to_owned()).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        DocumentError::at(text, at, error.message().replace('\n', "; "))
    })?;
    match tree.get(object) {
        Some(item) if !item.is_table_like() => {
            let at = item.span().map_or(0, |span| span.start);
            Err(DocumentError::at(text, at, format!("`{object}` is not a table")))
        }
        _ => toml_edit::de::from_document(tree).map_err(|error| DocumentError::at(text, 0, error.message())),
    }
}

/// Inserts, replaces or, without an entry, removes a table in the table called `object`. Returns `None` if the text has
/// no place for it.
pub(super) fn set(text: &str, object: &str, name: &str, entry: Option<&Entry>) -> Option<String> {
    let mut tree: DocumentMut = text.replace("\r\n", "\n").parse().ok()?;
    let mut implicit = Table::new();
    implicit.set_implicit(true);
    let servers = tree.entry(object).or_insert(Item::Table(implicit)).as_table_like_mut()?;
    match (servers.get_mut(name).and_then(Item::as_table_like_mut), entry) {
        (Some(server), Some(entry)) => {
            server.clear();
            entry.0.iter().for_each(|(key, value)| drop(server.insert(key, toml(value).into())));
        }
        (None, Some(entry)) => {
            let table: Table = entry.0.iter().map(|(key, value)| (key, toml(value))).collect();
            servers.insert(name, Item::Table(table));
        }
        (_, None) => match servers.get_mut(name).and_then(Item::as_table_mut) {
            // The comments above the entry may be about what follows, or about the whole file.
            Some(server) if server.decor().prefix().and_then(RawString::as_str).is_some_and(|it| it.contains('#')) => {
                server.clear();
                server.decor_mut().set_suffix(REMOVED);
            }
            _ => drop(servers.remove(name)),
        },
    }
    let written = tree.to_string();
    let written: String = written.split_inclusive('\n').filter(|line| !line.trim_end().ends_with(REMOVED)).collect();
    Some(if text.contains("\r\n") { written.replace('\n', "\r\n") } else { written })
}

fn toml(value: &Value) -> Toml {
    match value {
        Value::Array(list) => list.iter().map(toml).collect(),
        Value::Object(map) => map.iter().map(|(name, value)| (name, toml(value))).collect(),
        // JSON's escapes are valid in TOML, which requires one more. Other forms of strings contain line breaks.
        text => {
            let escaped = text.to_string().replace('\u{7f}', "\\u007F");
            escaped.parse().unwrap_or_else(|_| text.as_str().unwrap_or_default().into())
        }
    }
}

/// Returns the text with `***` in place of possible secrets.
pub(super) fn masked(text: &str) -> String {
    fn mask_table(table: &mut dyn TableLike, all: bool) {
        for (name, item) in table.iter_mut() {
            let all = all || is_secret(&name, item.is_str());
            if let Some(tables) = item.as_array_of_tables_mut() {
                tables.iter_mut().for_each(|table| mask_table(table, all));
            } else if let Some(table) = item.as_table_like_mut() {
                mask_table(table, all);
            } else if let Some(value) = item.as_value_mut() {
                mask(value, all);
            }
        }
    }
    fn mask(value: &mut Toml, all: bool) {
        if let Some(table) = value.as_inline_table_mut() {
            mask_table(table, all);
        } else if let Some(array) = value.as_array_mut() {
            array.iter_mut().for_each(|value| mask(value, all));
        } else if all && value.is_str() {
            let decor = value.decor().clone();
            *value = "***".into();
            *value.decor_mut() = decor;
        }
    }
    let Ok(mut tree) = text.parse::<DocumentMut>() else { return String::new() };
    mask_table(tree.as_table_mut(), false);
    tree.to_string()
}
