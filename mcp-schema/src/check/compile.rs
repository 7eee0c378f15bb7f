//! Compiles schemas to nodes.

use std::{cell::OnceCell, cmp::Ordering, collections::HashMap, fmt};

use regex_lite::RegexBuilder;
use serde_json::{Map, Value};

use super::{
    format::Format,
    node::{
        Applicators, ArrayRules, Bound, Counts, Id, Node, NumberRules, ObjectRules, Pattern, PropertyRules,
        StringRules, Types, Unevaluated, Values,
    },
    number::{Number, integer},
};
use crate::{
    references::{self, References},
    schema::{DIALECT, NULLABLE, SchemaError, has_any},
};

/// The maximum nesting depth of schemas.
const DEPTH: usize = 128;

/// The maximum weight of all patterns of a schema, which take 64 bytes per unit.
const MAX_PATTERN_WEIGHT: u64 = 1 << 18;

/// Compiles a schema. The first node is the root.
pub(super) fn compile(schema: &Value, absent: AbsentNull) -> Result<Vec<Node>, SchemaError> {
    let (references, nodes, ids, pending, pattern_weight) = Default::default();
    let mut compiler = Compiler { root: schema, references, absent, nodes, ids, pending, pattern_weight };
    compiler.reserve(schema);
    // The targets of references are compiled here rather than recursively, so a chain of references needs no stack.
    while let Some((id, schema)) = compiler.pending.pop() {
        compiler.nodes[id] = compiler.node(schema, 0)?;
    }
    Ok(compiler.nodes)
}

/// The optional properties whose value counts as absent if it is `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AbsentNull {
    /// All that do not accept `null`.
    All,
    /// Those that are marked as [`NULLABLE`].
    Marked,
}

struct Compiler<'a> {
    root: &'a Value,
    /// The targets of references, collected for the first reference.
    references: OnceCell<References<'a>>,
    absent: AbsentNull,
    nodes: Vec<Node>,
    /// The nodes of the targets of references, by the address of the schema.
    ids: HashMap<*const Value, Id>,
    /// Nodes that are reserved but not yet compiled.
    pending: Vec<(Id, &'a Value)>,
    /// The weight of all patterns so far.
    pattern_weight: u64,
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
        if let Some(keyword) = has.unsupported {
            return Err(unsupported(self.root, schema, keyword));
        }
        let mut node = Node { types: types(schema)?, ..Node::default() };
        if has.number {
            node.number = Some(Box::new(number(schema)?));
        }
        if has.string {
            node.string = string(schema)?;
        }
        if let Some(values) = value_of(schema, "enum", "an array", Value::as_array)? {
            node.values.push(Values::new(values));
        }
        if let Some(value) = schema.get("const") {
            node.values.push(Values::new(std::slice::from_ref(value)));
        }
        if has.array {
            node.array = Some(Box::new(self.array(schema, depth)?));
        }
        if has.object {
            node.object = Some(Box::new(self.object(schema, depth)?));
        }
        if has.applicators {
            node.applicators = Some(Box::new(self.applicators(schema, depth)?));
        }
        if has.unevaluated {
            node.unevaluated = Some(Box::new(Unevaluated {
                items: self.one(schema, "unevaluatedItems", depth)?,
                properties: self.one(schema, "unevaluatedProperties", depth)?,
            }));
        }
        self.pattern_weight += node.pattern_weight();
        if self.pattern_weight > MAX_PATTERN_WEIGHT {
            return Err(SchemaError::new("the patterns of the schema take more than 16 MiB".to_owned()));
        }
        Ok(node)
    }

    fn array(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Result<ArrayRules, SchemaError> {
        let contains = match self.one(schema, "contains", depth)? {
            Some(id) => {
                let counts = counts(schema, "minContains", "maxContains")?;
                let least = if schema.contains_key("minContains") { counts.least } else { 1 };
                Some((id, Counts { least, ..counts }))
            }
            None => None,
        };
        Ok(ArrayRules {
            length: counts(schema, "minItems", "maxItems")?,
            unique: schema.get("uniqueItems") == Some(&Value::Bool(true)),
            prefix: self.list(schema, "prefixItems", depth)?,
            // A schema that accepts everything is dropped.
            items: self.one(schema, "items", depth)?.filter(|&id| !self.nodes[id].is_empty()),
            evaluates_rest: schema.contains_key("items"),
            contains,
        })
    }

    fn object(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Result<ObjectRules, SchemaError> {
        let required = names(schema.get("required"), "`required`")?;
        let mut properties = Vec::new();
        let inner = schema.get("properties");
        for (name, node) in self.named(schema, "properties", depth)? {
            let is_marked = || inner.is_some_and(|inner| inner[&*name].get(NULLABLE).is_some());
            let nullable = !required.contains(&name) && (self.absent == AbsentNull::All || is_marked());
            properties.push(PropertyRules { name, node, nullable });
        }
        properties.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        let mut patterns = Vec::new();
        for (source, node) in self.named(schema, "patternProperties", depth)? {
            patterns.push((pattern(&source)?, node));
        }
        let mut dependent_required = Vec::new();
        for (name, value) in value_of(schema, "dependentRequired", "an object", Value::as_object)?.into_iter().flatten()
        {
            dependent_required.push((name.as_str().into(), names(Some(value), "each member of `dependentRequired`")?));
        }
        Ok(ObjectRules {
            length: counts(schema, "minProperties", "maxProperties")?,
            required,
            properties,
            patterns,
            additional: self.one(schema, "additionalProperties", depth)?.filter(|&id| !self.nodes[id].is_empty()),
            evaluates_rest: schema.contains_key("additionalProperties"),
            names: self.one(schema, "propertyNames", depth)?,
            dependent_required,
            dependent_schemas: self.named(schema, "dependentSchemas", depth)?,
        })
    }

    fn applicators(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Result<Applicators, SchemaError> {
        let reference = self.reference(schema, "$ref")?;
        let mut all = self.list(schema, "allOf", depth)?;
        all.extend(self.reference(schema, "$dynamicRef")?);
        let condition = self.one(schema, "if", depth)?;
        Ok(Applicators {
            reference,
            all,
            any: self.list(schema, "anyOf", depth)?,
            one: self.list(schema, "oneOf", depth)?,
            not: self.one(schema, "not", depth)?,
            then: if condition.is_some() { self.one(schema, "then", depth)? } else { None },
            otherwise: if condition.is_some() { self.one(schema, "else", depth)? } else { None },
            condition,
        })
    }

    /// Reserves a node for the target of a reference.
    fn reference(&mut self, schema: &'a Map<String, Value>, keyword: &str) -> Result<Option<Id>, SchemaError> {
        let Some(reference) = value_of(schema, keyword, "a string", Value::as_str)? else { return Ok(None) };
        let references = self.references.get_or_init(|| References::of(self.root));
        let target = references.resolve(schema, reference).ok_or_else(|| unresolved(reference))?;
        if keyword == "$dynamicRef" && references.is_dynamic(target, reference) {
            return Err(unsupported(self.root, schema, keyword));
        }
        Ok(Some(self.reserve(target)))
    }

    fn one(&mut self, schema: &'a Map<String, Value>, keyword: &str, depth: usize) -> Result<Option<Id>, SchemaError> {
        schema.get(keyword).map(|inner| self.add(inner, depth)).transpose()
    }

    fn list(&mut self, schema: &'a Map<String, Value>, keyword: &str, depth: usize) -> Result<Vec<Id>, SchemaError> {
        let list = value_of(schema, keyword, "an array", Value::as_array)?;
        if list.is_some_and(Vec::is_empty) {
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
        let named = value_of(schema, keyword, "an object", Value::as_object)?.into_iter().flatten();
        named.map(|(name, inner)| Ok((name.as_str().into(), self.add(inner, depth)?))).collect()
    }
}

fn unresolved(reference: &str) -> SchemaError {
    SchemaError::new(format!("unresolved reference `{reference}`: only references within the schema are supported"))
}

fn unsupported(root: &Value, schema: &Map<String, Value>, keyword: &str) -> SchemaError {
    let path = references::locate(root, schema).unwrap_or_default();
    let location = if path.is_empty() { "the root".to_owned() } else { format!("`{path}`") };
    let help = match keyword {
        "$dynamicRef" => "use `$ref`, or give one `$dynamicAnchor` another name",
        "dependencies" => "use `dependentRequired` or `dependentSchemas`",
        "additionalItems" => "use `prefixItems` and `items`",
        _ => "use `$ref` and `$defs`",
    };
    SchemaError::new(format!(
        "unsupported keyword `{keyword}` at {location}, which would not be enforced\nhelp: {help}"
    ))
}

/// The groups of keywords that occur in a schema. The other keywords are annotations, which are skipped.
#[derive(Debug, Default)]
struct Groups<'a> {
    number: bool,
    string: bool,
    array: bool,
    object: bool,
    applicators: bool,
    unevaluated: bool,
    /// A keyword that constrains values or changes the meaning of references, but is not enforced.
    unsupported: Option<&'a str>,
}

impl<'a> Groups<'a> {
    fn of(schema: &'a Map<String, Value>) -> Self {
        let mut has = Self::default();
        for keyword in schema.keys() {
            let group = match keyword.as_str() {
                "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum" | "multipleOf" => &mut has.number,
                "pattern" | "format" | "minLength" | "maxLength" => &mut has.string,
                "minItems" | "maxItems" | "uniqueItems" | "prefixItems" | "items" | "contains" => &mut has.array,
                "minProperties"
                | "maxProperties"
                | "required"
                | "properties"
                | "patternProperties"
                | "additionalProperties"
                | "propertyNames"
                | "dependentRequired"
                | "dependentSchemas" => &mut has.object,
                "$ref" | "$dynamicRef" | "allOf" | "anyOf" | "oneOf" | "not" | "if" => &mut has.applicators,
                "unevaluatedItems" | "unevaluatedProperties" => &mut has.unevaluated,
                // Keywords of earlier drafts, with a meaning that authors may still expect.
                "$recursiveRef" | "$recursiveAnchor" | "dependencies" | "additionalItems" => {
                    has.unsupported = Some(keyword);
                    continue;
                }
                _ => continue,
            };
            *group = true;
        }
        has
    }
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

fn number(schema: &Map<String, Value>) -> Result<NumberRules, SchemaError> {
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
    Ok(rules)
}

fn number_of(schema: &Map<String, Value>, keyword: &str) -> Result<Option<(Number, Box<str>)>, SchemaError> {
    let Some(value) = schema.get(keyword) else { return Ok(None) };
    let shown = value.to_string();
    let number = if value.is_number() { Number::parse(&shown) } else { None };
    let number = number.ok_or_else(|| must_be(&format!("`{keyword}`"), "a number", &shown))?;
    Ok(Some((number, shown.into())))
}

fn string(schema: &Map<String, Value>) -> Result<Option<Box<StringRules>>, SchemaError> {
    let pattern = value_of(schema, "pattern", "a string", Value::as_str)?.map(pattern).transpose()?;
    let format = schema.get("format").and_then(Value::as_str).map(Format::named).transpose()?.flatten();
    if pattern.is_none() && format.is_none() && !has_any(schema, &["minLength", "maxLength"]) {
        return Ok(None);
    }
    Ok(Some(Box::new(StringRules { length: counts(schema, "minLength", "maxLength")?, pattern, format })))
}

/// Compiles a pattern. `regex_lite` matches in time proportional to the length of the text and the size of the pattern,
/// which it reports only by refusing to exceed a limit.
fn pattern(pattern: &str) -> Result<Pattern, SchemaError> {
    const LEAST: usize = 1 << 10;
    const MOST: usize = 10 << 20;
    const STATE_BYTES: usize = 64;

    let mut size = LEAST;
    loop {
        match RegexBuilder::new(pattern).size_limit(size).build() {
            Ok(regex) => return Ok(Pattern { regex, weight: (size / STATE_BYTES) as u64 }),
            Err(_) if size < MOST => size *= 4,
            Err(error) => return Err(SchemaError::new(format!("unsupported pattern `{pattern}`: {error}"))),
        }
    }
}

fn counts(schema: &Map<String, Value>, least: &str, most: &str) -> Result<Counts, SchemaError> {
    let count = |keyword: &str, default: u64| match schema.get(keyword) {
        None => Ok(default),
        Some(value) => {
            // `2.0` is an integer, too.
            let number = integer(&value.to_string(), 20).and_then(|text| text.parse().ok());
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

/// Reads the value of a keyword, which has one type.
fn value_of<'a, T: ?Sized>(
    schema: &'a Map<String, Value>,
    keyword: &str,
    expected: &str,
    read: impl FnOnce(&'a Value) -> Option<&'a T>,
) -> Result<Option<&'a T>, SchemaError> {
    let read = |value| read(value).ok_or_else(|| must_be(&format!("`{keyword}`"), expected, value));
    schema.get(keyword).map(read).transpose()
}

fn must_be(subject: &str, expected: &str, found: impl fmt::Display) -> SchemaError {
    SchemaError::new(format!("{subject} must be {expected}, found `{found}`"))
}
