//! Arguments that arrive as strings.

use std::borrow::Cow;

use serde_json::Value;

use super::{Contract, comma};
use crate::jsonrpc::{raw, write};

/// Converts strings to the JSON object that the schema describes: `"5"` becomes `5` if the argument is a number.
///
/// A string that is not valid JSON stays a string, and violations show it unchanged.
pub(crate) fn from_strings<'a>(
    contract: &Contract,
    strings: impl IntoIterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
) -> String {
    let mut out = vec![b'{'];
    for (name, text) in strings {
        let property = contract.schema().get("properties").and_then(|properties| properties.get(&*name));
        // Forms send an empty string for a field that was left empty.
        if text.is_empty() && !accepts_strings(property) && !is_required(contract, &name) {
            continue;
        }
        comma(&mut out);
        write::string(&mut out, &name);
        out.push(b':');
        write_string_as(&mut out, property, &text);
    }
    out.push(b'}');
    String::from_utf8_lossy(&out).into_owned()
}

/// Converts a string to the JSON that the schema describes.
pub(crate) fn json_of_string(schema: Option<&Value>, text: &str) -> String {
    let mut out = Vec::new();
    write_string_as(&mut out, schema, text);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_string_as(out: &mut Vec<u8>, schema: Option<&Value>, text: &str) {
    if !accepts_strings(schema) && is_other_json(text) {
        out.extend_from_slice(text.trim().as_bytes());
    } else {
        write::string(out, text);
    }
}

fn is_required(contract: &Contract, name: &str) -> bool {
    contract.schema()["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
}

/// Returns whether a schema accepts strings, judging by its `type`, `enum`, `anyOf` and `oneOf` keywords.
fn accepts_strings(schema: Option<&Value>) -> bool {
    let Some(schema) = schema else { return true };
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => match schema.get("enum") {
            Some(Value::Array(values)) => values.iter().any(Value::is_string),
            _ => ["anyOf", "oneOf"]
                .iter()
                .find_map(|key| schema.get(key)?.as_array())
                .is_none_or(|branches| branches.iter().any(|branch| accepts_strings(Some(branch)))),
        },
    }
}

/// Returns whether the text is valid JSON other than a string.
fn is_other_json(text: &str) -> bool {
    raw::kind(text) != raw::Kind::String && serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::json_of_string;

    #[test]
    fn a_string_stays_a_string_if_the_schema_accepts_it() {
        for (schema, text, expected) in [
            (json!({"type": "integer"}), " 5 ", "5"),
            (json!({"type": "integer"}), "five", r#""five""#),
            (json!({"type": "integer"}), r#""5""#, r#""\"5\"""#),
            (json!({"type": "string"}), "5", r#""5""#),
            (json!({"type": ["integer", "null"]}), "null", "null"),
            (json!({"type": ["integer", "string"]}), "5", r#""5""#),
            (json!({"enum": [1, 2]}), "2", "2"),
            (json!({"enum": [1, "2"]}), "2", r#""2""#),
            (json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), "5", "5"),
            (json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), "5", r#""5""#),
            (json!({}), "5", r#""5""#),
        ] {
            assert_eq!(json_of_string(Some(&schema), text), expected, "{schema} {text}");
        }
    }
}
