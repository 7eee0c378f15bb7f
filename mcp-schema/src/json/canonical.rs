//! A canonical form of JSON, for comparing values.

use std::{borrow::Cow, collections::BTreeMap};

use super::{Kind, elements, kind, members, string};

/// The depth up to which values are rewritten. Deeper values are copied verbatim, so no text can exhaust the stack.
const DEPTH: usize = 128;

/// Returns the canonical form of JSON: without whitespace, with sorted members, and with only the last of several
/// members of the same name. It is not valid JSON, since a comma follows every member and element.
///
/// Numbers are copied verbatim, because not all of them fit a Rust number.
pub fn canonical(json: &str) -> String {
    canonical_by(json, &|out, number| out.extend_from_slice(number.as_bytes()))
}

/// Returns the canonical form of JSON, with numbers written by `number`.
pub fn canonical_by(json: &str, number: &dyn Fn(&mut Vec<u8>, &str)) -> String {
    let mut out = Vec::with_capacity(json.len());
    write_canonical(&mut out, json, number, DEPTH);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_canonical(out: &mut Vec<u8>, json: &str, number: &dyn Fn(&mut Vec<u8>, &str), depth: usize) {
    match kind(json) {
        Kind::Object if depth > 0 => {
            let members: BTreeMap<Cow<'_, str>, &str> = members(json).collect();
            out.push(b'{');
            for (name, value) in members {
                write_string(out, &name);
                out.push(b':');
                write_canonical(out, value, number, depth - 1);
                out.push(b',');
            }
            out.push(b'}');
        }
        Kind::Array if depth > 0 => {
            out.push(b'[');
            for element in elements(json) {
                write_canonical(out, element, number, depth - 1);
                out.push(b',');
            }
            out.push(b']');
        }
        Kind::Number => number(out, json.trim()),
        Kind::String => match string(json) {
            Some(text) => write_string(out, &text),
            None => out.extend_from_slice(json.as_bytes()),
        },
        _ => out.extend_from_slice(json.trim().as_bytes()),
    }
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    // Writing to a vector does not fail.
    let _ = serde_json::to_writer(out, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_the_same_form() {
        for (left, right, are_same) in [
            (r#"{"a":1,"b":{"c":[1,2],"d":"x"}}"#, r#" { "b": {"d":"\u0078", "c":[ 1 , 2 ]}, "a":1 } "#, true),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#, true),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false),
            (r#"{"a":[1,2]}"#, r#"{"a":[12]}"#, false),
            (r#"{"a":"1"}"#, r#"{"a":1}"#, false),
            (r#"{"a":null}"#, "{}", false),
            (r#"{"a":"\",\"b"}"#, r#"{"a":"","b":""}"#, false),
            (r#"{"a":12345678901234567890123}"#, r#"{"a":12345678901234567890124}"#, false),
        ] {
            assert_eq!(canonical(left) == canonical(right), are_same, "{left} {right}");
        }
    }

    #[test]
    fn deep_values_are_bounded_and_still_compared() {
        let nested = |inside: &str| format!("{}{inside}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(canonical(&nested("1")), canonical(&nested("1")));
        assert_ne!(canonical(&nested("1")), canonical(&nested("2")));
    }
}
