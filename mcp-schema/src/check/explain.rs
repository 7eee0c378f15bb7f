//! Phrases the messages of violations.

use std::{borrow::Cow, collections::HashSet};

use super::{
    node::{Bound, Counts, Id, Node, ObjectRules, Types, Values},
    violation::{Collector, Path, Violation, shorten},
};
use crate::json::{self, Kind};

/// The maximum number of listed names or values.
const LISTED: usize = 20;
/// The number of schemas that a description may cover.
const DESCRIBED: usize = 100;

/// The maximum depth to which schemas are described.
const DEPTH: usize = 8;

/// Lists the allowed values.
pub(super) fn expected_value(values: &[&Values], json: &str) -> String {
    let mut shown: Vec<&str> = Vec::new();
    for value in values.iter().flat_map(|values| &values.shown) {
        if !shown.contains(&&**value) {
            shown.push(value);
        }
        // More are not listed.
        if shown.len() > LISTED {
            break;
        }
    }
    let must = format!("must be {}", one_of(&shown));
    let strings = values.iter().flat_map(|values| &values.strings).map(|string| &**string);
    match json::string(json).and_then(|word| nearest(&word, strings)) {
        Some(near) if shown.len() > 1 => format!("{must} (did you mean {near:?}?)"),
        _ => must,
    }
}

/// Describes the range of a number. Names both bounds, so that a single correction suffices.
pub(super) fn bounds(bounds: &[Bound]) -> String {
    let bounds: Vec<String> = bounds.iter().map(bound).collect();
    format!("must be {}", bounds.join(" and "))
}

fn bound(bound: &Bound) -> String {
    let words = match (bound.beyond.is_lt(), bound.inclusive) {
        (true, true) => "at least",
        (true, false) => "greater than",
        (false, true) => "at most",
        (false, false) => "less than",
    };
    format!("{words} {}", bound.shown)
}

/// Describes the range of a length. The unit is given in singular and plural.
pub(super) fn length(counts: Counts, unit: [&str; 2]) -> String {
    let unit = |bound: u64| unit[usize::from(bound != 1)];
    match counts {
        Counts { least: 0, most } => format!("must have at most {most} {}", unit(most)),
        Counts { least, most: u64::MAX } => format!("must have at least {least} {}", unit(least)),
        Counts { least, most } if least == most => format!("must have exactly {least} {}", unit(least)),
        Counts { least, most } => format!("must have at least {least} and at most {most} {}", unit(most)),
    }
}

/// Describes the items that an array must contain.
pub(super) fn contains(nodes: &[Node], id: Id, counts: Counts) -> String {
    let item = describe(nodes, id).map_or(String::new(), |item| format!(" ({item})"));
    match counts {
        Counts { least: 1, most: u64::MAX } => format!("must contain a matching item{item}"),
        Counts { least, most: u64::MAX } => format!("must contain at least {least} matching items{item}"),
        Counts { least, most } => format!("must contain {least} to {most} matching items{item}"),
    }
}

/// Explains why a property name is not allowed.
pub(super) fn name(violations: Collector) -> String {
    match violations.finish().first() {
        Some(violation) => format!("is not an allowed name: it {}", violation.rule),
        None => "is not an allowed name".to_owned(),
    }
}

/// Describes an unknown property and lists the known properties.
pub(super) fn unknown(rules: &ObjectRules, name: &str, path: &Path<'_>) -> String {
    let names: Vec<&str> = rules.properties.iter().map(|property| &*property.name).collect();
    let (kind, kinds) = if path.is_root() { ("an argument", "arguments") } else { ("a property", "properties") };
    if names.is_empty() {
        return format!("is not {kind}, no {kinds} are expected");
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let quoted: Vec<&str> = quoted.iter().map(String::as_str).collect();
    let expected = one_of(&quoted);
    match nearest(name, names) {
        Some(near) => format!("is not {kind}, expected {expected} (did you mean `{near}`?)"),
        None => format!("is not {kind}, expected {expected}"),
    }
}

/// Describes a required property that is missing.
pub(super) fn missing(nodes: &[Node], rules: &ObjectRules, name: &str, path: &Path<'_>) -> Violation {
    let expected = rules.property(name).and_then(|property| describe(nodes, property.node));
    let expected = expected.map_or(String::new(), |expected| format!(" ({expected})"));
    let rule = format!("is required{expected}");
    Violation::at(&Path::Member(path, name), None, rule)
}

/// Describes valid values in a few words: `string`, `one of "a", "b"`, ``object with `kind` ``.
pub(super) fn describe(nodes: &[Node], id: Id) -> Option<String> {
    describe_at(nodes, id, &mut { DESCRIBED })
}

fn describe_at(nodes: &[Node], id: Id, left: &mut usize) -> Option<String> {
    *left = left.checked_sub(1)?;
    let node = &nodes[id];
    if let Some(values) = node.values.first() {
        return Some(one_of(&values.shown.iter().take(LISTED + 1).map(|value| &**value).collect::<Vec<_>>()));
    }
    if let (Some(rules), true) = (&node.object, node.types.is_none_or(|types| types == Types::of(Kind::Object)))
        && !rules.required.is_empty()
    {
        let names: Vec<String> = rules.required.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
        return Some(format!("object with {}", names.join(", ")));
    }
    if let Some(types) = node.types {
        return Some(types.plain());
    }
    let applicators = node.applicators.as_ref()?;
    if let Some(id) = applicators.reference {
        return describe_at(nodes, id, left);
    }
    let branches = if applicators.any.is_empty() { &applicators.one } else { &applicators.any };
    if branches.is_empty() || branches.len() > LISTED {
        return None;
    }
    let all = branches.iter().map(|&id| describe_at(nodes, id, left)).collect::<Option<Vec<_>>>()?;
    Some(all.join(" or "))
}

/// Explains why the value matches none of these schemas.
///
/// Reports the violations of the schema that was probably meant: the schema with the right type, the right tag, and
/// most of the right members. If several are equally likely, lists the alternatives. `check` returns the violations of
/// one of the schemas.
pub(super) fn branches(
    nodes: &[Node],
    ids: &[Id],
    json: &str,
    path: &Path<'_>,
    check: &mut dyn FnMut(Id) -> Collector,
) -> Collector {
    let mut collected = Collector::default();
    let types: Vec<Option<Types>> = ids.iter().map(|&id| types_of(nodes, id)).collect();
    let kind = json::kind(json);
    let accepts = |types: &Option<Types>| types.is_none_or(|types| types.accepts(kind, json));
    let mut candidates: Vec<Id> =
        ids.iter().zip(&types).filter(|(_, types)| accepts(types)).map(|(&id, _)| id).collect();
    if candidates.is_empty() {
        let all = types.into_iter().flatten().fold(Types::default(), Types::with);
        let rule = format!("must be {}", all.in_words());
        collected.push(Violation::at(path, Some(json), rule));
        return collected;
    }
    let listed: Vec<&Values> = candidates.iter().filter_map(|&id| nodes[id].values.first()).collect();
    if listed.len() == candidates.len() {
        let rule = expected_value(&listed, json);
        collected.push(Violation::at(path, Some(json), rule));
        return collected;
    }
    if let Some(tag) = common_tag(nodes, &candidates) {
        let value = json::members(json).find(|(name, _)| name == tag).map(|(_, value)| value);
        let tagged = |&id: &Id| value.is_some_and(|value| tag_of(nodes, id, tag).is_some_and(|it| contain(it, value)));
        let meant: Vec<Id> = candidates.iter().copied().filter(tagged).collect();
        if meant.is_empty() {
            collected.push(wrong_tag(nodes, &candidates, tag, value, path));
            return collected;
        }
        candidates = meant;
    }
    if let Some(best) = best(nodes, &candidates, json, check) {
        return best;
    }
    let alternatives: Option<Vec<String>> = candidates.iter().take(LISTED).map(|&id| describe(nodes, id)).collect();
    let rule = match alternatives {
        Some(alternatives) => format!("must match one of: {}", alternatives.join("; ")),
        None => format!("matches none of the {} allowed schemas", candidates.len()),
    };
    collected.push(Violation::at(path, Some(json), rule));
    collected
}

/// Returns the violations of the best match, unless several match equally well.
fn best(nodes: &[Node], ids: &[Id], json: &str, check: &mut dyn FnMut(Id) -> Collector) -> Option<Collector> {
    let mut best: Option<((usize, usize), Collector)> = None;
    let mut is_unique = false;
    for &id in ids {
        let collected = check(id);
        let score = (mismatches(nodes, id, json), collected.count());
        let order = best.as_ref().map(|(least, _)| score.cmp(least));
        if order.is_none_or(std::cmp::Ordering::is_lt) {
            best = Some((score, collected));
            is_unique = true;
        } else if order.is_some_and(std::cmp::Ordering::is_eq) {
            is_unique = false;
        }
    }
    best.filter(|((_, count), _)| is_unique && *count > 0).map(|(_, collected)| collected)
}

/// Counts the missing and the unknown members of an object.
fn mismatches(nodes: &[Node], id: Id, json: &str) -> usize {
    let Some(rules) = object_of(nodes, id) else { return 0 };
    if json::kind(json) != Kind::Object {
        return 0;
    }
    let members: HashSet<Cow<'_, str>> = json::members(json).map(|(name, _)| name).collect();
    let missing = rules.required.iter().filter(|name| !members.contains(&***name));
    let closed = rules.patterns.is_empty() && rules.additional.is_some_and(|id| nodes[id].never);
    let unknown = json::members(json).filter(|(name, _)| closed && rules.property(name).is_none());
    missing.count() + unknown.count()
}

/// Finds the property that distinguishes the objects: all require it, each with different values.
fn common_tag<'a>(nodes: &'a [Node], ids: &[Id]) -> Option<&'a str> {
    let first = object_of(nodes, *ids.first().filter(|_| ids.len() > 1)?)?;
    let everywhere = |name: &str| ids.iter().all(|&id| tag_of(nodes, id, name).is_some());
    first.properties.iter().map(|property| &*property.name).find(|name| everywhere(name))
}

fn tag_of<'a>(nodes: &'a [Node], id: Id, name: &str) -> Option<&'a Values> {
    let object = object_of(nodes, id)?;
    let property = object.property(name).filter(|property| object.required.contains(&property.name))?;
    nodes[property.node].values.first().filter(|values| !values.strings.is_empty())
}

fn contain(values: &Values, json: &str) -> bool {
    values.contain(json::kind(json), json)
}

fn wrong_tag(nodes: &[Node], ids: &[Id], tag: &str, value: Option<&str>, path: &Path<'_>) -> Violation {
    let values: Vec<&Values> = ids.iter().filter_map(|&id| tag_of(nodes, id, tag)).collect();
    let expected = expected_value(&values, value.unwrap_or_default());
    let rule = match value {
        Some(_) => expected,
        None => format!("is required ({})", expected.trim_start_matches("must be ")),
    };
    Violation::at(&Path::Member(path, tag), value, rule)
}

fn object_of(nodes: &[Node], id: Id) -> Option<&ObjectRules> {
    let mut node = &nodes[id];
    for _ in 0..DEPTH {
        match (&node.object, node.applicators.as_ref().and_then(|applicators| applicators.reference)) {
            (Some(rules), _) => return Some(rules),
            (None, Some(id)) => node = &nodes[id],
            (None, None) => return None,
        }
    }
    None
}

/// Returns the valid types, if the schema restricts them.
fn types_of(nodes: &[Node], id: Id) -> Option<Types> {
    let (mut seen, mut pending) = (HashSet::new(), vec![id]);
    let mut types: Option<Types> = None;
    while let Some(id) = pending.pop() {
        if !seen.insert(id) {
            continue;
        }
        let node = &nodes[id];
        let own = node.values.first().map(|values| values.types).or(node.types).or(node.never.then(Types::default));
        if let Some(own) = own {
            types = Some(types.unwrap_or_default().with(own));
            continue;
        }
        let applicators = node.applicators.as_ref()?;
        let branches = if applicators.any.is_empty() { &applicators.one } else { &applicators.any };
        match applicators.reference {
            Some(id) => pending.push(id),
            None if branches.is_empty() => return None,
            None => pending.extend(branches),
        }
    }
    types
}

/// Lists alternatives: `one of a, b`, or just `a`.
fn one_of(items: &[&str]) -> String {
    if let [only] = items {
        return shorten(only);
    }
    let mut listed: Vec<String> = items.iter().take(LISTED).map(|item| shorten(item)).collect();
    if items.len() > LISTED {
        listed.push("…".to_owned());
    }
    format!("one of {}", listed.join(", "))
}

/// Returns the name that is closest to `word`, if at most a third of its characters, rounded up, and at most four
/// differ.
///
/// Ignores ASCII case and the difference between `-` and `_`. Words longer than 64 characters have no suggestion, and
/// only the first of many names are considered.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    /// The maximum number of pairs of characters that are compared.
    const PAIRS: usize = 1 << 16;

    if word.is_empty() || word.len() > LONGEST * 4 {
        return None;
    }
    let word = folded(word);
    let length = word.chars().count();
    if length > LONGEST {
        return None;
    }
    let mut pairs = PAIRS;
    names
        .into_iter()
        .map(|name| (name, folded(name)))
        .map(|(name, folded)| (name, folded.chars().count(), folded))
        .filter(|(_, count, _)| *count <= LONGEST && count.abs_diff(length) <= count / 2)
        .take_while(|(_, count, _)| {
            pairs = pairs.saturating_sub(count * length);
            pairs > 0
        })
        .map(|(name, count, folded)| (strsim::osa_distance(&word, &folded), count.max(length), name))
        .filter(|&(distance, length, _)| distance <= length.div_ceil(3).min(4) && distance < length)
        .min_by_key(|&(distance, ..)| distance)
        .map(|(.., name)| name)
}

fn folded(name: &str) -> String {
    name.chars().map(|char| if char == '-' { '_' } else { char.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_close_names() {
        let names = ["color", "size", "limit", "read_only", "path", "a", "ids"];
        for (word, expected) in [
            ("colour", Some("color")),
            ("Color", Some("color")),
            ("clor", Some("color")),
            ("isze", Some("size")),
            ("read-only", Some("read_only")),
            ("readonly", Some("read_only")),
            ("limits", Some("limit")),
            ("id", Some("ids")),
            ("apth", Some("path")),
            ("sxe", Some("size")),
            ("A", Some("a")),
            ("b", None),
            ("query", None),
            ("", None),
            ("colossal", None),
            ("ünïcödé", None),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
        assert_eq!(nearest("formel", ["formal", "casual"]), Some("formal"));
        assert_eq!(nearest(&"x".repeat(1 << 20), names), None);
        assert_eq!(nearest("a", []), None);
        let mut considered = 0;
        let many = std::iter::repeat_n("0123456789", 100_000).inspect(|_| considered += 1);
        assert_eq!((nearest("abcdefghij", many), considered), (None, 656));
    }
}
