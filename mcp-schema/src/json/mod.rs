//! Reads JSON in place.
//!
//! The functions expect well-formed JSON and report no syntax errors. On other text they stop early and never panic.
//! They allocate only for strings with escapes and for canonical forms.

pub mod scan;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
};

use self::scan::unescape;

/// The kind of a JSON value, determined by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number, or anything that does not start like another value.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// The text of a JSON value. It does not compare with other text, so that a quoted name is never taken for the name.
#[derive(Debug, Clone, Copy)]
pub struct RawJson<'a>(&'a str);

impl<'a> RawJson<'a> {
    /// Wraps text that is well-formed JSON.
    pub fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// Returns the text of the value.
    pub fn text(self) -> &'a str {
        self.0
    }

    /// Returns whether the value is `null`.
    pub fn is_null(self) -> bool {
        kind(self.0) == Kind::Null
    }

    /// Returns whether the value is an object.
    pub fn is_object(self) -> bool {
        kind(self.0) == Kind::Object
    }

    /// Returns a member, as [`member`] does.
    pub fn member(self, name: &str) -> Option<Self> {
        member(self.0, name).map(Self)
    }

    /// Decodes a string, as [`string`] does.
    pub fn string(self) -> Option<Cow<'a, str>> {
        string(self.0)
    }
}

/// Returns the kind of `value`. Blank text counts as `null`.
#[inline]
pub fn kind(value: &str) -> Kind {
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

/// Iterates over the members of an object. Yields nothing if `object` is another value.
#[inline]
pub fn members(object: &str) -> Members<'_> {
    Members { text: object, at: inside(object, b'{') }
}

/// Returns a member of an object: the last one if there are duplicates, as when arguments are decoded.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    members(object).filter_map(|(key, value)| (key == name).then_some(value)).last()
}

/// A member that an object repeats.
pub(crate) struct Repetition<'a> {
    /// The path of the object.
    pub(crate) path: String,
    pub(crate) object: &'a str,
    pub(crate) name: String,
}

/// An array or object that is being read.
struct OpenContainer<'a> {
    start: usize,
    /// The names of the members of an object so far.
    names: HashSet<Cow<'a, str>>,
    /// The last of them.
    name: Cow<'a, str>,
    /// The index of the element of an array. `None` for objects.
    index: Option<usize>,
}

/// Finds a member that an object in `value` repeats. Does not search objects nested more than `depth` levels deep. Takes linear time, and
/// does not recurse.
pub(crate) fn repetition(value: &str, depth: usize) -> Option<Repetition<'_>> {
    let bytes = value.as_bytes();
    let (mut at, mut open, mut skipped_levels) = (0, Vec::<OpenContainer<'_>>::new(), 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let (end, is_escaped) = skip_string(bytes, at);
                if let Some(object) = open.last_mut().filter(|_| skipped_levels == 0)
                    && bytes.get(skip_space(bytes, end)) == Some(&b':')
                {
                    let name = unescaped(value.get(at + 1..end.checked_sub(1)?)?, is_escaped);
                    object.name = name.clone();
                    if !object.names.insert(name) {
                        let OpenContainer { start, name, .. } = open.pop()?;
                        let object = &value[start..skip_value(bytes, start)];
                        return Some(Repetition { path: path(&open), object, name: name.into_owned() });
                    }
                }
                at = end;
                continue;
            }
            b'{' | b'[' if open.len() < depth => {
                let index = (*byte == b'[').then_some(0);
                open.push(OpenContainer { start: at, names: HashSet::new(), name: Cow::Borrowed(""), index });
            }
            b'{' | b'[' => skipped_levels += 1,
            b'}' | b']' if skipped_levels > 0 => skipped_levels -= 1,
            b'}' | b']' => drop(open.pop()),
            b',' if skipped_levels == 0 => {
                if let Some(OpenContainer { index: Some(index), .. }) = open.last_mut() {
                    *index += 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

fn path(open: &[OpenContainer<'_>]) -> String {
    let mut path = String::new();
    for level in open {
        match level.index {
            Some(index) => path += &format!("[{index}]"),
            None if path.is_empty() => path += &level.name,
            None => path += &format!(".{}", level.name),
        }
    }
    path
}

/// Iterates over the members of an object after the member that ends at `at`.
#[inline]
pub fn members_from(object: &str, at: usize) -> Members<'_> {
    Members { text: object, at }
}

/// Iterates over the elements of an array. Yields nothing if `array` is another value.
#[inline]
pub fn elements(array: &str) -> Elements<'_> {
    Elements { text: array, at: inside(array, b'[') }
}

/// Decodes a JSON string. Returns `None` for other values and for strings with a lone surrogate.
pub fn string(value: &str) -> Option<Cow<'_, str>> {
    let bytes = value.as_bytes();
    if let [b'"', inner @ .., b'"'] = bytes
        && scan::quote_or_backslash(inner, 0) == inner.len()
    {
        return value.get(1..=inner.len()).map(Cow::Borrowed);
    }
    let start = skip_space(bytes, 0);
    if bytes.get(start) != Some(&b'"') {
        return None;
    }
    let (end, escaped) = skip_string(bytes, start);
    let inner = value.get(start + 1..end)?.strip_suffix('"')?;
    if escaped { unescape(inner).map(Cow::Owned) } else { Some(Cow::Borrowed(inner)) }
}

/// Returns the end of the value that starts at `at`, after optional whitespace.
///
/// Does not validate: a number or a literal extends to the next delimiter.
pub fn skip_value(bytes: &[u8], at: usize) -> usize {
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

/// An iterator over the members of an object: unescaped keys and raw values.
///
/// A key with a lone surrogate is yielded in escaped form, so no member is skipped.
#[derive(Debug, Clone)]
pub struct Members<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        let start = next_item(bytes, self.at);
        // Ends the iteration if this member is incomplete.
        self.at = bytes.len();
        if bytes.get(start) != Some(&b'"') {
            return None;
        }
        let (end, escaped) = skip_string(bytes, start);
        let inner = self.text.get(start + 1..end.checked_sub(1)?)?;
        let key = unescaped(inner, escaped);
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

/// An iterator over the raw elements of an array.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
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

/// Returns the content of a string without its escapes, or as it is if it has a lone surrogate.
fn unescaped(inner: &str, is_escaped: bool) -> Cow<'_, str> {
    let unescaped = if is_escaped { unescape(inner) } else { None };
    unescaped.map_or(Cow::Borrowed(inner), Cow::Owned)
}

/// Returns the position after the opening bracket, or the end of the text if it is missing.
#[inline]
pub fn inside(text: &str, open: u8) -> usize {
    let bytes = text.as_bytes();
    let start = skip_space(bytes, 0);
    if bytes.get(start) == Some(&open) { start + 1 } else { bytes.len() }
}

/// Returns the start of the next member or element, after whitespace and at most one comma.
fn next_item(bytes: &[u8], at: usize) -> usize {
    let at = skip_space(bytes, at);
    if bytes.get(at) == Some(&b',') { skip_space(bytes, at + 1) } else { at }
}

#[inline]
pub fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|&byte| is_space(byte)) {
        at += 1;
    }
    at
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Returns the end of the string that starts at `at`, and whether it contains escapes.
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

/// The depth up to which values are rewritten. Deeper values are copied verbatim, so no text can exhaust the stack.
const CANONICAL_DEPTH: usize = 128;

/// Returns the canonical form of JSON: without whitespace, with sorted members, and with only the last of several
/// members of the same name. It is not valid JSON, since a comma follows every member and element.
///
/// Numbers are copied verbatim, because not all of them fit a Rust number.
pub fn canonical(json: &str) -> String {
    canonical_by(json, &|out, number| out.extend_from_slice(number.as_bytes()))
}

/// Returns the canonical form of JSON, with numbers written by `number`.
pub fn canonical_by(json: &str, number: &dyn Fn(&mut Vec<u8>, &str)) -> String {
    let mut out = Vec::with_capacity(json.len());
    write_canonical(&mut out, json, number, CANONICAL_DEPTH);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_canonical(out: &mut Vec<u8>, json: &str, number: &dyn Fn(&mut Vec<u8>, &str), depth: usize) {
    match kind(json) {
        Kind::Object if depth > 0 => {
            let members: BTreeMap<Cow<'_, str>, &str> = members(json).collect();
            out.push(b'{');
            for (name, value) in members {
                write_string(out, &name);
                out.push(b':');
                write_canonical(out, value, number, depth - 1);
                out.push(b',');
            }
            out.push(b'}');
        }
        Kind::Array if depth > 0 => {
            out.push(b'[');
            for element in elements(json) {
                write_canonical(out, element, number, depth - 1);
                out.push(b',');
            }
            out.push(b']');
        }
        Kind::Number => number(out, json.trim()),
        Kind::String => match string(json) {
            Some(text) => write_string(out, &text),
            None => out.extend_from_slice(json.as_bytes()),
        },
        _ => out.extend_from_slice(json.trim().as_bytes()),
    }
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    // Writing to a vector does not fail.
    let _ = serde_json::to_writer(out, text);
}
