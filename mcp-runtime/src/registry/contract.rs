//! Compiles the contract between a function and its callers from the declarations of the function's parameters.

use crate::handler::{
    Contract,
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
