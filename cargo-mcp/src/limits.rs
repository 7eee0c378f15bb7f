//! The types of values, and the limits that a schema sets to them: ranges of numbers, lengths of strings and lists.

use serde_json::Value;

use crate::schema::Schema;

/// Returns whether a value has the type and is within the limits of one of the alternatives of a schema.
pub(crate) fn is_admitted(value: &Value, schema: Schema<'_>) -> bool {
    schema.choices().is_some()
        || schema.alternatives().into_iter().any(|one| has_type(value, one) && is_within_limits(value, one))
}

/// Returns whether a value has one of the types of a schema.
pub(crate) fn has_type(value: &Value, schema: Schema<'_>) -> bool {
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

/// Returns whether a value is within the limits of a schema. The items of a list are not checked.
pub(crate) fn is_within_limits(value: &Value, schema: Schema<'_>) -> bool {
    let at_least = |key: &str, number: f64| schema.number(key).is_none_or(|limit| number >= limit);
    let at_most = |key: &str, number: f64| schema.number(key).is_none_or(|limit| number <= limit);
    match value {
        Value::String(text) => {
            let length = text.chars().count() as f64;
            at_least("minLength", length) && at_most("maxLength", length)
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            let above = schema.number("exclusiveMinimum").is_none_or(|limit| number > limit);
            let below = schema.number("exclusiveMaximum").is_none_or(|limit| number < limit);
            at_least("minimum", number) && at_most("maximum", number) && above && below
        }
        Value::Array(items) => {
            let count = items.len() as f64;
            at_least("minItems", count) && at_most("maxItems", count)
        }
        _ => true,
    }
}
