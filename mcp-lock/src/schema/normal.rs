//! Normalizes schemas: resolves references, merges `allOf`, and expands alternatives.

use serde_json::{Map, Value, json};

use super::values::{Types, shown};

/// A schema with its definitions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'a>(pub(super) &'a Value);

/// A schema without `$ref` and `allOf`, as far as they can be merged.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Normal {
    /// A schema that accepts no value.
    Never,
    /// The keywords of the schema.
    Members(Map<String, Value>),
}

/// The maximum length of a chain of references, and the maximum depth of nested unions.
const MAX_REFERENCES: usize = 32;

/// The keywords with alternatives.
const UNIONS: [&str; 2] = ["anyOf", "oneOf"];

/// The maximum number of unions that are expanded for one schema.
const MAX_UNIONS: usize = 256;

/// The maximum number of values of an `enum` that are compared as alternatives.
const MAX_ALTERNATIVES: usize = 256;

impl<'a> Document<'a> {
    /// Normalizes a schema of this document.
    pub(super) fn normal(self, schema: &Value) -> Normal {
        self.resolved(schema, MAX_REFERENCES, &mut Vec::new())
    }

    /// Normalizes a part of a schema. `merged` contains the targets of the references that the schema has had so far:
    /// merging one of them again would add nothing.
    fn resolved(self, schema: &Value, remaining: usize, merged: &mut Vec<&'a Value>) -> Normal {
        let Value::Object(members) = schema else {
            return if *schema == false { Normal::Never } else { Normal::Members(Map::new()) };
        };
        let mut members = members.clone();
        let mut parts = Vec::new();
        if let Some(target) = members.get("$ref").and_then(Value::as_str).and_then(|reference| self.target(reference))
            && remaining > 0
        {
            members.shift_remove("$ref");
            if !merged.iter().any(|known| std::ptr::eq(*known, target)) {
                merged.push(target);
                parts.push(target.clone());
            }
        }
        if let Some(Value::Array(all)) = members.shift_remove("allOf") {
            parts.extend(all);
        }
        for part in parts {
            match self.resolved(&part, remaining.saturating_sub(1), merged) {
                Normal::Never => return Normal::Never,
                Normal::Members(part) => merge(&mut members, part),
            }
        }
        Normal::Members(members)
    }

    /// Returns the target of a reference within the document.
    fn target(self, reference: &str) -> Option<&'a Value> {
        self.0.pointer(reference.strip_prefix('#')?)
    }

    /// Returns the alternatives of a schema, each with a single type or branch, or the schema itself if it has none.
    /// Returns `None` if it has too many unions, or if they are nested too deeply.
    pub(super) fn variants(self, members: &Map<String, Value>) -> Option<Vec<Normal>> {
        let mut remaining = MAX_UNIONS;
        let variants = self.expanded(members, &mut Vec::new(), &mut remaining)?;
        Some(variants.into_iter().flat_map(by_type).flat_map(by_value).map(Normal::Members).collect())
    }

    /// Expands a union, and the unions among its branches. `outer` contains the enclosing unions. A branch that is one of
    /// them is left out, since it accepts no further values.
    fn expanded(
        self,
        members: &Map<String, Value>,
        outer: &mut Vec<Map<String, Value>>,
        remaining: &mut usize,
    ) -> Option<Vec<Map<String, Value>>> {
        *remaining = remaining.checked_sub(1).filter(|_| outer.len() < MAX_REFERENCES)?;
        outer.push(members.clone());
        let mut variants = vec![members.clone()];
        for keyword in UNIONS {
            let mut next = Vec::new();
            for mut variant in variants {
                let Some(Value::Array(branches)) = variant.shift_remove(keyword) else {
                    next.push(variant);
                    continue;
                };
                // Annotations of the union do not apply to a single alternative.
                for annotation in ["title", "description", "default", "examples"] {
                    variant.shift_remove(annotation);
                }
                for branch in &branches {
                    let Normal::Members(mut merged) = self.normal(branch) else { continue };
                    merge(&mut merged, variant.clone());
                    if !is_union(&merged) {
                        next.push(merged);
                    } else if !outer.contains(&merged) {
                        next.extend(self.expanded(&merged, outer, remaining)?);
                    }
                }
            }
            variants = next;
        }
        outer.pop();
        Some(variants)
    }
}

/// Returns whether equal references have equal targets in two documents: the definitions are equal, and all references
/// point to them.
pub(super) fn have_same_targets(old: &Value, new: &Value) -> bool {
    let definitions = ["$defs", "definitions"];
    definitions.iter().all(|keyword| old.get(keyword) == new.get(keyword))
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

/// Returns whether a schema has alternatives.
pub(super) fn is_union(members: &Map<String, Value>) -> bool {
    UNIONS.iter().any(|keyword| members.get(*keyword).is_some_and(Value::is_array))
}

/// Splits a schema with several types.
fn by_type(members: Map<String, Value>) -> Vec<Map<String, Value>> {
    let Some(Value::Array(types)) = members.get("type").cloned() else { return vec![members] };
    let one = |name: Value| {
        let mut members = members.clone();
        members.insert("type".to_owned(), name);
        members
    };
    types.into_iter().map(one).collect()
}

/// Splits a schema with several values.
fn by_value(members: Map<String, Value>) -> Vec<Map<String, Value>> {
    match super::values::enumerated(&members) {
        Some(values) if values.len() > 1 && values.len() <= MAX_ALTERNATIVES => {
            values.into_iter().map(|value| Map::from_iter([("const".to_owned(), value)])).collect()
        }
        _ => vec![members],
    }
}

/// Merges a schema into another. Keywords that cannot be merged are added to `allOf`.
fn merge(members: &mut Map<String, Value>, part: Map<String, Value>) {
    let mut rest = Map::new();
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
            // The annotations of the referring schema take precedence.
            ("title" | "description" | "default" | "examples" | "$defs" | "definitions" | "$schema" | "$id", ..) => {}
            _ => {
                rest.insert(keyword, value);
            }
        }
    }
    if !rest.is_empty()
        && let Value::Array(all) = members.entry("allOf").or_insert_with(|| json!([]))
    {
        all.push(Value::Object(rest));
    }
}

impl Normal {
    pub(super) fn types(&self) -> Types {
        match self {
            Self::Never => Types::of(&Map::new()),
            Self::Members(members) => Types::of(members),
        }
    }

    /// Returns whether another alternative can be the counterpart of this one.
    pub(super) fn corresponds_to(&self, other: &Self) -> bool {
        self.tags() == other.tags() && !self.types().is_disjoint(other.types())
    }

    /// Returns the members with a constant value, which distinguish alternatives.
    fn tags(&self) -> Vec<(String, String)> {
        let Self::Members(members) = self else { return Vec::new() };
        let properties = members.get("properties").and_then(Value::as_object).into_iter().flatten();
        let constant =
            |property: &Value| super::values::enumerated(property.as_object()?).filter(|values| values.len() == 1);
        let mut tags: Vec<_> =
            properties.filter_map(|(name, property)| Some((name.clone(), shown(&constant(property)?[0])))).collect();
        tags.sort();
        tags
    }

    /// Describes the alternative in a few words.
    pub(super) fn describe(&self) -> String {
        let Self::Members(members) = self else { return "`false`".to_owned() };
        if let Some(values) = super::values::enumerated(members) {
            return values.iter().map(shown).collect::<Vec<_>>().join(", ");
        }
        let tags = self.tags();
        let types = shown(&self.types().shown());
        match (members.get("title").and_then(Value::as_str), &*tags) {
            (_, [(name, value), ..]) => format!("{types} with `{name}` {value}"),
            (Some(title), []) => format!("{types} `{title}`"),
            (None, []) => types,
        }
    }
}
