use serde_json::{Map, Value, json};

use super::{ArgumentErrors, ArgumentWords, arguments};
use crate::arguments::schema::Schema;

fn schema() -> Map<String, Value> {
    let Value::Object(schema) = json!({
        "type": "object",
        "$defs": {"Place": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
            "required": ["city"],
            "additionalProperties": false,
        }, "Alias": {"$ref": "#/$defs/a~01b"}, "a~1b": {"type": "string"}},
        "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer"},
            "ratio": {"type": "number"},
            "sure": {"type": "boolean"},
            "nothing": {"type": "null"},
            "style": {"enum": ["brief", "detailed", 3, null]},
            "titled": {"oneOf": [{"const": "a", "title": "First"}, {"const": "b"}]},
            "maybe": {"type": ["integer", "null"]},
            "name": {"type": ["string", "null"]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}, {"type": "string"}]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "numbers": {"type": "array", "items": {"type": "integer"}},
            "some": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
            "place": {"$ref": "#/$defs/Place"},
            "where": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]},
            "any": {},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object"},
            "untyped": {"properties": {"a": {"type": "string"}}},
            "both": {"type": "object", "allOf": [
                {"properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"properties": {"b": {"type": "string"}}},
            ]},
            "alias": {"$ref": "#/$defs/Alias"},
            "bytes": {"type": "string", "format": "byte"},
            "encoded": {"type": "string", "contentEncoding": "base64"},
            "dotted.name": {"type": "integer"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100},
            // `exclusiveMaximum` as in old drafts, which is invalid today.
            "old": {"type": "integer", "maximum": 100, "exclusiveMaximum": true},
            "word": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
            "size": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]},
            "pair": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2},
        },
        "additionalProperties": false,
    }) else {
        unreachable!()
    };
    schema
}

fn given(words: &[&str]) -> Result<Value, Vec<String>> {
    let schema = schema();
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let mut errors = ArgumentErrors::default();
    let object = arguments(ArgumentWords { words: &words, is_complete: true }, Schema::new(&schema), &mut errors);
    if errors.0.is_empty() { Ok(Value::Object(object)) } else { Err(errors.0) }
}

#[test]
fn words_are_converted_according_to_the_schema() {
    for (words, expected) in [
        (&["text=hello"][..], json!({"text": "hello"})),
        (&["text=5"], json!({"text": "5"})),
        (&["text=18446744073709551616"], json!({"text": "18446744073709551616"})),
        (&["tags=18446744073709551616"], json!({"tags": ["18446744073709551616"]})),
        (&["count=18446744073709551615"], json!({"count": u64::MAX})),
        (&["text=true"], json!({"text": "true"})),
        (&["text=null"], json!({"text": "null"})),
        (&["text="], json!({"text": ""})),
        (&["text=a=b"], json!({"text": "a=b"})),
        (&[r#"text={"a":1}"#], json!({"text": r#"{"a":1}"#})),
        (&["count=5"], json!({"count": 5})),
        (&["count=-5"], json!({"count": -5})),
        (&["count=18446744073709551615"], json!({"count": u64::MAX})),
        (&["ratio=5"], json!({"ratio": 5})),
        (&["ratio=1.5e3"], json!({"ratio": 1500.0})),
        (&["sure=true"], json!({"sure": true})),
        (&["sure=false"], json!({"sure": false})),
        (&["nothing=null"], json!({"nothing": null})),
        (&["style=brief"], json!({"style": "brief"})),
        (&["style=3"], json!({"style": 3})),
        (&["style=null"], json!({"style": null})),
        (&["titled=b"], json!({"titled": "b"})),
        (&["maybe=5"], json!({"maybe": 5})),
        (&["maybe=null"], json!({"maybe": null})),
        (&["word=abc"], json!({"word": "abc"})),
        // The text has more characters than the string may have.
        (&["word=null"], json!({"word": null})),
        (&["size=10"], json!({"size": 10})),
        (&["size=large"], json!({"size": "large"})),
        (&["size=0"], json!({"size": "0"})),
        (&["name=null"], json!({"name": "null"})),
        (&["either=5"], json!({"either": 5})),
        (&["either=true"], json!({"either": true})),
        (&["either=five"], json!({"either": "five"})),
        (&["tags=a"], json!({"tags": ["a"]})),
        (&["tags=1", "tags=2"], json!({"tags": ["1", "2"]})),
        (&[r#"tags=["a","b"]"#], json!({"tags": ["a", "b"]})),
        (&["numbers=1", "numbers=2"], json!({"numbers": [1, 2]})),
        (&["some=1", "some=2"], json!({"some": [1, 2]})),
        (&["some=1"], json!({"some": [1]})),
        (&["place.city=Bern", "place.zip=3000"], json!({"place": {"city": "Bern", "zip": 3000}})),
        (&[r#"place={"city":"Bern"}"#], json!({"place": {"city": "Bern"}})),
        (&["where.city=Bern"], json!({"where": {"city": "Bern"}})),
        (&["where=null"], json!({"where": null})),
        (&["any=5"], json!({"any": 5})),
        (&["any=hello"], json!({"any": "hello"})),
        (&["any.deep.er=x"], json!({"any": {"deep": {"er": "x"}}})),
        (&["map.a=1", "map.b=2"], json!({"map": {"a": 1, "b": 2}})),
        (&["labels.a=1"], json!({"labels": {"a": "1"}})),
        (&["free.a=1", "free.b=x"], json!({"free": {"a": 1, "b": "x"}})),
        (&["untyped.a=1"], json!({"untyped": {"a": "1"}})),
        (&["both.a=1", "both.b=2"], json!({"both": {"a": "1", "b": "2"}})),
        (&["alias=5"], json!({"alias": "5"})),
        (&["dotted.name=1"], json!({"dotted.name": 1})),
        (&["count:=\"five\""], json!({"count": "five"})),
        (&["text:=5"], json!({"text": 5})),
        (&["tags:=[1,[2]]"], json!({"tags": [1, [2]]})),
        (&["place.zip:=\"x\"", "place.city=Bern"], json!({"place": {"city": "Bern", "zip": "x"}})),
    ] {
        assert_eq!(given(words), Ok(expected), "{words:?}");
    }
}

#[test]
fn invalid_arguments_are_reported_by_name() {
    for (word, expected) in [
        ("count=five", "argument `count`: expected integer, found `five`"),
        ("limit=0", "argument `limit`: expected integer, 1 to 100, found `0`"),
        ("old=500", "argument `old`: expected integer, at most 100, found `500`"),
        ("word=abcd", "argument `word`: expected string, at most 3 characters, found `abcd`"),
        ("pair=[1]", "argument `pair`: expected array of (integer, at least 0), 2 items, found `[1]`"),
        ("count=1.5", "argument `count`: expected integer, found `1.5`"),
        ("ratio=x", "argument `ratio`: expected number, found `x`"),
        (
            "count=18446744073709551616",
            "argument `count`: `18446744073709551616` has more than 64 bits and cannot be sent exactly",
        ),
        (
            "any=[-9223372036854775809]",
            "argument `any`: `-9223372036854775809` has more than 64 bits and cannot be sent exactly",
        ),
        (
            "any:=18446744073709551616",
            "argument `any`: `18446744073709551616` has more than 64 bits and cannot be sent exactly",
        ),
        ("sure=yes", "argument `sure`: expected boolean, found `yes`"),
        (
            "style=breif",
            "argument `style`: expected one of `brief`, `detailed`, `3`, `null`, found `breif`; did you mean `brief`?",
        ),
        ("titled=z", "argument `titled`: expected one of `a`, `b`, found `z`"),
        ("numbers=x", "argument `numbers`: expected integer, found `x`"),
        ("numbers=[1", "argument `numbers`: expected array of integer, found `[1`"),
        ("place=Bern", "argument `place`: expected object, found `Bern`"),
        ("place.zip=1", "missing argument `place.city` (string)"),
        ("both.b=1", "missing argument `both.a` (string)"),
        ("untyped=5", "argument `untyped`: expected object, found `5`"),
        ("count.a=1", "argument `count`: expected integer, found an object"),
        ("cuont=1", "unknown argument `cuont`; did you mean `count`?"),
        ("place.cty=x", "unknown argument `place.cty`; did you mean `city`?"),
        ("count:={", "argument `count`: invalid JSON: EOF while parsing an object at byte 1"),
        ("count", "invalid argument `count`: expected KEY=VALUE or KEY:=JSON"),
        ("=5", "invalid argument `=5`: expected KEY=VALUE or KEY:=JSON"),
        ("text=@/nowhere", "argument `text`: `/nowhere`: No such file or directory (os error 2)"),
    ] {
        let errors = given(&[word]).expect_err(word);
        assert!(errors.iter().any(|error| error == expected), "{word}: {errors:?}");
    }
}

#[test]
fn all_errors_are_reported() {
    let errors = given(&["count=five", "count=six", "sure=1", "cuont=1", "place=x", "place.city=y"]).unwrap_err();
    assert_eq!(
        errors,
        [
            "argument `place.city` conflicts with an argument for the whole object",
            "argument `count`: expected integer, found 2 values",
            "argument `sure`: expected boolean, found `1`",
            "argument `place`: expected object, found `x`",
            "unknown argument `cuont`; did you mean `count`?",
        ]
    );
}

/// Neither a wrong type nor a limit hides other errors.
#[test]
fn types_and_limits_are_reported_together() {
    for (words, expected) in [
        (&["limit=0", "count=x", "word=abcd", "pair=1", "pair=-1"][..], 4),
        (&["pair=1", "pair=2", "pair=3", "limit=500"], 2),
        (&["limit=100", "word=abc", "word=null", "pair=1", "pair=2"], 1),
        (&["limit=100", "word=null", "pair=1", "pair=2"], 0),
        // JSON is sent without conversion, so that the server can be tested.
        (&["limit:=500"], 0),
    ] {
        let errors = given(words).err().unwrap_or_default();
        assert_eq!(errors.len(), expected, "{words:?}: {errors:?}");
    }
}

#[test]
fn values_are_read_from_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (text, number, bytes) = (path("text", b"5\n"), path("number", b"5\n"), path("bytes", b"\xff\x00"));
    assert_eq!(given(&[&format!("text=@{text}")]), Ok(json!({"text": "5\n"})));
    assert_eq!(given(&[&format!("count=@{number}")]), Ok(json!({"count": 5})));
    assert_eq!(given(&[&format!("text:=@{number}")]), Ok(json!({"text": 5})));
    let style = path("style", b"brief\n");
    assert_eq!(given(&[&format!("style=@{style}")]), Ok(json!({"style": "brief"})));
    for name in ["bytes", "encoded"] {
        assert_eq!(given(&[&format!("{name}=@{bytes}")]), Ok(json!({name: "/wA="})));
    }
    let errors = given(&[&format!("text=@{bytes}")]).unwrap_err();
    assert_eq!(errors, [format!("argument `text`: `{bytes}` is not valid UTF-8")]);
}
