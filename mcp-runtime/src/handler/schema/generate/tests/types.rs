use std::collections::BTreeSet;

use super::*;

#[test]
fn schemas_that_decoding_enforces_are_detected() {
    #[derive(JsonSchema, Deserialize)]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Ranged {
        #[schemars(range(min = 0, max = 255))]
        level: i64,
    }
    #[derive(JsonSchema, Deserialize)]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Listed {
        #[schemars(extend("enum" = ["a", "b"]))]
        name: String,
    }
    #[derive(JsonSchema, Deserialize)]
    #[schemars(extend("anyOf" = [{"required": ["a"]}, {"required": ["b"]}]))]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Either {
        a: Option<u8>,
        b: Option<u8>,
    }
    #[derive(JsonSchema, Deserialize)]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Whole {
        #[schemars(extend("type" = "integer"))]
        number: f64,
    }
    let implied = |schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema| {
        let mut generator = generator();
        let schema: Value = schema(&mut generator).into();
        super::super::implied::implied(&schema, generator.definitions())
    };
    for (found, expected, name) in [
        (implied(|g| g.subschema_for::<String>()), true, "string"),
        (implied(|g| g.subschema_for::<Option<u64>>()), true, "optional integer"),
        (implied(|g| g.subschema_for::<Vec<i8>>()), true, "list"),
        (implied(|g| g.subschema_for::<(f32, bool)>()), true, "tuple"),
        (implied(|g| g.subschema_for::<Option<Point>>()), true, "struct"),
        (implied(|g| g.subschema_for::<Tree>()), true, "recursive struct"),
        (implied(|g| g.subschema_for::<Option<Style>>()), true, "enum with comments"),
        (implied(|g| g.subschema_for::<Bare>()), true, "enum"),
        (implied(|g| g.subschema_for::<External>()), true, "externally tagged enum"),
        (implied(|g| g.subschema_for::<Tagged>()), true, "internally tagged enum"),
        (implied(|g| g.subschema_for::<Untagged>()), true, "untagged enum"),
        (implied(|g| g.subschema_for::<BTreeMap<String, Value>>()), true, "map"),
        (implied(|g| g.subschema_for::<BTreeSet<u8>>()), false, "set"),
        (implied(|g| g.subschema_for::<[u8; 2]>()), false, "array, which looks like a list of a given length"),
        (implied(|g| g.subschema_for::<char>()), false, "character, which looks like a string of a given length"),
        (implied(|g| g.subschema_for::<Wide>()), false, "range of a field"),
        (implied(|g| g.subschema_for::<Ranged>()), false, "range equal to that of another type"),
        (implied(|g| g.subschema_for::<Listed>()), false, "strings restricted by `enum`"),
        (implied(|g| g.subschema_for::<Either>()), false, "struct with `anyOf`"),
        (implied(|g| g.subschema_for::<Whole>()), false, "float restricted to integers"),
        (implied(|g| g.subschema_for::<Address>()), false, "manual implementation"),
    ] {
        assert_eq!(found, expected, "{name}");
    }
    let mut generator = generator();
    let mut ranged = property::<u8>(&mut generator, true);
    ranged.keywords = vec![Keyword::Header("X"), Keyword::Examples(vec![json!(1)])];
    assert!(input(vec![ranged.clone()], generator.clone()).unwrap().implied);
    ranged.keywords.push(Keyword::Minimum(0.into()));
    assert!(!input(vec![ranged], generator).unwrap().implied);
}
