//! From a schema to nodes.

use std::{cmp::Ordering, collections::HashMap};

use regex_lite::Regex;
use serde_json::{Map, Value};

use super::{
    format::Format,
    node::{
        ArrayRules, Bound, Counts, Id, Logic, Node, NumberRules, ObjectRules, PropertyRules, StringRules, Types, Values,
    },
    number::Number,
};
use crate::handler::schema::pointer;

/// How deep schemas may nest.
const DEPTH: usize = 128;

/// What a schema may call its dialect.
///
/// See [JSON Schema usage](https://modelcontextprotocol.io/specification/2025-11-25/basic#json-schema-usage).
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Compiles a schema. The first node is the root.
///
/// # Errors
///
/// A sentence that says what is wrong with the schema.
pub(super) fn compile(schema: &Value) -> Result<Vec<Node>, String> {
    let mut compiler = Compiler { root: schema, nodes: Vec::new(), ids: HashMap::new(), open: Vec::new() };
    compiler.later(schema);
    // References are followed from here, so that a chain of them needs no stack.
    while let Some((id, schema)) = compiler.open.pop() {
        compiler.nodes[id] = compiler.node(schema, 0)?;
    }
    Ok(compiler.nodes)
}

struct Compiler<'a> {
    root: &'a Value,
    nodes: Vec<Node>,
    /// The nodes of schemas that references are about, by the address of the schema.
    ids: HashMap<*const Value, Id>,
    /// Nodes that have a place and are not yet made.
    open: Vec<(Id, &'a Value)>,
}

impl<'a> Compiler<'a> {
    /// Gives the target of a reference its place, to be compiled when its turn comes.
    fn later(&mut self, schema: &'a Value) -> Id {
        let next = self.nodes.len();
        let id = *self.ids.entry(std::ptr::from_ref(schema)).or_insert(next);
        if id == next {
            self.nodes.push(Node::default());
            self.open.push((id, schema));
        }
        id
    }

    fn add(&mut self, schema: &'a Value, depth: usize) -> Result<Id, String> {
        if depth >= DEPTH {
            return Err(format!("the schema is nested deeper than {DEPTH} levels"));
        }
        let node = self.node(schema, depth + 1)?;
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    fn node(&mut self, schema: &'a Value, depth: usize) -> Result<Node, String> {
        let schema = match schema {
            Value::Bool(all) => return Ok(Node { never: !all, ..Node::default() }),
            Value::Object(schema) => schema,
            other => return Err(format!("a schema must be an object or a boolean, found `{other}`")),
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
        if has.logic {
            node.logic = self.logic(schema, depth)?;
        }
        Ok(node)
    }

    fn array(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Result<Option<Box<ArrayRules>>, String> {
        let keywords = ["minItems", "maxItems", "uniqueItems", "prefixItems", "items", "contains"];
        if !says(schema, &keywords) {
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
            // What fits anything need not be looked at.
            items: self.one(schema, "items", depth)?.filter(|&id| !self.nodes[id].is_empty()),
            contains,
        })))
    }

    fn object(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Result<Option<Box<ObjectRules>>, String> {
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
        if !says(schema, &keywords) {
            return Ok(None);
        }
        let required = names(schema.get("required"), "required")?;
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
            dependent_required.push((name.as_str().into(), names(Some(value), "dependentRequired")?));
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

    fn logic(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Result<Option<Box<Logic>>, String> {
        if !says(schema, &["$ref", "allOf", "anyOf", "oneOf", "not", "if"]) {
            return Ok(None);
        }
        let reference = match schema.get("$ref") {
            None => None,
            Some(Value::String(reference)) => {
                let target = resolve(self.root, reference);
                let target =
                    target.ok_or_else(|| format!("the reference `{reference}` leads to no schema within this one"))?;
                Some(self.later(target))
            }
            Some(other) => return Err(format!("`$ref` must be a string, found `{other}`")),
        };
        let condition = self.one(schema, "if", depth)?;
        Ok(Some(Box::new(Logic {
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

    fn one(&mut self, schema: &'a Map<String, Value>, keyword: &str, depth: usize) -> Result<Option<Id>, String> {
        schema.get(keyword).map(|inner| self.add(inner, depth)).transpose()
    }

    fn list(&mut self, schema: &'a Map<String, Value>, keyword: &str, depth: usize) -> Result<Vec<Id>, String> {
        let list = array_of(schema, keyword)?;
        if list.is_some_and(<[Value]>::is_empty) {
            return Err(format!("`{keyword}` must not be empty"));
        }
        list.into_iter().flatten().map(|inner| self.add(inner, depth)).collect()
    }

    fn named(
        &mut self,
        schema: &'a Map<String, Value>,
        keyword: &str,
        depth: usize,
    ) -> Result<Vec<(Box<str>, Id)>, String> {
        let named = object_of(schema, keyword)?.into_iter().flatten();
        named.map(|(name, inner)| Ok((name.as_str().into(), self.add(inner, depth)?))).collect()
    }
}

/// Finds what a local reference is about: the root, a place given by a pointer, or an anchor.
fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let fragment = reference.strip_prefix('#')?;
    if fragment.is_empty() {
        return Some(root);
    }
    let Some(path) = fragment.strip_prefix('/') else { return anchored(root, fragment) };
    path.split('/').try_fold(root, |place, token| {
        let token = pointer::decode(token)?;
        match place {
            Value::Object(map) => map.get(&token),
            Value::Array(list) => list.get(token.parse::<usize>().ok()?),
            _ => None,
        }
    })
}

fn anchored<'a>(root: &'a Value, name: &str) -> Option<&'a Value> {
    let mut open = vec![root];
    while let Some(place) = open.pop() {
        match place {
            Value::Object(map) if map.get("$anchor").is_some_and(|anchor| anchor == name) => return Some(place),
            Value::Object(map) => open.extend(map.values()),
            Value::Array(list) => open.extend(list),
            _ => {}
        }
    }
    None
}

fn check_dialect(schema: &Map<String, Value>) -> Result<(), String> {
    match schema.get("$schema") {
        Some(dialect) if dialect.as_str().is_none_or(|dialect| dialect.trim_end_matches('#') != DIALECT) => {
            Err(format!("the dialect {dialect} is not supported, expected `{DIALECT}`"))
        }
        _ => Ok(()),
    }
}

fn types(schema: &Map<String, Value>) -> Result<Option<Types>, String> {
    let named = |name: &Value| {
        let known = name.as_str().and_then(Types::named);
        known.ok_or_else(|| format!("`type` must name types of JSON, found `{name}`"))
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

fn number(schema: &Map<String, Value>) -> Result<Option<Box<NumberRules>>, String> {
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
        return Err(format!("`multipleOf` must be above 0, found `{shown}`"));
    }
    let empty = rules.bounds.is_empty() && rules.multiple_of.is_none();
    Ok((!empty).then(|| Box::new(rules)))
}

fn number_of(schema: &Map<String, Value>, keyword: &str) -> Result<Option<(Number, Box<str>)>, String> {
    let Some(value) = schema.get(keyword) else { return Ok(None) };
    let shown = value.to_string();
    let number = if value.is_number() { Number::parse(&shown) } else { None };
    let number = number.ok_or_else(|| format!("`{keyword}` must be a number, found `{shown}`"))?;
    Ok(Some((number, shown.into())))
}

fn string(schema: &Map<String, Value>) -> Result<Option<Box<StringRules>>, String> {
    let pattern = match schema.get("pattern") {
        None => None,
        Some(Value::String(pattern)) => Some(regex(pattern)?),
        Some(other) => return Err(format!("`pattern` must be a string, found `{other}`")),
    };
    let format = schema.get("format").and_then(Value::as_str).and_then(Format::named);
    if pattern.is_none() && format.is_none() && !says(schema, &["minLength", "maxLength"]) {
        return Ok(None);
    }
    Ok(Some(Box::new(StringRules { length: counts(schema, "minLength", "maxLength")?, pattern, format })))
}

fn regex(pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| format!("the pattern `{pattern}` is not supported: {error}"))
}

fn counts(schema: &Map<String, Value>, least: &str, most: &str) -> Result<Counts, String> {
    let count = |keyword: &str, default: u64| match schema.get(keyword) {
        None => Ok(default),
        Some(value) => {
            // `2.0` is a count too.
            let number = super::number::integer(&value.to_string(), 20).and_then(|text| text.parse().ok());
            number.ok_or_else(|| format!("`{keyword}` must be a count, found `{value}`"))
        }
    };
    Ok(Counts { least: count(least, 0)?, most: count(most, u64::MAX)? })
}

fn names(value: Option<&Value>, keyword: &str) -> Result<Vec<Box<str>>, String> {
    let wrong = || format!("`{keyword}` must hold arrays of names");
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(names)) => names.iter().map(|name| name.as_str().map(Box::from).ok_or_else(wrong)).collect(),
        Some(_) => Err(wrong()),
    }
}

fn array_of<'a>(schema: &'a Map<String, Value>, keyword: &str) -> Result<Option<&'a [Value]>, String> {
    match schema.get(keyword) {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(format!("`{keyword}` must be an array, found `{other}`")),
    }
}

fn object_of<'a>(schema: &'a Map<String, Value>, keyword: &str) -> Result<Option<&'a Map<String, Value>>, String> {
    match schema.get(keyword) {
        None => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(other) => Err(format!("`{keyword}` must be an object, found `{other}`")),
    }
}

fn says(schema: &Map<String, Value>, keywords: &[&str]) -> bool {
    keywords.iter().any(|keyword| schema.contains_key(*keyword))
}

/// Which groups of keywords a schema has, so that only those are looked for one by one.
#[derive(Debug, Default)]
struct Groups {
    number: bool,
    string: bool,
    array: bool,
    object: bool,
    logic: bool,
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
                "$ref" | "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => &mut has.logic,
                _ => continue,
            };
            *group = true;
        }
        has
    }
}
