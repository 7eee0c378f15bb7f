//! Whether schemas are what they claim to be, whoever reads them.

use std::collections::BTreeSet;

use jsonschema::Draft;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::{
    codes::{self, Code},
    finding::{Entry, Findings},
    walk::{Place, walk},
};

/// Looks at the schema of arguments.
pub(crate) fn input(findings: &mut Findings, entry: &Entry, schema: &Value) {
    if schema["type"] != "object" {
        findings.add(codes::NO_OBJECT_SCHEMA, entry, "`inputSchema` has no `\"type\": \"object\"`");
    }
    if schema.is_object() {
        validity(findings, entry, "inputSchema", schema);
        headers(findings, entry, schema);
    }
}

/// Looks at the schema of a result.
pub(crate) fn output(findings: &mut Findings, entry: &Entry, schema: &Value) {
    validity(findings, entry, "outputSchema", schema);
}

/// What keeps a schema from being used at all.
const BREAKS: [&str; 3] = ["invalid-schema", "unresolved-ref", "remote-ref"];

fn validity(findings: &mut Findings, entry: &Entry, what: &str, schema: &Value) {
    let is_broken =
        |findings: &Findings| findings.0.iter().any(|found| found.entry == *entry && BREAKS.contains(&found.code.name));
    let default = "https://json-schema.org/draft/2020-12/schema";
    let other = schema["$schema"].as_str().filter(|dialect| dialect.trim_end_matches('#') != default);
    match other {
        Some(dialect) => findings.add(codes::OTHER_DIALECT, entry, format!("`{what}` is written for {dialect}")),
        None => {
            if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
                let path = error.instance_path().to_string();
                let place = if path.is_empty() { String::new() } else { format!(" at `{path}`") };
                findings.add(codes::INVALID_SCHEMA, entry, format!("`{what}`{place}: {error}"));
            }
        }
    }
    references(findings, entry, what, schema);
    if is_broken(findings) {
        return;
    }
    if let Err(error) = compiled(schema) {
        findings.add(codes::INVALID_SCHEMA, entry, format!("`{what}`: {error}"));
        return;
    }
    let mut claims = Vec::new();
    walk(schema, &mut |place: &Place<'_>| claims.push((place.path.clone(), place.schema.clone())));
    for (path, part) in claims {
        values(findings, entry, &Claim { what, path: &path, part: &part, whole: schema });
    }
}

/// Compiles a schema without looking for anything outside of it.
fn compiled(schema: &Value) -> Result<jsonschema::Validator, String> {
    // Of a dialect that nobody knows nothing can be said.
    let options = match schema["$schema"].is_string() {
        true => jsonschema::options(),
        false => jsonschema::options().with_draft(Draft::Draft202012),
    };
    options.should_validate_formats(true).build(schema).map_err(|error| error.to_string())
}

struct Claim<'a> {
    what: &'a str,
    path: &'a str,
    part: &'a Value,
    whole: &'a Value,
}

/// Looks whether a default and examples fit, and whether what is required is described.
fn values(findings: &mut Findings, entry: &Entry, claim: &Claim<'_>) {
    let Claim { what, path, part, whole } = *claim;
    let place = if path.is_empty() { format!("`{what}`") } else { format!("`{path}` of `{what}`") };
    let examples =
        part["examples"].as_array().into_iter().flatten().map(|value| (codes::BAD_EXAMPLE, "the example", value));
    let default = part.get("default").map(|value| (codes::BAD_DEFAULT, "the default", value));
    for (code, called, value) in default.into_iter().chain(examples) {
        if let Some(why) = misfit(part, whole, value) {
            findings.add(code, entry, format!("{place}: {called} {value} does not fit: {why}"));
        }
    }
    let declared = |name: &Value| name.as_str().is_some_and(|name| part["properties"].get(name).is_some());
    let is_alone =
        ["allOf", "anyOf", "oneOf", "$ref", "patternProperties"].iter().all(|word| part.get(*word).is_none());
    // Within a branch of a union, `required` speaks of what stands around it.
    let is_whole = part.get("properties").is_some();
    for name in part["required"].as_array().into_iter().flatten().filter(|name| is_alone && is_whole && !declared(name))
    {
        findings.add(codes::UNDECLARED_REQUIRED, entry, format!("{place}: {name} is required and not described"));
    }
}

fn misfit(part: &Value, whole: &Value, value: &Value) -> Option<String> {
    let mut part = part.clone();
    let object = part.as_object_mut()?;
    for definitions in ["$defs", "definitions"] {
        if let Some(found) = whole.get(definitions) {
            object.insert(definitions.to_owned(), found.clone());
        }
    }
    let validator = compiled(&part).ok()?;
    validator.validate(value).err().map(|error| error.to_string())
}

fn references(findings: &mut Findings, entry: &Entry, what: &str, schema: &Value) {
    let mut seen = BTreeSet::new();
    collect(schema, &mut |reference| {
        if seen.insert(reference.to_owned()) {
            let found: Option<(&'static Code, &str)> = match reference.strip_prefix('#') {
                None => Some((codes::REMOTE_REF, "leads out of the schema")),
                Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                    let pointer = percent_decode_str(pointer).decode_utf8_lossy();
                    schema.pointer(&pointer).is_none().then_some((codes::UNRESOLVED_REF, "leads to nothing"))
                }
                Some(anchor) => (!has_anchor(schema, anchor)).then_some((codes::UNRESOLVED_REF, "leads to nothing")),
            };
            if let Some((code, why)) = found {
                findings.add(code, entry, format!("`{what}`: the reference `{reference}` {why}"));
            }
        }
    });
}

/// Calls something with each `$ref`; what is data is no schema.
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

/// Looks at the headers that HTTP is to repeat arguments in.
fn headers(findings: &mut Findings, entry: &Entry, schema: &Value) {
    let mut found: Vec<(String, Value, Value)> = Vec::new();
    let mut places: BTreeSet<String> = BTreeSet::new();
    chain(schema, "", &mut found);
    let mut names: BTreeSet<String> = BTreeSet::new();
    for (path, header, property) in &found {
        places.insert(path.clone());
        let name = header.as_str().unwrap_or_default();
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            findings.add(codes::BAD_HEADER, entry, format!("the header {header} of `{path}` is no HTTP token"));
        } else if !names.insert(name.to_ascii_lowercase()) {
            findings.add(codes::BAD_HEADER, entry, format!("the header `{name}` is used for two arguments"));
        }
        if ![json!("string"), json!("integer"), json!("boolean")].contains(&property["type"]) {
            findings.add(
                codes::BAD_HEADER,
                entry,
                format!("`{path}` has a header, and is no string, integer or boolean"),
            );
        }
    }
    walk(schema, &mut |place: &Place<'_>| {
        if place.schema.get("x-mcp-header").is_some() && !places.contains(&place.path) {
            let message = format!("the header of `{}` stands where no chain of `properties` leads to", place.path);
            findings.add(codes::BAD_HEADER, entry, message);
        }
    });
}

fn chain(schema: &Value, path: &str, found: &mut Vec<(String, Value, Value)>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Some(header) = property.get("x-mcp-header") {
            found.push((path.clone(), header.clone(), property.clone()));
        }
        chain(property, &path, found);
    }
}
