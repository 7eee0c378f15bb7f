use super::*;

#[test]
fn kinds_are_determined_by_the_first_byte() {
    for (text, expected) in [
        ("null", Kind::Null),
        ("", Kind::Null),
        (" \n", Kind::Null),
        (" true", Kind::Bool),
        ("false", Kind::Bool),
        ("-1", Kind::Number),
        ("\t0.5e3", Kind::Number),
        ("\r\n \"a\"", Kind::String),
        ("[]", Kind::Array),
        (" {}", Kind::Object),
    ] {
        assert_eq!(kind(text), expected, "{text:?}");
    }
}

#[test]
fn strings_are_decoded() {
    for (text, expected) in [
        (r#""""#, Some("")),
        (r#" "plain" "#, Some("plain")),
        (r#""a longer one, with ü and 漢字""#, Some("a longer one, with ü and 漢字")),
        (r#""line\nquote\" back\\ slash\/""#, Some("line\nquote\" back\\ slash/")),
        (r#""\u00fc""#, Some("ü")),
        (r#""\ud83d\ude00!""#, Some("😀!")),
        (r#""\ud83d""#, None),
        ("1", None),
        ("null", None),
        ("", None),
        ("\"", None),
        (r#""open\"#, None),
        (r#""open\""#, None),
    ] {
        assert_eq!(string(text).as_deref(), expected, "{text:?}");
    }
    assert!(matches!(string(r#""borrowed""#), Some(Cow::Borrowed(_))));
}

#[test]
fn objects_yield_their_members() {
    for (text, expected) in [
        ("{}", &[] as &[(&str, &str)]),
        (" { } ", &[]),
        ("[1]", &[]),
        ("\"{\"", &[]),
        (r#"{"a":1}"#, &[("a", "1")]),
        (
            r#" { "a" : [1, {"b": "]}"}] , "c\n" : "x\"}" , "": null , "ü":{"d":{}} } "#,
            &[("a", r#"[1, {"b": "]}"}]"#), ("c\n", r#""x\"}""#), ("", "null"), ("ü", r#"{"d":{}}"#)],
        ),
        (r#"{"a":1,"a":2}"#, &[("a", "1"), ("a", "2")]),
        (r#"{"\ud83d":1,"b":2}"#, &[(r"\ud83d", "1"), ("b", "2")]),
        // Malformed.
        ("{", &[]),
        (r#"{"a"#, &[]),
        (r#"{"a":"#, &[]),
        (r#"{"a":}"#, &[]),
        (r#"{"a":1"#, &[("a", "1")]),
        (r#"{"a":[1"#, &[("a", "[1")]),
        (r#"{"a" 1,"b":2}"#, &[]),
        (r#"{a:1}"#, &[]),
    ] {
        let found: Vec<_> = members(text).collect();
        let found: Vec<_> = found.iter().map(|(k, v)| (k.as_ref(), *v)).collect();
        assert_eq!(found, expected, "{text:?}");
    }
}

#[test]
fn arrays_yield_their_elements() {
    for (text, expected) in [
        ("[]", &[] as &[&str]),
        ("{}", &[]),
        (
            "[ 1 ,-2.5e3,\"a,b\" , [2,[3]], {\"a\":[1,2]},true,null ]",
            &["1", "-2.5e3", "\"a,b\"", "[2,[3]]", "{\"a\":[1,2]}", "true", "null"],
        ),
        ("[", &[]),
        ("[1", &["1"]),
        ("[,", &[]),
        ("[1,,2]", &["1"]),
        ("[\"\\", &["\"\\"]),
    ] {
        let found: Vec<_> = elements(text).collect();
        assert_eq!(found, expected, "{text:?}");
    }
}

#[test]
fn finds_the_end_of_strings_of_every_length() {
    for length in 0..40 {
        for (tail, escaped) in [("\"", false), ("\\\\\"", true), ("\\\"\"", true), ("é\"", false)] {
            let text = format!("\"{}{tail}", "x".repeat(length));
            let padded = format!("{text}\"\\ more");
            let found = skip_string(padded.as_bytes(), 0);
            assert_eq!(found, (text.len(), escaped), "{padded}");
        }
    }
}

/// Truncates and damages a text at every position, which must neither panic nor loop.
#[test]
fn malformed_text_terminates() {
    let whole = r#"{"a\u00e9é":[1,"b\\",{"c":"\"😀"}],"d":{"e":-1.5,"f":[[],{}]}}"#;
    let walk = |text: &str| {
        let deep = members(text).flat_map(|(_, value)| {
            let inner = elements(value).flat_map(members).count();
            assert!(members(value).count() + inner <= value.len());
            string(value)
        });
        assert!(deep.count() <= text.len());
        assert!(elements(text).count() <= text.len());
        assert!(skip_value(text.as_bytes(), 0) <= text.len());
    };
    for at in (0..=whole.len()).filter(|&at| whole.is_char_boundary(at)) {
        walk(&whole[..at]);
        walk(&whole[at..]);
        for damage in ["\"", "\\", "{", "]", ",", ":", "x", "é"] {
            walk(&format!("{}{damage}{}", &whole[..at], &whole[at..]));
        }
    }
    assert_eq!(skip_value(b"1", 7), 7);
}

#[test]
fn the_last_of_duplicate_members_is_returned() {
    for (object, found) in [
        (r#"{"a":1}"#, Some("1")),
        (r#"{"a":1,"b":2,"\u0061":3}"#, Some("3")),
        (r#"{"b":{"a":1}}"#, None),
        ("[]", None),
    ] {
        assert_eq!(member(object, "a"), found, "{object}");
    }
}

#[test]
fn repeated_members_are_found_by_their_path() {
    for (json, depth, expected) in [
        (r#"{"a":1,"b":"a","c":["a","a"],"d":{"a":1}}"#, 9, None),
        (r#"{"a":"{\"a\":1,","b":"}","c":{},"d":[]}"#, 9, None),
        (" {\n\"a\" : 1 , \"\\u0061\"\t: 2 } ", 9, Some(("", "a"))),
        (r#"[{},[{"a":{}},{"b":[0,{"x":1,"x":2}]}]]"#, 9, Some(("[1][1].b[1]", "x"))),
        (r#"{"a":{"x":[1,2]},"b":{"x":1},"a":[[[]]]}"#, 9, Some(("", "a"))),
        (r#"{"a":[[{"x":1,"x":2}]]}"#, 4, Some(("a[0][0]", "x"))),
        (r#"{"a":[[{"x":1,"x":2}]]}"#, 3, None),
        (r#"{"a":[[{"x":1,"x":2}]],"a":1}"#, 1, Some(("", "a"))),
    ] {
        let found = repetition(json, depth);
        assert_eq!(found.as_ref().map(|found| (&*found.path, &*found.name)), expected, "{json} {depth}");
    }
}

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
