use super::*;

#[test]
fn rules() {
    let range = |least: i64, most: i64| vec![Rule::Minimum(least.into()), Rule::Maximum(most.into())];
    let length = || vec![Rule::MinLength(1), Rule::MaxLength(3)];
    for (found, expected) in [
        (with::<usize>(|p| p.rules = range(1, 100)), json!({"type": "integer", "minimum": 1, "maximum": 100})),
        (with::<u8>(|p| p.rules = range(-5, 1000)), json!({"type": "integer", "minimum": 0, "maximum": 255})),
        (
            with::<f64>(|p| p.rules = vec![Rule::ExclusiveMinimum(0.into()), Rule::ExclusiveMaximum(1.into())]),
            json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
        ),
        (with::<Option<String>>(|p| p.rules = length()), json!({"type": "string", "minLength": 1, "maxLength": 3})),
        (
            with::<Vec<bool>>(|p| p.rules = length()),
            json!({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}),
        ),
        (
            with::<BTreeMap<String, bool>>(|p| p.rules = length()),
            json!({"type": "object", "additionalProperties": {"type": "boolean"}, "minProperties": 1, "maxProperties": 3}),
        ),
        (
            with::<String>(|p| {
                p.rules = vec![Rule::Pattern("^a"), Rule::Format("colour"), Rule::Header("Region")];
                p.default = Some(json!("ab"));
            }),
            json!({"type": "string", "pattern": "^a", "format": "colour", "x-mcp-header": "Region", "default": "ab"}),
        ),
        (
            with::<Option<i64>>(|p| {
                p.rules = vec![Rule::Examples(vec![json!(1), json!(2)])];
                p.default = Some(Value::Null);
            }),
            json!({"type": "integer", "examples": [1, 2]}),
        ),
        (with::<Tree>(|p| p.rules = vec![Rule::MinLength(1)]), json!({"$ref": "#/$defs/Tree", "minProperties": 1})),
    ] {
        assert_eq!(found.unwrap(), expected);
    }
}

#[test]
fn rules_that_do_not_fit() {
    for (found, expected) in [
        (
            with::<String>(|p| p.rules = vec![Rule::Minimum(1.into())]),
            "`range` does not fit its type, expected a number, found string",
        ),
        (
            with::<Option<Point>>(|p| p.rules = vec![Rule::Pattern("a")]),
            "`pattern` does not fit its type, expected a string, found object",
        ),
        (
            with::<bool>(|p| p.rules = vec![Rule::MaxLength(1)]),
            "`length` does not fit its type, expected a string, an array or an object, found boolean",
        ),
        (
            with::<Value>(|p| p.rules = vec![Rule::Format("date")]),
            "`format` does not fit its type, expected a string, found anything",
        ),
        (
            with::<f64>(|p| p.rules = vec![Rule::Header("Region")]),
            "`header` does not fit its type, expected a string, an integer or a boolean, found number",
        ),
        (
            with::<Vec<u8>>(|p| p.rules = vec![Rule::Header("Region")]),
            "`header` does not fit its type, expected a string, an integer or a boolean, found array",
        ),
        (
            with::<String>(|p| p.rules = vec![Rule::Header("A b")]),
            "`A b` is not the name of a header, expected letters, digits and `-`",
        ),
        (
            with::<u8>(|p| p.rules = vec![Rule::Minimum(300.into())]),
            "nothing fits, as `minimum` is 300 and `maximum` is 255",
        ),
        (
            with::<u8>(|p| p.default = Some(json!(256))),
            "its `default` breaks its own rules: 256 must be at least 0 and at most 255",
        ),
        (
            with::<Tree>(|p| p.default = Some(json!({"name": 1, "children": []}))),
            "its `default` breaks its own rules: `name`: 1 must be a string",
        ),
        (
            with::<String>(|p| p.rules = vec![Rule::MaxLength(1), Rule::Examples(vec![json!("a"), json!("ab")])]),
            "its `examples` breaks its own rules: \"ab\" must have at most 1 character",
        ),
    ] {
        assert_eq!(found.unwrap_err(), format!("the argument `p` is wrong: {expected}"));
    }
    let mut generator = generator();
    let mut first = property::<String>(&mut generator, true);
    first.rules = vec![Rule::Header("Region")];
    let second = Property { name: "q", rules: vec![Rule::Header("REGION")], ..first.clone() };
    let error = input(vec![first, second], generator).unwrap_err();
    assert_eq!(error, "the arguments `p` and `q` have the same `header`, `REGION`");
}
