//! Insertion and removal of a single property.

use jsonc_parser::{
    ast::{Object, ObjectProp},
    common::{Range, Ranged as _},
};
use serde::Serialize;

use super::{
    style::Style,
    trivia::{comma, comments_end, indentation, line_end, own_line},
};
use crate::commands::install::{insertion::Insertion, position::newline};

/// Appends an empty root object to a text without one.
pub(super) fn insert_root(text: &str) -> (String, Insertion) {
    let newline = newline(text);
    let opening = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
    let insertion = Insertion { opening: opening.to_owned(), closing: newline.to_owned(), ..Insertion::default() };
    (format!("{text}{opening}{{}}{newline}"), insertion)
}

/// Removes an empty root object.
pub(super) fn remove_root(text: &str, root: Range, insertion: &Insertion) -> String {
    insertion.strip(&text[..root.start], &text[root.end..]).unwrap_or_else(|| text.to_owned())
}

/// Appends a property to an object.
pub(super) fn insert_property(
    text: &str,
    object: &Object<'_>,
    style: &Style,
    name: &str,
    value: &impl Serialize,
) -> (String, Insertion) {
    let last = object.properties.last();
    let inside = &text[object.range.start..object.range.end];
    match last {
        None => insert_first(text, object, style, name, value),
        Some(last) if inside.contains('\n') => insert_on_next_line(text, object, last, style, name, value),
        Some(last) => insert_on_same_line(text, object, last, style, name, value),
    }
}

/// Inserts a property into an empty object.
fn insert_first(
    text: &str,
    object: &Object<'_>,
    style: &Style,
    name: &str,
    value: &impl Serialize,
) -> (String, Insertion) {
    let (open, close) = (object.range.start + 1, object.range.end - 1);
    let outer = indentation(text, object.range.start);
    let inner = format!("{outer}{}", style.unit);
    let at = comments_end(text, open, close).unwrap_or(open);
    let rest = &text[at..close];
    let mut insertion = Insertion { was_empty: true, ..Insertion::default() };
    if !style.compact {
        insertion.opening = format!("{}{inner}", style.newline);
        // After a line comment, the line break exists already.
        if at == open || !rest.contains('\n') {
            insertion.closing = format!("{}{outer}", style.newline);
            insertion.replaced = rest.to_owned();
        }
    }
    let property = style.property(name, value, &inner);
    let inserted = format!("{}{property}{}", insertion.opening, insertion.closing);
    (splice(text, Range::new(at, at + insertion.replaced.len()), &inserted), insertion)
}

/// Inserts a property after the last one, on a new line.
fn insert_on_next_line(
    text: &str,
    object: &Object<'_>,
    last: &ObjectProp<'_>,
    style: &Style,
    name: &str,
    value: &impl Serialize,
) -> (String, Insertion) {
    let end = last.range.end;
    let comma = comma(text, end, object.range.end - 1);
    let at = line_end(text, comma.map_or(end, |comma| comma + 1), object.range.end - 1);
    let indent = match own_line(text, last.range.start) {
        Some(indent) => indent.to_owned(),
        None => format!("{}{}", indentation(text, object.range.start), style.unit),
    };
    let insertion = Insertion {
        opening: format!("{}{indent}", style.newline),
        closing: if comma.is_some() { "," } else { "" }.to_owned(),
        ..Insertion::default()
    };
    let property = style.property(name, value, &indent);
    (append(text, end, at, comma.is_none(), &insertion, &property), insertion)
}

/// Inserts a property after the last one, in an object on a single line.
fn insert_on_same_line(
    text: &str,
    object: &Object<'_>,
    last: &ObjectProp<'_>,
    style: &Style,
    name: &str,
    value: &impl Serialize,
) -> (String, Insertion) {
    let (end, close) = (last.range.end, object.range.end - 1);
    let comma = comma(text, end, close);
    let from = comma.map_or(end, |comma| comma + 1);
    let at = comments_end(text, from, close).unwrap_or(from);
    let insertion = Insertion {
        opening: if style.spaced { " " } else { "" }.to_owned(),
        closing: if comma.is_some() { "," } else { "" }.to_owned(),
        ..Insertion::default()
    };
    let property = Style { compact: true, ..style.clone() }.property(name, value, "");
    (append(text, end, at, comma.is_none(), &insertion, &property), insertion)
}

/// Inserts a property at `at`, and a comma at `end`, the end of the last property, if it `needs_comma`.
fn append(text: &str, end: usize, at: usize, needs_comma: bool, insertion: &Insertion, property: &str) -> String {
    let comma = if needs_comma { "," } else { "" };
    let (opening, closing) = (&insertion.opening, &insertion.closing);
    format!("{}{comma}{}{opening}{property}{closing}{}", &text[..end], &text[end..at], &text[at..])
}

/// Removes the property at `index`. Reverts its insertion if that is recorded and the text around it is unchanged.
pub(super) fn remove_property(text: &str, object: &Object<'_>, index: usize, insertion: Option<&Insertion>) -> String {
    insertion
        .and_then(|insertion| revert_insertion(text, object, index, insertion))
        .unwrap_or_else(|| remove_unrecorded(text, object, index))
}

/// Reverts an insertion. Returns `None` if the text around the property has changed since.
fn revert_insertion(text: &str, object: &Object<'_>, index: usize, insertion: &Insertion) -> Option<String> {
    let properties = &object.properties;
    let Range { start, end } = properties[index].range;
    let before = text[..start].strip_suffix(&*insertion.opening)?;
    if insertion.was_empty {
        let after = text[end..].strip_prefix(&*insertion.closing)?;
        let inside = before.len() > object.range.start && text.len() - after.len() < object.range.end;
        let is_only = properties.len() == 1 && inside;
        return is_only.then(|| format!("{before}{}{after}", insertion.replaced));
    }
    let previous = properties.get(index.checked_sub(1)?)?.range.end;
    if before.len() < previous {
        return None;
    }
    if let Some(next) = properties.get(index + 1) {
        let comma = comma(text, end, next.range.start)?;
        return Some(format!("{before}{}", &text[comma + 1..]));
    }
    let after = text[end..].strip_prefix(&*insertion.closing)?;
    let trailing = comma(text, end, object.range.end - 1).is_some();
    match (insertion.closing.starts_with(','), trailing) {
        (true, _) => Some(format!("{before}{after}")),
        (false, true) => None,
        (false, false) => {
            let comma = comma(text, previous, before.len())?;
            Some(format!("{}{}{after}", &before[..comma], &before[comma + 1..]))
        }
    }
}

/// Removes a property whose insertion is not recorded.
fn remove_unrecorded(text: &str, object: &Object<'_>, index: usize) -> String {
    let properties = &object.properties;
    let Range { start, end } = properties[index].range;
    let close = object.range.end - 1;
    let limit = properties.get(index + 1).map_or(close, |next| next.range.start);
    let comma_after = comma(text, end, limit);
    let end = comma_after.map_or(end, |comma| comma + 1);
    // If the next property is on the same line, the cut ends where it starts. Otherwise, the cut includes the white
    // space before the removed property.
    let space = text[..start].trim_end_matches([' ', '\t', '\r', '\n']).len();
    let next_on_line = properties.get(index + 1).is_some_and(|next| !text[end..next.range.start].contains('\n'));
    let cut = if next_on_line { Range::new(start, limit) } else { Range::new(space, end) };
    let comma_before = match (index.checked_sub(1), comma_after) {
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

/// Replaces a range of a text.
pub(super) fn splice(text: &str, range: Range, replacement: &str) -> String {
    format!("{}{replacement}{}", &text[..range.start], &text[range.end..])
}
