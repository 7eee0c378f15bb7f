//! The validity of schemas, independent of any client.

use std::{collections::BTreeSet, ptr};

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::codes::{self, Code, Findings, Subject};
use crate::arguments::schema::{compile, violation};

/// Checks the schema of a tool's arguments.
pub(crate) fn input(findings: &mut Findings, subject: &Subject, schema: &Value) {
    if schema["type"] != "object" {
        findings.add(codes::NO_OBJECT_SCHEMA, subject, "`inputSchema` has no `\"type\": \"object\"`");
    }
    if schema.is_object() {
        validity(findings, subject, "inputSchema", schema);
        headers(findings, subject, schema);
    }
}

/// Checks the schema of a tool's result.
pub(crate) fn output(findings: &mut Findings, subject: &Subject, schema: &Value) {
    validity(findings, subject, "outputSchema", schema);
}

fn validity(findings: &mut Findings, subject: &Subject, what: &str, schema: &Value) {
    let default = "https://json-schema.org/draft/2020-12/schema";
    let mut is_broken = false;
    let other = schema["$schema"].as_str().filter(|dialect| dialect.trim_end_matches('#') != default);
    match other {
        Some(dialect) => {
            findings.add(codes::OTHER_DIALECT, subject, format!("`{what}` declares the dialect {dialect}"))
        }
        None => {
            if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
                let path = error.instance_path().to_string();
                let at = if path.is_empty() { String::new() } else { format!(" at `{path}`") };
                findings.add(codes::INVALID_SCHEMA, subject, format!("`{what}`{at}: {error}"));
                is_broken = true;
            }
        }
    }
    is_broken |= !references(findings, subject, what, schema);
    if is_broken {
        return;
    }
    if let Err(error) = compile(schema) {
        findings.add(codes::INVALID_SCHEMA, subject, format!("`{what}`: {error}"));
        return;
    }
    walk(schema, &mut |part: &Subschema<'_>| values(findings, subject, what, part, schema));
}

/// Checks a subschema's `default`, `examples` and `required`.
fn values(findings: &mut Findings, subject: &Subject, what: &str, part: &Subschema<'_>, root: &Value) {
    let Subschema { path, schema: part, .. } = part;
    let location = if path.is_empty() { format!("`{what}`") } else { format!("`{path}` of `{what}`") };
    let examples =
        part["examples"].as_array().into_iter().flatten().map(|value| (codes::BAD_EXAMPLE, "example", value));
    let default = part.get("default").map(|value| (codes::BAD_DEFAULT, "default", value));
    for (code, keyword, value) in default.into_iter().chain(examples) {
        let object = part.as_object().zip(root.as_object());
        if let Some(violation) = object.and_then(|(part, root)| violation(part, root, value)) {
            findings.add(code, subject, format!("{location}: invalid {keyword}: {violation}"));
        }
    }
    let declared = |name: &Value| name.as_str().is_some_and(|name| part["properties"].get(name).is_some());
    let is_complete =
        ["allOf", "anyOf", "oneOf", "$ref", "patternProperties"].iter().all(|word| part.get(*word).is_none());
    // In a branch of a union, `required` refers to the properties of the enclosing schema.
    let has_properties = part.get("properties").is_some();
    if !is_complete || !has_properties {
        return;
    }
    for name in part["required"].as_array().into_iter().flatten().filter(|name| !declared(name)) {
        findings.add(codes::UNDECLARED_REQUIRED, subject, format!("{location}: {name} is required but not declared"));
    }
}

/// Returns whether all references resolve, as far as that can be seen.
fn references(findings: &mut Findings, subject: &Subject, what: &str, schema: &Value) -> bool {
    let mut has_base = false;
    walk(schema, &mut |part: &Subschema<'_>| {
        has_base |= !ptr::eq(part.schema, schema) && part.schema.get("$id").is_some()
    });
    // References are relative to an `$id` around them. `compile` resolves them.
    if has_base {
        return true;
    }
    let (mut seen, mut all_resolve) = (BTreeSet::new(), true);
    collect(schema, &mut |reference| {
        if seen.insert(reference.to_owned()) {
            let found: Option<(&'static Code, &str)> = match reference.strip_prefix('#') {
                None => Some((codes::REMOTE_REF, "points outside the schema")),
                Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                    let pointer = percent_decode_str(pointer).decode_utf8_lossy();
                    schema.pointer(&pointer).is_none().then_some((codes::UNRESOLVED_REF, "does not resolve"))
                }
                Some(anchor) => (!has_anchor(schema, anchor)).then_some((codes::UNRESOLVED_REF, "does not resolve")),
            };
            if let Some((code, why)) = found {
                findings.add(code, subject, format!("`{what}`: reference `{reference}` {why}"));
                all_resolve = false;
            }
        }
    });
    all_resolve
}

/// Calls `found` with each reference. Skips keywords whose values are data, not schemas.
fn collect(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match (name.as_str(), member) {
                    ("$ref" | "$dynamicRef", Value::String(reference)) => found(reference),
                    ("default" | "examples" | "const" | "enum", _) => {}
                    _ => collect(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

fn has_anchor(value: &Value, anchor: &str) -> bool {
    match value {
        Value::Object(members) => {
            members.get("$anchor").or(members.get("$dynamicAnchor")).is_some_and(|name| name == anchor)
                || members.values().any(|member| has_anchor(member, anchor))
        }
        Value::Array(items) => items.iter().any(|item| has_anchor(item, anchor)),
        _ => false,
    }
}

/// Checks the `x-mcp-header` keywords, which make clients repeat arguments in HTTP headers.
fn headers(findings: &mut Findings, subject: &Subject, schema: &Value) {
    let mut names: BTreeSet<String> = BTreeSet::new();
    walk(schema, &mut |part: &Subschema<'_>| {
        let Subschema { path, schema, .. } = part;
        let Some(header) = schema.get("x-mcp-header") else { return };
        if !part.is_property || part.depth == 0 {
            let message = format!("the header of `{path}` cannot be reached through `properties` alone");
            return findings.add(codes::BAD_HEADER, subject, message);
        }
        let name = header.as_str().unwrap_or_default();
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            findings.add(codes::BAD_HEADER, subject, format!("header {header} of `{path}` is not an HTTP token"));
        } else if !names.insert(name.to_ascii_lowercase()) {
            findings.add(codes::BAD_HEADER, subject, format!("header `{name}` is used by two arguments"));
        }
        if ![json!("string"), json!("integer"), json!("boolean")].contains(&schema["type"]) {
            let message = format!("`{path}` has a header, but is not a string, an integer or a boolean");
            findings.add(codes::BAD_HEADER, subject, message);
        }
    });
}

/// A schema within a schema.
pub(crate) struct Subschema<'a> {
    /// The path to it, such as `filter.tags[]`; empty for the root.
    pub(crate) path: String,
    /// The number of enclosing objects and arrays.
    pub(crate) depth: usize,
    pub(crate) schema: &'a Value,
    /// Whether it describes a value by itself, unlike a branch, a condition or a definition.
    pub(crate) is_value: bool,
    /// Whether `properties` alone lead from the root to it.
    is_property: bool,
}

/// Calls `visit` for a schema and all its subschemas, including definitions.
pub(crate) fn walk(schema: &Value, visit: &mut dyn FnMut(&Subschema<'_>)) {
    let root = Subschema { path: String::new(), depth: 0, schema, is_value: true, is_property: true };
    step(&root, visit);
}

fn step(parent: &Subschema<'_>, visit: &mut dyn FnMut(&Subschema<'_>)) {
    visit(parent);
    let Value::Object(members) = parent.schema else { return };
    for (keyword, value) in members {
        match keyword.as_str() {
            "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => {
                for (name, schema) in value.as_object().into_iter().flatten() {
                    let (path, deeper, is_value) = match keyword.as_str() {
                        "properties" if parent.path.is_empty() => (name.clone(), 1, true),
                        "properties" => (format!("{}.{name}", parent.path), 1, true),
                        "$defs" | "definitions" => (name.clone(), 0, true),
                        _ => (format!("{}.{name}", parent.path), 1, false),
                    };
                    let is_property = parent.is_property && keyword == "properties";
                    step(&Subschema { path, depth: parent.depth + deeper, schema, is_value, is_property }, visit);
                }
            }
            // Only objects: `true` and `false` are the usual way to allow and to forbid further properties.
            "additionalProperties" | "unevaluatedProperties" if value.is_object() => {
                element(parent, format!("{}.*", parent.path), value, visit);
            }
            "items" if !value.is_array() => element(parent, format!("{}[]", parent.path), value, visit),
            "prefixItems" => {
                for (index, schema) in value.as_array().into_iter().flatten().enumerate() {
                    element(parent, format!("{}[{index}]", parent.path), schema, visit);
                }
            }
            "anyOf" | "oneOf" | "allOf" => {
                for schema in value.as_array().into_iter().flatten() {
                    same_value(parent, schema, visit);
                }
            }
            "not" | "if" | "then" | "else" | "contains" | "propertyNames" => same_value(parent, value, visit),
            _ => {}
        }
    }
}

/// Visits the schema of an element, one level deeper.
fn element(parent: &Subschema<'_>, path: String, schema: &Value, visit: &mut dyn FnMut(&Subschema<'_>)) {
    let path = path.strip_prefix('.').map(str::to_owned).unwrap_or(path);
    step(&Subschema { path, depth: parent.depth + 1, schema, is_value: true, is_property: false }, visit);
}

/// Visits a further schema of the same value.
fn same_value(parent: &Subschema<'_>, schema: &Value, visit: &mut dyn FnMut(&Subschema<'_>)) {
    let (path, depth) = (parent.path.clone(), parent.depth);
    step(&Subschema { path, depth, schema, is_value: false, is_property: false }, visit);
}
