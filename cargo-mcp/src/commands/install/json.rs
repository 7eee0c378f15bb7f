//! Entries of a JSON file, put in and taken out by splicing: every other byte stays as it is.
//!
//! The parser tells where things are; nothing is ever printed anew. What is put in is one property, the white space and the
//! commas around it; a [`Seam`] keeps those, so that taking the property out leaves what was there before.

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{self, Object, ObjectProp},
    common::{Range, Ranged},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::{Broken, place};

/// How a property was put into an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seam {
    /// The white space before it.
    opening: String,
    /// What came with it behind it: white space, or a comma.
    closing: String,
    /// The white space that it took the place of.
    instead: String,
    /// It was the only one in the object.
    alone: bool,
}

/// The parts of an insertion, each absent if it was there already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inserted {
    pub(crate) root: Option<Seam>,
    pub(crate) object: Option<Seam>,
    pub(crate) entry: Seam,
}

/// The text as a value, with comments and trailing commas; nothing for an empty one.
///
/// # Errors
///
/// It is not JSON, or no object.
pub(crate) fn parse(text: &str) -> Result<Option<Value>, Broken> {
    let value = tree(text)?;
    if let Some(value) = &value
        && value.as_object().is_none()
    {
        return Err(Broken::at(text, value.start(), "expected an object"));
    }
    Ok(value.map(Value::from))
}

/// The first thing that a reader of plain JSON refuses, of a text that [`parse`] takes.
pub(crate) fn beyond_json(text: &str) -> Option<Broken> {
    let strict = ParseOptions { allow_comments: false, allow_trailing_commas: false, ..options() };
    let error = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &strict).err()?;
    Some(Broken::at(text, error.range().start, &lower(&error.kind().to_string())))
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

fn tree(text: &str) -> Result<Option<ast::Value<'_>>, Broken> {
    match jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &options()) {
        Ok(parsed) => Ok(parsed.value),
        Err(error) => Err(Broken::at(text, error.range().start, &lower(&error.kind().to_string()))),
    }
}

fn lower(message: &str) -> String {
    let mut letters = message.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// Puts a property into an object of the root, which is made if it is not there.
///
/// # Errors
///
/// The text is broken, or what should be the object is something else.
pub(crate) fn insert(
    text: &str,
    object: &str,
    name: &str,
    value: &impl Serialize,
) -> Result<(String, Inserted), Broken> {
    let mut text = text.to_owned();
    let mut inserted = Inserted::default();
    if tree(&text)?.is_none() {
        let (with, seam) = insert_root(&text);
        (text, inserted.root) = (with, Some(seam));
    }
    if !has(&text, object)? {
        let (with, seam) = insert_property(&text, &root(&text)?, object, &serde_json::Map::new());
        (text, inserted.object) = (with, Some(seam));
    }
    let (text, seam) = insert_property(&text, &servers(&text, object)?, name, value);
    inserted.entry = seam;
    Ok((text, inserted))
}

/// Puts another value in the place of a property's.
///
/// # Errors
///
/// As [`insert`].
pub(crate) fn replace(text: &str, object: &str, name: &str, value: &impl Serialize) -> Result<String, Broken> {
    let servers = servers(text, object)?;
    let Some(at) = position(&servers, name) else { return Ok(text.to_owned()) };
    let range = servers.properties[at].value.range();
    let printed = Style::of(text, &root(text)?).print(value, &indentation(text, range.start));
    Ok(splice(text, range, &printed))
}

/// Takes a property out, and what was made for it as far as that is known and empty.
///
/// # Errors
///
/// As [`insert`].
pub(crate) fn remove(text: &str, object: &str, name: &str, made: Option<&Inserted>) -> Result<String, Broken> {
    let servers = servers(text, object)?;
    let Some(at) = position(&servers, name) else { return Ok(text.to_owned()) };
    let mut text = remove_property(text, &servers, at, made.map(|made| &made.entry));
    let Some(made) = made else { return Ok(text) };
    if let Some(seam) = &made.object {
        let root = root(&text)?;
        if let Some(at) = position(&root, object)
            && root.properties[at].value.text(&text) == "{}"
        {
            text = remove_property(&text, &root, at, Some(seam));
        }
    }
    if let Some(seam) = &made.root {
        let root = root(&text)?;
        if root.text(&text) == "{}" {
            text = remove_root(&text, root.range, seam);
        }
    }
    Ok(text)
}

/// The names in an object of the root, in their order.
///
/// # Errors
///
/// As [`insert`].
pub(crate) fn names(text: &str, object: &str) -> Result<Vec<String>, Broken> {
    if !has(text, object)? {
        return Ok(Vec::new());
    }
    let servers = servers(text, object)?;
    Ok(servers.properties.iter().map(|property| property.name.as_str().to_owned()).collect())
}

/// Strings that may be secrets, by the names above them and whether those are of strings.
pub(crate) fn secrets(text: &str, is_secret: fn(&str, bool) -> bool) -> Vec<Range> {
    fn walk(value: &ast::Value<'_>, all: bool, is_secret: fn(&str, bool) -> bool, found: &mut Vec<Range>) {
        match value {
            ast::Value::Object(object) => {
                for property in &object.properties {
                    let is_text = property.value.as_string_lit().is_some();
                    let below = all || is_secret(property.name.as_str(), is_text);
                    walk(&property.value, below, is_secret, found);
                }
            }
            ast::Value::Array(array) => array.elements.iter().for_each(|value| walk(value, all, is_secret, found)),
            ast::Value::StringLit(text) if all => found.push(text.range),
            _ => {}
        }
    }
    let mut found = Vec::new();
    if let Ok(Some(value)) = tree(text) {
        walk(&value, false, is_secret, &mut found);
    }
    found
}

fn root(text: &str) -> Result<Object<'_>, Broken> {
    match tree(text)? {
        Some(ast::Value::Object(root)) => Ok(root),
        Some(other) => Err(Broken::at(text, other.start(), "expected an object")),
        None => Err(Broken::at(text, text.len(), "expected an object")),
    }
}

/// The object of the servers.
fn servers<'a>(text: &'a str, name: &str) -> Result<Object<'a>, Broken> {
    let mut root = root(text)?;
    let is_it = |property: &ObjectProp<'_>| property.name.as_str() == name;
    if let Some(second) = root.properties.iter().filter(|property| is_it(property)).nth(1) {
        return Err(Broken::at(text, second.range.start, &format!("`{name}` is there twice")));
    }
    let Some(at) = root.properties.iter().position(is_it) else {
        return Err(Broken::at(text, root.range.start, &format!("expected `{name}`")));
    };
    match root.properties.swap_remove(at).value {
        ast::Value::Object(object) => Ok(object),
        other => Err(Broken::at(text, other.start(), &format!("`{name}` is not an object"))),
    }
}

fn has(text: &str, object: &str) -> Result<bool, Broken> {
    Ok(tree(text)?.is_some_and(|root| root.as_object().is_some_and(|root| position(root, object).is_some())))
}

/// The last one counts, as in every parser of JSON.
fn position(object: &Object<'_>, name: &str) -> Option<usize> {
    object.properties.iter().rposition(|property| property.name.as_str() == name)
}

fn insert_root(text: &str) -> (String, Seam) {
    let newline = newline(text);
    let opening = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
    let seam = Seam { opening: opening.to_owned(), closing: newline.to_owned(), ..Seam::default() };
    (format!("{text}{opening}{{}}{newline}"), seam)
}

fn remove_root(text: &str, root: Range, seam: &Seam) -> String {
    seam.strip(&text[..root.start], &text[root.end..]).unwrap_or_else(|| text.to_owned())
}

fn insert_property(text: &str, object: &Object<'_>, name: &str, value: &impl Serialize) -> (String, Seam) {
    let whole = tree(text).ok().flatten();
    let style = match whole.as_ref().and_then(ast::Value::as_object) {
        Some(root) => Style::of(text, root),
        None => Style::of(text, object),
    };
    let last = object.properties.last();
    let inside = &text[object.range.start..object.range.end];
    match last {
        None => insert_alone(text, object, &style, name, value),
        Some(last) if inside.contains('\n') => insert_line(text, object, last, &style, name, value),
        Some(last) => insert_behind(text, object, last, &style, name, value),
    }
}

/// Into an object that has none.
fn insert_alone(text: &str, object: &Object<'_>, style: &Style, name: &str, value: &impl Serialize) -> (String, Seam) {
    let (open, close) = (object.range.start + 1, object.range.end - 1);
    let outer = indentation(text, object.range.start);
    let inner = format!("{outer}{}", style.unit);
    let at = comments_end(text, open, close).unwrap_or(open);
    let rest = &text[at..close];
    let mut seam = Seam { alone: true, ..Seam::default() };
    if !style.compact {
        seam.opening = format!("{}{inner}", style.newline);
        // Behind a comment that ends its line there is a line already.
        if at == open || !rest.contains('\n') {
            seam.closing = format!("{}{outer}", style.newline);
            seam.instead = rest.to_owned();
        }
    }
    let property = style.property(name, value, &inner);
    let put = format!("{}{property}{}", seam.opening, seam.closing);
    (splice(text, Range::new(at, at + seam.instead.len()), &put), seam)
}

/// Behind the last one, on a line of its own.
fn insert_line(
    text: &str,
    object: &Object<'_>,
    last: &ObjectProp<'_>,
    style: &Style,
    name: &str,
    value: &impl Serialize,
) -> (String, Seam) {
    let end = last.range.end;
    let comma = comma(text, end, object.range.end - 1);
    let at = line_end(text, comma.map_or(end, |comma| comma + 1), object.range.end - 1);
    let indent = match own_line(text, last.range.start) {
        Some(indent) => indent.to_owned(),
        None => format!("{}{}", indentation(text, object.range.start), style.unit),
    };
    let seam = Seam {
        opening: format!("{}{indent}", style.newline),
        closing: if comma.is_some() { "," } else { "" }.to_owned(),
        ..Seam::default()
    };
    let property = style.property(name, value, &indent);
    (behind(text, end, at, comma.is_none(), &seam, &property), seam)
}

/// Behind the last one, on the only line.
fn insert_behind(
    text: &str,
    object: &Object<'_>,
    last: &ObjectProp<'_>,
    style: &Style,
    name: &str,
    value: &impl Serialize,
) -> (String, Seam) {
    let (end, close) = (last.range.end, object.range.end - 1);
    let comma = comma(text, end, close);
    let from = comma.map_or(end, |comma| comma + 1);
    let at = comments_end(text, from, close).unwrap_or(from);
    let seam = Seam {
        opening: if style.spaced { " " } else { "" }.to_owned(),
        closing: if comma.is_some() { "," } else { "" }.to_owned(),
        ..Seam::default()
    };
    let property = Style { compact: true, ..style.clone() }.property(name, value, "");
    (behind(text, end, at, comma.is_none(), &seam, &property), seam)
}

fn behind(text: &str, end: usize, at: usize, comma: bool, seam: &Seam, property: &str) -> String {
    let comma = if comma { "," } else { "" };
    let (opening, closing) = (&seam.opening, &seam.closing);
    format!("{}{comma}{}{opening}{property}{closing}{}", &text[..end], &text[end..at], &text[at..])
}

fn remove_property(text: &str, object: &Object<'_>, at: usize, seam: Option<&Seam>) -> String {
    seam.and_then(|seam| unseam(text, object, at, seam)).unwrap_or_else(|| cut_property(text, object, at))
}

/// Takes out what was put in, if it is as it was left.
fn unseam(text: &str, object: &Object<'_>, at: usize, seam: &Seam) -> Option<String> {
    let properties = &object.properties;
    let Range { start, end } = properties[at].range;
    let before = text[..start].strip_suffix(&*seam.opening)?;
    if seam.alone {
        let after = text[end..].strip_prefix(&*seam.closing)?;
        let inside = before.len() > object.range.start && text.len() - after.len() < object.range.end;
        let is_alone = properties.len() == 1 && inside;
        return is_alone.then(|| format!("{before}{}{after}", seam.instead));
    }
    let previous = properties.get(at.checked_sub(1)?)?.range.end;
    if before.len() < previous {
        return None;
    }
    if let Some(next) = properties.get(at + 1) {
        let comma = comma(text, end, next.range.start)?;
        return Some(format!("{before}{}", &text[comma + 1..]));
    }
    let after = text[end..].strip_prefix(&*seam.closing)?;
    let trailing = comma(text, end, object.range.end - 1).is_some();
    match (seam.closing.starts_with(','), trailing) {
        (true, _) => Some(format!("{before}{after}")),
        (false, true) => None,
        (false, false) => {
            let comma = comma(text, previous, before.len())?;
            Some(format!("{}{}{after}", &before[..comma], &before[comma + 1..]))
        }
    }
}

/// Takes a property out of wherever it has come to be.
fn cut_property(text: &str, object: &Object<'_>, at: usize) -> String {
    let properties = &object.properties;
    let Range { start, end } = properties[at].range;
    let close = object.range.end - 1;
    let limit = properties.get(at + 1).map_or(close, |next| next.range.start);
    let comma_behind = comma(text, end, limit);
    let end = comma_behind.map_or(end, |comma| comma + 1);
    // Up to the line's end if nothing else is on its line, so that the one before or a comment keeps its own.
    let space = text[..start].trim_end_matches([' ', '\t', '\r', '\n']).len();
    let next_on_line = properties.get(at + 1).is_some_and(|next| !text[end..next.range.start].contains('\n'));
    let cut = match next_on_line {
        true => Range::new(start, limit),
        false => Range::new(space, end),
    };
    let comma_before = match (at.checked_sub(1), comma_behind) {
        (Some(previous), None) => comma(text, properties[previous].range.end, start),
        _ => None,
    };
    let mut rest = splice(text, cut, "");
    if let Some(comma) = comma_before {
        rest = splice(&rest, Range::new(comma, comma + 1), "");
    }
    if properties.len() > 1 {
        return rest;
    }
    let close = rest.len() - (text.len() - close);
    let inside = Range::new(object.range.start + 1, close);
    if inside.text(&rest).trim().is_empty() { splice(&rest, inside, "") } else { rest }
}

fn splice(text: &str, range: Range, put: &str) -> String {
    format!("{}{put}{}", &text[..range.start], &text[range.end..])
}

/// What is between two tokens: white space, comments, a comma.
enum Trivia {
    Comma,
    Comment,
    Space,
}

fn trivia(text: &str, from: usize, to: usize) -> impl Iterator<Item = (Trivia, Range)> {
    let mut at = from;
    std::iter::from_fn(move || {
        let rest = text.get(at..to).filter(|rest| !rest.is_empty())?;
        let (kind, length) = match rest {
            _ if rest.starts_with("//") => (Trivia::Comment, rest.find(['\r', '\n']).unwrap_or(rest.len())),
            _ if rest.starts_with("/*") => (Trivia::Comment, rest.find("*/").map_or(rest.len(), |end| end + 2)),
            _ if rest.starts_with(',') => (Trivia::Comma, 1),
            _ => (Trivia::Space, rest.chars().next().map_or(1, char::len_utf8)),
        };
        at += length;
        Some((kind, Range::new(at - length, at)))
    })
}

fn comma(text: &str, from: usize, to: usize) -> Option<usize> {
    trivia(text, from, to).find(|(kind, _)| matches!(kind, Trivia::Comma)).map(|(_, range)| range.start)
}

fn comments_end(text: &str, from: usize, to: usize) -> Option<usize> {
    trivia(text, from, to).filter(|(kind, _)| matches!(kind, Trivia::Comment)).last().map(|(_, range)| range.end)
}

/// Behind the comments that belong to a line.
fn line_end(text: &str, from: usize, to: usize) -> usize {
    let on_line = |(_, range): &(Trivia, Range)| !range.text(text).contains('\n');
    let comments = trivia(text, from, to).take_while(on_line).filter(|(kind, _)| matches!(kind, Trivia::Comment));
    comments.last().map_or(from, |(_, range)| range.end)
}

/// The white space that a line begins with.
fn indentation(text: &str, at: usize) -> String {
    let line = &text[line_start(text, at)..];
    line[..line.len() - line.trim_start_matches([' ', '\t']).len()].to_owned()
}

/// The white space before something that is the first on its line.
fn own_line(text: &str, at: usize) -> Option<&str> {
    let before = &text[line_start(text, at)..at];
    before.trim_matches([' ', '\t']).is_empty().then_some(before)
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

pub(crate) fn newline(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// How a file is written.
#[derive(Clone, Debug)]
struct Style {
    newline: &'static str,
    unit: String,
    /// Everything on one line.
    compact: bool,
    /// A space behind colons and commas.
    spaced: bool,
}

impl Style {
    fn of(text: &str, root: &Object<'_>) -> Self {
        let first = root.properties.first();
        let outer = indentation(text, root.range.start);
        let unit = first.and_then(|first| own_line(text, first.range.start)?.strip_prefix(&*outer));
        let colon = first.map(|first| &text[first.name.range().end..first.value.range().start]);
        let compact = first.is_some() && !root.text(text).contains('\n');
        Self {
            newline: newline(text),
            unit: unit.filter(|unit| !unit.is_empty()).unwrap_or("  ").to_owned(),
            compact,
            spaced: !compact || colon.is_none_or(|colon| colon.ends_with(' ')),
        }
    }

    fn property(&self, name: &str, value: &impl Serialize, indent: &str) -> String {
        let colon = if self.spaced { ": " } else { ":" };
        format!("{}{colon}{}", quoted(name), self.print(value, indent))
    }

    /// The lines behind the first one are indented.
    fn print(&self, value: &impl Serialize, indent: &str) -> String {
        let mut bytes = Vec::new();
        let printed = match self.compact {
            true => value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, OneLine(self.spaced))),
            false => {
                let pretty = serde_json::ser::PrettyFormatter::with_indent(self.unit.as_bytes());
                value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, pretty))
            }
        };
        // Strings and maps with strings for keys are all that is ever printed here.
        debug_assert!(printed.is_ok(), "{printed:?}");
        String::from_utf8_lossy(&bytes).replace('\n', &format!("{}{indent}", self.newline))
    }
}

fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}

/// JSON on one line, with or without spaces.
struct OneLine(bool);

impl OneLine {
    fn space(&self) -> &'static [u8] {
        if self.0 { b" " } else { b"" }
    }
}

impl serde_json::ser::Formatter for OneLine {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b",").and_then(|()| writer.write_all(self.space())) }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b",").and_then(|()| writer.write_all(self.space())) }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b":").and_then(|()| writer.write_all(self.space()))
    }
}

impl Seam {
    pub(crate) fn around(opening: String, closing: String) -> Self {
        Self { opening, closing, ..Self::default() }
    }

    /// What is before and behind something, without what was put around it.
    pub(crate) fn strip(&self, before: &str, after: &str) -> Option<String> {
        Some(format!("{}{}", before.strip_suffix(&*self.opening)?, after.strip_prefix(&*self.closing)?))
    }

    /// How the next one of an object is held when the first, which was alone once, is gone.
    pub(crate) fn inherit(&self, first: &Self) -> Self {
        match first.alone && !self.alone {
            true => Self { opening: self.opening.clone(), ..first.clone() },
            false => self.clone(),
        }
    }
}

impl Broken {
    fn at(text: &str, at: usize, message: &str) -> Self {
        let (line, column) = place(text, at);
        Self { line, column, message: message.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_looks_like_what_is_there() {
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
                let newline_of_nothing = !before.contains('\n') && newline == "\r\n";
                let (with, _) = insert(&before, "s", "n", &[1]).unwrap_or_else(|broken| panic!("{before}: {broken}"));
                assert!(with == after || newline_of_nothing, "{before} became {with}, not {after}");
            }
        }
    }
}
