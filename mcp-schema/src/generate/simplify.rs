//! Rewrites schemas into equivalent schemas that more clients understand.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::merge::{choices_to_enum, drop_null, merge};
use crate::{
    references,
    schema::{
        KeywordValue, NULLABLE, has_any, is_condition, size, visit_references, visit_references_mut,
        visit_subschemas_mut,
    },
};

/// The maximum number of values that are copied to inline references. Repeatedly nested types would otherwise grow
/// exponentially; beyond this limit, references are kept.
pub(super) const COPIED_VALUES: usize = 10_000;

/// The nesting depth beyond which schemas are left unchanged.
const DEPTH: usize = 100;

/// A simplifier for schemas that share one set of definitions.
#[derive(Debug)]
pub(super) struct Simplifier {
    definitions: Map<String, Value>,
    recursive: BTreeSet<String>,
    /// Whether `null` is removed from optional properties.
    drops_null: bool,
    /// Whether arrays get the `items` that they lack. They would count as evaluated for an `unevaluatedItems` outside.
    adds_items: bool,
    /// The definitions that references still point to.
    kept: BTreeSet<String>,
    /// Definitions that authors wrote into nested schemas. They move to the root, where references to them point.
    hoisted: Map<String, Value>,
    /// For each name, the number of enclosing schemas that define it themselves.
    shadowed: BTreeMap<String, usize>,
    copied: usize,
}

/// The context of a schema.
#[derive(Debug, Clone, Copy)]
struct SchemaContext {
    /// Whether the schema describes an optional property.
    optional: bool,
    /// Whether the schema applies unconditionally. Only then may a rewrite narrow the set of accepted values.
    asserted: bool,
    /// Whether the schema is the root or an argument, where references to recursive types are inlined as well.
    root: bool,
    depth: usize,
}

impl Simplifier {
    pub(super) fn new(definitions: Map<String, Value>, drops_null: bool) -> Self {
        Self {
            recursive: recursive(&definitions),
            adds_items: !definitions.values().any(has_unevaluated_items),
            definitions,
            drops_null,
            kept: BTreeSet::new(),
            hoisted: Map::new(),
            shadowed: BTreeMap::new(),
            copied: 0,
        }
    }

    /// Simplifies the schema of a property of the root. It is inlined even if its type is recursive.
    pub(super) fn property(&mut self, schema: Value, optional: bool) -> Value {
        self.adds_items &= !has_unevaluated_items(&schema);
        self.schema(schema, SchemaContext { optional, asserted: true, root: true, depth: 0 })
    }

    /// Simplifies a schema that becomes the root. It is inlined even if its type is recursive.
    pub(super) fn root(&mut self, schema: Value) -> Value {
        self.property(schema, false)
    }

    /// Returns the definitions that references still point to.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        let mut finished = Map::new();
        while let Some(name) = self.kept.iter().find(|name| !finished.contains_key(*name)).cloned() {
            let schema = self.definitions.get(&name).cloned().unwrap_or_default();
            let schema = match schema {
                Value::Object(map) => {
                    self.object(map, SchemaContext { optional: false, asserted: true, root: false, depth: 0 })
                }
                other => other,
            };
            finished.insert(name, schema);
        }
        finished.append(&mut self.hoisted);
        finished
    }

    fn schema(&mut self, schema: Value, context: SchemaContext) -> Value {
        match schema {
            Value::Bool(true) => json!({}),
            Value::Object(map) => self.object(map, context),
            other => other,
        }
    }

    fn object(&mut self, mut schema: Map<String, Value>, context: SchemaContext) -> Value {
        if context.depth > DEPTH {
            self.keep_references(&schema);
            return Value::Object(schema);
        }
        let mut own = self.shadow(&schema);
        let mut replaced = BTreeSet::new();
        let mut nullable = false;
        loop {
            // An `$id` changes the base of references.
            if has_any(&schema, &["$id"]) {
                self.embed(&mut schema);
                break;
            }
            if context.optional && self.drops_null {
                nullable |= drop_null(&mut schema);
            }
            match self.resolve(&mut schema, context.root, &mut replaced) {
                Some(definition) => {
                    let siblings = std::mem::replace(&mut schema, definition);
                    schema = merge(schema, siblings);
                    own.extend(self.shadow(&schema));
                }
                None => break,
            }
        }
        if !has_any(&schema, &["$id"]) {
            self.keywords(&mut schema, context);
        }
        for name in own {
            self.shadowed.entry(name).and_modify(|count| *count -= 1);
        }
        if nullable {
            schema.insert(NULLABLE.to_owned(), true.into());
        }
        Value::Object(schema)
    }

    /// Simplifies the keywords of a schema whose reference has been inlined.
    fn keywords(&mut self, schema: &mut Map<String, Value>, context: SchemaContext) {
        if generated_format(schema) {
            schema.shift_remove("format");
        }
        self.nested(schema, context);
        choices_to_enum(schema);
        if context.asserted && self.adds_items {
            add_items(schema);
        }
        self.hoist(schema);
    }

    /// Removes the reference from the schema and returns its target, if it can be inlined.
    fn resolve(
        &mut self,
        schema: &mut Map<String, Value>,
        root: bool,
        replaced: &mut BTreeSet<String>,
    ) -> Option<Map<String, Value>> {
        let name = self.definition(schema.get("$ref")?.as_str()?)?;
        // A recursive type is inlined once, at the root or in an argument.
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
        schema.shift_remove("$ref");
        Some(definition)
    }

    /// Returns the name of the generator's definition that a reference points to.
    fn definition(&self, reference: &str) -> Option<String> {
        let name = references::definition(reference)?;
        let shadowed = self.shadowed.get(&name).is_some_and(|&count| count > 0);
        (!shadowed && self.definitions.contains_key(&name)).then_some(name)
    }

    /// Simplifies the subschemas.
    fn nested(&mut self, schema: &mut Map<String, Value>, context: SchemaContext) {
        let required: Vec<String> = match schema.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let depth = context.depth + 1;
        visit_subschemas_mut(schema, &mut |keyword, name, inner| {
            let asserted = context.asserted && !is_condition(keyword);
            let optional =
                asserted && keyword == "properties" && name.is_some_and(|name| !required.iter().any(|r| r == name));
            // `additionalProperties: true` is the customary form.
            if inner.is_boolean() && KeywordValue::of(keyword) == KeywordValue::Schema && keyword != "items" {
                return;
            }
            *inner = self.schema(inner.take(), SchemaContext { optional, asserted, root: false, depth });
        });
    }

    /// Marks the names that the schema defines itself as shadowed and returns them.
    fn shadow(&mut self, schema: &Map<String, Value>) -> Vec<String> {
        if !has_any(schema, &["$defs"]) {
            return Vec::new();
        }
        let Some(Value::Object(own)) = schema.get("$defs") else { return Vec::new() };
        let names: Vec<String> = own.keys().cloned().collect();
        for name in &names {
            *self.shadowed.entry(name.clone()).or_default() += 1;
        }
        names
    }

    /// Moves the schema's own definitions to the root, where references to them point. If the root has another definition
    /// with one of their names, they are renamed.
    fn hoist(&mut self, schema: &mut Map<String, Value>) {
        if !has_any(schema, &["$defs"]) {
            return;
        }
        let Some(Value::Object(mut own)) = schema.shift_remove("$defs") else { return };
        let is_taken = |name: &str| self.definitions.contains_key(name) || self.hoisted.contains_key(name);
        let is_same = |(name, definition): (&String, &Value)| self.hoisted.get(name) == Some(definition);
        if !own.iter().all(|defined| is_same(defined) || !is_taken(defined.0)) {
            let is_free = |name: &String| !is_taken(name) && !own.contains_key(name);
            let rename = |name: &String| {
                let new = || (2_u32..).map(|number| format!("{name}{number}")).find(is_free);
                (name.clone(), if is_taken(name) { new().unwrap_or_default() } else { name.clone() })
            };
            let names: BTreeMap<String, String> = own.keys().map(rename).collect();
            let mut rename = |reference: &mut String| references::rename(reference, &names);
            let mut rest = Value::Object(std::mem::take(schema));
            std::iter::once(&mut rest).chain(own.values_mut()).for_each(|part| visit_references_mut(part, &mut rename));
            if let Value::Object(rest) = rest {
                *schema = rest;
            }
            own = own.into_iter().map(|(name, definition)| (names[&name].clone(), definition)).collect();
        }
        self.hoisted.append(&mut own);
    }

    /// Adds the generator's definitions that a schema with an `$id` refers to: its references cannot leave it.
    fn embed(&self, schema: &mut Map<String, Value>) {
        let mut names = Vec::new();
        let find = |schema: &Value, names: &mut Vec<String>| {
            visit_references(schema, &mut |reference| names.extend(self.definition(reference)));
        };
        find(&Value::Object(schema.clone()), &mut names);
        let mut embedded = Map::new();
        while let Some(name) = names.pop() {
            if let Some(definition) = self.definitions.get(&name).filter(|_| !embedded.contains_key(&name)) {
                find(definition, &mut names);
                embedded.insert(name, definition.clone());
            }
        }
        if !embedded.is_empty()
            && let Value::Object(own) = schema.entry("$defs").or_insert_with(|| json!({}))
        {
            own.append(&mut embedded);
        }
    }

    /// Keeps the definitions that an unchanged schema refers to.
    fn keep_references(&mut self, schema: &Map<String, Value>) {
        visit_references(&Value::Object(schema.clone()), &mut |reference| {
            if let Some(name) = self.definition(reference) {
                self.kept.insert(name);
            }
        });
    }
}

/// Finds the definitions that refer to themselves, directly or through other definitions.
fn recursive(definitions: &Map<String, Value>) -> BTreeSet<String> {
    let mut references: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, schema) in definitions {
        let found = references.entry(name).or_default();
        visit_references(schema, &mut |reference| found.extend(references::definition(reference)));
    }
    let is_recursive = |start: &&String| {
        let mut seen = BTreeSet::new();
        let mut pending = vec![start.as_str()];
        while let Some(name) = pending.pop() {
            for next in references.get(name).into_iter().flatten() {
                if next == *start {
                    return true;
                }
                if seen.insert(next) {
                    pending.push(next);
                }
            }
        }
        false
    };
    definitions.keys().filter(is_recursive).cloned().collect()
}

/// Returns whether the schema has a `format` that names a Rust type and is not registered by any specification.
fn generated_format(schema: &Map<String, Value>) -> bool {
    let Some(format) = schema.get("format").and_then(Value::as_str) else { return false };
    let digits = format.strip_prefix('u').unwrap_or(format).strip_prefix("int");
    digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        || matches!(format, "isize" | "usize" | "float" | "double" | "decimal" | "char" | "ip" | "partial-date-time")
}

/// Returns whether a schema or one of its subschemas has `unevaluatedItems`.
fn has_unevaluated_items(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            members.contains_key("unevaluatedItems") || members.values().any(has_unevaluated_items)
        }
        Value::Array(items) => items.iter().any(has_unevaluated_items),
        _ => false,
    }
}

/// Adds the `items` that an array lacks, because some clients reject arrays without them.
fn add_items(schema: &mut Map<String, Value>) {
    let array = schema.get("type").is_some_and(|kind| kind == "array");
    if !array || schema.contains_key("items") {
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
