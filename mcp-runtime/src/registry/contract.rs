//! Compiles the contract between a function and its callers from the declarations of the function's parameters.

use serde_json::Value;

use crate::handler::{
    Contract, MirroredArgument,
    entry::{ArgumentDefault, ArgumentEntry, Bound, Rule},
    schema::{self, HEADER, Keyword, Property, SchemaError},
};

/// Compiles the contract of a function with these arguments.
///
/// # Errors
///
/// Fails if a default, an example or a bound is not valid JSON, or if the schema is invalid.
pub(crate) fn contract(arguments: &'static [ArgumentEntry]) -> Result<Contract, SchemaError> {
    let mut generator = schema::generator();
    if let [argument] = arguments
        && argument.flattened
    {
        let schema = (argument.ty.schema)(&mut generator).to_value();
        let schema = schema::whole_input(schema, generator)?;
        return Contract::new(arguments, schema, !argument.ty.enforces_schema);
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
            name: argument.name,
            description: argument.description,
            schema: (argument.ty.schema)(&mut generator).to_value(),
            required: default.is_none() && !(argument.ty.optional)(),
            default,
            keywords: argument.rules.iter().map(keyword).collect::<Result<_, _>>()?,
        });
    }
    let schema = schema::input(properties, generator)?;
    let is_checked =
        |argument: &ArgumentEntry| !argument.ty.enforces_schema || argument.rules.iter().any(Rule::is_constraint);
    Contract::new(arguments, schema, arguments.iter().any(is_checked))
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
