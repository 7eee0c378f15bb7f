//! Checks how every keyword of [JSON Schema 2020-12](https://json-schema.org/draft/2020-12/schema) is treated.

use serde_json::{Value, json};

use crate::Checker;

/// The way in which the checker treats a keyword, with example schemas and values.
enum Treatment {
    /// The schema accepts the first value and rejects the second.
    Enforced(Value, Value, Value),
    /// The schema accepts every value, as the specification requires or allows.
    Annotation(Value),
    /// Compiling the schema fails.
    Rejected(Value),
}

/// Returns every keyword of the vocabularies of 2020-12, and the keywords of earlier drafts that constrained values.
fn keywords() -> Vec<(&'static str, Treatment)> {
    use Treatment::{Annotation, Enforced, Rejected};

    let positive = || json!({"minimum": 1});
    vec![
        // Core
        ("$schema", Annotation(json!({"$schema": "https://json-schema.org/draft/2020-12/schema"}))),
        ("$schema", Rejected(json!({"$schema": "http://json-schema.org/draft-07/schema#"}))),
        ("$vocabulary", Annotation(json!({"$vocabulary": {"https://example.com/vocabulary": true}}))),
        ("$id", Annotation(json!({"$id": "https://example.com/schema"}))),
        ("$id", Annotation(json!({"allOf": [{"$id": "https://example.com/schema"}]}))),
        (
            "$id",
            Enforced(
                json!({"$ref": "/b", "$id": "https://example.com/a", "$defs": {"b": {"$id": "b", "minimum": 1}}}),
                json!(1),
                json!(0),
            ),
        ),
        ("$ref", Enforced(json!({"$ref": "#/$defs/a", "$defs": {"a": positive()}}), json!(1), json!(0))),
        ("$ref", Rejected(json!({"$ref": "https://example.com/schema"}))),
        (
            "$anchor",
            Enforced(json!({"$ref": "#a", "$defs": {"a": {"$anchor": "a", "minimum": 1}}}), json!(1), json!(0)),
        ),
        (
            "$dynamicRef",
            Enforced(
                json!({"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a", "minimum": 1}}}),
                json!(1),
                json!(0),
            ),
        ),
        (
            "$dynamicRef",
            Rejected(json!({
                "$dynamicRef": "#a",
                "$defs": {"a": {"$dynamicAnchor": "a"}, "b": {"$id": "b", "$dynamicAnchor": "a"}}
            })),
        ),
        ("$dynamicAnchor", Annotation(json!({"$dynamicAnchor": "a"}))),
        ("$defs", Annotation(json!({"$defs": {"a": false}}))),
        ("$comment", Annotation(json!({"$comment": "a"}))),
        // Applicators
        ("prefixItems", Enforced(json!({"prefixItems": [positive()]}), json!([1]), json!([0]))),
        ("items", Enforced(json!({"items": positive()}), json!([1]), json!([1, 0]))),
        ("contains", Enforced(json!({"contains": positive()}), json!([0, 1]), json!([0]))),
        ("properties", Enforced(json!({"properties": {"a": positive()}}), json!({"a": 1}), json!({"a": 0}))),
        ("patternProperties", Enforced(json!({"patternProperties": {"^a": false}}), json!({"b": 1}), json!({"ab": 1}))),
        (
            "additionalProperties",
            Enforced(json!({"additionalProperties": positive()}), json!({"a": 1}), json!({"a": 0})),
        ),
        ("propertyNames", Enforced(json!({"propertyNames": {"maxLength": 1}}), json!({"a": 1}), json!({"ab": 1}))),
        ("dependentSchemas", Enforced(json!({"dependentSchemas": {"a": false}}), json!({"b": 1}), json!({"a": 1}))),
        ("if", Annotation(json!({"if": false}))),
        ("then", Enforced(json!({"if": {"type": "number"}, "then": positive()}), json!("a"), json!(0))),
        ("else", Enforced(json!({"if": {"type": "string"}, "else": positive()}), json!("a"), json!(0))),
        ("allOf", Enforced(json!({"allOf": [positive()]}), json!(1), json!(0))),
        ("anyOf", Enforced(json!({"anyOf": [positive()]}), json!(1), json!(0))),
        ("oneOf", Enforced(json!({"oneOf": [positive(), {"type": "number"}]}), json!(0), json!(1))),
        ("not", Enforced(json!({"not": positive()}), json!(0), json!(1))),
        // Unevaluated locations
        (
            "unevaluatedItems",
            Enforced(json!({"allOf": [{"prefixItems": [true]}], "unevaluatedItems": false}), json!([0]), json!([0, 1])),
        ),
        ("unevaluatedItems", Annotation(json!({"unevaluatedItems": true}))),
        (
            "unevaluatedProperties",
            Enforced(
                json!({"anyOf": [{"properties": {"a": true}}], "unevaluatedProperties": positive()}),
                json!({"a": 0, "b": 1}),
                json!({"a": 0, "b": 0}),
            ),
        ),
        ("unevaluatedProperties", Annotation(json!({"unevaluatedProperties": {}}))),
        // Validation
        ("type", Enforced(json!({"type": "null"}), json!(null), json!(0))),
        ("enum", Enforced(json!({"enum": [1, 2]}), json!(2), json!(3))),
        ("const", Enforced(json!({"const": 1}), json!(1), json!(2))),
        ("multipleOf", Enforced(json!({"multipleOf": 2}), json!(4), json!(3))),
        ("maximum", Enforced(json!({"maximum": 1}), json!(1), json!(2))),
        ("exclusiveMaximum", Enforced(json!({"exclusiveMaximum": 1}), json!(0), json!(1))),
        ("minimum", Enforced(json!({"minimum": 1}), json!(1), json!(0))),
        ("exclusiveMinimum", Enforced(json!({"exclusiveMinimum": 1}), json!(2), json!(1))),
        ("maxLength", Enforced(json!({"maxLength": 1}), json!("a"), json!("ab"))),
        ("minLength", Enforced(json!({"minLength": 1}), json!("a"), json!(""))),
        ("pattern", Enforced(json!({"pattern": "^a"}), json!("a"), json!("b"))),
        ("maxItems", Enforced(json!({"maxItems": 1}), json!([1]), json!([1, 2]))),
        ("minItems", Enforced(json!({"minItems": 1}), json!([1]), json!([]))),
        ("uniqueItems", Enforced(json!({"uniqueItems": true}), json!([1, 2]), json!([1, 1]))),
        ("maxContains", Enforced(json!({"contains": true, "maxContains": 1}), json!([1]), json!([1, 2]))),
        ("minContains", Enforced(json!({"contains": true, "minContains": 2}), json!([1, 2]), json!([1]))),
        ("maxProperties", Enforced(json!({"maxProperties": 0}), json!({}), json!({"a": 1}))),
        ("minProperties", Enforced(json!({"minProperties": 1}), json!({"a": 1}), json!({}))),
        ("required", Enforced(json!({"required": ["a"]}), json!({"a": 1}), json!({}))),
        ("dependentRequired", Enforced(json!({"dependentRequired": {"a": ["b"]}}), json!({"b": 1}), json!({"a": 1}))),
        // Metadata
        ("title", Annotation(json!({"title": "a"}))),
        ("description", Annotation(json!({"description": "a"}))),
        ("default", Annotation(json!({"default": 1}))),
        ("deprecated", Annotation(json!({"deprecated": true}))),
        ("readOnly", Annotation(json!({"readOnly": true}))),
        ("writeOnly", Annotation(json!({"writeOnly": true}))),
        ("examples", Annotation(json!({"examples": [1]}))),
        // Formats and contents
        ("format", Enforced(json!({"format": "date"}), json!("2024-02-29"), json!("2023-02-29"))),
        ("format", Annotation(json!({"format": "colour"}))),
        ("contentEncoding", Annotation(json!({"contentEncoding": "base64"}))),
        ("contentMediaType", Annotation(json!({"contentMediaType": "image/png"}))),
        ("contentSchema", Annotation(json!({"contentMediaType": "application/json", "contentSchema": false}))),
        // Earlier drafts
        ("definitions", Annotation(json!({"definitions": {"a": false}}))),
        ("additionalItems", Rejected(json!({"additionalItems": false}))),
        ("dependencies", Rejected(json!({"dependencies": {"a": ["b"]}}))),
        ("$recursiveRef", Rejected(json!({"$recursiveRef": "#"}))),
        ("$recursiveAnchor", Rejected(json!({"$recursiveAnchor": true}))),
    ]
}

#[test]
fn every_keyword_is_enforced_an_annotation_or_rejected() {
    let samples = [json!(null), json!(true), json!(-1.5), json!(""), json!([1, 1]), json!({"a": 1})];
    for (keyword, treatment) in keywords() {
        match treatment {
            Treatment::Enforced(schema, valid, invalid) => {
                let checker = Checker::compile(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
                assert!(checker.accepts(&valid.to_string()), "{keyword}: {schema} rejects {valid}");
                assert!(!checker.accepts(&invalid.to_string()), "{keyword}: {schema} accepts {invalid}");
            }
            Treatment::Annotation(schema) => {
                let checker = Checker::compile(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
                for sample in &samples {
                    assert!(checker.accepts(&sample.to_string()), "{keyword}: {schema} rejects {sample}");
                }
            }
            Treatment::Rejected(schema) => {
                let error = Checker::compile(&schema).expect_err(keyword).to_string();
                assert!(error.contains(keyword) || error.contains("reference"), "{keyword}: {error}");
            }
        }
    }
}

/// Checks that the table contains every keyword of the meta-schemas of 2020-12.
#[test]
fn the_table_is_complete() {
    let listed: Vec<_> = keywords().into_iter().map(|(keyword, _)| keyword).collect();
    let vocabularies = [
        "$id $schema $ref $anchor $dynamicRef $dynamicAnchor $vocabulary $comment $defs",
        "prefixItems items contains additionalProperties properties patternProperties dependentSchemas propertyNames",
        "if then else allOf anyOf oneOf not unevaluatedItems unevaluatedProperties",
        "type const enum multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern",
        "maxItems minItems uniqueItems maxContains minContains maxProperties minProperties required dependentRequired",
        "title description default deprecated readOnly writeOnly examples format",
        "contentEncoding contentMediaType contentSchema",
    ];
    for keyword in vocabularies.iter().flat_map(|vocabulary| vocabulary.split(' ')) {
        assert!(listed.contains(&keyword), "{keyword}");
    }
}

#[test]
fn rejected_keywords_are_located() {
    for (schema, expected) in [
        (
            json!({"dependencies": {"a": ["b"]}}),
            "unsupported keyword `dependencies` at the root, which would not be enforced\n\
             help: use `dependentRequired` or `dependentSchemas`",
        ),
        (
            json!({"properties": {"a/b": {"items": {"anyOf": [true, {"$recursiveRef": "#"}]}}}}),
            "unsupported keyword `$recursiveRef` at `/properties/a~1b/items/anyOf/1`, which would not be enforced\n\
             help: use `$ref` and `$defs`",
        ),
        (
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"additionalItems": {"type": "string"}}}}),
            "unsupported keyword `additionalItems` at `/$defs/a`, which would not be enforced\n\
             help: use `prefixItems` and `items`",
        ),
        (
            json!({
                "$defs": {"a": {"$id": "a", "$dynamicAnchor": "x"}, "b": {"$dynamicAnchor": "x"}},
                "not": {"$dynamicRef": "a#x"}
            }),
            "unsupported keyword `$dynamicRef` at `/not`, which would not be enforced\n\
             help: use `$ref`, or give one `$dynamicAnchor` another name",
        ),
    ] {
        assert_eq!(Checker::compile(&schema).unwrap_err().to_string(), expected, "{schema}");
    }
}
