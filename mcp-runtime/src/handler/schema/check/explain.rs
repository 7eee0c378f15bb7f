//! Puts violations into words.

use super::{
    node::{Bound, Counts, Id, Node, ObjectRules, Types, Values},
    report::Collected,
    violation::{Path, Violation, shorten},
    walk::Walk,
};
use crate::{
    handler::schema::nearest::nearest,
    jsonrpc::raw::{self, Kind},
};

/// How many names or values are listed.
const LISTED: usize = 20;

/// How deep schemas are described.
const DEPTH: usize = 8;

/// Says which values there may be.
pub(super) fn expected_value(values: &[&Values], json: &str) -> String {
    let mut shown: Vec<&str> = Vec::new();
    for value in values.iter().flat_map(|values| &values.shown) {
        if !shown.contains(&&**value) {
            shown.push(value);
        }
    }
    let must = format!("must be {}", one_of(&shown));
    let strings = values.iter().flat_map(|values| &values.strings).map(|string| &**string);
    match raw::string(json).and_then(|word| nearest(&word, strings)) {
        Some(near) if shown.len() > 1 => format!("{must} (did you mean {near:?}?)"),
        _ => must,
    }
}

/// Says what a number must keep to: both ends of the range, so that one correction is enough.
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

/// Says what a length must keep to. The unit comes in singular and plural.
pub(super) fn length(counts: Counts, unit: [&str; 2]) -> String {
    let unit = |bound: u64| unit[usize::from(bound != 1)];
    match counts {
        Counts { least: 0, most } => format!("must have at most {most} {}", unit(most)),
        Counts { least, most: u64::MAX } => format!("must have at least {least} {}", unit(least)),
        Counts { least, most } if least == most => format!("must have exactly {least} {}", unit(least)),
        Counts { least, most } => format!("must have at least {least} and at most {most} {}", unit(most)),
    }
}

/// Says which items an array must contain.
pub(super) fn contains(nodes: &[Node], id: Id, counts: Counts) -> String {
    let fitting = describe(nodes, id).map_or(String::new(), |item| format!(" ({item})"));
    match counts {
        Counts { least: 1, most: u64::MAX } => format!("must contain an item that fits{fitting}"),
        Counts { least, most: u64::MAX } => format!("must contain at least {least} items that fit{fitting}"),
        Counts { least, most } => format!("must contain {least} to {most} items that fit{fitting}"),
    }
}

/// Says why a name is not allowed.
pub(super) fn name(walk: &mut Walk<'_>, id: Id, quoted: &str) -> String {
    let mut collected = Collected::default();
    let _ = walk.check(id, quoted, &Path::Root, &mut collected);
    match collected.finish().first() {
        Some(violation) => format!("is not an allowed name: it {}", violation.rule),
        None => "is not an allowed name".to_owned(),
    }
}

/// Says that there is no such property, and which there are.
pub(super) fn unknown(rules: &ObjectRules, name: &str, path: &Path<'_>) -> String {
    let names: Vec<&str> = rules.properties.iter().map(|property| &*property.name).collect();
    let what = if path.is_root() { "an argument" } else { "a property" };
    if names.is_empty() {
        return format!("is not {what}: none is expected");
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let quoted: Vec<&str> = quoted.iter().map(String::as_str).collect();
    let expected = one_of(&quoted);
    match nearest(name, names) {
        Some(near) => format!("is not {what}, did you mean `{near}`? expected {expected}"),
        None => format!("is not {what}, expected {expected}"),
    }
}

/// Says that a required property is missing, and what it would be.
pub(super) fn missing(nodes: &[Node], rules: &ObjectRules, name: &str, path: &Path<'_>) -> Violation {
    let expected = rules.property(name).and_then(|property| describe(nodes, property.node));
    let expected = expected.map_or(String::new(), |expected| format!(" ({expected})"));
    let rule = format!("is missing: it is required{expected}");
    Violation::new(&Path::Member(path, name).to_string(), None, &rule)
}

/// Describes what fits in a few words: `string`, `one of "a", "b"`, ``object with `kind` ``.
pub(super) fn describe(nodes: &[Node], id: Id) -> Option<String> {
    described(nodes, id, 0)
}

fn described(nodes: &[Node], id: Id, depth: usize) -> Option<String> {
    let node = &nodes[id];
    if let Some(values) = node.values.first() {
        return Some(one_of(&values.shown.iter().map(|value| &**value).collect::<Vec<_>>()));
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
    let logic = node.logic.as_ref().filter(|_| depth < DEPTH)?;
    if let Some(id) = logic.reference {
        return described(nodes, id, depth + 1);
    }
    let branches = if logic.any.is_empty() { &logic.one } else { &logic.any };
    let all = branches.iter().map(|&id| described(nodes, id, depth + 1)).collect::<Option<Vec<_>>>()?;
    (!all.is_empty() && all.len() <= LISTED).then(|| all.join(" or "))
}

/// Says why none of these schemas fits the value.
///
/// That is what is wrong by the one that was meant: the one of the right type, with the right tag, with most of the right
/// members. If none stands out, it says what would fit.
pub(super) fn branches(walk: &mut Walk<'_>, ids: &[Id], json: &str, path: &Path<'_>) -> Collected {
    let nodes = walk.nodes;
    let mut collected = Collected::default();
    let types: Vec<Option<Types>> = ids.iter().map(|&id| types_of(nodes, id, 0)).collect();
    let kind = raw::kind(json);
    let fits = |types: &Option<Types>| types.is_none_or(|types| types.accepts(kind, json));
    let mut candidates: Vec<Id> = ids.iter().zip(&types).filter(|(_, types)| fits(types)).map(|(&id, _)| id).collect();
    if candidates.is_empty() {
        let all = types.into_iter().flatten().fold(Types::default(), Types::with);
        let rule = format!("must be {}", all.in_words());
        collected.push(Violation::new(&path.to_string(), Some(json), &rule));
        return collected;
    }
    let listed: Vec<&Values> = candidates.iter().filter_map(|&id| nodes[id].values.first()).collect();
    if listed.len() == candidates.len() {
        let rule = expected_value(&listed, json);
        collected.push(Violation::new(&path.to_string(), Some(json), &rule));
        return collected;
    }
    if let Some(tag) = common_tag(nodes, &candidates) {
        let value = raw::members(json).find(|(name, _)| name == tag).map(|(_, value)| value);
        let tagged = |&id: &Id| value.is_some_and(|value| tag_of(nodes, id, tag).is_some_and(|it| contain(it, value)));
        let meant: Vec<Id> = candidates.iter().copied().filter(tagged).collect();
        if meant.is_empty() {
            collected.push(wrong_tag(nodes, &candidates, tag, value, path));
            return collected;
        }
        candidates = meant;
    }
    match best(walk, &candidates, json, path) {
        Some(best) => return best,
        None => {
            let forms: Option<Vec<String>> = candidates.iter().take(LISTED).map(|&id| describe(nodes, id)).collect();
            let rule = match forms {
                Some(forms) => format!("must fit one of these forms: {}", forms.join("; ")),
                None => format!("fits none of the {} forms that are allowed", candidates.len()),
            };
            collected.push(Violation::new(&path.to_string(), Some(json), &rule));
        }
    }
    collected
}

/// Returns what is wrong by the schema that fits best, if there is one such schema.
fn best(walk: &mut Walk<'_>, ids: &[Id], json: &str, path: &Path<'_>) -> Option<Collected> {
    let mut best: Option<((usize, usize), Collected)> = None;
    let mut clear = false;
    for &id in ids {
        let mut collected = Collected::default();
        let _ = walk.check(id, json, path, &mut collected);
        let score = (misfit(walk.nodes, id, json), collected.count());
        let order = best.as_ref().map(|(least, _)| score.cmp(least));
        if order.is_none_or(std::cmp::Ordering::is_lt) {
            best = Some((score, collected));
            clear = true;
        } else if order.is_some_and(std::cmp::Ordering::is_eq) {
            clear = false;
        }
    }
    best.filter(|((_, count), _)| clear && *count > 0).map(|(_, collected)| collected)
}

/// Counts the members that an object lacks or has too many.
fn misfit(nodes: &[Node], id: Id, json: &str) -> usize {
    let Some(rules) = object_of(nodes, id) else { return 0 };
    if raw::kind(json) != Kind::Object {
        return 0;
    }
    let missing = rules.required.iter().filter(|name| !raw::members(json).any(|(member, _)| *member == ***name));
    let closed = rules.patterns.is_empty() && rules.additional.is_some_and(|id| nodes[id].never);
    let unknown = raw::members(json).filter(|(name, _)| closed && rules.property(name).is_none());
    missing.count() + unknown.count()
}

/// Finds the property that tells the objects apart: each requires it, and each with its own values.
fn common_tag<'a>(nodes: &'a [Node], ids: &[Id]) -> Option<&'a str> {
    let first = object_of(nodes, *ids.first().filter(|_| ids.len() > 1)?)?;
    let everywhere = |name: &str| ids.iter().all(|&id| tag_of(nodes, id, name).is_some());
    first.properties.iter().map(|property| &*property.name).find(|name| everywhere(name))
}

fn tag_of<'a>(nodes: &'a [Node], id: Id, name: &str) -> Option<&'a Values> {
    let property = object_of(nodes, id)?.property(name).filter(|property| property.required)?;
    nodes[property.node].values.first().filter(|values| !values.strings.is_empty())
}

fn contain(values: &Values, json: &str) -> bool {
    values.contain(raw::kind(json), json)
}

fn wrong_tag(nodes: &[Node], ids: &[Id], tag: &str, value: Option<&str>, path: &Path<'_>) -> Violation {
    let values: Vec<&Values> = ids.iter().filter_map(|&id| tag_of(nodes, id, tag)).collect();
    let expected = expected_value(&values, value.unwrap_or_default());
    let rule = match value {
        Some(_) => expected,
        None => format!("is missing: it is required ({})", expected.trim_start_matches("must be ")),
    };
    Violation::new(&Path::Member(path, tag).to_string(), value, &rule)
}

fn object_of(nodes: &[Node], id: Id) -> Option<&ObjectRules> {
    let mut node = &nodes[id];
    for _ in 0..DEPTH {
        match (&node.object, node.logic.as_ref().and_then(|logic| logic.reference)) {
            (Some(rules), _) => return Some(rules),
            (None, Some(id)) => node = &nodes[id],
            (None, None) => return None,
        }
    }
    None
}

/// Returns the types that can fit, if the schema says so.
fn types_of(nodes: &[Node], id: Id, depth: usize) -> Option<Types> {
    let node = &nodes[id];
    if let Some(values) = node.values.first() {
        return Some(values.types);
    }
    if node.types.is_some() || node.never {
        return Some(node.types.unwrap_or_default());
    }
    let logic = node.logic.as_ref().filter(|_| depth < DEPTH)?;
    if let Some(id) = logic.reference {
        return types_of(nodes, id, depth + 1);
    }
    let branches = if logic.any.is_empty() { &logic.one } else { &logic.any };
    let all = branches.iter().map(|&id| types_of(nodes, id, depth + 1)).collect::<Option<Vec<_>>>()?;
    all.into_iter().reduce(Types::with)
}

/// Lists what there may be: `one of a, b`, and of a single one just that.
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
