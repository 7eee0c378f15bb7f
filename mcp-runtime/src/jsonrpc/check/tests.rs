use serde_json::{Map, Value, value::RawValue};

use super::members;
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
                assert!(raw::members(text).eq(found.into_iter().map(|(name, value)| (name.into(), value))), "{text}");
            }
            None => assert!(!is_object || has_escapes(text), "{text}"),
        }
    }
    assert!(passed > 10_000, "{passed}");
}
