//! Compiles schemas to nodes.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    keywords::{array_of, check_dialect, counts, must_be, names, number, object_of, pattern, string, types},
    node::{Applicators, ArrayRules, Counts, Id, Node, ObjectRules, PropertyRules, Values},
};
use crate::{
    error::SchemaError,
    pointer,
    subschemas::{NULLABLE, subschemas},
};

/// The maximum nesting depth of schemas.
const DEPTH: usize = 128;

/// Compiles a schema. The first node is the root.
pub(super) fn compile(schema: &Value, absent: AbsentNull) -> Result<Vec<Node>, SchemaError> {
    let mut compiler = Compiler { root: schema, absent, nodes: Vec::new(), ids: HashMap::new(), pending: Vec::new() };
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
    absent: AbsentNull,
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
        if let Some(keyword) = has.unsupported.filter(|keyword| is_assertion(self.root, schema, keyword)) {
            return Err(unsupported(self.root, schema, keyword));
        }
        let mut node = Node { types: types(schema)?, ..Node::default() };
        if has.number {
            node.number = Some(Box::new(number(schema)?));
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
            node.array = Some(Box::new(self.array(schema, depth)?));
        }
        if has.object {
            node.object = Some(Box::new(self.object(schema, depth)?));
        }
        if has.applicators {
            node.applicators = Some(Box::new(self.applicators(schema, depth)?));
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
        properties.sort_by(|left, right| left.name.cmp(&right.name));
        let mut patterns = Vec::new();
        for (source, node) in self.named(schema, "patternProperties", depth)? {
            patterns.push((pattern(&source)?, node));
        }
        let mut dependent_required = Vec::new();
        for (name, value) in object_of(schema, "dependentRequired")?.into_iter().flatten() {
            dependent_required.push((name.as_str().into(), names(Some(value), "each member of `dependentRequired`")?));
        }
        Ok(ObjectRules {
            length: counts(schema, "minProperties", "maxProperties")?,
            required,
            properties,
            patterns,
            additional: self.one(schema, "additionalProperties", depth)?.filter(|&id| !self.nodes[id].is_empty()),
            names: self.one(schema, "propertyNames", depth)?,
            dependent_required,
            dependent_schemas: self.named(schema, "dependentSchemas", depth)?,
        })
    }

    fn applicators(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Result<Applicators, SchemaError> {
        let reference = match schema.get("$ref") {
            None => None,
            Some(Value::String(reference)) => {
                let target = resolve(self.root, reference).ok_or_else(|| unresolved(reference))?;
                Some(self.reserve(target))
            }
            Some(other) => return Err(must_be("`$ref`", "a string", other)),
        };
        let condition = self.one(schema, "if", depth)?;
        Ok(Applicators {
            reference,
            all: self.list(schema, "allOf", depth)?,
            any: self.list(schema, "anyOf", depth)?,
            one: self.list(schema, "oneOf", depth)?,
            not: self.one(schema, "not", depth)?,
            then: if condition.is_some() { self.one(schema, "then", depth)? } else { None },
            otherwise: if condition.is_some() { self.one(schema, "else", depth)? } else { None },
            condition,
        })
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

fn unresolved(reference: &str) -> SchemaError {
    SchemaError::new(format!("unresolved reference `{reference}`: only references within the schema are supported"))
}

/// Returns whether an unsupported keyword may reject values. An `$id` at the root does not, and neither does a keyword
/// whose value is a schema that accepts everything.
fn is_assertion(root: &Value, schema: &Map<String, Value>, keyword: &str) -> bool {
    match (keyword, &schema[keyword]) {
        ("$id", _) => root.as_object().is_none_or(|root| !std::ptr::eq(root, schema)),
        ("unevaluatedItems" | "unevaluatedProperties", Value::Bool(anything)) => !anything,
        ("unevaluatedItems" | "unevaluatedProperties", Value::Object(inner)) => !inner.is_empty(),
        _ => true,
    }
}

fn unsupported(root: &Value, schema: &Map<String, Value>, keyword: &str) -> SchemaError {
    let path = pointer::locate(root, schema).unwrap_or_default();
    let location = if path.is_empty() { "the root".to_owned() } else { format!("`{path}`") };
    let help = match keyword {
        "unevaluatedItems" => "use `items` after `prefixItems`",
        "unevaluatedProperties" => "use `additionalProperties` next to the declared `properties`",
        "$dynamicRef" | "$dynamicAnchor" | "$recursiveRef" | "$recursiveAnchor" => "use `$ref` and `$defs`",
        "dependencies" => "use `dependentRequired` or `dependentSchemas`",
        "additionalItems" => "use `prefixItems` and `items`",
        _ => "only the root of the schema may have it",
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
                "$ref" | "allOf" | "anyOf" | "oneOf" | "not" | "if" => &mut has.applicators,
                "unevaluatedItems"
                | "unevaluatedProperties"
                | "$dynamicRef"
                | "$dynamicAnchor"
                | "$id"
                // Keywords of earlier drafts, with a meaning that authors may still expect.
                | "$recursiveRef"
                | "$recursiveAnchor"
                | "dependencies"
                | "additionalItems" => {
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
