//! Compiles schemas to nodes.

use std::{cmp::Ordering, collections::HashMap, fmt};

use regex_lite::Regex;
use serde_json::{Map, Value};

use super::{
    format::Format,
    node::{
        Applicators, ArrayRules, Bound, Counts, Id, Node, NumberRules, ObjectRules, PropertyRules, StringRules, Types,
        Values,
    },
    number::Number,
};
use crate::handler::schema::{
    error::SchemaError,
    pointer,
    subschemas::{DIALECT, subschemas},
};

/// The maximum nesting depth of schemas.
const DEPTH: usize = 128;

/// Compiles a schema. The first node is the root.
pub(super) fn compile(schema: &Value) -> Result<Vec<Node>, SchemaError> {
    let mut compiler = Compiler { root: schema, nodes: Vec::new(), ids: HashMap::new(), pending: Vec::new() };
    compiler.reserve(schema);
    // The targets of references are compiled here rather than recursively, so a chain of references needs no stack.
    while let Some((id, schema)) = compiler.pending.pop() {
        compiler.nodes[id] = compiler.node(schema, 0)?;
    }
    Ok(compiler.nodes)
}

struct Compiler<'a> {
    root: &'a Value,
    nodes: Vec<Node>,
    /// The nodes of the targets of references, by the address of the schema.
    ids: HashMap<*const Value, Id>,
    /// Nodes that are reserved but not yet compiled.
    pending: Vec<(Id, &'a Value)>,
}

impl<'a> Compiler<'a> {
    /// Reserves a node for the target of a reference, to be compiled later.
    fn reserve(&mut self, schema: &'a Value) -> Id {
        let next = self.nodes.len();
        let id = *self.ids.entry(std::ptr::from_ref(schema)).or_insert(next);
        if id == next {
            self.nodes.push(Node::default());
            self.pending.push((id, schema));
        }
        id
    }

    fn add(&mut self, schema: &'a Value, depth: usize) -> Result<Id, SchemaError> {
        if depth >= DEPTH {
            return Err(SchemaError::new(format!("the schema is nested deeper than {DEPTH} levels")));
        }
        let node = self.node(schema, depth + 1)?;
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    fn node(&mut self, schema: &'a Value, depth: usize) -> Result<Node, SchemaError> {
        let schema = match schema {
            Value::Bool(all) => return Ok(Node { never: !all, ..Node::default() }),
            Value::Object(schema) => schema,
            other => return Err(must_be("a schema", "an object or a boolean", other)),
        };
        check_dialect(schema)?;
        let has = Groups::of(schema);
        let mut node = Node { types: types(schema)?, ..Node::default() };
        if has.number {
            node.number = number(schema)?;
        }
        if has.string {
            node.string = string(schema)?;
        }
        if let Some(values) = array_of(schema, "enum")? {
            node.values.push(Values::new(values));
        }
        if let Some(value) = schema.get("const") {
            node.values.push(Values::new(std::slice::from_ref(value)));
        }
        if has.array {
            node.array = self.array(schema, depth)?;
        }
        if has.object {
            node.object = self.object(schema, depth)?;
        }
        if has.applicators {
            node.applicators = self.applicators(schema, depth)?;
        }
        Ok(node)
    }

    fn array(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Result<Option<Box<ArrayRules>>, SchemaError> {
        let keywords = ["minItems", "maxItems", "uniqueItems", "prefixItems", "items", "contains"];
        if !has_any(schema, &keywords) {
            return Ok(None);
        }
        let contains = match self.one(schema, "contains", depth)? {
            Some(id) => {
                let counts = counts(schema, "minContains", "maxContains")?;
                let least = if schema.contains_key("minContains") { counts.least } else { 1 };
                Some((id, Counts { least, ..counts }))
            }
            None => None,
        };
        Ok(Some(Box::new(ArrayRules {
            length: counts(schema, "minItems", "maxItems")?,
            unique: schema.get("uniqueItems") == Some(&Value::Bool(true)),
            prefix: self.list(schema, "prefixItems", depth)?,
            // A schema that accepts everything is dropped.
            items: self.one(schema, "items", depth)?.filter(|&id| !self.nodes[id].is_empty()),
            contains,
        })))
    }

    fn object(
        &mut self,
        schema: &'a Map<String, Value>,
        depth: usize,
    ) -> Result<Option<Box<ObjectRules>>, SchemaError> {
        let keywords = [
            "minProperties",
            "maxProperties",
            "required",
            "properties",
            "patternProperties",
            "additionalProperties",
            "propertyNames",
            "dependentRequired",
            "dependentSchemas",
        ];
        if !has_any(schema, &keywords) {
            return Ok(None);
        }
        let required = names(schema.get("required"), "`required`")?;
        let mut properties = Vec::new();
        for (name, node) in self.named(schema, "properties", depth)? {
            let required = required.contains(&name);
            properties.push(PropertyRules { name, node, required });
        }
        properties.sort_by(|left, right| left.name.cmp(&right.name));
        let mut patterns = Vec::new();
        for (pattern, node) in self.named(schema, "patternProperties", depth)? {
            patterns.push((regex(&pattern)?, node));
        }
        let mut dependent_required = Vec::new();
        for (name, value) in object_of(schema, "dependentRequired")?.into_iter().flatten() {
            dependent_required.push((name.as_str().into(), names(Some(value), "each member of `dependentRequired`")?));
        }
        Ok(Some(Box::new(ObjectRules {
            length: counts(schema, "minProperties", "maxProperties")?,
            required,
            properties,
            patterns,
            additional: self.one(schema, "additionalProperties", depth)?.filter(|&id| !self.nodes[id].is_empty()),
            names: self.one(schema, "propertyNames", depth)?,
            dependent_required,
            dependent_schemas: self.named(schema, "dependentSchemas", depth)?,
        })))
    }

    fn applicators(
        &mut self,
        schema: &'a Map<String, Value>,
        depth: usize,
    ) -> Result<Option<Box<Applicators>>, SchemaError> {
        if !has_any(schema, &["$ref", "allOf", "anyOf", "oneOf", "not", "if"]) {
            return Ok(None);
        }
        let reference = match schema.get("$ref") {
            None => None,
            Some(Value::String(reference)) => {
                let target = resolve(self.root, reference).ok_or_else(|| unresolved(reference))?;
                Some(self.reserve(target))
            }
            Some(other) => return Err(must_be("`$ref`", "a string", other)),
        };
        let condition = self.one(schema, "if", depth)?;
        Ok(Some(Box::new(Applicators {
            reference,
            all: self.list(schema, "allOf", depth)?,
            any: self.list(schema, "anyOf", depth)?,
            one: self.list(schema, "oneOf", depth)?,
            not: self.one(schema, "not", depth)?,
            then: if condition.is_some() { self.one(schema, "then", depth)? } else { None },
            otherwise: if condition.is_some() { self.one(schema, "else", depth)? } else { None },
            condition,
        })))
    }

    fn one(&mut self, schema: &'a Map<String, Value>, keyword: &str, depth: usize) -> Result<Option<Id>, SchemaError> {
        schema.get(keyword).map(|inner| self.add(inner, depth)).transpose()
    }

    fn list(&mut self, schema: &'a Map<String, Value>, keyword: &str, depth: usize) -> Result<Vec<Id>, SchemaError> {
        let list = array_of(schema, keyword)?;
        if list.is_some_and(<[Value]>::is_empty) {
            return Err(SchemaError::new(format!("`{keyword}` must not be empty")));
        }
        list.into_iter().flatten().map(|inner| self.add(inner, depth)).collect()
    }

    fn named(
        &mut self,
        schema: &'a Map<String, Value>,
        keyword: &str,
        depth: usize,
    ) -> Result<Vec<(Box<str>, Id)>, SchemaError> {
        let named = object_of(schema, keyword)?.into_iter().flatten();
        named.map(|(name, inner)| Ok((name.as_str().into(), self.add(inner, depth)?))).collect()
    }
}

/// Finds the target of a local reference: the root, a JSON pointer, or an anchor.
fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let fragment = reference.strip_prefix('#')?;
    if fragment.is_empty() {
        return Some(root);
    }
    let Some(path) = fragment.strip_prefix('/') else { return anchored(root, fragment) };
    path.split('/').try_fold(root, |target, token| {
        let token = pointer::decode(token)?;
        match target {
            Value::Object(map) => map.get(&token),
            Value::Array(list) => list.get(token.parse::<usize>().ok()?),
            _ => None,
        }
    })
}

fn anchored<'a>(root: &'a Value, name: &str) -> Option<&'a Value> {
    let mut pending = vec![root];
    while let Some(schema) = pending.pop() {
        let Value::Object(members) = schema else { continue };
        if members.get("$anchor").is_some_and(|anchor| anchor == name) {
            return Some(schema);
        }
        pending.extend(subschemas(members));
    }
    None
}

fn check_dialect(schema: &Map<String, Value>) -> Result<(), SchemaError> {
    match schema.get("$schema") {
        Some(dialect) if dialect.as_str().is_none_or(|dialect| dialect.trim_end_matches('#') != DIALECT) => {
            Err(SchemaError::new(format!("unsupported `$schema` {dialect}, expected `{DIALECT}`")))
        }
        _ => Ok(()),
    }
}

fn types(schema: &Map<String, Value>) -> Result<Option<Types>, SchemaError> {
    let named = |name: &Value| {
        let known = name.as_str().and_then(Types::named);
        known.ok_or_else(|| must_be("`type`", "a JSON type or an array of JSON types", name))
    };
    match schema.get("type") {
        None => Ok(None),
        Some(Value::Array(names)) => {
            let all = names.iter().map(named).collect::<Result<Vec<_>, _>>()?;
            Ok(Some(all.into_iter().fold(Types::default(), Types::with)))
        }
        Some(name) => named(name).map(Some),
    }
}

fn number(schema: &Map<String, Value>) -> Result<Option<Box<NumberRules>>, SchemaError> {
    let mut rules = NumberRules::default();
    for (keyword, beyond, inclusive) in [
        ("minimum", Ordering::Less, true),
        ("exclusiveMinimum", Ordering::Less, false),
        ("maximum", Ordering::Greater, true),
        ("exclusiveMaximum", Ordering::Greater, false),
    ] {
        if let Some((value, shown)) = number_of(schema, keyword)? {
            rules.bounds.push(Bound { value, beyond, inclusive, shown });
        }
    }
    rules.multiple_of = number_of(schema, "multipleOf")?;
    if let Some((of, shown)) = &rules.multiple_of
        && of.compare(Number::Integer(0)) != Some(Ordering::Greater)
    {
        return Err(must_be("`multipleOf`", "greater than 0", shown));
    }
    let empty = rules.bounds.is_empty() && rules.multiple_of.is_none();
    Ok((!empty).then(|| Box::new(rules)))
}

fn number_of(schema: &Map<String, Value>, keyword: &str) -> Result<Option<(Number, Box<str>)>, SchemaError> {
    let Some(value) = schema.get(keyword) else { return Ok(None) };
    let shown = value.to_string();
    let number = if value.is_number() { Number::parse(&shown) } else { None };
    let number = number.ok_or_else(|| must_be(&format!("`{keyword}`"), "a number", &shown))?;
    Ok(Some((number, shown.into())))
}

fn string(schema: &Map<String, Value>) -> Result<Option<Box<StringRules>>, SchemaError> {
    let pattern = match schema.get("pattern") {
        None => None,
        Some(Value::String(pattern)) => Some(regex(pattern)?),
        Some(other) => return Err(must_be("`pattern`", "a string", other)),
    };
    let format = schema.get("format").and_then(Value::as_str).and_then(Format::named);
    if pattern.is_none() && format.is_none() && !has_any(schema, &["minLength", "maxLength"]) {
        return Ok(None);
    }
    Ok(Some(Box::new(StringRules { length: counts(schema, "minLength", "maxLength")?, pattern, format })))
}

fn regex(pattern: &str) -> Result<Regex, SchemaError> {
    Regex::new(pattern).map_err(|error| SchemaError::new(format!("unsupported pattern `{pattern}`: {error}")))
}

fn counts(schema: &Map<String, Value>, least: &str, most: &str) -> Result<Counts, SchemaError> {
    let count = |keyword: &str, default: u64| match schema.get(keyword) {
        None => Ok(default),
        Some(value) => {
            // `2.0` is an integer, too.
            let number = super::number::integer(&value.to_string(), 20).and_then(|text| text.parse().ok());
            number.ok_or_else(|| must_be(&format!("`{keyword}`"), "a non-negative integer", value))
        }
    };
    Ok(Counts { least: count(least, 0)?, most: count(most, u64::MAX)? })
}

/// Reads an array of property names.
fn names(value: Option<&Value>, keyword: &str) -> Result<Vec<Box<str>>, SchemaError> {
    let invalid = |found: &Value| must_be(keyword, "an array of strings", found);
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(names)) => {
            names.iter().map(|name| name.as_str().map(Box::from).ok_or_else(|| invalid(name))).collect()
        }
        Some(other) => Err(invalid(other)),
    }
}

fn array_of<'a>(schema: &'a Map<String, Value>, keyword: &str) -> Result<Option<&'a [Value]>, SchemaError> {
    match schema.get(keyword) {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(must_be(&format!("`{keyword}`"), "an array", other)),
    }
}

fn object_of<'a>(schema: &'a Map<String, Value>, keyword: &str) -> Result<Option<&'a Map<String, Value>>, SchemaError> {
    match schema.get(keyword) {
        None => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(other) => Err(must_be(&format!("`{keyword}`"), "an object", other)),
    }
}

fn has_any(schema: &Map<String, Value>, keywords: &[&str]) -> bool {
    keywords.iter().any(|keyword| schema.contains_key(*keyword))
}

fn must_be(subject: &str, expected: &str, found: impl fmt::Display) -> SchemaError {
    SchemaError::new(format!("{subject} must be {expected}, found `{found}`"))
}

fn unresolved(reference: &str) -> SchemaError {
    SchemaError::new(format!("unresolved reference `{reference}`: only references within the schema are supported"))
}

/// The groups of keywords that occur in a schema. The others are skipped.
#[derive(Debug, Default)]
struct Groups {
    number: bool,
    string: bool,
    array: bool,
    object: bool,
    applicators: bool,
}

impl Groups {
    fn of(schema: &Map<String, Value>) -> Self {
        let mut has = Self::default();
        for keyword in schema.keys() {
            let group = match keyword.as_str() {
                "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum" | "multipleOf" => &mut has.number,
                "pattern" | "format" | "minLength" | "maxLength" => &mut has.string,
                "minItems" | "maxItems" | "uniqueItems" | "prefixItems" | "items" | "contains" | "minContains"
                | "maxContains" => &mut has.array,
                "minProperties"
                | "maxProperties"
                | "required"
                | "properties"
                | "patternProperties"
                | "additionalProperties"
                | "propertyNames"
                | "dependentRequired"
                | "dependentSchemas" => &mut has.object,
                "$ref" | "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => &mut has.applicators,
                _ => continue,
            };
            *group = true;
        }
        has
    }
}
