use super::{
    Bound::{Float, Integer},
    *,
};
use crate::SchemaProfile;

/// Whatever a client makes of the listed schema, the function accepts the same numbers.
#[test]
fn the_listed_bounds_of_a_number_are_its_bounds() {
    let numbers: Vec<String> = (-30..=30).map(|tenths| format!("{:?}", f64::from(tenths) / 10.0)).collect();
    let accepted = |schema: &Value| {
        let checker = Checker::compile(schema).unwrap();
        numbers.iter().filter(|number| checker.accepts(number)).collect::<Vec<_>>()
    };
    for kind in ["integer", "number"] {
        for keyword in ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"] {
            for bound in [json!(-2), json!(-1.5), json!(-0.5), json!(0), json!(0.5), json!(1.5), json!(2)] {
                let schema = json!({"type": kind, keyword: bound});
                for profile in [SchemaProfile::Exact, SchemaProfile::Compatible, SchemaProfile::WithoutNull] {
                    let listed = crate::listed(&schema, profile, &[]);
                    assert_eq!(accepted(&listed), accepted(&schema), "{schema} is listed as {listed}");
                }
            }
        }
    }
}

#[test]
fn keywords_are_added_to_schemas() {
    const LENGTH: &[Keyword] = &[Keyword::MinLength(1), Keyword::MaxLength(3)];
    for (found, expected) in [
        (
            with::<usize>(|p| p.keywords = &[Keyword::Minimum(Integer(1)), Keyword::Maximum(Integer(100))]),
            json!({"type": "integer", "minimum": 1, "maximum": 100}),
        ),
        (
            with::<u8>(|p| p.keywords = &[Keyword::Minimum(Integer(0)), Keyword::Maximum(Integer(255))]),
            json!({"type": "integer", "minimum": 0, "maximum": 255}),
        ),
        (
            with::<f64>(|p| p.keywords = &[Keyword::Minimum(Float(0.5)), Keyword::ExclusiveMaximum(Integer(1))]),
            json!({"type": "number", "minimum": 0.5, "exclusiveMaximum": 1}),
        ),
        (with::<Option<String>>(|p| p.keywords = LENGTH), json!({"type": "string", "minLength": 1, "maxLength": 3})),
        (
            with::<Vec<bool>>(|p| p.keywords = LENGTH),
            json!({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}),
        ),
        (
            with::<BTreeMap<String, bool>>(|p| p.keywords = LENGTH),
            json!({"type": "object", "additionalProperties": {"type": "boolean"}, "minProperties": 1, "maxProperties": 3}),
        ),
        (
            with::<String>(|p| {
                p.keywords = &[Keyword::Pattern("^a"), Keyword::Format("colour"), Keyword::Extension("x-region", "eu")];
                p.default = Some(json!("ab"));
            }),
            json!({"type": "string", "pattern": "^a", "format": "colour", "x-region": "eu", "default": "ab"}),
        ),
        (
            with::<Option<i64>>(|p| {
                p.keywords = &[Keyword::Examples(&["1", "2"])];
                p.default = Some(Value::Null);
            }),
            json!({"type": "integer", "examples": [1, 2]}),
        ),
    ] {
        assert_eq!(found.unwrap(), expected);
    }
    let tree = with::<Tree>(|p| p.keywords = &[Keyword::MinLength(1)]).unwrap();
    assert_eq!(tree["minProperties"], 1);
}

#[test]
fn inapplicable_keywords_are_rejected() {
    for (found, expected) in [
        (with::<String>(|p| p.keywords = &[Keyword::Minimum(Integer(1))]), "`range` requires a number, found string"),
        (with::<Option<Point>>(|p| p.keywords = &[Keyword::Pattern("a")]), "`pattern` requires a string, found object"),
        (
            with::<bool>(|p| p.keywords = &[Keyword::MaxLength(1)]),
            "`length` requires a string, an array or an object, found boolean",
        ),
        (with::<Value>(|p| p.keywords = &[Keyword::Format("date")]), "`format` requires a string, found any type"),
        (
            with::<External>(|p| p.keywords = &[Keyword::MaxLength(1)]),
            "`length` requires a string, an array or an object, found object or string",
        ),
        (
            with::<u8>(|p| p.keywords = &[Keyword::Minimum(Integer(300))]),
            "no value is valid: `minimum` is 300, but `maximum` is 255",
        ),
        (
            with::<String>(|p| p.keywords = &[Keyword::MinLength(3), Keyword::MaxLength(2)]),
            "no value is valid: `minLength` is 3, but `maxLength` is 2",
        ),
        (
            with::<Vec<u8>>(|p| p.keywords = &[Keyword::MaxLength(2), Keyword::MinLength(3)]),
            "no value is valid: `minItems` is 3, but `maxItems` is 2",
        ),
        (
            with::<BTreeMap<String, u8>>(|p| p.keywords = &[Keyword::MinLength(3), Keyword::MaxLength(2)]),
            "no value is valid: `minProperties` is 3, but `maxProperties` is 2",
        ),
        (
            with::<u8>(|p| p.keywords = &[Keyword::Maximum(Integer(1000))]),
            "`maximum` is 1000, but that of the type is 255",
        ),
        (with::<u8>(|p| p.keywords = &[Keyword::Minimum(Integer(-5))]), "`minimum` is -5, but that of the type is 0"),
        (
            with::<f64>(|p| {
                p.schema = json!({"type": "number", "exclusiveMaximum": 5});
                p.keywords = &[Keyword::ExclusiveMaximum(Integer(7))];
            }),
            "`exclusiveMaximum` is 7, but that of the type is 5",
        ),
        (
            with::<f64>(|p| p.keywords = &[Keyword::Maximum(Float(f64::INFINITY))]),
            "the bound Float(inf) is not a JSON number",
        ),
        (
            with::<u8>(|p| p.default = Some(json!(256))),
            "its `default` does not match its schema: 256 must be at least 0 and at most 255",
        ),
        (
            with::<Tree>(|p| p.default = Some(json!({"name": 1, "children": []}))),
            "its `default` does not match its schema: `name`: 1 must be a string",
        ),
        (
            with::<String>(|p| p.keywords = &[Keyword::MaxLength(1), Keyword::Examples(&[r#""a""#, r#""ab""#])]),
            "its `examples` does not match its schema: \"ab\" must have at most 1 character",
        ),
    ] {
        assert_eq!(found.unwrap_err().to_string(), format!("argument `p`: {expected}"));
    }
}
