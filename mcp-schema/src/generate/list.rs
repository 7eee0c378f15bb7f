//! The form of schemas that clients see.

use std::{cell::Cell, collections::HashSet};

use serde_json::{Map, Number, Value, json};

use super::{
    merge::{is_annotation, merge_all},
    simplify::COPIED_VALUES,
};
use crate::{
    json::canonical,
    references,
    schema::{NULLABLE, has_any, is_condition, size, visit_references, visit_subschemas_mut},
};

/// Which form of their schemas tools are listed with.
///
/// All forms describe the same contract, and calls are checked against all of it with every profile. They differ in the
/// keywords that clients have to understand. The default is the form that survives the most agent frameworks.
///
/// ```
/// use mcp_schema::{SchemaProfile, listed};
/// use serde_json::json;
///
/// let schema = json!({"oneOf": [{"const": "ascending"}, {"type": "integer", "exclusiveMinimum": 0}]});
/// assert_eq!(
///     listed(&schema, SchemaProfile::Compatible, &[]),
///     json!({"anyOf": [{"type": "string", "enum": ["ascending"]}, {"type": "integer", "minimum": 1}]})
/// );
/// assert_eq!(listed(&schema, SchemaProfile::Exact, &[]), schema);
/// ```
///
/// A schema that names its `$schema` is listed as its author wrote it, with every profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SchemaProfile {
    /// Lists the form that most clients understand:
    ///
    /// | contract | listed |
    /// | --- | --- |
    /// | an optional argument or field, which may be `null` | `anyOf` of its schema and `null`, with the description in both |
    /// | an argument that clients mirror in a header | its schema without `null`, as the specification demands |
    /// | several types | `anyOf` |
    /// | `additionalProperties: false` | not listed; unknown arguments are still rejected |
    /// | `additionalProperties: true` | `additionalProperties: {}`, or not listed next to `properties` |
    /// | `oneOf` | `anyOf` |
    /// | `unevaluatedProperties` next to `anyOf` | not listed |
    /// | `const` with a string | `enum` with one value |
    /// | a tuple | `items` if all elements are alike, else `prefixItems` and `items` |
    /// | `exclusiveMinimum`, `exclusiveMaximum` | an inclusive bound; for fractions, in addition to the exclusive one |
    /// | `allOf` | merged where that is possible |
    #[default]
    Compatible,
    /// Lists the same form as [`Compatible`](Self::Compatible), but does not list `null` for optional arguments and
    /// fields.
    ///
    /// Use it for clients that do not understand `anyOf`, such as LangChain.js, which replaces it with a schema that
    /// accepts everything. Strict clients make such arguments required.
    WithoutNull,
    /// Lists the contract with all keywords that are enforced, including `additionalProperties: false`.
    ///
    /// Some clients reject such schemas: google-genai for Python cannot list a tool with a boolean
    /// `additionalProperties`.
    Exact,
}

/// Returns the form in which a schema is listed.
///
/// The result accepts all values that the schema accepts, and `null` where decoding accepts it, except in schemas with
/// one of the keywords `not_nullable`.
pub fn listed(schema: &Value, profile: SchemaProfile, not_nullable: &[&str]) -> Value {
    let mut schema = schema.clone();
    // A document is listed as its author wrote it.
    if schema.get("$schema").is_none() {
        let rewrites = profile != SchemaProfile::Exact && has_simple_references(&schema);
        List { profile, rewrites, not_nullable, copied: &Cell::new(0) }.schema(&mut schema);
    }
    schema
}

#[derive(Debug, Clone, Copy)]
struct List<'a> {
    profile: SchemaProfile,
    /// Whether keywords are replaced with keywords that more clients understand.
    rewrites: bool,
    /// The keywords of schemas that stay without `null`.
    not_nullable: &'a [&'a str],
    /// The number of values that were copied to list several types.
    copied: &'a Cell<usize>,
}

impl List<'_> {
    fn schema(self, schema: &mut Value) {
        let Value::Object(members) = schema else { return };
        // A condition must stay as strict as it is, and an `$id` changes the base of references.
        let rewrites = self.rewrites && !members.contains_key("$id");
        visit_subschemas_mut(members, &mut |keyword, _, inner| {
            Self { rewrites: rewrites && !is_condition(keyword), ..self }.schema(inner);
        });
        let nullable = members.shift_remove(NULLABLE).is_some();
        if rewrites {
            rewrite(members, self.copied);
        }
        if nullable && self.profile != SchemaProfile::WithoutNull && !has_any(members, self.not_nullable) {
            add_null(members, self.profile == SchemaProfile::Compatible);
        }
    }
}

/// Replaces the keywords of a single schema, whose subschemas have been rewritten.
fn rewrite(schema: &mut Map<String, Value>, copied: &Cell<usize>) {
    merge_all(schema);
    split_types(schema, copied);
    if let Some(Value::String(_)) = schema.get("const")
        && !schema.contains_key("enum")
        && let Some(value) = schema.shift_remove("const")
    {
        schema.entry("type").or_insert_with(|| "string".into());
        schema.insert("enum".to_owned(), json!([value]));
    }
    if !schema.contains_key("anyOf")
        && let Some(branches) = schema.shift_remove("oneOf")
    {
        schema.insert("anyOf".to_owned(), branches);
    }
    flatten_branches(schema);
    // As schemars generates it for the unknown fields of a struct that flattens an enum. Few clients know it, and what is
    // removed below would no longer count as evaluated.
    schema.shift_remove("unevaluatedProperties");
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => drop(schema.shift_remove("additionalProperties")),
        Some(Value::Bool(true)) if schema.contains_key("properties") => {
            schema.shift_remove("additionalProperties");
        }
        Some(Value::Bool(true)) => drop(schema.insert("additionalProperties".to_owned(), json!({}))),
        _ => {}
    }
    inclusive(schema, "exclusiveMinimum", "minimum", 1);
    inclusive(schema, "exclusiveMaximum", "maximum", -1);
    tuple(schema);
}

/// Makes a schema accept `null`. Annotations stay at the outer level. `repeats_description` adds the description to the
/// branch, too, because some clients keep only one of the two.
fn add_null(schema: &mut Map<String, Value>, repeats_description: bool) {
    if schema.keys().all(|keyword| is_annotation(keyword)) {
        return;
    }
    let null = json!({ "type": "null" });
    if schema.keys().all(|keyword| keyword == "anyOf" || is_annotation(keyword))
        && let Some(Value::Array(branches)) = schema.get_mut("anyOf")
    {
        if !branches.contains(&null) {
            branches.push(null);
        }
        return;
    }
    let (annotations, mut branch): (Map<_, _>, Map<_, _>) =
        std::mem::take(schema).into_iter().partition(|(keyword, _)| is_annotation(keyword));
    if let Some(description) = annotations.get("description").filter(|_| repeats_description) {
        branch.insert("description".to_owned(), description.clone());
    }
    schema.insert("anyOf".to_owned(), Value::Array(vec![branch.into(), null]));
    schema.extend(annotations);
}

/// Replaces several types with a branch for each, up to a limit: nested in each other, such schemas grow exponentially.
fn split_types(schema: &mut Map<String, Value>, copied: &Cell<usize>) {
    let Some(Value::Array(types)) = schema.get("type") else { return };
    let (nullable, types): (Vec<Value>, Vec<Value>) = types.iter().cloned().partition(|kind| kind == "null");
    if types.is_empty() || (types.len() > 1 && schema.contains_key("anyOf")) {
        return;
    }
    if types.len() > 1 {
        let size = schema.values().map(size).sum::<usize>();
        copied.set(copied.get().saturating_add(size.saturating_mul(types.len() - 1)));
        if copied.get() > COPIED_VALUES {
            return;
        }
    }
    let mut accepts_null = !nullable.is_empty() && schema.get("const").is_none_or(Value::is_null);
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        accepts_null &= values.contains(&Value::Null);
        values.retain(|value| !value.is_null());
    }
    schema.shift_remove("type");
    if let [only] = types.as_slice() {
        schema.shift_insert(0, "type".to_owned(), only.clone());
    } else {
        let (annotations, constraints): (Map<_, _>, Map<_, _>) =
            std::mem::take(schema).into_iter().partition(|(keyword, _)| is_annotation(keyword));
        let branch = |kind: Value| {
            let mut branch = Map::from_iter([("type".to_owned(), kind)]);
            branch.extend(constraints.clone());
            if branch["type"] == "array" {
                branch.entry("items").or_insert_with(|| json!({}));
            }
            Value::Object(branch)
        };
        schema.insert("anyOf".to_owned(), types.into_iter().map(branch).collect());
        schema.extend(annotations);
    }
    if accepts_null {
        add_null(schema, true);
    }
}

/// Replaces branches that consist of an `anyOf` with the branches of that.
fn flatten_branches(schema: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = schema.get_mut("anyOf") else { return };
    let mut flat: Vec<Value> = Vec::with_capacity(branches.len());
    for mut branch in branches.drain(..) {
        match branch.as_object_mut() {
            Some(members) if members.len() == 1 && members.get("anyOf").is_some_and(Value::is_array) => {
                if let Some(Value::Array(inner)) = members.shift_remove("anyOf") {
                    flat.extend(inner);
                }
            }
            _ => flat.push(branch),
        }
    }
    *branches = distinct(flat);
}

/// Removes schemas that occur before.
fn distinct(mut schemas: Vec<Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    schemas.retain(|schema| seen.insert(canonical(&schema.to_string())));
    schemas
}

/// Adds the inclusive bound that follows from an exclusive one. For integers it replaces the exclusive one.
fn inclusive(schema: &mut Map<String, Value>, exclusive: &str, inclusive: &str, step: i64) {
    let Some(bound) = schema.get(exclusive).and_then(Value::as_number).cloned() else { return };
    let is_integer = schema.get("type").is_some_and(|kind| kind == "integer");
    let next = bound.as_i64().and_then(|bound| bound.checked_add(step)).filter(|_| is_integer);
    let added = next.map_or(bound, Number::from);
    if next.is_some() {
        schema.shift_remove(exclusive);
    }
    let tighter = |present: f64| added.as_f64().is_some_and(|added| (added > present) == (step > 0));
    if schema.get(inclusive).and_then(Value::as_f64).is_none_or(tighter) {
        schema.insert(inclusive.to_owned(), Value::Number(added));
    }
}

/// Describes the elements of a tuple in `items`, for clients that ignore `prefixItems` or require `items`.
fn tuple(schema: &mut Map<String, Value>) {
    let Some(Value::Array(prefix)) = schema.get("prefixItems") else { return };
    let length = u64::try_from(prefix.len()).ok();
    if schema.get("maxItems").and_then(Value::as_u64) != length {
        return;
    }
    let mut distinct = distinct(prefix.clone());
    if distinct.len() == 1 {
        schema.shift_remove("prefixItems");
        schema.insert("items".to_owned(), distinct.remove(0));
    } else {
        let mut items = Map::from_iter([("anyOf".to_owned(), Value::Array(distinct))]);
        flatten_branches(&mut items);
        schema.insert("items".to_owned(), Value::Object(items));
    }
}

/// Returns whether all references point to the root or to definitions, and not into schemas that may change.
fn has_simple_references(schema: &Value) -> bool {
    let mut simple = true;
    visit_references(schema, &mut |reference| {
        simple &= reference == "#" || references::definition(reference).is_some();
    });
    simple
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Checker;

    /// Numbers that are the same in every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % end
        }

        fn any(&mut self, from: &[&str]) -> Value {
            let count = 1 + self.below(2);
            (0..count).map(|_| from[self.below(from.len())].parse::<Value>().unwrap()).collect()
        }

        /// Returns a schema without the keywords that are only listed by the exact profile.
        fn schema(&mut self, depth: usize) -> Value {
            const TYPES: [&str; 5] = ["string", "integer", "null", "array", "object"];
            let mut schema = Map::new();
            // Several types beside an applicator are listed as they are, or as if `null` met all constraints.
            let has_branches = depth > 0 && self.below(2) == 0;
            for _ in 0..1 + self.below(3) {
                let nested = |random: &mut Self| random.schema(depth.saturating_sub(1));
                let (keyword, value) = match self.below(if has_branches { 11 } else { 9 }) {
                    0 => ("type", TYPES[self.below(5)].into()),
                    1 if !has_branches => {
                        let first = self.below(5);
                        ("type", json!([TYPES[first], TYPES[(first + 1 + self.below(4)) % 5]]))
                    }
                    2 => ("enum", self.any(&VALUES)),
                    3 => ("minLength", json!(2)),
                    4 => ("exclusiveMinimum", json!(self.below(5))),
                    5 => ("const", self.any(&VALUES)[0].clone()),
                    1 | 9 => ("anyOf", json!([nested(self), nested(self)])),
                    6 if depth > 0 => ("items", nested(self)),
                    7 if depth > 0 => ("properties", json!({"a": nested(self)})),
                    10 => ("allOf", json!([nested(self), nested(self)])),
                    _ => ("required", json!(["a"])),
                };
                schema.insert(keyword.to_owned(), value);
            }
            schema.into()
        }
    }

    /// Without a member that is `null`, which counts as absent where that is possible.
    const VALUES: [&str; 15] = [
        "null",
        "true",
        "1",
        "2",
        "3",
        "5",
        "0.5",
        r#""a""#,
        r#""abc""#,
        "[]",
        "[null]",
        r#"["abc",1]"#,
        "{}",
        r#"{"a":1}"#,
        r#"{"a":"abc"}"#,
    ];

    /// Calls `check` for a schema and the schemas inside.
    fn each(schema: &Value, check: &mut dyn FnMut(&Map<String, Value>)) {
        if let Value::Object(members) = schema {
            check(members);
            crate::schema::subschemas(members).for_each(|inner| each(inner, check));
        }
    }

    /// Every profile lists a schema that accepts the same values, and the default one lists no keyword that clients
    /// misunderstand.
    #[test]
    fn listed_schemas_accept_the_same_values() {
        let mut random = Random(1);
        for step in 0..8_000 {
            let schema = random.schema(2);
            let Ok(enforced) = Checker::compile(&schema) else { continue };
            for profile in [SchemaProfile::Compatible, SchemaProfile::WithoutNull, SchemaProfile::Exact] {
                let listed = listed(&schema, profile, &[]);
                let checker = Checker::compile(&listed).unwrap_or_else(|error| panic!("{error}: {listed}"));
                for value in VALUES {
                    let (found, expected) = (checker.accepts(value), enforced.accepts(value));
                    assert_eq!(found, expected, "step {step}, {profile:?}: {value}\n{schema}\n{listed}");
                }
                let mut has_types = false;
                each(&listed, &mut |schema| has_types |= schema.get("type").is_some_and(Value::is_array));
                assert!(!has_types || profile == SchemaProfile::Exact, "{listed}");
            }
        }
    }

    #[test]
    fn keywords_are_listed_in_the_form_that_most_clients_know() {
        let any = json!({"properties": {"a": {}}});
        let reference =
            json!({"properties": {"a": {"oneOf": [{"type": "string"}]}, "b": {"$ref": "#/properties/a/oneOf/0"}}});
        for (schema, expected) in [
            (json!({"properties": {"a": {}}, "additionalProperties": true}), any),
            (json!({"additionalProperties": true}), json!({"additionalProperties": {}})),
            // The reference would lead nowhere.
            (reference.clone(), reference),
            (
                json!({"type": ["string", "array", "null"], NULLABLE: true}),
                json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {}}, {"type": "null"}]}),
            ),
            (
                json!({"prefixItems": [{"type": "string"}, {"type": "string"}], "minItems": 2, "maxItems": 2}),
                json!({"minItems": 2, "maxItems": 2, "items": {"type": "string"}}),
            ),
            (json!({"prefixItems": [{"type": "string"}]}), json!({"prefixItems": [{"type": "string"}]})),
            (
                json!({"prefixItems": [{"type": ["string", "integer"]}, {"type": "boolean"}], "maxItems": 2}),
                json!({
                    "prefixItems": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "boolean"}],
                    "maxItems": 2,
                    "items": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}]},
                }),
            ),
            (
                json!({"type": ["string", "integer"], "description": "An id."}),
                json!({"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "An id."}),
            ),
            (json!({"type": "integer", "exclusiveMinimum": 0}), json!({"type": "integer", "minimum": 1})),
            (json!({"type": "integer", "exclusiveMinimum": 0, "minimum": 5}), json!({"type": "integer", "minimum": 5})),
            (json!({"type": "integer", "exclusiveMaximum": 9, "maximum": 5}), json!({"type": "integer", "maximum": 5})),
            (json!({"type": "integer", "exclusiveMaximum": 5, "maximum": 9}), json!({"type": "integer", "maximum": 4})),
            // Everything is accepted anyway.
            (json!({"description": "Any.", NULLABLE: true}), json!({"description": "Any."})),
            (
                json!({"type": "string", "description": "A name.", NULLABLE: true}),
                json!({
                    "anyOf": [{"type": "string", "description": "A name."}, {"type": "null"}],
                    "description": "A name.",
                }),
            ),
            (
                json!({"type": "number", "exclusiveMaximum": 9}),
                json!({"type": "number", "exclusiveMaximum": 9, "maximum": 9}),
            ),
            (json!({"allOf": [{"type": "string"}, false]}), json!({"type": "string", "allOf": [false]})),
        ] {
            assert_eq!(listed(&schema, SchemaProfile::Compatible, &[]), expected, "{schema}");
        }
    }

    /// As the specification demands of arguments that clients mirror in a header.
    #[test]
    fn schemas_with_some_keywords_are_listed_without_null() {
        let schema = json!({"type": "string", "x-header": "A", NULLABLE: true});
        let nullable = json!({"anyOf": [{"type": "string", "x-header": "A"}, {"type": "null"}]});
        assert_eq!(listed(&schema, SchemaProfile::Compatible, &["x-other"]), nullable);
        let plain = json!({"type": "string", "x-header": "A"});
        assert_eq!(listed(&schema, SchemaProfile::Compatible, &["x-header"]), plain);
    }

    /// Each level would be listed twice, with all levels below it.
    #[test]
    fn nested_schemas_with_several_types_remain_small() {
        let nested = |inner, _| json!({"type": ["array", "object"], "items": inner});
        let schema = (0..100).fold(json!({}), nested);
        assert!(super::size(&listed(&schema, SchemaProfile::Compatible, &[])) < 2 * COPIED_VALUES);
    }

    /// Providers refuse arrays without `items`, which the type of a value with several types does not have.
    #[test]
    fn arrays_among_several_types_list_their_items() {
        for types in
            [json!(["array", "string"]), json!(["null", "array", "integer"]), json!(["array", "object", "null"])]
        {
            let schema = json!({"properties": {"a": {"type": types, "maxItems": 3}}});
            let mut arrays = 0;
            each(&listed(&schema, SchemaProfile::Compatible, &[]), &mut |schema| {
                if schema.get("type").is_some_and(|kind| kind == "array") {
                    arrays += 1;
                    assert!(schema.contains_key("items"), "{types}");
                }
            });
            assert_eq!(arrays, 1, "{types}");
        }
    }

    /// Clients that take an enumeration for strings find no `null` in it.
    #[test]
    fn null_is_listed_beside_enumerations() {
        for types in [json!(["string", "null"]), json!(["null", "string", "integer"])] {
            for values in [json!(["a", null]), json!([null, "a", 1]), json!(["a"])] {
                let schema = json!({"type": types, "enum": values, "description": "One of them."});
                let listed = listed(&json!({"items": schema}), SchemaProfile::Compatible, &[]);
                let checker = Checker::compile(&listed).unwrap();
                let accepts_null = values.as_array().unwrap().contains(&Value::Null);
                assert_eq!(checker.accepts("[null]"), accepts_null, "{listed}");
                assert!(checker.accepts(r#"["a"]"#) && !checker.accepts(r#"["b"]"#), "{listed}");
                each(&listed, &mut |schema| {
                    let values = schema.get("enum").and_then(Value::as_array);
                    assert!(!values.is_some_and(|values| values.contains(&Value::Null)), "{listed}");
                });
            }
        }
    }
}
