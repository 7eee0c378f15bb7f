//! Reads objects with `serde_json`, including duplicate members.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The members of an object in their order.
#[derive(Debug)]
pub struct Members<'a>(pub Vec<(String, &'a str)>);

impl<'a> Members<'a> {
    /// Reads an object. Returns `None` for other values and for invalid JSON.
    pub fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns the value of the only member with this name.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let mut values = self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| *value);
        values.next().filter(|_| values.next().is_none())
    }

    /// Returns whether several members have one of these names.
    pub fn has_duplicate(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.0.iter().filter(|(key, _)| key == name).count() > 1)
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<Cow<'de, str>, &RawValue>()? {
            members.push((name.into_owned(), value.get()));
        }
        Ok(Members(members))
    }
}

/// Returns whether a text is JSON, which includes numbers and strings that no Rust type can hold.
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Decodes a string. Returns `None` for other values.
pub fn string(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

/// Returns the canonical form of the id of a request, or `None` if it is neither a string nor an integer.
pub fn id(json: &str) -> Option<String> {
    if json.starts_with('"') {
        return string(json).map(|text| serde_json::Value::from(text).to_string());
    }
    let is_number = json.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    let is_integer = is_number
        && (json.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit())
            || json.parse::<f64>().is_ok_and(|number| number.is_finite() && number.fract() == 0.0));
    is_integer.then(|| json.to_owned())
}
