//! Values in paths, queries, headers, cookies and forms.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::operation::Style;

/// Everything but the unreserved characters of RFC 3986.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// `allowReserved`, without the characters that end a value or a query.
const RESERVED: &AsciiSet = &COMPONENT
    .remove(b':')
    .remove(b'/')
    .remove(b'?')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b',');

pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, COMPONENT).to_string()
}

pub(crate) fn encode_reserved(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Returns a value as text: strings without quotes, and arrays and objects as JSON.
pub(crate) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// Returns the members of an array or an object, whose `null` counts as absent.
fn members(value: &Value) -> Option<Vec<(Option<&str>, &Value)>> {
    let members: Vec<_> = match value {
        Value::Array(items) => items.iter().map(|item| (None, item)).collect(),
        Value::Object(members) => members.iter().map(|(name, value)| (Some(name.as_str()), value)).collect(),
        _ => return None,
    };
    Some(members.into_iter().filter(|(_, value)| !value.is_null()).collect())
}

/// Writes a value for a path or a header.
pub(crate) fn simple(
    name: &str,
    value: &Value,
    style: Style,
    explode: bool,
    encode: impl Fn(&str) -> String,
) -> String {
    let (first, separator) = match (style, explode) {
        (Style::Label, true) => (".", "."),
        (Style::Label, false) => (".", ","),
        (Style::Matrix, true) => (";", ";"),
        (Style::Matrix, false) => (";", ","),
        _ => ("", ","),
    };
    let is_matrix = style == Style::Matrix;
    let Some(members) = members(value) else {
        let value = encode(&text(value));
        return if is_matrix { format!("{first}{}={value}", encode(name)) } else { format!("{first}{value}") };
    };
    let members: Vec<String> = members
        .into_iter()
        .map(|(key, value)| {
            let value = encode(&text(value));
            match key {
                Some(key) if explode => format!("{}={value}", encode(key)),
                Some(key) => format!("{},{value}", encode(key)),
                None if is_matrix && explode => format!("{}={value}", encode(name)),
                None => value,
            }
        })
        .collect();
    let start = if is_matrix && !explode { format!("{first}{}=", encode(name)) } else { first.to_owned() };
    start + &members.join(separator)
}

/// The maximum size of the names of a value with the style `deepObject`, each of which repeats the names around it.
const MAX_DEEP_BYTES: usize = 1 << 20;

/// Adds a value to the encoded pairs of a query or a form.
///
/// # Errors
///
/// Fails if the names of nested values take more than [`MAX_DEEP_BYTES`].
pub(crate) fn pairs(
    pairs: &mut Vec<(String, String)>,
    name: &str,
    value: &Value,
    style: Style,
    explode: bool,
    encode_value: fn(&str) -> String,
) -> Result<(), String> {
    if style == Style::DeepObject {
        let is_complete = deep(pairs, encode(name), value, encode_value, &mut { MAX_DEEP_BYTES });
        return is_complete.ok_or_else(|| {
            format!("`{name}` is too large: with the names around them, its names take more than 1 MiB")
        });
    }
    let Some(members) = members(value) else {
        pairs.push((encode(name), encode_value(&text(value))));
        return Ok(());
    };
    if explode {
        for (key, value) in members {
            pairs.push((encode(key.unwrap_or(name)), encode_value(&text(value))));
        }
        return Ok(());
    }
    let separator = match style {
        Style::SpaceDelimited => "%20",
        Style::PipeDelimited => "%7C",
        _ => ",",
    };
    let parts = members.into_iter().flat_map(|(key, value)| {
        let value = encode_value(&text(value));
        key.map(encode).into_iter().chain([value])
    });
    let joined = parts.collect::<Vec<_>>().join(separator);
    if !joined.is_empty() {
        pairs.push((encode(name), joined));
    }
    Ok(())
}

/// `name[key]=value`, at any depth. The depth of arguments is bounded by the parser of JSON. Returns `None` if the names are longer than
/// `left`.
fn deep(
    pairs: &mut Vec<(String, String)>,
    name: String,
    value: &Value,
    encode_value: fn(&str) -> String,
    left: &mut usize,
) -> Option<()> {
    *left = left.checked_sub(name.len())?;
    let Some(members) = members(value) else {
        pairs.push((name, encode_value(&text(value))));
        return Some(());
    };
    for (index, (key, value)) in members.into_iter().enumerate() {
        let key = key.map_or_else(|| index.to_string(), encode);
        deep(pairs, format!("{name}%5B{key}%5D"), value, encode_value, left)?;
    }
    Some(())
}
