//! The arguments that HTTP clients repeat in headers.

use serde_json::Value;

use super::entries::MirroredArgument;
use crate::handler::schema::{HEADER, SchemaError};

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
