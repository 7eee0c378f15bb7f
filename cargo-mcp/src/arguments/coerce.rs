//! Conversion of command-line words to JSON: `key=value` becomes a value that matches the schema.

use std::collections::BTreeMap;

use base64::Engine;
use serde_json::{Map, Value};

use crate::{
    arguments::{exact, schema::Schema},
    failure::{Failure, name_list, nearest},
};

/// The value of one `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq)]
enum RawValue {
    /// `KEY=VALUE`: converted according to the schema.
    Text(String),
    /// `KEY=@FILE`: the content of a file, converted according to the schema.
    File(String),
    /// `KEY:=JSON` or `KEY:=@FILE`: used without conversion.
    Json(String),
}

/// The input for one argument.
#[derive(Debug)]
enum Input {
    /// The values of `KEY=…`.
    Values(Vec<RawValue>),
    /// The members of an object, from `KEY.MEMBER=…`.
    Members(BTreeMap<String, Input>),
}

/// All errors in the arguments, so that they can be reported together.
#[derive(Debug, Default)]
pub(crate) struct ArgumentErrors(Vec<String>);

impl ArgumentErrors {
    pub(crate) fn add(&mut self, error: impl Into<String>) {
        self.0.push(error.into());
    }

    /// Returns `Ok` if there are no errors. `whose` names the tool, the prompt or the form.
    ///
    /// # Errors
    ///
    /// Returns a failure that lists all errors.
    pub(crate) fn into_result(self, whose: &str) -> Result<(), Failure> {
        match &*self.0 {
            [] => Ok(()),
            [only] => Err(Failure::usage(format_args!("{whose}: {only}"))),
            several => {
                let lines: String = several.iter().map(|error| format!("\n  - {error}")).collect();
                Err(Failure::usage(format_args!("{whose}: {} invalid arguments{lines}", several.len())))
            }
        }
    }

    fn ok<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }
}

/// The words `KEY=VALUE` for the arguments of a tool or the fields of a form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArgumentWords<'a> {
    pub(crate) words: &'a [String],
    /// Whether all required arguments must be present.
    pub(crate) is_complete: bool,
}

/// Converts words to an object. Adds all problems to `errors`.
pub(crate) fn arguments(
    arguments: ArgumentWords<'_>,
    schema: Schema<'_>,
    errors: &mut ArgumentErrors,
) -> Map<String, Value> {
    let mut inputs = BTreeMap::new();
    for word in arguments.words {
        match parse(word) {
            Some((key, value)) => insert(&mut inputs, split_key(key, schema), value, errors, key),
            None => errors.add(format!("invalid argument `{word}`: expected KEY=VALUE or KEY:=JSON")),
        }
    }
    object(inputs, schema, "", arguments.is_complete, errors)
}

/// Parses `KEY=VALUE`, `KEY=@FILE` and `KEY:=JSON`.
fn parse(word: &str) -> Option<(&str, RawValue)> {
    let (key, value) = word.split_once('=')?;
    let (key, value) = match (key.strip_suffix(':'), value.strip_prefix('@')) {
        (Some(key), _) => (key, RawValue::Json(value.to_owned())),
        (None, Some(file)) => (key, RawValue::File(file.to_owned())),
        (None, None) => (key, RawValue::Text(value.to_owned())),
    };
    (!key.is_empty()).then_some((key, value))
}

/// Splits `a.b` into a path, unless an argument has that name.
fn split_key<'a>(key: &'a str, schema: Schema<'_>) -> Vec<&'a str> {
    if schema.property(key).is_some() { vec![key] } else { key.split('.').collect() }
}

fn insert(
    inputs: &mut BTreeMap<String, Input>,
    path: Vec<&str>,
    value: RawValue,
    errors: &mut ArgumentErrors,
    key: &str,
) {
    let Some((first, rest)) = path.split_first() else { return };
    let empty = if rest.is_empty() { Input::Values(Vec::new()) } else { Input::Members(BTreeMap::new()) };
    match (inputs.entry((*first).to_owned()).or_insert(empty), rest) {
        (Input::Values(values), []) => values.push(value),
        (Input::Members(members), [_, ..]) => insert(members, rest.to_vec(), value, errors, key),
        _ => errors.add(format!("argument `{key}` conflicts with an argument for the whole object")),
    }
}

fn object(
    inputs: BTreeMap<String, Input>,
    schema: Schema<'_>,
    parent: &str,
    is_complete: bool,
    errors: &mut ArgumentErrors,
) -> Map<String, Value> {
    let full_name = |name: &str| if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") };
    let properties = schema.properties();
    if is_complete {
        for name in schema.required().into_iter().filter(|name| !inputs.contains_key(*name)) {
            let expected = schema.property(name).map(|schema| format!(" ({})", schema.describe())).unwrap_or_default();
            errors.add(format!("missing argument `{}`{expected}", full_name(name)));
        }
    }
    let mut object = Map::new();
    let mut inputs: Vec<(String, Input)> = inputs.into_iter().collect();
    let rank = |name: &str| properties.iter().position(|(each, _)| *each == name).unwrap_or(usize::MAX);
    inputs.sort_by_key(|(name, _)| rank(name));
    for (name, input) in inputs {
        let full_name = full_name(&name);
        let known = properties.iter().find(|(each, _)| *each == name).map(|(_, schema)| *schema);
        let Some(property) = known.or_else(|| schema.additional_properties()) else {
            errors.add(unknown(&full_name, &name, properties.iter().map(|(name, _)| *name)));
            continue;
        };
        if let Some(value) = value(input, property, &full_name, is_complete, errors) {
            object.insert(name, value);
        }
    }
    object
}

fn unknown<'a>(full_name: &str, name: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    if let Some(near) = nearest(name, names.clone()) {
        return format!("unknown argument `{full_name}`; did you mean `{near}`?");
    }
    match &*names.collect::<Vec<_>>() {
        [] => format!("unknown argument `{full_name}`: expected no arguments"),
        names => format!("unknown argument `{full_name}`: expected {}", name_list(names)),
    }
}

fn value(
    input: Input,
    schema: Schema<'_>,
    name: &str,
    is_complete: bool,
    errors: &mut ArgumentErrors,
) -> Option<Value> {
    match input {
        Input::Members(members) => {
            let alternatives = schema.alternatives();
            let is_object = |one: &&Schema<'_>| one.types().is_empty() || one.types().contains(&"object");
            let Some(schema) = alternatives.iter().find(is_object) else {
                errors.add(format!("argument `{name}`: expected {}, found an object", schema.describe()));
                return None;
            };
            // Without `properties`, all members are allowed.
            let object = if schema.properties().is_empty() {
                untyped_object(members, *schema, name, errors)
            } else {
                object(members, *schema, name, is_complete, errors)
            };
            Some(Value::Object(object))
        }
        Input::Values(values) => match &*values {
            [value] => errors.ok(single(value, schema, name)),
            several => list(several, schema, name, errors),
        },
    }
}

fn untyped_object(
    members: BTreeMap<String, Input>,
    schema: Schema<'_>,
    parent: &str,
    errors: &mut ArgumentErrors,
) -> Map<String, Value> {
    let schema = schema.additional_properties().unwrap_or_else(|| schema.items());
    let member = |(name, input): (String, Input)| {
        let value = value(input, schema, &format!("{parent}.{name}"), false, errors)?;
        Some((name, value))
    };
    members.into_iter().filter_map(member).collect()
}

fn list(values: &[RawValue], schema: Schema<'_>, name: &str, errors: &mut ArgumentErrors) -> Option<Value> {
    let alternatives = schema.alternatives();
    let Some(list) = alternatives.iter().find(|one| one.types().contains(&"array")) else {
        errors.add(format!("argument `{name}`: expected {}, found {} values", schema.describe(), values.len()));
        return None;
    };
    let items = list.items();
    let values: Vec<_> = values.iter().map(|value| errors.ok(single(value, items, name))).collect();
    let values = Value::Array(values.into_iter().collect::<Option<Vec<_>>>()?);
    if !list.is_within_limits(&values) {
        errors.add(format!("argument `{name}`: {}, found `{values}`", list.expected()));
        return None;
    }
    Some(values)
}

fn single(value: &RawValue, schema: Schema<'_>, name: &str) -> Result<Value, String> {
    match value {
        RawValue::Text(text) => admitted(text, schema).map_err(|error| format!("argument `{name}`: {error}")),
        RawValue::Json(json) => {
            let json = match json.strip_prefix('@') {
                Some(path) => &read_text(path, name)?,
                None => json,
            };
            exact::parse(json).map_err(|error| format!("argument `{name}`: {error}"))
        }
        RawValue::File(path) if schema.is_base64() => {
            let bytes = std::fs::read(path).map_err(|error| format!("argument `{name}`: `{path}`: {error}"))?;
            Ok(base64::engine::general_purpose::STANDARD.encode(bytes).into())
        }
        RawValue::File(path) => {
            let text = read_text(path, name)?;
            // Editors end a file with a line break, which only strings keep.
            admitted(&text, schema)
                .or_else(|error| admitted(text.trim(), schema).map_err(|_| error))
                .map_err(|error| format!("argument `{name}`: {error}"))
        }
    }
}

/// Converts text to a value that matches the schema. Rejects integers that would be rounded.
fn admitted(text: &str, schema: Schema<'_>) -> Result<Value, String> {
    let value = match coerce(text, schema) {
        Ok(value) => value,
        Err(_) if exact::large_integer(text) == Some(text) && is_integer(schema) => {
            return Err(exact::too_large(text));
        }
        Err(error) => return Err(error),
    };
    match exact::rounded(text, &value) {
        Some(integer) => Err(exact::too_large(integer)),
        None => Ok(value),
    }
}

fn is_integer(schema: Schema<'_>) -> bool {
    schema.alternatives().iter().any(|one| one.types().contains(&"integer"))
}

fn read_text(path: &str, name: &str) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("argument `{name}`: `{path}`: {error}"))?;
    String::from_utf8(bytes).map_err(|_| format!("argument `{name}`: `{path}` is not valid UTF-8"))
}

/// Converts text to a value of the first type that matches, limits included, so that violations are reported together
/// with all other errors, not later by the server.
///
/// # Errors
///
/// Fails if no type of the schema matches.
pub(crate) fn coerce(text: &str, schema: Schema<'_>) -> Result<Value, String> {
    let invalid = || format!("{}, found `{text}`", schema.expected());
    if let Some(choices) = schema.choices() {
        let names: Vec<String> = choices.iter().map(|choice| choice.name()).collect();
        return match names.iter().position(|name| name == text) {
            Some(index) => Ok(choices[index].value.clone()),
            None => {
                let near = nearest(text, names.iter().map(String::as_str));
                Err(invalid() + &near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())
            }
        };
    }
    let alternatives = schema.alternatives();
    let [only] = &*alternatives else {
        return alternatives.iter().find_map(|one| coerce(text, *one).ok()).ok_or_else(invalid);
    };
    let types = only.types();
    if types.is_empty() {
        // Any type is allowed: valid JSON is used as such, and everything else as a string.
        return Ok(serde_json::from_str(text).unwrap_or_else(|_| text.into()));
    }
    let is_admitted = |value: &Result<Value, String>| value.as_ref().map_or(true, |value| only.is_within_limits(value));
    let mut values = types.iter().filter_map(|name| coerce_to_type(text, name, *only));
    values.find(is_admitted).unwrap_or_else(|| Err(invalid()))
}

/// Converts text to a type. Returns `None` if the text does not match the type.
fn coerce_to_type(text: &str, name: &str, schema: Schema<'_>) -> Option<Result<Value, String>> {
    let json = || serde_json::from_str::<Value>(text).ok();
    let value = match name {
        "string" => text.into(),
        "null" => json().filter(Value::is_null)?,
        "boolean" => json().filter(Value::is_boolean)?,
        "integer" => json().filter(|value| value.is_i64() || value.is_u64())?,
        "number" => json().filter(Value::is_number)?,
        "object" => json().filter(Value::is_object)?,
        "array" if text.trim_start().starts_with('[') => json().filter(Value::is_array)?,
        // A single item is converted to a list.
        "array" => return Some(coerce(text, schema.items()).map(|item| Value::Array(vec![item]))),
        _ => return None,
    };
    Some(Ok(value))
}

#[cfg(test)]
mod tests;
