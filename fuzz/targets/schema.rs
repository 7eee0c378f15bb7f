//! A schema and a value, on two lines: the checker agrees with `jsonschema` wherever both mean the same.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use mcp_schema::Checker;
use serde_json::Value;

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((schema, value)) = std::str::from_utf8(data).ok().and_then(|text| text.split_once('\n')) else {
        return Corpus::Reject;
    };
    let length = schema.len();
    let Ok(schema) = serde_json::from_str::<Value>(schema) else { return Corpus::Reject };
    let Ok(checker) = Checker::compile(&schema) else { return Corpus::Keep };
    if !fuzz::json::is_json(value) {
        return Corpus::Reject;
    }
    let accepted = checker.accepts(value);
    let violations: Vec<String> = checker.violations(value).iter().map(ToString::to_string).collect();
    assert_eq!(accepted, violations.is_empty(), "{violations:?}");
    assert!(violations.len() <= 33, "{} violations", violations.len());
    for violation in &violations {
        // A violation repeats parts of the schema in full, but only an excerpt of the value.
        assert!(!violation.is_empty() && violation.len() < 2000 + 2 * length, "{violation:?}");
    }
    let normalized = checker.normalize_integers(value);
    assert!(fuzz::json::is_json(&normalized), "{normalized}");

    let Ok(value) = serde_json::from_str::<Value>(value) else { return Corpus::Keep };
    if !is_comparable(&schema) || !is_exact(&value) {
        return Corpus::Keep;
    }
    // Duplicate members and the notation of numbers are not part of the comparison.
    let text = value.to_string();
    let accepted = checker.accepts(&text);
    if let Ok(validator) = jsonschema::draft202012::new(&schema) {
        assert_eq!(accepted, validator.is_valid(&value), "{:?}", checker.violations(&text));
    }
    Corpus::Keep
});

/// Returns whether both checkers interpret every keyword of a schema in the same way.
fn is_comparable(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else { return schema.is_boolean() };
    keywords.iter().all(|(keyword, value)| match keyword.as_str() {
        "type" | "enum" | "const" => is_exact(value),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
        | "maxContains" => value.as_u64().is_some(),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => is_exact(value),
        "multipleOf" => value.as_u64().is_some_and(|of| of > 0),
        "uniqueItems" => value.is_boolean(),
        "required" => is_exact(value),
        "dependentRequired" => is_exact(value),
        // A property that is not required may be `null`, which is decoded as if it were absent.
        "properties" => value.as_object().is_some_and(|properties| {
            let is_required = |name: &String| keywords.get("required").is_some_and(|required| has(required, name));
            properties.iter().all(|(name, schema)| is_required(name) && is_comparable(schema))
        }),
        "dependentSchemas" => value.as_object().is_some_and(|schemas| schemas.values().all(is_comparable)),
        "items"
        | "additionalProperties"
        | "contains"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else"
        | "unevaluatedItems"
        | "unevaluatedProperties" => is_comparable(value),
        "prefixItems" | "allOf" | "anyOf" | "oneOf" => {
            value.as_array().is_some_and(|schemas| schemas.iter().all(is_comparable))
        }
        "title" | "description" => true,
        // Patterns have different syntax, formats are annotations, and references may form a loop.
        _ => false,
    })
}

fn has(required: &Value, name: &str) -> bool {
    required.as_array().is_some_and(|names| names.iter().any(|required| required == name))
}

/// Returns whether `f64` represents every number of a value exactly.
fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.as_i64().is_some_and(|number| number.unsigned_abs() <= 1 << 53)
                || number.as_f64().is_some_and(|number| number.abs() < 1e9 && (number * 1024.0).fract() == 0.0)
        }
        Value::Array(elements) => elements.iter().all(is_exact),
        Value::Object(members) => members.values().all(is_exact),
        _ => true,
    }
}
