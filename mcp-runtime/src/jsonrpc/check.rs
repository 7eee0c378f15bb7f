//! Checks that text is JSON while it looks for the members of the object that it is, in one pass and without allocating.
//!
//! It says yes or "ask `serde_json`", never no: an object with escaped names, deep nesting, or a mistake in it is left to `serde_json`,
//! which knows how to say what is wrong.

use super::{raw::skip_space, scan};

/// Gives the members of an object, each name and value as it stands in the text, if the whole of the text is such an object. Of the
/// member called `inner`, if it is an object, it first gives the members as well, with the position behind each, from where that object
/// starts.
///
/// What was given before the end counts only if the end is `Some`.
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

/// The position behind the object that starts at `at`. Of each member it gives the name, and where the value starts, and takes where that
/// ends.
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
        // An escaped name may mean one that is known.
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

/// The position behind the value that starts at `at`.
fn value(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut open = Open::default();
    loop {
        at = match bytes.get(at)? {
            b'"' => string(bytes, at)?,
            b'{' => {
                at = skip_space(bytes, at + 1);
                if bytes.get(at)? != &b'}' {
                    open.push(Bracket::Object)?;
                    at = colon(bytes, string(bytes, at)?)?;
                    continue;
                }
                at + 1
            }
            b'[' => {
                at = skip_space(bytes, at + 1);
                if bytes.get(at)? != &b']' {
                    open.push(Bracket::Array)?;
                    continue;
                }
                at + 1
            }
            b't' => word(bytes, at, b"true")?,
            b'f' => word(bytes, at, b"false")?,
            b'n' => word(bytes, at, b"null")?,
            _ => number(bytes, at)?,
        };
        // Behind a value: the next one, or the end of what holds it.
        loop {
            let Some(bracket) = open.last() else { return Some(at) };
            at = skip_space(bytes, at);
            match (bytes.get(at)?, bracket) {
                (b',', Bracket::Object) => {
                    at = colon(bytes, string(bytes, skip_space(bytes, at + 1))?)?;
                    break;
                }
                (b',', Bracket::Array) => {
                    at = skip_space(bytes, at + 1);
                    break;
                }
                (b'}', Bracket::Object) | (b']', Bracket::Array) => {
                    open.pop();
                    at += 1;
                }
                _ => return None,
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Array,
    Object,
}

/// The brackets that are open, the last of them in the lowest bit.
#[derive(Default)]
struct Open {
    objects: u64,
    depth: u32,
}

impl Open {
    fn push(&mut self, bracket: Bracket) -> Option<()> {
        self.objects = self.objects << 1 | u64::from(bracket == Bracket::Object);
        self.depth += 1;
        (self.depth <= u64::BITS).then_some(())
    }

    fn pop(&mut self) {
        self.objects >>= 1;
        self.depth -= 1;
    }

    fn last(&self) -> Option<Bracket> {
        match (self.depth, self.objects & 1) {
            (0, _) => None,
            (_, 0) => Some(Bracket::Array),
            _ => Some(Bracket::Object),
        }
    }
}

/// The position behind the string that starts at `at`, which must be one.
fn string(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at)? != &b'"' {
        return None;
    }
    let mut at = at + 1;
    loop {
        at = scan::unwritable(bytes, at);
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

/// The position behind the string that starts at `at`, which must be one without escapes.
#[inline]
fn plain_string(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at)? != &b'"' {
        return None;
    }
    let end = scan::unwritable(bytes, at + 1);
    (bytes.get(end)? == &b'"').then_some(end + 1)
}

/// The position of the value behind the colon that must come next.
fn colon(bytes: &[u8], at: usize) -> Option<usize> {
    let at = skip_space(bytes, at);
    (bytes.get(at)? == &b':').then(|| skip_space(bytes, at + 1))
}

fn word(bytes: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    bytes.get(at..)?.starts_with(word).then_some(at + word.len())
}

/// The position behind the number that starts at `at`.
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

/// The position behind one digit or more.
fn digits(bytes: &[u8], at: usize) -> Option<usize> {
    let count = bytes.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then_some(at + count)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, value::RawValue};

    use super::{super::raw, members};

    /// The members of an object, after a look at whether those of its member `p` are given as well.
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
                let (found_name, found_value, end) = inner.next().expect("it is given");
                assert_eq!((found_name, found_value), (&*name, value), "{text}");
                assert!(object[..end].ends_with(value), "{text}");
            }
        }
        assert_eq!(inner.next(), None, "{text}");
        Some(found)
    }

    #[test]
    fn members_are_found_as_they_stand() {
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
            // Left to serde_json, though it is JSON.
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
    fn nothing_passes_that_is_not_json() {
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

    /// Whether a name that is looked at is not in the text as it is.
    fn has_escapes(text: &str) -> bool {
        let is_escaped = |name: &str| name.contains('\\') || !text.contains(&format!("\"{name}\""));
        let has_escapes = |object| raw::members(object).any(|(name, _)| is_escaped(&name));
        has_escapes(text) || raw::members(text).any(|(name, value)| name == "p" && has_escapes(value))
    }

    /// Whatever passes here passes `serde_json` as well, and gives the same; what is JSON passes, but for what is left out on purpose.
    #[test]
    fn it_agrees_with_serde_json() {
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
