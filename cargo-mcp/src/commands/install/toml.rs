//! Edits entries of a TOML file by splicing, so that every other byte stays unchanged.
//!
//! The parser reports the positions of tables. Its own editing is not used because it would turn CRLF into LF.

use std::ops::Range;

use serde_json::Value;
use toml_edit::{Document, Item, Key, TableLike, Value as Toml};

use super::{
    entry::{Entry, Field},
    insertion::Insertion,
    position::{DocumentError, newline},
};

/// Parses TOML.
///
/// # Errors
///
/// Fails if the text is not TOML.
pub(crate) fn parse(text: &str) -> Result<Value, DocumentError> {
    Ok(table(tree(text)?.as_table()))
}

fn tree(text: &str) -> Result<Document<&str>, DocumentError> {
    Document::parse(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        DocumentError::at(text, at, error.message().replace('\n', "; "))
    })
}

fn table(table: &dyn TableLike) -> Value {
    Value::Object(table.iter().map(|(key, item)| (key.to_owned(), value(item))).collect())
}

fn value(item: &Item) -> Value {
    if let Some(inner) = item.as_table_like() {
        return table(inner);
    }
    if let Some(tables) = item.as_array_of_tables() {
        return tables.iter().map(|inner| table(inner)).collect();
    }
    match item.as_value() {
        Some(Toml::String(text)) => text.value().as_str().into(),
        Some(Toml::Integer(number)) => (*number.value()).into(),
        Some(Toml::Float(number)) => (*number.value()).into(),
        Some(Toml::Boolean(flag)) => (*flag.value()).into(),
        Some(Toml::Datetime(time)) => time.value().to_string().into(),
        Some(Toml::Array(array)) => array.iter().map(|inner| value(&Item::Value(inner.clone()))).collect(),
        _ => Value::Null,
    }
}

/// Returns the names in a table of the root, in order.
///
/// # Errors
///
/// Fails if the text is invalid or the member `object` is not a table.
pub(crate) fn names(text: &str, object: &str) -> Result<Vec<String>, DocumentError> {
    let tree = tree(text)?;
    let Some(item) = tree.as_table().get(object) else { return Ok(Vec::new()) };
    match item.as_table_like() {
        Some(table) => Ok(table.iter().map(|(name, _)| name.to_owned()).collect()),
        None => {
            let at = item.span().map_or(0, |span| span.start);
            Err(DocumentError::at(text, at, format!("`{object}` is not a table")))
        }
    }
}

/// Appends a table.
///
/// # Errors
///
/// Fails if the text is invalid, or if the servers are written in a form that a table cannot be added to.
pub(crate) fn insert(
    text: &str,
    object: &str,
    name: &str,
    entry: &Entry,
) -> Result<(String, Insertion), DocumentError> {
    names(text, object)?;
    let newline = newline(text);
    let opening = match text {
        "" => String::new(),
        _ if text.ends_with(&newline.repeat(2)) => String::new(),
        _ if text.ends_with('\n') => newline.to_owned(),
        _ => newline.repeat(2),
    };
    let with = format!("{text}{opening}{}{newline}", block(object, name, entry, newline));
    match tree(&with) {
        Ok(_) => Ok((with, Insertion::new(opening, newline.to_owned()))),
        Err(_) => {
            let span = tree(text)?.as_table().get(object).and_then(Item::span);
            let message = format!("cannot add `[{object}.{name}]` to the inline table `{object}`");
            Err(DocumentError::at(text, span.map_or(0, |span| span.start), message))
        }
    }
}

/// Replaces a table.
///
/// # Errors
///
/// Fails as [`insert`] does.
pub(crate) fn replace(text: &str, object: &str, name: &str, entry: &Entry) -> Result<String, DocumentError> {
    let tree = tree(text)?;
    let segments = segments(text, &tree, object, name);
    let [first, others @ ..] = &*segments else { return Ok(text.to_owned()) };
    let newline = newline(text);
    let is_block = tree.as_table().get(object).and_then(|item| item.get(name)).is_some_and(Item::is_table)
        && text[first.clone()].starts_with('[');
    if !is_block {
        let rest = remove(text, object, name, None)?;
        return Ok(insert(&rest, object, name, entry)?.0);
    }
    let mut text = text.to_owned();
    for other in others.iter().rev() {
        text.replace_range(lines(&text, other), "");
    }
    text.replace_range(first.clone(), &block(object, name, entry, newline));
    Ok(text)
}

/// Removes a table.
///
/// # Errors
///
/// Fails if the text is invalid.
pub(crate) fn remove(
    text: &str,
    object: &str,
    name: &str,
    insertion: Option<&Insertion>,
) -> Result<String, DocumentError> {
    let tree = tree(text)?;
    let segments = segments(text, &tree, object, name);
    if let (Some(insertion), [only]) = (insertion, &*segments)
        && let Some(rest) = insertion.strip(&text[..only.start], &text[only.end..])
    {
        return Ok(rest);
    }
    let mut rest = text.to_owned();
    for segment in segments.iter().rev() {
        rest.replace_range(lines(&rest, segment), "");
    }
    Ok(rest)
}

/// Returns the ranges of strings under names for which `is_secret` returns `true`. Its second argument is whether the
/// value is a string.
pub(crate) fn secrets(text: &str, is_secret: fn(&str, bool) -> bool) -> Vec<Range<usize>> {
    fn walk(item: &Item, all: bool, is_secret: fn(&str, bool) -> bool, found: &mut Vec<Range<usize>>) {
        if let Some(table) = item.as_table_like() {
            for (name, item) in table.iter() {
                walk(item, all || is_secret(name, item.is_str()), is_secret, found);
            }
        } else if let Some(tables) = item.as_array_of_tables() {
            tables.iter().for_each(|table| walk(&Item::Table(table.clone()), all, is_secret, found));
        } else if let Some(array) = item.as_array() {
            array.iter().for_each(|value| walk(&Item::Value(value.clone()), all, is_secret, found));
        } else if all && item.is_str() {
            found.extend(item.span());
        }
    }
    let mut found = Vec::new();
    if let Ok(tree) = tree(text) {
        walk(tree.as_item(), false, is_secret, &mut found);
    }
    found.sort_by_key(|range| range.start);
    found
}

fn block(object: &str, name: &str, entry: &Entry, newline: &str) -> String {
    let mut lines = vec![format!("[{}.{}]", Key::new(object), Key::new(name))];
    lines.extend(entry.0.iter().map(|(key, field)| format!("{} = {}", Key::new(*key), format_field(field))));
    lines.join(newline)
}

fn format_field(field: &Field) -> String {
    // JSON's escapes are valid in TOML. TOML requires one more, for the control character that JSON does not escape.
    let text = |text: &String| Value::from(text.as_str()).to_string().replace('\u{7f}', "\\u007F");
    match field {
        Field::Text(value) => text(value),
        Field::List(list) => format!("[{}]", list.iter().map(text).collect::<Vec<_>>().join(", ")),
        Field::Table(table) => {
            let pairs = table.iter().map(|(name, value)| format!("{} = {}", Key::new(name), text(value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns the ranges of an entry, with adjacent tables merged.
fn segments(text: &str, tree: &Document<&str>, object: &str, name: &str) -> Vec<Range<usize>> {
    let Some(servers) = tree.as_table().get(object).and_then(Item::as_table_like) else { return Vec::new() };
    let mut found = Vec::new();
    if let Some((key, item)) = servers.get_key_value(name) {
        parts(key, item, &mut found);
    }
    found.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in found {
        match joined.last_mut() {
            Some(last) if text[last.end..range.start].trim().is_empty() => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

fn parts(key: &Key, item: &Item, found: &mut Vec<Range<usize>>) {
    match item {
        Item::Table(table) => {
            if !table.is_dotted() && !table.is_implicit() {
                found.extend(table.span());
            }
            for (name, _) in table.iter() {
                if let Some((key, item)) = table.get_key_value(name) {
                    parts(key, item, found);
                }
            }
        }
        Item::ArrayOfTables(tables) => {
            for table in tables.iter() {
                parts(key, &Item::Table(table.clone()), found);
            }
        }
        item => {
            if let (Some(key), Some(value)) = (key.span(), item.span()) {
                found.push(key.start..value.end);
            }
        }
    }
}

/// Extends a range to whole lines, including the empty line before them if an empty line or nothing follows.
fn lines(text: &str, range: &Range<usize>) -> Range<usize> {
    let start = text[..range.start].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[range.end..].find('\n').map_or(text.len(), |newline| range.end + newline + 1);
    let empty = |line: &str| line.trim().is_empty();
    let before = text[..start].trim_end_matches(['\r', '\n', ' ', '\t']).len();
    let before = text[before..start].find('\n').map_or(start, |newline| before + newline + 1);
    if before < start && text[end..].lines().next().is_none_or(empty) { before..end } else { start..end }
}
