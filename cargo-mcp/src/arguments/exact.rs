//! JSON without loss: integers that a [`Value`] would round are errors. Describes syntax errors, too.

use serde_json::Value;

/// Parses JSON.
///
/// # Errors
///
/// Fails if the text is not JSON, or if it contains an integer of more than 64 bits.
pub(crate) fn parse(json: &str) -> Result<Value, String> {
    let value = serde_json::from_str(json).map_err(|error| format!("invalid JSON: {}", describe(&error)))?;
    match rounded(json, &value) {
        Some(integer) => Err(too_large(integer)),
        None => Ok(value),
    }
}

/// Returns the integer of a text that was rounded when it became part of the value.
pub(crate) fn rounded<'a>(json: &'a str, value: &Value) -> Option<&'a str> {
    if has_float(value) { large_integer(json) } else { None }
}

pub(crate) fn too_large(integer: &str) -> String {
    format!("`{integer}` has more than 64 bits and cannot be sent exactly")
}

fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_float),
        Value::Object(members) => members.values().any(has_float),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Returns the first integer outside of strings that neither `i64` nor `u64` can represent.
pub(crate) fn large_integer(json: &str) -> Option<&str> {
    let mut rest = json;
    loop {
        rest = &rest[rest.find(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])?..];
        if let Some(string) = rest.strip_prefix('"') {
            let mut escaped = false;
            let is_end = |c: char| {
                let is_end = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                is_end
            };
            rest = &string[string.find(is_end)? + 1..];
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c)).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let is_integer = !number.contains(['.', 'e', 'E']);
        if is_integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
            return Some(number);
        }
        rest = after;
    }
}

/// Returns what is wrong, and where: the byte, and the line unless it is the first.
pub(crate) fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    match error.line() {
        0 | 1 => format!("{what} at byte {}", error.column()),
        line => format!("{what} at byte {} of line {line}", error.column()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn integers_are_kept_exactly_or_rejected() {
        for json in ["18446744073709551615", "-9223372036854775808", "1e400000", "[1.5, 1e30]"] {
            assert_eq!(parse(json).is_ok(), json != "1e400000", "{json}");
        }
        for (json, integer) in [
            ("18446744073709551616", "18446744073709551616"),
            (r#"{"a\"1": "99999999999999999999", "b": [1, -9223372036854775809]}"#, "-9223372036854775809"),
            (r#"["C:\\", 18446744073709551616]"#, "18446744073709551616"),
        ] {
            let expected = format!("`{integer}` has more than 64 bits and cannot be sent exactly");
            assert_eq!(parse(json), Err(expected));
        }
        assert!(parse(r#"["99999999999999999999", 1.5]"#).is_ok());
    }
}
