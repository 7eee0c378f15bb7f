//! The schema of a function's arguments: generated from their types and rules, and what follows from it.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::{
    entry::{ArgumentDefault, ArgumentEntry, Bound, Rule},
    schema::{self, Checker, HEADER, Keyword, Property, SchemaError},
};

/// The schema of arguments, and what follows from it.
#[derive(Debug)]
pub(super) struct InputSchema {
    pub(super) value: Value,
    /// Compiled for the first call whose arguments are checked. `None` if the schema is invalid.
    checker: OnceLock<Option<Checker>>,
    /// The permitted values of each argument. Empty if its schema does not list them.
    pub(super) choices: Vec<Arc<[String]>>,
    /// The arguments that HTTP clients repeat in headers.
    pub(super) headers: Vec<MirroredArgument>,
}

impl InputSchema {
    /// Generates the schema of arguments, which is `schema` if it does not follow from them. Only tools have headers.
    ///
    /// # Errors
    ///
    /// Fails if a default, an example or a bound is not valid JSON, if the schema is invalid, or if an `x-mcp-header` breaks
    /// a rule of the specification.
    pub(super) fn generate(
        arguments: &[ArgumentEntry],
        schema: Option<&Value>,
        is_tool: bool,
    ) -> Result<Self, SchemaError> {
        let mut value = generate(arguments, schema)?;
        let headers = if is_tool { headers(&value)? } else { Vec::new() };
        for header in &headers {
            limit(header.path.iter().fold(&mut value, |schema, name| &mut schema["properties"][name]));
        }
        let choices = arguments.iter().map(|argument| choices(&value, &argument.name).into()).collect();
        Ok(Self { value, checker: OnceLock::new(), choices, headers })
    }

    /// Returns a schema that no object matches, in place of an invalid schema.
    pub(super) fn refusing(arguments: &[ArgumentEntry]) -> Self {
        let value = json!({ "type": "object", "properties": {}, "not": {} });
        let choices = arguments.iter().map(|_| Arc::default()).collect();
        Self { value, checker: OnceLock::from(None), choices, headers: Vec::new() }
    }

    /// Compiles the checker.
    ///
    /// # Errors
    ///
    /// Fails if the schema has a keyword that is not supported.
    pub(super) fn compile(&self) -> Result<(), SchemaError> {
        let _ = self.checker.set(Some(Checker::of_arguments(&self.value)?));
        Ok(())
    }

    /// Returns whether the schema is known to be invalid.
    pub(super) fn is_invalid(&self) -> bool {
        matches!(self.checker.get(), Some(None))
    }

    /// Returns the checker, or `None` if the schema is invalid. Passes an error of its compilation to `report`.
    pub(super) fn checker(&self, report: impl FnOnce(&SchemaError)) -> Option<&Checker> {
        self.checker.get_or_init(|| Checker::of_arguments(&self.value).inspect_err(report).ok()).as_ref()
    }
}

/// An argument that HTTP clients repeat in a header.
#[derive(Debug)]
pub(crate) struct MirroredArgument {
    /// The part of the header's name after `Mcp-Param-`.
    pub(crate) name: String,
    /// The chain of properties that leads to the argument.
    pub(crate) path: Vec<String>,
}

fn generate(arguments: &[ArgumentEntry], schema: Option<&Value>) -> Result<Value, SchemaError> {
    let mut generator = schema::generator();
    if let Some(schema) = schema {
        if !schema::is_object(schema) {
            return Err(SchemaError::new("its `type` is not `object`"));
        }
        return schema::whole_input(schema.clone(), generator);
    }
    if let [argument] = arguments
        && argument.flattened
    {
        let schema = (argument.ty.schema)(&mut generator).to_value();
        return schema::whole_input(schema, generator);
    }
    let mut properties = Vec::with_capacity(arguments.len());
    for argument in arguments {
        if (argument.ty.has_structured_keys)() {
            return Err(SchemaError::new(format!(
                "argument `{}`: the keys of a JSON object are strings, but those of this map are structs or lists\n\
                 help: take a list of pairs, as `Vec<(K, V)>`",
                argument.name
            )));
        }
        let default = match argument.default {
            None => None,
            Some(ArgumentDefault::Json(json)) => Some(serde_json::from_str(json)),
            Some(ArgumentDefault::Expression(serialize)) => Some(serialize()),
        };
        let default = default
            .transpose()
            .map_err(|error| SchemaError::new(format!("the default of `{}`: {error}", argument.name)))?;
        properties.push(Property {
            name: &argument.name,
            description: &argument.description,
            schema: (argument.ty.schema)(&mut generator).to_value(),
            required: default.is_none() && !(argument.ty.optional)(),
            default,
            keywords: argument.rules.iter().map(keyword).collect::<Result<_, _>>()?,
        });
    }
    schema::input(properties, generator)
}

/// Returns the permitted values of an argument. Empty if its schema does not list them.
fn choices(schema: &Value, name: &str) -> Vec<String> {
    let property = &schema["properties"][name];
    if property["type"] == "boolean" {
        return vec!["false".to_owned(), "true".to_owned()];
    }
    let values = property["enum"].as_array().into_iter().flatten();
    values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

fn keyword(rule: &Rule) -> Result<Keyword, SchemaError> {
    Ok(match *rule {
        Rule::Minimum(bound) => Keyword::Minimum(number(bound)?),
        Rule::Maximum(bound) => Keyword::Maximum(number(bound)?),
        Rule::ExclusiveMinimum(bound) => Keyword::ExclusiveMinimum(number(bound)?),
        Rule::ExclusiveMaximum(bound) => Keyword::ExclusiveMaximum(number(bound)?),
        Rule::MinLength(length) => Keyword::MinLength(length),
        Rule::MaxLength(length) => Keyword::MaxLength(length),
        Rule::Pattern(pattern) => Keyword::Pattern(pattern),
        Rule::Format(format) => Keyword::Format(format),
        Rule::Header(header) => Keyword::Extension(HEADER, header.into()),
        Rule::Examples(examples) => {
            let parsed: Result<Vec<_>, _> = examples.iter().map(|json| serde_json::from_str(json)).collect();
            Keyword::Examples(parsed.map_err(|error| SchemaError::new(format!("an example: {error}")))?)
        }
    })
}

fn number(bound: Bound) -> Result<serde_json::Number, SchemaError> {
    match bound {
        Bound::Integer(integer) => serde_json::Number::from_i128(integer),
        Bound::Float(float) => serde_json::Number::from_f64(float),
    }
    .ok_or_else(|| SchemaError::new(format!("the bound {bound:?} is not a JSON number")))
}

/// Returns the arguments that HTTP clients repeat in headers.
///
/// # Errors
///
/// Fails if an `x-mcp-header` breaks a rule of the specification.
///
/// See [x-mcp-header](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header).
pub(crate) fn headers(schema: &Value) -> Result<Vec<MirroredArgument>, SchemaError> {
    let mut found = Vec::new();
    find_headers(schema, &mut Vec::new(), &mut found)?;
    if count_headers(schema) > found.len() {
        return Err(SchemaError::new("an `x-mcp-header` is not reachable through `properties` alone"));
    }
    let mut names: Vec<String> = found.iter().map(|header| header.name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(SchemaError::new(format!("two arguments use the header `{}`", pair[0]))),
        None => Ok(found),
    }
}

fn find_headers(schema: &Value, path: &mut Vec<String>, found: &mut Vec<MirroredArgument>) -> Result<(), SchemaError> {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        if let Some(header) = property.get(HEADER) {
            let header = header.as_str().unwrap_or_default();
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if header.is_empty() || !header.bytes().all(token) {
                return Err(SchemaError::new(format!(
                    "the header {header:?} of `{}` is not an HTTP token",
                    path.join(".")
                )));
            }
            if !matches!(property["type"].as_str(), Some("string" | "integer" | "boolean")) {
                return Err(SchemaError::new(format!(
                    "`{}` has a header, but is not a string, integer or boolean",
                    path.join(".")
                )));
            }
            found.push(MirroredArgument { name: header.to_owned(), path: path.clone() });
        }
        find_headers(property, path, found)?;
        path.pop();
    }
    Ok(())
}

/// Limits an argument that headers mirror to the integers that are exact as `f64`, unless its own bounds are tighter.
fn limit(argument: &mut Value) {
    const LARGEST: i64 = (1 << 53) - 1;

    for (inclusive, exclusive, sign) in [("minimum", "exclusiveMinimum", -1), ("maximum", "exclusiveMaximum", 1)] {
        let bound = |keyword: &str| argument[keyword].as_f64().map(|bound| bound * f64::from(sign));
        let is_tighter = |keyword: &str| bound(keyword).is_some_and(|bound| bound <= LARGEST as f64);
        if argument["type"] == "integer" && !is_tighter(inclusive) && !is_tighter(exclusive) {
            argument[inclusive] = (i64::from(sign) * LARGEST).into();
        }
    }
}

/// Counts the header annotations anywhere in a schema.
fn count_headers(schema: &Value) -> usize {
    match schema {
        Value::Object(members) => {
            usize::from(members.get(HEADER).is_some_and(Value::is_string))
                + members.values().map(count_headers).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(count_headers).sum(),
        _ => 0,
    }
}
