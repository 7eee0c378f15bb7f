//! Reads JSON text in place.
//!
//! Everything here expects text that serde_json has already found well-formed, and so reports no syntax errors. On any other
//! text it ends early and never panics. It allocates only for strings that hold escapes.

use std::borrow::Cow;

use super::scan;

/// What a JSON value is, judged by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number, and whatever else starts like no other value.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// Tells what `value` is. Text without a value counts as `null`.
pub(crate) fn kind(value: &str) -> Kind {
    let bytes = value.as_bytes();
    match bytes.get(skip_space(bytes, 0)) {
        None | Some(b'n') => Kind::Null,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'"') => Kind::String,
        Some(b'[') => Kind::Array,
        Some(b'{') => Kind::Object,
        Some(_) => Kind::Number,
    }
}

/// Walks over the members of an object, and over nothing if `object` is another value.
pub(crate) fn members(object: &str) -> Members<'_> {
    Members { text: object, at: inside(object, b'{') }
}

/// Walks over the members of an object from one on, behind the one that ends at `at`.
pub(super) fn members_from(object: &str, at: usize) -> Members<'_> {
    Members { text: object, at }
}

/// Walks over the elements of an array, and over nothing if `array` is another value.
pub(crate) fn elements(array: &str) -> Elements<'_> {
    Elements { text: array, at: inside(array, b'[') }
}

/// Reads a JSON string, and returns `None` for any other value and for a string that is no Unicode text (a lone surrogate).
pub(crate) fn string(value: &str) -> Option<Cow<'_, str>> {
    let bytes = value.as_bytes();
    let start = skip_space(bytes, 0);
    if bytes.get(start) != Some(&b'"') {
        return None;
    }
    let (end, escaped) = skip_string(bytes, start);
    if escaped {
        return serde_json::from_str(value.get(start..end)?).ok().map(Cow::Owned);
    }
    value.get(start + 1..end.checked_sub(1)?).map(Cow::Borrowed)
}

/// Returns the position behind the value that starts at `at`, or behind spaces there.
///
/// It looks for the end only, so a number or a literal ends at the next delimiter whatever it is made of.
pub(crate) fn skip_value(bytes: &[u8], at: usize) -> usize {
    let at = skip_space(bytes, at);
    match bytes.get(at) {
        None => at,
        Some(b'"') => skip_string(bytes, at).0,
        Some(b'{' | b'[') => skip_container(bytes, at),
        Some(_) => bytes[at..]
            .iter()
            .position(|&byte| matches!(byte, b',' | b']' | b'}' | b':') || is_space(byte))
            .map_or(bytes.len(), |length| at + length),
    }
}

/// The members of an object: each key without its escapes, each value as it stands in the text.
///
/// A key that is no Unicode text (a lone surrogate) comes as it is written, so that no member goes unseen.
#[derive(Debug, Clone)]
pub(crate) struct Members<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        let start = next_item(bytes, self.at);
        // Until this member is known to be whole, the walk is at its end.
        self.at = bytes.len();
        if bytes.get(start) != Some(&b'"') {
            return None;
        }
        let (end, escaped) = skip_string(bytes, start);
        let inner = self.text.get(start + 1..end.checked_sub(1)?)?;
        let key = if escaped {
            let whole = self.text.get(start..end)?;
            serde_json::from_str(whole).map_or(Cow::Borrowed(inner), Cow::Owned)
        } else {
            Cow::Borrowed(inner)
        };
        let colon = skip_space(bytes, end);
        if bytes.get(colon) != Some(&b':') {
            return None;
        }
        let start = skip_space(bytes, colon + 1);
        let end = skip_value(bytes, start);
        if end == start {
            return None;
        }
        let value = self.text.get(start..end)?;
        self.at = end;
        Some((key, value))
    }
}

/// The elements of an array, each as it stands in the text.
#[derive(Debug, Clone)]
pub(crate) struct Elements<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        let start = next_item(bytes, self.at);
        let end = skip_value(bytes, start);
        if end == start {
            self.at = bytes.len();
            return None;
        }
        self.at = end;
        self.text.get(start..end)
    }
}

/// Returns the position behind the opening bracket, or the end of the text if there is none.
pub(super) fn inside(text: &str, open: u8) -> usize {
    let bytes = text.as_bytes();
    let start = skip_space(bytes, 0);
    if bytes.get(start) == Some(&open) { start + 1 } else { bytes.len() }
}

/// Returns where the next member or element starts: behind spaces and at most one comma.
fn next_item(bytes: &[u8], at: usize) -> usize {
    let at = skip_space(bytes, at);
    if bytes.get(at) == Some(&b',') { skip_space(bytes, at + 1) } else { at }
}

#[inline]
pub(super) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|&byte| is_space(byte)) {
        at += 1;
    }
    at
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Returns the position behind the string that starts at `at`, and whether it holds an escape.
fn skip_string(bytes: &[u8], at: usize) -> (usize, bool) {
    let mut at = at + 1;
    let mut escaped = false;
    loop {
        at = scan::quote_or_backslash(bytes, at);
        match bytes.get(at) {
            None => return (bytes.len(), escaped),
            Some(b'"') => return (at + 1, escaped),
            Some(_) => {
                escaped = true;
                at += 2;
            }
        }
    }
}

fn skip_container(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = skip_string(bytes, at).0;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests;
