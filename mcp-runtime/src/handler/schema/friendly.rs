//! Turns the schemas that schemars generates into schemas that weak clients understand.
//!
//! References are replaced by what they refer to, unless a type recurs; an optional property is not nullable; formats that name
//! Rust types go; an enum of unit variants is a plain `enum`. What a schema accepts changes in one way only: `null` for a
//! property that may be absent anyway. Whatever else an author put into a schema stays.

mod implied;
mod merge;
mod rules;
mod simplify;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeMap;

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

pub(crate) use self::rules::Rule;
use self::simplify::Simplifier;
use super::{check::Checker, pointer};

/// The dialect of JSON Schema that is enforced.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Makes the generator for the schemas of arguments: for what serde accepts.
pub(crate) fn generator() -> SchemaGenerator {
    settings().into_generator()
}

/// Makes the generator for the schemas of results: for what serde writes.
pub(crate) fn output_generator() -> SchemaGenerator {
    settings().for_serialize().into_generator()
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = false;
    })
}

/// One argument, as the function declares it.
#[derive(Debug, Clone)]
pub(crate) struct Property {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it is for. If empty, the type's own description stands.
    pub(crate) description: &'static str,
    /// What the generator's `subschema_for` returned.
    pub(crate) schema: Value,
    /// Whether it must be given.
    pub(crate) required: bool,
    /// What it is if it is not given.
    pub(crate) default: Option<Value>,
    /// What its author says beside the type.
    pub(crate) rules: Vec<Rule>,
}

/// The schema of a function's arguments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Input {
    /// The schema: always an object.
    pub(crate) schema: Value,
    /// Whether decoding the arguments into their types enforces the whole schema, so that they need not be checked again.
    pub(crate) implied: bool,
}

/// Builds the schema of a function's arguments.
///
/// The properties' schemas must come from the generator's `subschema_for`: they refer to its definitions.
///
/// # Errors
///
/// A sentence that names the argument, if a rule does not fit its type or its default or an example breaks its rules.
pub(crate) fn input(properties: Vec<Property>, mut generator: SchemaGenerator) -> Result<Input, String> {
    let definitions = generator.take_definitions(true);
    let mut simplifier = Simplifier::new(definitions.clone(), true);
    let mut implied = true;
    let mut headers = BTreeMap::new();
    let mut required = Vec::new();
    let mut finished = Map::new();
    for property in properties {
        let name = property.name;
        implied =
            implied && implied::implied(&property.schema, &definitions) && !property.rules.iter().any(Rule::constrains);
        if property.required {
            required.push(Value::from(name));
        }
        for rule in &property.rules {
            if let Rule::Header(header) = rule
                && let Some(other) = headers.insert(header.to_ascii_lowercase(), name)
            {
                return Err(format!("the arguments `{other}` and `{name}` have the same `header`, `{header}`"));
            }
        }
        let schema = argument(property, &mut simplifier, &definitions)
            .map_err(|reason| format!("the argument `{name}` is wrong: {reason}"))?;
        finished.insert(name.to_owned(), schema);
    }
    let definitions = simplifier.finish();
    for (name, schema) in &finished {
        check_samples(schema, &definitions).map_err(|reason| format!("the argument `{name}` is wrong: {reason}"))?;
    }
    let mut schema = json!({ "type": "object", "additionalProperties": false });
    insert(&mut schema, "properties", Value::Object(finished));
    if !required.is_empty() {
        insert(&mut schema, "required", required.into());
    }
    if !definitions.is_empty() {
        insert(&mut schema, "$defs", definitions.into());
    }
    Ok(Input { schema, implied })
}

/// Builds the schema of a function's arguments from that of a type whose fields they are.
///
/// A schema that names its dialect is a document of its author's, which stays as it is. Definitions that the author had the generator
/// make are added to its own.
///
/// # Errors
///
/// A sentence that says why it cannot be the schema of arguments.
pub(crate) fn whole_input(schema: Value, mut generator: SchemaGenerator) -> Result<Input, String> {
    let mut definitions = generator.take_definitions(true);
    let (schema, implied) = match document(&schema, &mut definitions) {
        Some(document) => (document?, false),
        None => {
            let implied = implied::implied(&schema, &definitions);
            let mut simplifier = Simplifier::new(definitions, true);
            let mut schema = simplifier.root(schema);
            define(&mut schema, simplifier.finish())?;
            if schema.get("properties").is_none() {
                insert(&mut schema, "properties", json!({}));
            }
            (schema, implied)
        }
    };
    match is_object(&schema) {
        true => Ok(Input { schema, implied }),
        false => Err("what is flattened must have fields: the `type` of its schema is not `object`".to_owned()),
    }
}

/// Finds the document that a schema is, or refers to, if it names its dialect.
fn document(schema: &Value, definitions: &mut Map<String, Value>) -> Option<Result<Value, String>> {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(pointer::definition);
    let document = name.as_ref().map_or(Some(schema), |name| definitions.get(name))?;
    let dialect = document.get("$schema")?;
    if dialect.as_str().is_none_or(|dialect| dialect.trim_end_matches('#') != DIALECT) {
        return Some(Err(format!("its `$schema` is {dialect}, but only \"{DIALECT}\" can be enforced")));
    }
    let mut document = document.clone();
    name.and_then(|name| definitions.remove(&name));
    let defined = define(&mut document, std::mem::take(definitions));
    Some(defined.map(|()| document))
}

/// Adds definitions to those that a schema has.
fn define(schema: &mut Value, definitions: Map<String, Value>) -> Result<(), String> {
    if definitions.is_empty() {
        return Ok(());
    }
    let Some(Value::Object(own)) = schema.get_mut("$defs") else {
        insert(schema, "$defs", definitions.into());
        return Ok(());
    };
    for (name, definition) in definitions {
        match own.get(&name) {
            Some(other) if *other != definition => return Err(format!("`{name}` is defined in two ways")),
            _ => own.insert(name, definition),
        };
    }
    Ok(())
}

/// Builds the schema of a function's result from what the generator's `subschema_for` returned.
///
/// Unlike an argument, a property keeps its `null`: with the schema of what serde writes, `null` may well be there.
pub(crate) fn output(schema: Value, mut generator: SchemaGenerator) -> Value {
    let mut simplifier = Simplifier::new(generator.take_definitions(true), false);
    let mut schema = simplifier.root(schema);
    let definitions = simplifier.finish();
    if !definitions.is_empty() {
        match schema.get_mut("$defs") {
            Some(Value::Object(own)) => own.extend(definitions),
            _ => insert(&mut schema, "$defs", definitions.into()),
        }
    }
    schema
}

/// Tells whether the schema is that of an object, which is what the protocol wants at the root.
pub(crate) fn is_object(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object")
}

/// Makes a schema that is not that of an object into one: the value stands in the member `result`.
pub(crate) fn wrap(mut schema: Value) -> Value {
    const RESULT: &str = "#/properties/result";

    let definitions = schema.as_object_mut().and_then(|schema| schema.remove("$defs"));
    // What referred to the root, or to a place in it, must follow it to where it now is.
    walk::each_reference(&mut schema, &mut |reference| {
        if let Some(path) = reference.strip_prefix('#')
            && (path.is_empty() || path.starts_with('/'))
            && !path.starts_with("/$defs/")
        {
            *reference = format!("{RESULT}{path}");
        }
    });
    let mut properties = Map::new();
    properties.insert("result".to_owned(), schema);
    let mut wrapped = json!({ "type": "object", "required": ["result"] });
    insert(&mut wrapped, "properties", Value::Object(properties));
    if let Some(definitions) = definitions {
        insert(&mut wrapped, "$defs", definitions);
    }
    wrapped
}

/// Builds the schema of one argument.
fn argument(
    property: Property,
    simplifier: &mut Simplifier,
    definitions: &Map<String, Value>,
) -> Result<Value, String> {
    let mut schema = match property.schema {
        Value::Bool(true) => json!({}),
        other => other,
    };
    if !property.description.is_empty() {
        insert(&mut schema, "description", property.description.into());
    }
    let mut schema = simplifier.property(schema, !property.required);
    if let Value::Object(schema) = &mut schema {
        for rule in property.rules {
            rules::apply(schema, definitions, rule)?;
        }
    }
    if let Some(default) = property.default.filter(|default| !default.is_null()) {
        insert(&mut schema, "default", default);
    }
    Ok(schema)
}

/// Makes sure that an argument's default and examples fit its schema: they are what a model copies.
fn check_samples(schema: &Value, definitions: &Map<String, Value>) -> Result<(), String> {
    let default = schema.get("default").map(|value| ("default", value));
    let examples = schema.get("examples").and_then(Value::as_array).into_iter().flatten();
    let mut samples = default.into_iter().chain(examples.map(|value| ("examples", value))).peekable();
    if samples.peek().is_none() {
        return Ok(());
    }
    let mut root = json!({ "allOf": [schema] });
    insert(&mut root, "$defs", definitions.clone().into());
    let checker = Checker::compile(&root)?;
    for (rule, sample) in samples {
        if let Some(violation) = checker.violations(&sample.to_string()).first() {
            return Err(format!("its `{rule}` breaks its own rules: {violation}"));
        }
    }
    Ok(())
}

fn insert(schema: &mut Value, keyword: &str, value: Value) {
    if let Value::Object(schema) = schema {
        schema.insert(keyword.to_owned(), value);
    }
}
