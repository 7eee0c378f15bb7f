//! The YAML front matter of a `SKILL.md`.
//!
//! See [Agent Skills](https://agentskills.io/specification).

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use saphyr_parser::{Event, Parser};
use serde_json::{Map, Number, Value};

use crate::error::excerpt;

/// The maximum size of the front matter in bytes.
const MAX_BYTES: usize = 64 << 10;
/// The maximum nesting depth of lists and objects.
const MAX_DEPTH: usize = 32;
/// The maximum length of a name in bytes.
const MAX_NAME_LEN: usize = 64;
/// The maximum lengths of texts in characters.
const MAX_DESCRIPTION_CHARS: usize = 1024;
const MAX_COMPATIBILITY_CHARS: usize = 500;

/// The front matter of a skill.
#[derive(Debug)]
pub(super) struct FrontMatter {
    pub(super) name: String,
    pub(super) description: String,
    /// All fields, including the name and the description.
    pub(super) fields: Map<String, Value>,
}

impl FrontMatter {
    /// Reads the front matter of a `SKILL.md` in a directory with the given name.
    ///
    /// # Errors
    ///
    /// Returns one message per problem.
    pub(super) fn read(file: &str, directory: &str) -> Result<Self, Vec<String>> {
        let fields = block(file).and_then(fields).map_err(|error| vec![error])?;
        let name = string(&fields, "name").and_then(|name| check_name(name, directory));
        let description = text(&fields, "description", MAX_DESCRIPTION_CHARS);
        let is_given = |field: &str| fields.get(field).is_some_and(|value| !value.is_null());
        let mut problems = Vec::new();
        if is_given("compatibility") {
            problems.extend(text(&fields, "compatibility", MAX_COMPATIBILITY_CHARS).err());
        }
        if is_given("metadata") && !fields["metadata"].is_object() {
            problems.push(not_a("an object", "metadata", &fields["metadata"]));
        }
        match (name, description) {
            (Ok(name), Ok(description)) if problems.is_empty() => Ok(Self { name, description, fields }),
            (name, description) => Err(name.err().into_iter().chain(description.err()).chain(problems).collect()),
        }
    }
}

/// Returns the text between the two lines of dashes.
fn block(text: &str) -> Result<&str, String> {
    let is_fence = |line: &str| line.trim_end() == "---";
    let first = text.split_inclusive('\n').next().unwrap_or_default();
    if !is_fence(first) {
        return Err("it has no front matter, expected `---` as its first line".to_owned());
    }
    let rest = &text[first.len()..];
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if is_fence(line) {
            return Ok(&rest[..end]);
        }
        end += line.len();
        if end > MAX_BYTES {
            return Err(format!("its front matter has more than {MAX_BYTES} bytes"));
        }
    }
    Err("its front matter is not closed, expected a second line `---`".to_owned())
}

fn fields(yaml: &str) -> Result<Map<String, Value>, String> {
    check_depth(yaml)?;
    let documents =
        Yaml::load_from_str(yaml).map_err(|error| format!("its front matter is not valid YAML: {error}"))?;
    let value = match documents.as_slice() {
        [document] => json(document)?,
        _ => Value::Null,
    };
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err("its front matter must be an object, with `name` and `description`".to_owned()),
    }
}

/// Checks the nesting depth before the document is built, since building recurses.
fn check_depth(yaml: &str) -> Result<(), String> {
    let mut depth = 0_usize;
    for event in Parser::new_from_str(yaml) {
        match event.map_err(|error| format!("its front matter is not valid YAML: {error}"))?.0 {
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(format!("its front matter is nested more than {MAX_DEPTH} levels deep"));
        }
    }
    Ok(())
}

fn json(yaml: &Yaml<'_>) -> Result<Value, String> {
    let not_json = |value: String| format!("its front matter contains {value}, which JSON cannot represent");
    Ok(match yaml {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => Value::Bool(*value),
        Yaml::Value(Scalar::Integer(value)) => Value::from(*value),
        Yaml::Value(Scalar::FloatingPoint(value)) => {
            let number = Number::from_f64(value.into_inner());
            Value::Number(number.ok_or_else(|| not_json(format!("the number {value}")))?)
        }
        Yaml::Value(Scalar::String(value)) => Value::String(value.clone().into_owned()),
        Yaml::Sequence(items) => Value::Array(items.iter().map(json).collect::<Result<_, _>>()?),
        Yaml::Mapping(members) => {
            let members = members.iter().map(|(key, value)| match key {
                Yaml::Value(Scalar::String(key)) => Ok((key.clone().into_owned(), json(value)?)),
                _ => Err(not_json("a key that is not a string".to_owned())),
            });
            Value::Object(members.collect::<Result<_, _>>()?)
        }
        Yaml::Tagged(tag, _) => return Err(not_json(format!("the tag `{tag}`"))),
        _ => return Err(not_json("an unsupported value".to_owned())),
    })
}

fn string(fields: &Map<String, Value>, field: &str) -> Result<String, String> {
    match fields.get(field) {
        Some(Value::String(value)) => Ok(value.clone()),
        Some(value) => Err(not_a("a string", field, value)),
        None => Err(format!("`{field}` is missing in its front matter")),
    }
}

fn not_a(kind: &str, field: &str, value: &Value) -> String {
    format!("`{field}` in its front matter must be {kind}, but it is {}", excerpt(&value.to_string()))
}

fn check_name(name: String, directory: &str) -> Result<String, String> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_well_formed = (1..=MAX_NAME_LEN).contains(&name.len())
        && name.bytes().all(is_allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    if !is_well_formed {
        return Err(format!(
            "the name {name:?} is invalid, expected 1 to {MAX_NAME_LEN} lowercase letters and digits with single hyphens between them"
        ));
    }
    if name != directory {
        return Err(format!("the name `{name}` differs from that of its directory, `{directory}`"));
    }
    Ok(name)
}

/// Returns a text of at most `max` characters.
fn text(fields: &Map<String, Value>, field: &str, max: usize) -> Result<String, String> {
    let text = string(fields, field)?;
    match text.chars().count() {
        _ if text.trim().is_empty() => Err(format!("`{field}` in its front matter is empty")),
        length if length > max => Err(format!("`{field}` in its front matter has more than {max} characters")),
        _ => Ok(text),
    }
}
