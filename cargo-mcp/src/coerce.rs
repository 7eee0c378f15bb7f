//! Arguments from the words of a command line: `key=value` becomes what the schema says.

use std::collections::BTreeMap;

use base64::Engine;
use serde_json::{Map, Value};

use crate::{failure::Failure, near::nearest, schema::Schema};

/// The value of one `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq)]
enum Word {
    /// `KEY=VALUE`: it becomes what the schema says.
    Text(String),
    /// `KEY=@FILE`: the same, for what a file holds.
    File(String),
    /// `KEY:=JSON`, or `KEY:=@FILE`: it is taken as it stands.
    Json(String),
}

/// What is given for one argument, or for the parts of it.
#[derive(Debug)]
enum Given {
    Words(Vec<Word>),
    Parts(BTreeMap<String, Given>),
}

/// Everything that is wrong, to be told at once.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(Vec<String>);

impl Mistakes {
    pub(crate) fn add(&mut self, mistake: impl Into<String>) {
        self.0.push(mistake.into());
    }

    /// A failure that tells all of them, if there are any.
    ///
    /// # Errors
    ///
    /// There are some.
    pub(crate) fn none(self, whose: &str) -> Result<(), Failure> {
        match &*self.0 {
            [] => Ok(()),
            [only] => Err(Failure::usage(format_args!("{whose}: {only}"))),
            several => {
                let lines: String = several.iter().map(|mistake| format!("\n  - {mistake}")).collect();
                Err(Failure::usage(format_args!("{whose}: {} arguments do not fit{lines}", several.len())))
            }
        }
    }
}

/// What an object's parts are called: the arguments of a tool, or the fields of a form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    pub(crate) words: &'a [String],
    /// Whether what is required must be among them.
    pub(crate) complete: bool,
}

/// The arguments of a tool from its words.
pub(crate) fn arguments(words: Words<'_>, schema: Schema<'_>, mistakes: &mut Mistakes) -> Map<String, Value> {
    let mut given = BTreeMap::new();
    for word in words.words {
        match parsed(word) {
            Some((key, value)) => put(&mut given, path(key, schema), value, mistakes, key),
            None => mistakes.add(format!("`{word}` is no argument: expected KEY=VALUE, or KEY:=JSON")),
        }
    }
    object(given, schema, "", words.complete, mistakes)
}

/// `KEY=VALUE`, `KEY=@FILE`, `KEY:=JSON`.
fn parsed(word: &str) -> Option<(&str, Word)> {
    let (key, value) = word.split_once('=')?;
    let (key, value) = match (key.strip_suffix(':'), value.strip_prefix('@')) {
        (Some(key), _) => (key, Word::Json(value.to_owned())),
        (None, Some(file)) => (key, Word::File(file.to_owned())),
        (None, None) => (key, Word::Text(value.to_owned())),
    };
    (!key.is_empty()).then_some((key, value))
}

/// `a.b` is a part of `a`, unless there is an argument of that name.
fn path<'a>(key: &'a str, schema: Schema<'_>) -> Vec<&'a str> {
    match schema.property(key) {
        Some(_) => vec![key],
        None => key.split('.').collect(),
    }
}

fn put(given: &mut BTreeMap<String, Given>, path: Vec<&str>, word: Word, mistakes: &mut Mistakes, key: &str) {
    let Some((first, rest)) = path.split_first() else { return };
    let empty = match rest {
        [] => Given::Words(Vec::new()),
        _ => Given::Parts(BTreeMap::new()),
    };
    match (given.entry((*first).to_owned()).or_insert(empty), rest) {
        (Given::Words(words), []) => words.push(word),
        (Given::Parts(parts), [_, ..]) => put(parts, rest.to_vec(), word, mistakes, key),
        _ => mistakes.add(format!("argument `{key}` is given as a whole and in parts")),
    }
}

fn object(
    given: BTreeMap<String, Given>,
    schema: Schema<'_>,
    above: &str,
    complete: bool,
    mistakes: &mut Mistakes,
) -> Map<String, Value> {
    let full = |name: &str| if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
    let properties = schema.properties();
    if complete {
        for name in schema.required() {
            if !given.contains_key(name) {
                let what = schema.property(name).map(|schema| format!(" ({})", schema.in_words())).unwrap_or_default();
                mistakes.add(format!("argument `{}` is missing{what}", full(name)));
            }
        }
    }
    let mut object = Map::new();
    for (name, given) in given {
        let place = full(&name);
        let known = properties.iter().find(|(each, _)| *each == name).map(|(_, schema)| *schema);
        let Some(property) = known.or_else(|| schema.others()) else {
            mistakes.add(unknown(&place, &name, properties.iter().map(|(name, _)| *name)));
            continue;
        };
        if let Some(value) = value(given, property, &place, complete, mistakes) {
            object.insert(name, value);
        }
    }
    object
}

fn unknown<'a>(place: &str, name: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(name, names.clone()) {
        Some(near) => format!("there is no argument `{place}`, did you mean `{near}`?"),
        None => match names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ") {
            all if all.is_empty() => format!("there is no argument `{place}`, it takes none"),
            all => format!("there is no argument `{place}`, expected {all}"),
        },
    }
}

fn value(given: Given, schema: Schema<'_>, place: &str, complete: bool, mistakes: &mut Mistakes) -> Option<Value> {
    match given {
        Given::Parts(parts) => {
            let objects = schema.alternatives();
            let fits = |one: &&Schema<'_>| one.types().is_empty() || one.types().contains(&"object");
            match objects.iter().find(fits) {
                Some(schema) => {
                    // Where nothing is said of the parts, any part fits.
                    let open = schema.properties().is_empty();
                    Some(Value::Object(match open {
                        true => loose(parts, *schema, place, mistakes),
                        false => object(parts, *schema, place, complete, mistakes),
                    }))
                }
                None => {
                    mistakes.add(format!("argument `{place}` has no parts: it must be {}", schema.in_words()));
                    None
                }
            }
        }
        Given::Words(words) => match &*words {
            [word] => mistakes.noted(one(word, schema, place)),
            several => many(several, schema, place, mistakes),
        },
    }
}

fn loose(
    parts: BTreeMap<String, Given>,
    schema: Schema<'_>,
    place: &str,
    mistakes: &mut Mistakes,
) -> Map<String, Value> {
    let anything = schema.others().unwrap_or_else(|| schema.items());
    let part = |(name, given): (String, Given)| {
        let value = value(given, anything, &format!("{place}.{name}"), false, mistakes)?;
        Some((name, value))
    };
    parts.into_iter().filter_map(part).collect()
}

impl Mistakes {
    fn noted(&mut self, value: Result<Value, String>) -> Option<Value> {
        value.map_err(|mistake| self.add(mistake)).ok()
    }
}

fn many(words: &[Word], schema: Schema<'_>, place: &str, mistakes: &mut Mistakes) -> Option<Value> {
    let lists = schema.alternatives();
    let Some(list) = lists.iter().find(|one| one.types().contains(&"array")) else {
        mistakes.add(format!("argument `{place}` is given {} times, and must be {}", words.len(), schema.in_words()));
        return None;
    };
    let items = list.items();
    let values: Vec<_> = words.iter().map(|word| mistakes.noted(one(word, items, place))).collect();
    values.into_iter().collect::<Option<Vec<_>>>().map(Value::Array)
}

fn one(word: &Word, schema: Schema<'_>, place: &str) -> Result<Value, String> {
    match word {
        Word::Text(text) => text_as(text, schema).map_err(|wrong| format!("argument `{place}` {wrong}")),
        Word::Json(json) => {
            let json = match json.strip_prefix('@') {
                Some(path) => &text_of(path, place)?,
                None => json,
            };
            serde_json::from_str(json).map_err(|error| format!("argument `{place}` is no JSON: {error}"))
        }
        Word::File(path) if schema.is_base64() => {
            let bytes = std::fs::read(path).map_err(|error| format!("argument `{place}`: `{path}`: {error}"))?;
            Ok(base64::engine::general_purpose::STANDARD.encode(bytes).into())
        }
        Word::File(path) => {
            let text = text_of(path, place)?;
            // What is no string is written in a file as it is written in a word, and an editor ends it with a line break.
            text_as(&text, schema)
                .or_else(|wrong| text_as(text.trim(), schema).map_err(|_| wrong))
                .map_err(|wrong| format!("argument `{place}` {wrong}"))
        }
    }
}

fn text_of(path: &str, place: &str) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("argument `{place}`: `{path}`: {error}"))?;
    String::from_utf8(bytes).map_err(|_| format!("argument `{place}`: `{path}` is not text in UTF-8"))
}

/// Text as a schema wants it.
///
/// # Errors
///
/// It is nothing that fits; the error completes the sentence "argument `name` …".
pub(crate) fn text_as(text: &str, schema: Schema<'_>) -> Result<Value, String> {
    if let Some(choices) = schema.choices() {
        let names: Vec<String> = choices.iter().map(|choice| choice.name()).collect();
        if let Some(at) = names.iter().position(|name| name == text) {
            return Ok(choices[at].value.clone());
        }
        let near = nearest(text, names.iter().map(String::as_str));
        let near = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
        return Err(format!("must be {}, not `{text}`{near}", schema.in_words()));
    }
    let alternatives = schema.alternatives();
    let [only] = &*alternatives else {
        let chosen = alternatives.iter().find_map(|one| text_as(text, *one).ok());
        return chosen.ok_or_else(|| format!("must be {}, not `{text}`", schema.in_words()));
    };
    let types = only.types();
    if types.is_empty() {
        // Nothing is said of it: JSON is taken for what it is, and all else for a string.
        return Ok(serde_json::from_str(text).unwrap_or_else(|_| text.into()));
    }
    let fitting = types.iter().find_map(|name| typed_as(text, name, *only));
    fitting.unwrap_or_else(|| Err(format!("must be {}, not `{text}`", schema.in_words())))
}

/// Text as a type; none if it cannot be.
fn typed_as(text: &str, name: &str, schema: Schema<'_>) -> Option<Result<Value, String>> {
    let json = || serde_json::from_str::<Value>(text).ok();
    let value = match name {
        "string" => text.into(),
        "null" => json().filter(Value::is_null)?,
        "boolean" => json().filter(Value::is_boolean)?,
        "integer" => json().filter(|value| value.is_i64() || value.is_u64())?,
        "number" => json().filter(Value::is_number)?,
        "object" => json().filter(Value::is_object)?,
        "array" if text.trim_start().starts_with('[') => json().filter(Value::is_array)?,
        "array" => match text_as(text, schema.items()) {
            Ok(item) => Value::Array(vec![item]),
            Err(wrong) => return Some(Err(wrong)),
        },
        _ => return None,
    };
    Some(Ok(value))
}

#[cfg(test)]
mod tests;
