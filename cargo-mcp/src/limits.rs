//! The limits that a schema sets to values: ranges of numbers, lengths of strings and lists.

use serde_json::Value;

use crate::schema::Schema;

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
