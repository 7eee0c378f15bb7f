//! JSON objects without duplicate names, and excerpts of untrusted values.

use std::{collections::HashSet, fmt};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses a JSON object and rejects duplicate names at any depth: two parsers could disagree about which value counts.
///
/// # Errors
///
/// Returns what is wrong with the text, of which it repeats little, without control characters.
pub(crate) fn parse_object(text: &[u8]) -> Result<Map<String, Value>, String> {
    let parse = || {
        serde_json::from_slice::<UniqueNames>(text)?;
        serde_json::from_slice(text)
    };
    parse().map_err(|error: serde_json::Error| excerpt_of_text(&error.to_string()))
}

/// Accepts any JSON value whose objects have unique names.
struct UniqueNames;

impl<'de> Deserialize<'de> for UniqueNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> DeserializeSeed<'de> for UniqueNames {
    type Value = Self;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueNames {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if names.contains(&name) {
                return Err(A::Error::custom(format_args!("duplicate name `{name}`")));
            }
            names.insert(name);
            members.next_value::<Self>()?;
        }
        Ok(self)
    }
}

/// The maximum number of characters of an excerpt.
const MAX_CHARS: usize = 100;

/// Returns the beginning of an untrusted value for the log, without control characters.
pub(crate) fn excerpt(value: &Value) -> String {
    match value {
        Value::String(text) => excerpt_of_text(text),
        other => excerpt_of_text(&other.to_string()),
    }
}

/// Returns the beginning of an untrusted text, without control characters.
pub(crate) fn excerpt_of_text(text: &str) -> String {
    let mut excerpt: String = text.chars().take(MAX_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        excerpt.push('…');
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::parse_object;

    #[test]
    fn duplicate_names_are_rejected_at_any_depth() {
        for (text, expected) in [
            (r#"{"a": 1, "b": [{"a": 1.5}, null, true, -1, "x"]}"#, None),
            (r#"{"a": 1, "a": 1}"#, Some("duplicate name `a` at line 1 column 12")),
            (r#"{"a": 1, "\u0061": 2}"#, Some("duplicate name `a` at line 1 column 17")),
            (r#"{"a": [{"b": 1, "b": 2}]}"#, Some("duplicate name `b` at line 1 column 19")),
            (r#"[1]"#, Some("invalid type: sequence, expected a map at line 1 column 0")),
            (r#"{"a": 1} {}"#, Some("trailing characters at line 1 column 10")),
        ] {
            assert_eq!(parse_object(text.as_bytes()).err().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn errors_repeat_little_of_the_text() {
        let long = "x".repeat(1 << 20);
        for (text, start) in [
            (r#"{"\u001b[2J": 1, "\u001b[2J": 2}"#.to_owned(), r"duplicate name `\u{1b}[2J` at line 1"),
            (format!(r#"{{"{long}": 1, "{long}": 2}}"#), "duplicate name `xxx"),
            (format!(r#""{long}""#), r#"invalid type: string \"xxx"#),
        ] {
            let error = parse_object(text.as_bytes()).unwrap_err();
            assert!(error.starts_with(start) && error.len() < 200, "{error}");
        }
    }
}
