//! Mistakes in definitions, and their positions.

use std::{cell::OnceCell, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use toml::de::{DeTable, DeValue};

/// A mistake, and the names and indexes that lead to its value.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) path: Vec<String>,
    pub(crate) message: String,
}

impl Mistake {
    pub(crate) fn at(path: &[&str], message: impl Into<String>) -> Self {
        Self { path: path.iter().map(|step| (*step).to_owned()).collect(), message: message.into() }
    }
}

impl<T: Into<String>> From<T> for Mistake {
    fn from(message: T) -> Self {
        Self::at(&[], message)
    }
}

/// A valid file, in which values are looked up.
pub(crate) struct Source<'a> {
    text: &'a str,
    is_json: bool,
    toml: OnceCell<DeValue<'a>>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str, is_json: bool) -> Self {
        Self { text, is_json, toml: OnceCell::new() }
    }

    /// Returns the position of a value, or of the nearest one that contains it. The position of a table in TOML is that of its name.
    pub(crate) fn position(&self, path: &[String]) -> String {
        position(self.text, if self.is_json { self.offset_in_json(path) } else { self.offset_in_toml(path) })
    }

    fn offset_in_toml(&self, path: &[String]) -> usize {
        let table = || DeTable::parse(self.text).map_or_else(|_| DeTable::new(), toml::Spanned::into_inner);
        let mut value = self.toml.get_or_init(|| DeValue::Table(table()));
        let mut offset = 0;
        for step in path {
            let (start, next) = match value {
                DeValue::Table(members) => {
                    let Some((name, next)) = members.iter().find(|(name, _)| name.get_ref() == step) else { break };
                    let is_table = matches!(next.get_ref(), DeValue::Table(_));
                    (if is_table { name.span().start } else { next.span().start }, next)
                }
                DeValue::Array(items) => {
                    let Some(item) = step.parse::<usize>().ok().and_then(|index| items.get(index)) else { break };
                    (item.span().start, item)
                }
                _ => break,
            };
            (offset, value) = (start, next.get_ref());
        }
        offset
    }

    fn offset_in_json(&self, path: &[String]) -> usize {
        let mut part = self.text.trim_start();
        for step in path {
            let next = match serde_json::from_str::<Members<'_>>(part) {
                Ok(Members(members)) => members.into_iter().rfind(|(name, _)| name == step).map(|(_, value)| value),
                Err(_) => {
                    let items: Vec<&RawValue> = serde_json::from_str(part).unwrap_or_default();
                    step.parse::<usize>().ok().and_then(|index| items.get(index).copied())
                }
            };
            let Some(next) = next else { break };
            part = next.get();
        }
        offset(self.text, part)
    }
}

/// The members of a JSON object. Names may be repeated.
#[derive(Default)]
pub(crate) struct Members<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'a> Visitor<'a> for Object {
            type Value = Members<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut members: A) -> Result<Self::Value, A::Error> {
                let mut found = Vec::new();
                while let Some(member) = members.next_entry()? {
                    found.push(member);
                }
                Ok(Members(found))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Returns the line and the column of an offset.
pub(crate) fn position(text: &str, offset: usize) -> String {
    // The columns of errors in JSON count bytes.
    let offset = (0..=offset.min(text.len())).rfind(|offset| text.is_char_boundary(*offset)).unwrap_or_default();
    let before = &text[..offset];
    let line = before.rsplit('\n').next().unwrap_or_default();
    format!("{}:{}", before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// Returns where a part of a text begins.
pub(crate) fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(text.as_ptr().addr())
}
