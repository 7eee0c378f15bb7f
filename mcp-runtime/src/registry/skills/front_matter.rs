//! The YAML that a `SKILL.md` begins with.
//!
//! See [Agent Skills](https://agentskills.io/specification).

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use saphyr_parser::{Event, Parser};
use serde_json::{Map, Number, Value};

/// The most bytes of it.
const MOST_BYTES: usize = 64 << 10;
/// The deepest that lists and objects may stand in each other.
const DEEPEST: usize = 32;
/// The most bytes of a name.
const LONGEST_NAME: usize = 64;
/// The most characters of a description.
const LONGEST_DESCRIPTION: usize = 1024;

/// What an author says of a skill.
#[derive(Debug)]
pub(super) struct FrontMatter {
    pub(super) name: String,
    pub(super) description: String,
    /// All of it, with the two.
    pub(super) fields: Map<String, Value>,
}

impl FrontMatter {
    /// Reads what a `SKILL.md` begins with.
    ///
    /// # Errors
    ///
    /// A sentence for each thing that is wrong with it.
    pub(super) fn read(text: &str, directory: &str) -> Result<Self, Vec<String>> {
        let fields = block(text).and_then(fields).map_err(|why| vec![why])?;
        let (name, description) = (string(&fields, "name"), string(&fields, "description"));
        let name = name.and_then(|name| check_name(name, directory));
        let description = description.and_then(check_description);
        match (name, description) {
            (Ok(name), Ok(description)) => Ok(Self { name, description, fields }),
            (name, description) => Err(name.err().into_iter().chain(description.err()).collect()),
        }
    }
}

/// Finds the text between the two lines of dashes.
fn block(text: &str) -> Result<&str, String> {
    let is_fence = |line: &str| line.trim_end() == "---";
    let first = text.split_inclusive('\n').next().unwrap_or_default();
    if !is_fence(first) {
        return Err("it has no front matter: its first line must be `---`".to_owned());
    }
    let rest = &text[first.len()..];
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if is_fence(line) {
            return Ok(&rest[..end]);
        }
        end += line.len();
        if end > MOST_BYTES {
            return Err(format!("its front matter has more than {MOST_BYTES} bytes"));
        }
    }
    Err("its front matter has no end: a second line `---` is missing".to_owned())
}

fn fields(yaml: &str) -> Result<Map<String, Value>, String> {
    check_depth(yaml)?;
    let documents = Yaml::load_from_str(yaml).map_err(|why| format!("its front matter is no YAML: {why}"))?;
    let value = match documents.as_slice() {
        [document] => json(document)?,
        _ => Value::Null,
    };
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err("its front matter must be an object, with `name` and `description`".to_owned()),
    }
}

/// Refuses what nests deeper than anybody means, before anything is made of it.
fn check_depth(yaml: &str) -> Result<(), String> {
    let mut depth = 0_usize;
    for event in Parser::new_from_str(yaml) {
        match event.map_err(|why| format!("its front matter is no YAML: {why}"))?.0 {
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Err(format!("its front matter nests deeper than {DEEPEST} levels"));
        }
    }
    Ok(())
}

fn json(yaml: &Yaml<'_>) -> Result<Value, String> {
    let without_word = |what: String| format!("its front matter says {what}, for which JSON has no word");
    Ok(match yaml {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => Value::Bool(*value),
        Yaml::Value(Scalar::Integer(value)) => Value::from(*value),
        Yaml::Value(Scalar::FloatingPoint(value)) => {
            let number = Number::from_f64(value.into_inner());
            Value::Number(number.ok_or_else(|| without_word(format!("the number {value}")))?)
        }
        Yaml::Value(Scalar::String(value)) => Value::String(value.clone().into_owned()),
        Yaml::Sequence(items) => Value::Array(items.iter().map(json).collect::<Result<_, _>>()?),
        Yaml::Mapping(members) => {
            let members = members.iter().map(|(key, value)| match key {
                Yaml::Value(Scalar::String(key)) => Ok((key.clone().into_owned(), json(value)?)),
                _ => Err(without_word("a key that is no string".to_owned())),
            });
            Value::Object(members.collect::<Result<_, _>>()?)
        }
        Yaml::Tagged(tag, _) => return Err(without_word(format!("the tag `{tag}`"))),
        _ => return Err(without_word("something odd".to_owned())),
    })
}

fn string(fields: &Map<String, Value>, field: &str) -> Result<String, String> {
    match fields.get(field) {
        Some(Value::String(value)) => Ok(value.clone()),
        Some(value) => Err(format!("`{field}` in its front matter must be a string, but it is {value}")),
        None => Err(format!("`{field}` is missing in its front matter")),
    }
}

fn check_name(name: String, directory: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_well_formed = (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(fits)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    if !is_well_formed {
        return Err(format!(
            "the name {name:?} is none for a skill: it takes at most {LONGEST_NAME} small letters, digits and single hyphens between them"
        ));
    }
    if name != directory {
        return Err(format!("the name `{name}` differs from that of its directory, `{directory}`"));
    }
    Ok(name)
}

fn check_description(description: String) -> Result<String, String> {
    match description.chars().count() {
        _ if description.trim().is_empty() => Err("`description` in its front matter is empty".to_owned()),
        length if length > LONGEST_DESCRIPTION => {
            Err(format!("`description` in its front matter has more than {LONGEST_DESCRIPTION} characters"))
        }
        _ => Ok(description),
    }
}
