//! Simplifies the schemas that schemars generates, so that clients with limited support for JSON Schema understand
//! them.
//!
//! References are inlined unless a type is recursive, optional properties are not nullable, formats that name Rust
//! types are removed, and enums of unit variants become a plain `enum`. The set of accepted values changes in one way
//! only: `null` is removed from optional properties, which are marked as [`NULLABLE`] instead. Everything else that an
//! author put into a schema is preserved. `list` turns the result into the schema that clients see.

mod keywords;
mod list;
mod merge;
mod simplify;
#[cfg(test)]
mod tests;

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use self::simplify::Simplifier;
pub use self::{
    keywords::{Bound, Keyword},
    list::{SchemaProfile, listed},
};
use super::{
    check::Checker,
    references,
    schema::{DIALECT, NULLABLE, SchemaError, visit_references_mut},
};

/// Creates the generator for the schemas of arguments, which describe what serde deserializes.
pub fn generator() -> SchemaGenerator {
    settings().into_generator()
}

/// Creates the generator for the schemas of results, which describe what serde serializes.
pub fn output_generator() -> SchemaGenerator {
    settings().for_serialize().into_generator()
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = false;
    })
}

/// An argument as declared by its function.
#[derive(Debug, Clone)]
pub struct Property<'a> {
    /// The name.
    pub name: &'a str,
    /// The description. If empty, the type's own description is used.
    pub description: &'a str,
    /// The schema that the generator's `subschema_for` returned.
    pub schema: Value,
    /// Whether a call must contain the argument.
    pub required: bool,
    /// The default value.
    pub default: Option<Value>,
    /// The keywords that are added.
    pub keywords: &'a [Keyword],
}

/// Builds the schema of a function's arguments, which is always the schema of an object.
///
/// The schemas of the properties must come from `subschema_for` of this generator, because they refer to its
/// definitions.
///
/// # Errors
///
/// Fails if a keyword is not applicable to the type of its argument, or if a default or an example violates the schema.
pub fn input(properties: Vec<Property<'_>>, mut generator: SchemaGenerator) -> Result<Value, SchemaError> {
    let definitions = generator.take_definitions(true);
    let mut simplifier = Simplifier::new(definitions.clone(), true);
    let mut required = Vec::new();
    let mut finished = Map::new();
    for property in properties {
        let name = property.name;
        if property.required {
            required.push(Value::from(name));
        }
        let schema = argument(property, &mut simplifier, &definitions).map_err(|error| error.of_argument(name))?;
        finished.insert(name.to_owned(), schema);
    }
    let definitions = simplifier.finish();
    for (name, schema) in &finished {
        check_samples(schema, &definitions).map_err(|error| error.of_argument(name))?;
    }
    let mut schema = json!({ "type": "object", "additionalProperties": false });
    insert(&mut schema, "properties", Value::Object(finished));
    if !required.is_empty() {
        insert(&mut schema, "required", required.into());
    }
    add_definitions(&mut schema, definitions)?;
    Ok(schema)
}

/// Builds the schema of a function's arguments from the schema of a type whose fields are the arguments.
///
/// A schema with `$schema` was written by the author and is left unchanged, except that definitions from the generator
/// are added.
///
/// # Errors
///
/// Fails if the schema does not describe an object, has an unsupported `$schema`, or has conflicting definitions.
pub fn whole_input(schema: Value, mut generator: SchemaGenerator) -> Result<Value, SchemaError> {
    let mut definitions = generator.take_definitions(true);
    let schema = match document(&schema, &mut definitions) {
        Some(document) => document?,
        None => {
            let mut simplifier = Simplifier::new(definitions, true);
            let mut schema = simplifier.root(schema);
            add_definitions(&mut schema, simplifier.finish())?;
            if schema.get("properties").is_none() {
                insert(&mut schema, "properties", json!({}));
            }
            schema
        }
    };
    if is_object(&schema) {
        Ok(schema)
    } else {
        Err(SchemaError::new("a flattened type must have named fields, but the `type` of its schema is not `object`"))
    }
}

/// Returns the schema, or the definition that it refers to, if it has a `$schema`.
fn document(schema: &Value, definitions: &mut Map<String, Value>) -> Option<Result<Value, SchemaError>> {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(references::definition);
    let document = name.as_ref().map_or(Some(schema), |name| definitions.get(name))?;
    let dialect = document.get("$schema")?;
    if dialect.as_str().is_none_or(|dialect| dialect.trim_end_matches('#') != DIALECT) {
        let message = format!("unsupported `$schema` {dialect}, expected \"{DIALECT}\"");
        return Some(Err(SchemaError::new(message)));
    }
    let mut document = document.clone();
    name.and_then(|name| definitions.shift_remove(&name));
    let defined = add_definitions(&mut document, std::mem::take(definitions));
    Some(defined.map(|()| document))
}

/// Adds definitions to a schema.
fn add_definitions(schema: &mut Value, definitions: Map<String, Value>) -> Result<(), SchemaError> {
    if definitions.is_empty() {
        return Ok(());
    }
    let Some(Value::Object(own)) = schema.get_mut("$defs") else {
        insert(schema, "$defs", definitions.into());
        return Ok(());
    };
    for (name, definition) in definitions {
        match own.get(&name) {
            Some(other) if *other != definition => {
                return Err(SchemaError::new(format!("conflicting definitions of `{name}`")));
            }
            _ => own.insert(name, definition),
        };
    }
    Ok(())
}

/// Builds the schema of a function's result from the schema that the generator's `subschema_for` returned.
///
/// Unlike in arguments, optional properties stay nullable, because serde may serialize them as `null`.
pub fn output(schema: Value, mut generator: SchemaGenerator) -> Value {
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

/// Returns whether the schema describes an object.
pub fn is_object(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object")
}

/// Wraps a schema in the schema of an object with a single member, whose name needs no escapes in a reference.
pub fn wrap(mut schema: Value, member: &str) -> Value {
    let definitions = schema.as_object_mut().and_then(|schema| schema.shift_remove("$defs"));
    // References to the root, or into it, must point to its new location.
    visit_references_mut(&mut schema, &mut |reference| {
        if let Some(path) = reference.strip_prefix('#')
            && (path.is_empty() || path.starts_with('/'))
            && !path.starts_with("/$defs/")
        {
            *reference = format!("#/properties/{member}{path}");
        }
    });
    let mut properties = Map::new();
    properties.insert(member.to_owned(), schema);
    let mut wrapped = json!({ "type": "object", "required": [member] });
    insert(&mut wrapped, "properties", Value::Object(properties));
    if let Some(definitions) = definitions {
        insert(&mut wrapped, "$defs", definitions);
    }
    wrapped
}

/// Builds the schema of one argument.
fn argument(
    property: Property<'_>,
    simplifier: &mut Simplifier,
    definitions: &Map<String, Value>,
) -> Result<Value, SchemaError> {
    let mut schema = match property.schema {
        Value::Bool(true) => json!({}),
        other => other,
    };
    if !property.description.is_empty() {
        insert(&mut schema, "description", property.description.into());
    }
    let mut schema = simplifier.property(schema, !property.required);
    if let Value::Object(schema) = &mut schema {
        for keyword in property.keywords {
            keywords::apply(schema, definitions, *keyword)?;
        }
    }
    if let Some(default) = property.default.filter(|default| !default.is_null()) {
        insert(&mut schema, "default", default);
    }
    if !property.required {
        insert(&mut schema, NULLABLE, true.into());
    }
    Ok(schema)
}

/// Checks the default and the examples of an argument against its schema, because models copy them.
fn check_samples(schema: &Value, definitions: &Map<String, Value>) -> Result<(), SchemaError> {
    let default = schema.get("default").map(|value| ("default", value));
    let examples = schema.get("examples").and_then(Value::as_array).into_iter().flatten();
    let mut samples = default.into_iter().chain(examples.map(|value| ("examples", value))).peekable();
    if samples.peek().is_none() {
        return Ok(());
    }
    let mut root = schema.clone();
    insert(&mut root, "$defs", definitions.clone().into());
    let checker = Checker::compile(&root)?;
    for (keyword, sample) in samples {
        if let Some(violation) = checker.violations(&sample.to_string()).first() {
            return Err(SchemaError::new(format!("its `{keyword}` does not match its schema: {violation}")));
        }
    }
    Ok(())
}

fn insert(schema: &mut Value, keyword: &str, value: Value) {
    if let Value::Object(schema) = schema {
        schema.insert(keyword.to_owned(), value);
    }
}
