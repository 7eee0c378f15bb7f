//! Edits entries of a JSON file by splicing, so that every other byte stays unchanged.
//!
//! The parser reports the positions of values, and nothing that exists is formatted again. An insertion consists of one
//! property with the white space and commas around it, which an [`Insertion`](super::insertion::Insertion) records so
//! that they can be removed.
//!
//! `jsonc-parser` has an editable syntax tree of its own (feature `cst`). It was tried: inserting an entry and removing
//! it again changes 140 of the 280 texts (those without a byte order mark) of the test
//! `removing_an_inserted_entry_restores_the_text`, and 1946 of the 3000 texts of
//! `removing_an_entry_restores_generated_texts`: `append` and `remove` reformat white space and move comments.

mod edit;
mod style;
mod trivia;

use std::ops;

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{self, Object, ObjectProp},
    common::Ranged,
};
use serde::Serialize;
use serde_json::Value;

use self::{
    edit::{insert_property, insert_root, remove_property, remove_root, splice},
    style::Style,
    trivia::indentation,
};
use super::{insertion::EntryInsertion, position::DocumentError};

/// Parses JSON with comments and trailing commas. Returns `None` for a text without a value.
///
/// # Errors
///
/// Fails if the text is not JSON or not an object.
pub(crate) fn parse(text: &str) -> Result<Option<Value>, DocumentError> {
    let value = tree(text)?;
    if let Some(value) = &value
        && value.as_object().is_none()
    {
        return Err(DocumentError::at(text, value.start(), "expected an object"));
    }
    Ok(value.map(Value::from))
}

/// Returns the first syntax that [`parse`] accepts and plain JSON does not allow.
pub(crate) fn extended_syntax(text: &str) -> Option<DocumentError> {
    let strict = ParseOptions { allow_comments: false, allow_trailing_commas: false, ..options() };
    let error = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &strict).err()?;
    Some(DocumentError::at(text, error.range().start, lower(&error.kind().to_string())))
}

fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn tree(text: &str) -> Result<Option<ast::Value<'_>>, DocumentError> {
    match jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &options()) {
        Ok(parsed) => Ok(parsed.value),
        Err(error) => Err(DocumentError::at(text, error.range().start, lower(&error.kind().to_string()))),
    }
}

fn lower(message: &str) -> String {
    let mut letters = message.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// Inserts a property into an object of the root. Creates the object and the root if necessary.
///
/// # Errors
///
/// Fails if the text is invalid or the member `object` is not an object.
pub(crate) fn insert(
    text: &str,
    object: &str,
    name: &str,
    value: &impl Serialize,
) -> Result<(String, EntryInsertion), DocumentError> {
    let mut text = text.to_owned();
    let mut inserted = EntryInsertion::default();
    if tree(&text)?.is_none() {
        let (with, insertion) = insert_root(&text);
        (text, inserted.root) = (with, Some(insertion));
    }
    if !has(&text, object)? {
        let root = root(&text)?;
        let style = Style::of(&text, &root);
        let (with, insertion) = insert_property(&text, &root, &style, object, &serde_json::Map::new());
        (text, inserted.object) = (with, Some(insertion));
    }
    let style = Style::of(&text, &root(&text)?);
    let (text, insertion) = insert_property(&text, &servers(&text, object)?, &style, name, value);
    inserted.entry = insertion;
    Ok((text, inserted))
}

/// Replaces the value of a property.
///
/// # Errors
///
/// Fails as [`insert`] does.
pub(crate) fn replace(text: &str, object: &str, name: &str, value: &impl Serialize) -> Result<String, DocumentError> {
    let servers = servers(text, object)?;
    let Some(at) = position(&servers, name) else { return Ok(text.to_owned()) };
    let range = servers.properties[at].value.range();
    let printed = Style::of(text, &root(text)?).print(value, &indentation(text, range.start));
    Ok(splice(text, range, &printed))
}

/// Removes a property, and the objects that were created for it if they are empty now.
///
/// # Errors
///
/// Fails as [`insert`] does.
pub(crate) fn remove(
    text: &str,
    object: &str,
    name: &str,
    inserted: Option<&EntryInsertion>,
) -> Result<String, DocumentError> {
    let servers = servers(text, object)?;
    let Some(at) = position(&servers, name) else { return Ok(text.to_owned()) };
    let mut text = remove_property(text, &servers, at, inserted.map(|inserted| &inserted.entry));
    let Some(inserted) = inserted else { return Ok(text) };
    if let Some(insertion) = &inserted.object {
        let root = root(&text)?;
        if let Some(at) = position(&root, object)
            && root.properties[at].value.text(&text) == "{}"
        {
            text = remove_property(&text, &root, at, Some(insertion));
        }
    }
    if let Some(insertion) = &inserted.root {
        let root = root(&text)?;
        if root.text(&text) == "{}" {
            text = remove_root(&text, root.range, insertion);
        }
    }
    Ok(text)
}

/// Returns the names of the properties of an object of the root, in order.
///
/// # Errors
///
/// Fails as [`insert`] does.
pub(crate) fn names(text: &str, object: &str) -> Result<Vec<String>, DocumentError> {
    if !has(text, object)? {
        return Ok(Vec::new());
    }
    let servers = servers(text, object)?;
    Ok(servers.properties.iter().map(|property| property.name.as_str().to_owned()).collect())
}

/// Returns the ranges of strings under names for which `is_secret` returns `true`. Its second argument is whether the
/// value is a string.
pub(crate) fn secrets(text: &str, is_secret: fn(&str, bool) -> bool) -> Vec<ops::Range<usize>> {
    fn walk(value: &ast::Value<'_>, all: bool, is_secret: fn(&str, bool) -> bool, found: &mut Vec<ops::Range<usize>>) {
        match value {
            ast::Value::Object(object) => {
                for property in &object.properties {
                    let is_text = property.value.as_string_lit().is_some();
                    let below = all || is_secret(property.name.as_str(), is_text);
                    walk(&property.value, below, is_secret, found);
                }
            }
            ast::Value::Array(array) => array.elements.iter().for_each(|value| walk(value, all, is_secret, found)),
            ast::Value::StringLit(text) if all => found.push(text.range.start..text.range.end),
            _ => {}
        }
    }
    let mut found = Vec::new();
    if let Ok(Some(value)) = tree(text) {
        walk(&value, false, is_secret, &mut found);
    }
    found
}

fn root(text: &str) -> Result<Object<'_>, DocumentError> {
    match tree(text)? {
        Some(ast::Value::Object(root)) => Ok(root),
        Some(other) => Err(DocumentError::at(text, other.start(), "expected an object")),
        None => Err(DocumentError::at(text, text.len(), "expected an object")),
    }
}

/// Returns the object called `name`, which contains the servers.
fn servers<'a>(text: &'a str, name: &str) -> Result<Object<'a>, DocumentError> {
    let mut root = root(text)?;
    let is_match = |property: &ObjectProp<'_>| property.name.as_str() == name;
    if let Some(second) = root.properties.iter().filter(|property| is_match(property)).nth(1) {
        return Err(DocumentError::at(text, second.range.start, format!("duplicate `{name}`")));
    }
    let Some(at) = root.properties.iter().position(is_match) else {
        return Err(DocumentError::at(text, root.range.start, format!("missing `{name}`")));
    };
    match root.properties.swap_remove(at).value {
        ast::Value::Object(object) => Ok(object),
        other => Err(DocumentError::at(text, other.start(), format!("`{name}` is not an object"))),
    }
}

fn has(text: &str, object: &str) -> Result<bool, DocumentError> {
    Ok(tree(text)?.is_some_and(|root| root.as_object().is_some_and(|root| position(root, object).is_some())))
}

/// Returns the index of a property. The last of several counts, as in other JSON parsers.
fn position(object: &Object<'_>, name: &str) -> Option<usize> {
    object.properties.iter().rposition(|property| property.name.as_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserted_entries_match_the_style_of_the_file() {
        for (before, after) in [
            ("", "{\n  \"s\": {\n    \"n\": [\n      1\n    ]\n  }\n}\n"),
            ("{}", "{\n  \"s\": {\n    \"n\": [\n      1\n    ]\n  }\n}"),
            ("{\n}\n", "{\n  \"s\": {\n    \"n\": [\n      1\n    ]\n  }\n}\n"),
            ("{ }", "{\n  \"s\": {\n    \"n\": [\n      1\n    ]\n  }\n}"),
            ("{\"a\":1}", "{\"a\":1,\"s\":{\"n\":[1]}}"),
            ("{ \"a\": 1 }", "{ \"a\": 1, \"s\": {\"n\": [1]} }"),
            ("{\n\t\"s\": {}\n}", "{\n\t\"s\": {\n\t\t\"n\": [\n\t\t\t1\n\t\t]\n\t}\n}"),
            ("{\n  \"s\": {\n    // none\n  }\n}", "{\n  \"s\": {\n    // none\n    \"n\": [\n      1\n    ]\n  }\n}"),
            ("{\n  \"s\": { /* none */ }\n}", "{\n  \"s\": { /* none */\n    \"n\": [\n      1\n    ]\n  }\n}"),
            (
                "{\n \"s\": {\n  \"x\": 1 // x\n  // y\n }\n}",
                "{\n \"s\": {\n  \"x\": 1, // x\n  \"n\": [\n   1\n  ]\n  // y\n }\n}",
            ),
            (
                "{\n \"s\": {\n  \"x\": 1, // x\n },\n}",
                "{\n \"s\": {\n  \"x\": 1, // x\n  \"n\": [\n   1\n  ],\n },\n}",
            ),
            ("{\n  \"s\": {\"x\": 1}\n}", "{\n  \"s\": {\"x\": 1, \"n\": [1]}\n}"),
        ] {
            for newline in ["\n", "\r\n"] {
                let [before, after] = [before, after].map(|text| text.replace('\n', newline));
                let has_no_newline = !before.contains('\n') && newline == "\r\n";
                let (with, _) = insert(&before, "s", "n", &[1]).unwrap_or_else(|error| panic!("{before}: {error}"));
                assert!(with == after || has_no_newline, "{before} became {with}, not {after}");
            }
        }
    }
}
