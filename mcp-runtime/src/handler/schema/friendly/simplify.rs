//! Rewrites schemas into ones that mean the same and that more clients understand.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{
    merge::{choices_to_enum, drop_null, merge},
    walk::{Holds, each_reference, each_within, holds, read_references, size},
};
use crate::handler::schema::pointer;

/// How many values may be copied to replace references in one schema. A type that nests others many times over would else grow
/// beyond all bounds; behind this limit its references stay.
const COPIED_VALUES: usize = 10_000;

/// How deep schemas may nest before references are left alone.
const DEPTH: usize = 100;

/// Simplifies schemas that share one set of definitions.
#[derive(Debug)]
pub(super) struct Simplifier {
    definitions: Map<String, Value>,
    recursive: BTreeSet<String>,
    /// Whether an optional property loses `null`.
    nullless: bool,
    /// Definitions that a kept reference names.
    kept: BTreeSet<String>,
    /// Definitions that authors wrote into their schemas. References are about the root, so that is where they belong.
    hoisted: Map<String, Value>,
    /// How many enclosing schemas define a name for themselves.
    shadowed: BTreeMap<String, usize>,
    copied: usize,
}

/// Where a schema stands.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// It is that of a property which may be absent.
    optional: bool,
    /// It is asserted of the instance as it is, and not part of a condition. Only then may a change narrow what it accepts.
    plain: bool,
    /// A reference is replaced even if it recurs.
    root: bool,
    depth: usize,
}

impl Simplifier {
    pub(super) fn new(definitions: Map<String, Value>, nullless: bool) -> Self {
        Self {
            recursive: recursive(&definitions),
            definitions,
            nullless,
            kept: BTreeSet::new(),
            hoisted: Map::new(),
            shadowed: BTreeMap::new(),
            copied: 0,
        }
    }

    /// Simplifies the schema of a property of the root.
    pub(super) fn property(&mut self, schema: Value, optional: bool) -> Value {
        self.schema(schema, Place { optional, plain: true, root: false, depth: 0 })
    }

    /// Simplifies a schema that becomes the root. It is spelled out even if its type recurs.
    pub(super) fn root(&mut self, schema: Value) -> Value {
        self.schema(schema, Place { optional: false, plain: true, root: true, depth: 0 })
    }

    /// Returns the definitions that the simplified schemas still refer to.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        let mut finished = Map::new();
        while let Some(name) = self.kept.iter().find(|name| !finished.contains_key(*name)).cloned() {
            let schema = self.definitions.get(&name).cloned().unwrap_or_default();
            let schema = match schema {
                Value::Object(map) => self.object(map, Place { optional: false, plain: true, root: false, depth: 0 }),
                other => other,
            };
            finished.insert(name, schema);
        }
        finished.append(&mut self.hoisted);
        finished
    }

    fn schema(&mut self, schema: Value, place: Place) -> Value {
        match schema {
            Value::Bool(true) => json!({}),
            Value::Object(map) => self.object(map, place),
            other => other,
        }
    }

    fn object(&mut self, mut schema: Map<String, Value>, place: Place) -> Value {
        // Below an `$id` references mean something else.
        if schema.contains_key("$id") || place.depth > DEPTH {
            self.keep_references(&schema);
            return Value::Object(schema);
        }
        let mut own = self.shadow(&schema);
        let mut replaced = BTreeSet::new();
        loop {
            if place.optional && self.nullless {
                schema = drop_null(schema);
            }
            match self.resolve(&mut schema, place.root, &mut replaced) {
                Some(definition) => {
                    let siblings = std::mem::replace(&mut schema, definition);
                    schema = merge(schema, siblings);
                    own.extend(self.shadow(&schema));
                }
                None => break,
            }
        }
        if generated_format(&schema) {
            schema.remove("format");
        }
        self.within(&mut schema, place);
        for name in own {
            self.shadowed.entry(name).and_modify(|count| *count -= 1);
        }
        choices_to_enum(&mut schema);
        if place.plain {
            state_items(&mut schema);
        }
        self.hoist(&mut schema);
        Value::Object(schema)
    }

    /// Takes the reference out of the schema if it can be replaced, and returns what it refers to.
    fn resolve(
        &mut self,
        schema: &mut Map<String, Value>,
        root: bool,
        replaced: &mut BTreeSet<String>,
    ) -> Option<Map<String, Value>> {
        let name = self.definition(schema.get("$ref")?.as_str()?)?;
        // What recurs is spelled out once, at the root. The second time round the reference stays.
        if self.recursive.contains(&name) && !(root && replaced.insert(name.clone())) {
            self.kept.insert(name);
            return None;
        }
        let definition = match self.definitions.get(&name) {
            Some(Value::Object(definition)) => definition,
            Some(Value::Bool(true)) => &Map::new(),
            _ => {
                self.kept.insert(name);
                return None;
            }
        };
        let copied = self.copied + definition.values().map(size).sum::<usize>();
        if copied > COPIED_VALUES {
            self.kept.insert(name);
            return None;
        }
        self.copied = copied;
        let definition = definition.clone();
        schema.remove("$ref");
        Some(definition)
    }

    /// Returns the name of the generator's definition that a reference is about.
    fn definition(&self, reference: &str) -> Option<String> {
        let name = pointer::definition(reference)?;
        let shadowed = self.shadowed.get(&name).is_some_and(|&count| count > 0);
        (!shadowed && self.definitions.contains_key(&name)).then_some(name)
    }

    /// Simplifies what stands within the schema.
    fn within(&mut self, schema: &mut Map<String, Value>, place: Place) {
        let required: Vec<String> = match schema.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let depth = place.depth + 1;
        each_within(schema, &mut |keyword, name, inner| {
            let condition = matches!(keyword, "if" | "then" | "else" | "not" | "contains" | "dependentSchemas");
            let plain = place.plain && !condition;
            let optional =
                plain && keyword == "properties" && name.is_some_and(|name| !required.iter().any(|r| r == name));
            // `additionalProperties: true` is how everyone writes it.
            if inner.is_boolean() && holds(keyword) == Holds::One && keyword != "items" {
                return;
            }
            *inner = self.schema(inner.take(), Place { optional, plain, root: false, depth });
        });
    }

    /// Notes the names that the schema defines for itself.
    fn shadow(&mut self, schema: &Map<String, Value>) -> Vec<String> {
        let Some(Value::Object(own)) = schema.get("$defs") else { return Vec::new() };
        let names: Vec<String> = own.keys().cloned().collect();
        for name in &names {
            *self.shadowed.entry(name.clone()).or_default() += 1;
        }
        names
    }

    /// Moves the schema's own definitions to the root, where references to them point, as far as their names are free there.
    fn hoist(&mut self, schema: &mut Map<String, Value>) {
        let Some(Value::Object(own)) = schema.remove("$defs") else { return };
        let mut left = Map::new();
        for (name, definition) in own {
            let free = !self.definitions.contains_key(&name)
                && self.hoisted.get(&name).is_none_or(|hoisted| *hoisted == definition);
            let target = if free { &mut self.hoisted } else { &mut left };
            target.insert(name, definition);
        }
        if !left.is_empty() {
            schema.insert("$defs".to_owned(), Value::Object(left));
        }
    }

    /// Keeps whatever a schema that is left as it is refers to.
    fn keep_references(&mut self, schema: &Map<String, Value>) {
        let mut schema = Value::Object(schema.clone());
        each_reference(&mut schema, &mut |reference| {
            if let Some(name) = self.definition(reference) {
                self.kept.insert(name);
            }
        });
    }
}

/// Finds the definitions that refer to themselves, directly or through others.
fn recursive(definitions: &Map<String, Value>) -> BTreeSet<String> {
    let mut references: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, schema) in definitions {
        let found = references.entry(name).or_default();
        read_references(schema, &mut |reference| found.extend(pointer::definition(reference)));
    }
    let recurs = |start: &&String| {
        let mut seen = BTreeSet::new();
        let mut open = vec![start.as_str()];
        while let Some(name) = open.pop() {
            for next in references.get(name).into_iter().flatten() {
                if next == *start {
                    return true;
                }
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        false
    };
    definitions.keys().filter(recurs).cloned().collect()
}

/// Tells whether the schema has a `format` that names a Rust type and that no specification registers.
fn generated_format(schema: &Map<String, Value>) -> bool {
    let Some(format) = schema.get("format").and_then(Value::as_str) else { return false };
    let digits = format.strip_prefix('u').unwrap_or(format).strip_prefix("int");
    digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        || matches!(format, "isize" | "usize" | "float" | "double" | "decimal" | "char" | "ip" | "partial-date-time")
}

/// Says of an array whose items are not described, or only those in front, what they are: some clients refuse such an array.
fn state_items(schema: &mut Map<String, Value>) {
    let array = schema.get("type").is_some_and(|kind| kind == "array");
    if !array || schema.contains_key("items") || schema.contains_key("unevaluatedItems") {
        return;
    }
    let items = match schema.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice) {
        None => json!({}),
        Some(prefix) => {
            let closed = schema.get("maxItems").and_then(Value::as_u64) == u64::try_from(prefix.len()).ok();
            match prefix {
                [first, rest @ ..] if closed && rest.iter().all(|other| other == first) => first.clone(),
                _ => json!({}),
            }
        }
    };
    schema.insert("items".to_owned(), items);
}
