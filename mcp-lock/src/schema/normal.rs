//! One way to write what schemas write in several: references followed, `allOf` folded, alternatives spread out.

use serde_json::{Map, Value, json};

use super::values::{Types, shown};

/// A schema and the definitions that its references lead to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'a>(pub(super) &'a Value);

/// A schema whose own keywords say all there is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Normal {
    /// It takes nothing.
    Never,
    Members(Map<String, Value>),
}

/// The most references from one to the next.
const LONGEST: usize = 32;

/// The most alternatives that are spread out.
const MOST: usize = 256;

impl<'a> Document<'a> {
    pub(super) fn normal(self, schema: &Value) -> Normal {
        self.followed(schema, LONGEST)
    }

    fn followed(self, schema: &Value, left: usize) -> Normal {
        let Value::Object(members) = schema else {
            return if *schema == false { Normal::Never } else { Normal::Members(Map::new()) };
        };
        let mut members = members.clone();
        let mut parts = Vec::new();
        if let Some(target) = members.get("$ref").and_then(Value::as_str).and_then(|reference| self.target(reference))
            && left > 0
        {
            members.remove("$ref");
            parts.push(target.clone());
        }
        if let Some(Value::Array(all)) = members.get("allOf").cloned() {
            members.remove("allOf");
            parts.extend(all);
        }
        for part in parts {
            match self.followed(&part, left.saturating_sub(1)) {
                Normal::Never => return Normal::Never,
                Normal::Members(part) => fold(&mut members, part),
            }
        }
        Normal::Members(members)
    }

    /// What a reference within the document leads to.
    fn target(self, reference: &str) -> Option<&'a Value> {
        self.0.pointer(reference.strip_prefix('#')?)
    }

    /// The alternatives of a schema, each of one type or of one branch; the schema itself if it has none.
    pub(super) fn variants(self, members: &Map<String, Value>) -> Vec<Normal> {
        let mut variants = vec![members.clone()];
        for keyword in ["anyOf", "oneOf"] {
            let mut next = Vec::new();
            for mut variant in variants {
                let Some(Value::Array(branches)) = variant.remove(keyword) else {
                    next.push(variant);
                    continue;
                };
                // What is said of all of them is said of none of them.
                for words in ["title", "description", "default", "examples"] {
                    variant.remove(words);
                }
                for branch in &branches {
                    if let Normal::Members(branch) = self.normal(branch) {
                        let mut folded = branch;
                        fold(&mut folded, variant.clone());
                        match is_union(&folded) && next.len() < MOST {
                            true => {
                                next.extend(self.variants(&folded).into_iter().filter_map(|variant| match variant {
                                    Normal::Members(members) => Some(members),
                                    Normal::Never => None,
                                }))
                            }
                            false => next.push(folded),
                        }
                    }
                }
            }
            variants = next;
        }
        variants.into_iter().flat_map(by_type).flat_map(by_value).map(Normal::Members).collect()
    }
}

/// Says whether the same text refers to the same in two documents: all references lead to definitions, which are the same.
pub(super) fn mean_the_same(old: &Value, new: &Value) -> bool {
    let definitions = ["$defs", "definitions"];
    definitions.iter().all(|word| old.get(word) == new.get(word))
        && stays_in_definitions(old)
        && stays_in_definitions(new)
}

fn stays_in_definitions(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().all(|(name, member)| match (name.as_str(), member) {
            ("$ref", Value::String(reference)) => {
                reference.starts_with("#/$defs/") || reference.starts_with("#/definitions/")
            }
            _ => stays_in_definitions(member),
        }),
        Value::Array(items) => items.iter().all(stays_in_definitions),
        _ => true,
    }
}

/// Says whether a schema has alternatives.
pub(super) fn is_union(members: &Map<String, Value>) -> bool {
    members.get("anyOf").is_some_and(Value::is_array) || members.get("oneOf").is_some_and(Value::is_array)
}

/// One schema for each of several types.
fn by_type(members: Map<String, Value>) -> Vec<Map<String, Value>> {
    let Some(Value::Array(types)) = members.get("type").cloned() else { return vec![members] };
    let one = |name: Value| {
        let mut members = members.clone();
        members.insert("type".to_owned(), name);
        members
    };
    types.into_iter().map(one).collect()
}

/// One schema for each of several values.
fn by_value(members: Map<String, Value>) -> Vec<Map<String, Value>> {
    match super::values::enumerated(&members) {
        Some(values) if values.len() > 1 && values.len() <= MOST => {
            values.into_iter().map(|value| Map::from_iter([("const".to_owned(), value)])).collect()
        }
        _ => vec![members],
    }
}

/// Adds what must hold as well. Two that cannot be written as one stay beside each other, in `allOf`.
fn fold(members: &mut Map<String, Value>, part: Map<String, Value>) {
    let mut beside = Map::new();
    for (keyword, value) in part {
        let Some(present) = members.get_mut(&keyword) else {
            members.insert(keyword, value);
            continue;
        };
        match (keyword.as_str(), &mut *present, &value) {
            (_, present, value) if present == value => {}
            ("required", Value::Array(names), Value::Array(more)) => {
                names.extend(more.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
            }
            ("properties", Value::Object(properties), Value::Object(more)) => {
                for (name, property) in more {
                    match properties.get_mut(name) {
                        None => {
                            properties.insert(name.clone(), property.clone());
                        }
                        Some(present) if present == property => {}
                        Some(present) => *present = json!({"allOf": [present.clone(), property.clone()]}),
                    }
                }
            }
            ("minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties", present, value) => {
                if value.as_f64() > present.as_f64() {
                    *present = value.clone();
                }
            }
            ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties", present, value) => {
                if value.as_f64() < present.as_f64() {
                    *present = value.clone();
                }
            }
            // What stands nearer to its use says it better.
            ("title" | "description" | "default" | "examples" | "$defs" | "definitions" | "$schema" | "$id", ..) => {}
            _ => {
                beside.insert(keyword, value);
            }
        }
    }
    if !beside.is_empty()
        && let Value::Array(all) = members.entry("allOf").or_insert_with(|| json!([]))
    {
        all.push(Value::Object(beside));
    }
}

impl Normal {
    pub(super) fn types(&self) -> Types {
        match self {
            Self::Never => Types::of(&Map::new()),
            Self::Members(members) => Types::of(members),
        }
    }

    /// Says whether another alternative can be what this one was.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.names() == other.names() && !self.types().is_disjoint(other.types())
    }

    /// What tells one alternative of objects from another: its members that have only one value.
    fn names(&self) -> Vec<(String, String)> {
        let Self::Members(members) = self else { return Vec::new() };
        let properties = members.get("properties").and_then(Value::as_object).into_iter().flatten();
        let constant =
            |property: &Value| super::values::enumerated(property.as_object()?).filter(|values| values.len() == 1);
        let mut names: Vec<_> =
            properties.filter_map(|(name, property)| Some((name.clone(), shown(&constant(property)?[0])))).collect();
        names.sort();
        names
    }

    /// A few words for an alternative.
    pub(super) fn described(&self) -> String {
        let Self::Members(members) = self else { return "of nothing".to_owned() };
        if let Some(values) = super::values::enumerated(members) {
            return values.iter().map(shown).collect::<Vec<_>>().join(", ");
        }
        let names = self.names();
        let types = shown(&self.types().shown());
        match (members.get("title").and_then(Value::as_str), &*names) {
            (_, [(name, value), ..]) => format!("{types} with `{name}` {value}"),
            (Some(title), []) => format!("{types} `{title}`"),
            (None, []) => types,
        }
    }
}
