//! One way to write what can be written in many.

use std::{borrow::Cow, collections::BTreeMap};

use super::{raw, write};

/// How deep values are sorted. Those further in stay as they are written, so that no text can exhaust the stack.
const DEPTH: usize = 128;

/// Writes JSON so that what means the same is written the same: without spaces, members sorted, the last of several with
/// one name. Numbers stay as they are written, since not every one fits into a number of ours.
pub(crate) fn canonical(json: &str) -> String {
    canonical_by(json, &|out, number| out.extend_from_slice(number.as_bytes()))
}

/// The same, with numbers as `number` writes them.
pub(crate) fn canonical_by(json: &str, number: &dyn Fn(&mut Vec<u8>, &str)) -> String {
    let mut out = Vec::with_capacity(json.len());
    write_canonical(&mut out, json, number, DEPTH);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_canonical(out: &mut Vec<u8>, json: &str, number: &dyn Fn(&mut Vec<u8>, &str), depth: usize) {
    match raw::kind(json) {
        raw::Kind::Object if depth > 0 => {
            let members: BTreeMap<Cow<'_, str>, &str> = raw::members(json).collect();
            out.push(b'{');
            for (name, value) in members {
                write::string(out, &name);
                out.push(b':');
                write_canonical(out, value, number, depth - 1);
                out.push(b',');
            }
            out.push(b'}');
        }
        raw::Kind::Array if depth > 0 => {
            out.push(b'[');
            for element in raw::elements(json) {
                write_canonical(out, element, number, depth - 1);
                out.push(b',');
            }
            out.push(b']');
        }
        raw::Kind::Number => number(out, json.trim()),
        raw::Kind::String => match raw::string(json) {
            Some(text) => write::string(out, &text),
            None => out.extend_from_slice(json.as_bytes()),
        },
        _ => out.extend_from_slice(json.trim().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_the_same_is_the_same_key() {
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
    fn depth_is_bounded_and_what_lies_deep_still_counts() {
        let nested = |inside: &str| format!("{}{inside}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(canonical(&nested("1")), canonical(&nested("1")));
        assert_ne!(canonical(&nested("1")), canonical(&nested("2")));
    }
}
