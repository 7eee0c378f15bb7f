//! Validates JSON and finds the members of its top-level object in one pass, without allocating.
//!
//! This is a fast path: objects with escaped names, deep nesting, or syntax errors are left to `serde_json`, which also
//! describes the errors.

use mcp_schema::json::{scan, skip_space};

/// Calls `each` with the raw name and value of each member of the object. If the member `inner` is an object, first
/// calls `each_inner` with its members and the end of each, relative to the start of that object.
///
/// Returns `None` if the text as a whole is not a supported object. In that case, the calls made so far must be
/// ignored.
pub(super) fn members<'a>(
    text: &'a str,
    mut each: impl FnMut(&'a str, &'a str) -> Option<()>,
    inner: &str,
    mut each_inner: impl FnMut(&'a str, &'a str, usize),
) -> Option<()> {
    let bytes = text.as_bytes();
    let end = object(text, skip_space(bytes, 0), |name, at| {
        let end = match bytes.get(at)? {
            b'{' if name == inner => object(text, at, |name, value_at| {
                let end = value(bytes, value_at)?;
                each_inner(name, text.get(value_at..end)?, end - at);
                Some(end)
            })?,
            _ => value(bytes, at)?,
        };
        each(name, text.get(at..end)?)?;
        Some(end)
    })?;
    (skip_space(bytes, end) == bytes.len()).then_some(())
}

/// Returns the end of the object that starts at `at`. Calls `member` with the name and the start of each value to
/// obtain its end.
#[inline]
fn object<'a>(text: &'a str, at: usize, mut member: impl FnMut(&'a str, usize) -> Option<usize>) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.get(at)? != &b'{' {
        return None;
    }
    let mut at = skip_space(bytes, at + 1);
    if bytes.get(at)? == &b'}' {
        return Some(at + 1);
    }
    loop {
        // Escaped names are not supported, since they may be equal to a known name.
        let name_end = plain_string(bytes, at)?;
        let value_at = colon(bytes, name_end)?;
        let name = text.get(at + 1..name_end - 1)?;
        at = skip_space(bytes, member(name, value_at)?);
        match bytes.get(at)? {
            b',' => at = skip_space(bytes, at + 1),
            b'}' => return Some(at + 1),
            _ => return None,
        }
    }
}

/// Returns the end of the value that starts at `at`.
fn value(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut open = Open::default();
    loop {
        at = match bytes.get(at)? {
            b'"' => string(bytes, at)?,
            b'{' => {
                at = skip_space(bytes, at + 1);
                if bytes.get(at)? != &b'}' {
                    open.push(b'}')?;
                    at = colon(bytes, string(bytes, at)?)?;
                    continue;
                }
                at + 1
            }
            b'[' => {
                at = skip_space(bytes, at + 1);
                if bytes.get(at)? != &b']' {
                    open.push(b']')?;
                    continue;
                }
                at + 1
            }
            b't' => literal(bytes, at, b"true")?,
            b'f' => literal(bytes, at, b"false")?,
            b'n' => literal(bytes, at, b"null")?,
            _ => number(bytes, at)?,
        };
        // After a value comes the next one, or the end of the container.
        loop {
            let Some(closing) = open.last() else { return Some(at) };
            at = skip_space(bytes, at);
            match bytes.get(at)? {
                b',' if closing == b'}' => {
                    at = colon(bytes, string(bytes, skip_space(bytes, at + 1))?)?;
                    break;
                }
                b',' => {
                    at = skip_space(bytes, at + 1);
                    break;
                }
                &byte if byte == closing => {
                    open.pop();
                    at += 1;
                }
                _ => return None,
            }
        }
    }
}

/// The brackets that close the open ones, innermost in the lowest bit.
#[derive(Default)]
struct Open {
    objects: u64,
    depth: u32,
}

impl Open {
    fn push(&mut self, closing: u8) -> Option<()> {
        self.objects = self.objects << 1 | u64::from(closing == b'}');
        self.depth += 1;
        (self.depth <= u64::BITS).then_some(())
    }

    fn pop(&mut self) {
        self.objects >>= 1;
        self.depth -= 1;
    }

    fn last(&self) -> Option<u8> {
        (self.depth > 0).then_some(if self.objects & 1 == 0 { b']' } else { b'}' })
    }
}

/// Returns the end of the string that starts at `at`.
fn string(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at)? != &b'"' {
        return None;
    }
    let mut at = at + 1;
    loop {
        at = scan::unescaped_end(bytes, at);
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => match bytes.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                b'u' if bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) => at += 6,
                _ => return None,
            },
            _ => return None,
        }
    }
}

/// Returns the end of the string that starts at `at`, unless it contains escapes.
#[inline]
fn plain_string(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at)? != &b'"' {
        return None;
    }
    let end = scan::unescaped_end(bytes, at + 1);
    (bytes.get(end)? == &b'"').then_some(end + 1)
}

/// Returns the position of the value after the expected colon.
fn colon(bytes: &[u8], at: usize) -> Option<usize> {
    let at = skip_space(bytes, at);
    (bytes.get(at)? == &b':').then(|| skip_space(bytes, at + 1))
}

fn literal(bytes: &[u8], at: usize, literal: &[u8]) -> Option<usize> {
    bytes.get(at..)?.starts_with(literal).then_some(at + literal.len())
}

/// Returns the end of the number that starts at `at`.
fn number(bytes: &[u8], mut at: usize) -> Option<usize> {
    if bytes.get(at) == Some(&b'-') {
        at += 1;
    }
    at = match bytes.get(at)? {
        b'0' => at + 1,
        _ => digits(bytes, at)?,
    };
    if bytes.get(at) == Some(&b'.') {
        at = digits(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        let signed = matches!(bytes.get(at + 1), Some(b'+' | b'-'));
        at = digits(bytes, at + 1 + usize::from(signed))?;
    }
    Some(at)
}

/// Returns the end of one or more digits.
fn digits(bytes: &[u8], at: usize) -> Option<usize> {
    let count = bytes.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then_some(at + count)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, value::RawValue};

    use super::*;
    use crate::jsonrpc::raw;

    /// Returns the members of an object, after checking the members of its member `p`.
    fn read(text: &str) -> Option<Vec<(&str, &str)>> {
        let (mut found, mut inner) = (Vec::new(), Vec::new());
        let each = |name, value| {
            found.push((name, value));
            Some(())
        };
        members(text, each, "p", |name, value, end| inner.push((name, value, end)))?;
        let mut inner = inner.into_iter();
        for (_, object) in found.iter().filter(|(name, _)| *name == "p") {
            for (name, value) in raw::members(object) {
                let (found_name, found_value, end) = inner.next().expect("a member is missing");
                assert_eq!((found_name, found_value), (&*name, value), "{text}");
                assert!(object[..end].ends_with(value), "{text}");
            }
        }
        assert_eq!(inner.next(), None, "{text}");
        Some(found)
    }

    #[test]
    fn members_of_valid_objects_are_found() {
        for (text, expected) in [
            ("{}", Some(vec![])),
            (" { } \r\n", Some(vec![])),
            (
                r#"{"a":1,"b" : [ ] , "":{"c":[true,false,null]}}"#,
                Some(vec![("a", "1"), ("b", "[ ]"), ("", r#"{"c":[true,false,null]}"#)]),
            ),
            (r#"{"a":"\"\\\/\b\f\n\r\t\u00fF\ud800"}"#, Some(vec![("a", r#""\"\\\/\b\f\n\r\t\u00fF\ud800""#)])),
            (
                r#"{"a":-0.5e+10,"b":0,"c":1E-2,"d":120}"#,
                Some(vec![("a", "-0.5e+10"), ("b", "0"), ("c", "1E-2"), ("d", "120")]),
            ),
            (r#"{"p": { "a" : [1] ,"b":"}"} ,"c":{}}"#, Some(vec![("p", r#"{ "a" : [1] ,"b":"}"}"#), ("c", "{}")])),
            (r#"{"p":{},"q":{"p":{"a":1}}}"#, Some(vec![("p", "{}"), ("q", r#"{"p":{"a":1}}"#)])),
            // Valid JSON that is left to `serde_json`.
            (r#"{"\u0061":1}"#, None),
            (r#"{"p":{"\u0061":1}}"#, None),
            ("[]", None),
            ("1", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        let nested = |depth: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        assert!(read(&nested(65)).is_some(), "an empty array is not entered");
        assert!(read(&nested(66)).is_none());
    }

    #[test]
    fn invalid_json_is_rejected() {
        for text in [
            "",
            " ",
            "{",
            "}",
            "{]",
            "{} x",
            "{}{}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{,"a":1}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":[1,]}"#,
            r#"{"a":[,1]}"#,
            r#"{"a":[1 2]}"#,
            r#"{"a":[}]}"#,
            r#"{"a":{]}}"#,
            r#"{"a":[1}}"#,
            r#"{"a":{"b":1]}"#,
            r#"{"a":01}"#,
            r#"{"a":-}"#,
            r#"{"a":+1}"#,
            r#"{"a":1.}"#,
            r#"{"a":.5}"#,
            r#"{"a":1e}"#,
            r#"{"a":1e+}"#,
            r#"{"a":0x1}"#,
            r#"{"a":tru}"#,
            r#"{"a":nul}"#,
            r#"{"a":truefalse}"#,
            r#"{"a":NaN}"#,
            r#"{"a":'b'}"#,
            r#"{a:1}"#,
            r#"{"a":"b}"#,
            r#"{"a":"\x"}"#,
            r#"{"a":"\u12g4"}"#,
            r#"{"a":"\u123"}"#,
            "{\"a\":\"\n\"}",
            "{\"a\":\"\0\"}",
            "{\"a\":1}\u{a0}",
            "\u{feff}{}",
            r#"{1:2}"#,
            r#"{"a":{"b"}}"#,
            r#"{"a":{"b":}}"#,
            r#"{"a":{"b":1,}}"#,
        ] {
            assert_eq!(read(text), None, "{text}");
            assert!(serde_json::from_str::<Map<String, Value>>(text).is_err(), "{text}");
        }
    }

    /// Returns whether a name is escaped in the text.
    fn has_escapes(text: &str) -> bool {
        let is_escaped = |name: &str| name.contains('\\') || !text.contains(&format!("\"{name}\""));
        let has_escapes = |object| raw::members(object).any(|(name, _)| is_escaped(&name));
        has_escapes(text) || raw::members(text).any(|(name, value)| name == "p" && has_escapes(value))
    }

    /// Checks that damaged text is accepted only if `serde_json` accepts it, with the same members, and that valid JSON is
    /// accepted unless it has escaped names.
    #[test]
    fn agrees_with_serde_json() {
        let seeds = [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","p":{"name":"a","arguments":{"b":[1,-2.5e3,{"c":null}],"d":"\n\u00e9x"}}}"#,
            r#"{ "a" : [ [ ] , { } , "é\\" , 0 , -1.0E-5 , true ] , "b" : { "c" : { "d" : "" } } }"#,
        ];
        const BYTES: &[u8] = b"{}[]\",:\\ \nu0123456789abcdeEtrufalsn+-.x\x00\x1f\x7f";
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        let mut passed = 0;
        for round in 0..200_000 {
            let mut bytes = seeds[round % seeds.len()].as_bytes().to_vec();
            for _ in 0..=random(3) {
                if bytes.is_empty() {
                    break;
                }
                let (at, byte) = (random(bytes.len()), BYTES[random(BYTES.len())]);
                match random(4) {
                    0 => bytes.insert(at, byte),
                    1 => drop(bytes.remove(at)),
                    2 => bytes.truncate(at.max(1)),
                    _ => bytes[at] = byte,
                }
            }
            let Ok(text) = str::from_utf8(&bytes) else { continue };
            let is_object =
                serde_json::from_str::<&RawValue>(text).is_ok_and(|json| raw::kind(json.get()) == raw::Kind::Object);
            let found = read(text);
            passed += usize::from(found.is_some());
            match found {
                Some(found) => {
                    assert!(is_object, "{text}");
                    assert!(
                        raw::members(text).eq(found.into_iter().map(|(name, value)| (name.into(), value))),
                        "{text}"
                    );
                }
                None => assert!(!is_object || has_escapes(text), "{text}"),
            }
        }
        assert!(passed > 10_000, "{passed}");
    }
}
