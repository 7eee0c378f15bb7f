//! Validation of answers to forms, before they are sent.

use serde_json::{Map, Value};

use crate::{
    coerce::ArgumentErrors,
    schema::{InvalidValue, Schema, is_within_limits},
};

/// Checks the fields that are present.
pub(crate) fn form(form: &Map<String, Value>, schema: Schema<'_>, errors: &mut ArgumentErrors) {
    for (name, value) in form {
        match schema.property(name) {
            Some(property) => {
                if let Err(error) = field(value, property) {
                    errors.add(format!("field `{name}`: {error}"));
                }
            }
            None => errors.add(format!("unknown field `{name}`")),
        }
    }
}

/// Checks that all required fields are present.
pub(crate) fn required(form: &Map<String, Value>, schema: Schema<'_>, errors: &mut ArgumentErrors) {
    for name in schema.required().into_iter().filter(|name| !form.contains_key(*name)) {
        errors.add(format!("missing field `{name}`"));
    }
}

/// Checks one value.
///
/// # Errors
///
/// Fails if the value does not match the schema.
pub(crate) fn field(value: &Value, schema: Schema<'_>) -> Result<(), InvalidValue> {
    let matches = match schema.choices() {
        Some(choices) => choices.iter().any(|choice| choice.value == value),
        None => schema.alternatives().into_iter().any(|one| has_type(value, one) && fits(value, one)),
    };
    if matches { Ok(()) } else { Err(InvalidValue::new(schema)) }
}

fn has_type(value: &Value, schema: Schema<'_>) -> bool {
    let types = schema.types();
    let is = |name: &&str| match *name {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    };
    types.is_empty() || types.iter().any(is)
}

/// Returns whether a value, and each item of a list, has the length, range and format that the schema demands.
fn fits(value: &Value, schema: Schema<'_>) -> bool {
    is_within_limits(value, schema)
        && match value {
            Value::String(text) => has_format(text, schema.format()),
            Value::Array(items) => items.iter().all(|item| field(item, schema.items()).is_ok()),
            _ => true,
        }
}

fn has_format(text: &str, format: Option<&str>) -> bool {
    match format {
        Some("email") => is_email(text),
        Some("uri") => url::Url::parse(text).is_ok(),
        Some("date") => chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok() && text.len() == "2000-01-01".len(),
        Some("date-time") => chrono::DateTime::parse_from_rfc3339(text).is_ok(),
        _ => true,
    }
}

/// Returns whether a text looks like an email address. Only a mail server can verify that it exists.
fn is_email(text: &str) -> bool {
    let parts = text.rsplit_once('@');
    parts.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
        && !text.contains(char::is_whitespace)
        && !parts.is_some_and(|(_, host)| host.starts_with('.') || host.ends_with('.') || host.contains(".."))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::field;
    use crate::schema::Schema;

    #[test]
    fn answers_are_validated() {
        for (schema, good, bad) in [
            (json!({"type": "string"}), vec![json!(""), json!("x")], vec![json!(1), json!(null)]),
            (
                json!({"type": "string", "minLength": 2, "maxLength": 3}),
                vec![json!("äö"), json!("abc")],
                vec![json!("a"), json!("abcd")],
            ),
            (
                json!({"type": "string", "format": "email"}),
                vec![json!("a@b.ch"), json!("a@localhost")],
                vec![json!("a"), json!("a@"), json!("a b@c"), json!("@b"), json!("a@b..c")],
            ),
            (
                json!({"type": "string", "format": "uri"}),
                vec![json!("https://a.b/c"), json!("mailto:a@b")],
                vec![json!("a.b/c"), json!("")],
            ),
            (
                json!({"type": "string", "format": "date"}),
                vec![json!("2024-02-29")],
                vec![json!("2023-02-29"), json!("24-1-1"), json!("2024-2-9")],
            ),
            (
                json!({"type": "string", "format": "date-time"}),
                vec![json!("2024-02-29T12:00:00Z"), json!("2024-02-29T12:00:00+01:00")],
                vec![json!("2024-02-29"), json!("2024-02-29T25:00:00Z")],
            ),
            (
                json!({"type": "integer", "minimum": 1, "maximum": 8}),
                vec![json!(1), json!(8)],
                vec![json!(0), json!(9), json!(1.5), json!("1")],
            ),
            (json!({"type": "number", "exclusiveMinimum": 0}), vec![json!(0.1), json!(1)], vec![json!(0), json!(-1)]),
            (json!({"type": "boolean"}), vec![json!(true)], vec![json!("true")]),
            (
                json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}),
                vec![json!("a")],
                vec![json!("A"), json!("c")],
            ),
            (json!({"oneOf": [{"const": "a", "title": "A"}]}), vec![json!("a")], vec![json!("A")]),
            (
                json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"enum": ["a", "b", "c"]}}),
                vec![json!(["a"]), json!(["a", "c"])],
                vec![json!([]), json!(["a", "b", "c"]), json!(["z"]), json!("a")],
            ),
            (
                json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}),
                vec![json!([]), json!(["a"])],
                vec![json!(["b"])],
            ),
        ] {
            let Value::Object(root) = json!({"properties": {"it": schema}}) else { unreachable!() };
            let property = Schema::new(&root).property("it").expect("the property exists");
            for value in good {
                assert_eq!(field(&value, property), Ok(()), "{value} {schema}");
            }
            for value in bad {
                assert!(field(&value, property).is_err(), "{value} {schema}");
            }
        }
    }
}
