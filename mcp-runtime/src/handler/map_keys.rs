//! Finds maps whose keys cannot be strings, as the keys of JSON objects are.

use std::fmt;

use serde::{
    Deserializer,
    de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor},
    forward_to_deserialize_any,
};

/// The number of nested lists, options and newtypes that are searched, because types may be recursive.
const MAX_DEPTH: u8 = 8;

/// Returns whether a type is a map, or an option or a list of maps, whose keys are structs or lists.
///
/// The schema does not tell: it describes such a map like one with strings as keys.
pub(super) fn has_structured_keys<T: DeserializeOwned>() -> bool {
    matches!(T::deserialize(Value { depth: 0 }), Err(Found::StructuredKey))
}

/// Why deserialization ended.
#[derive(Debug, PartialEq)]
enum Found {
    StructuredKey,
    Anything,
}

/// The deserializer of a value: descends to the first map.
struct Value {
    depth: u8,
}

impl Value {
    fn inner(&self) -> Result<Self, Found> {
        if self.depth < MAX_DEPTH { Ok(Self { depth: self.depth + 1 }) } else { Err(Found::Anything) }
    }
}

impl<'de> Deserializer<'de> for Value {
    type Error = Found;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Found> {
        Err(Found::Anything)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Found> {
        visitor.visit_some(self.inner()?)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Found> {
        visitor.visit_newtype_struct(self.inner()?)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Found> {
        visitor.visit_seq(First(self.inner()?))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Found> {
        visitor.visit_map(First(self.inner()?))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        tuple tuple_struct struct enum identifier ignored_any
    }
}

/// The first item of a list, or the first entry of a map.
struct First(Value);

impl<'de> SeqAccess<'de> for First {
    type Error = Found;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Found> {
        seed.deserialize(self.0.inner()?).map(Some)
    }
}

impl<'de> MapAccess<'de> for First {
    type Error = Found;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Found> {
        seed.deserialize(Key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, _: V) -> Result<V::Value, Found> {
        Err(Found::Anything)
    }
}

/// The deserializer of a key.
struct Key;

impl<'de> Deserializer<'de> for Key {
    type Error = Found;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Found> {
        Err(Found::Anything)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Found> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Found> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Found> {
        Err(Found::StructuredKey)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Found> {
        Err(Found::StructuredKey)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, _: usize, _: V) -> Result<V::Value, Found> {
        Err(Found::StructuredKey)
    }

    fn deserialize_map<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Found> {
        Err(Found::StructuredKey)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Found> {
        Err(Found::StructuredKey)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        enum identifier ignored_any
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no value")
    }
}

impl std::error::Error for Found {}

impl de::Error for Found {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Anything
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use serde::Deserialize;

    use super::has_structured_keys;

    #[derive(Deserialize, PartialEq, Eq, Hash, PartialOrd, Ord)]
    struct Point {
        _x: u8,
    }

    #[derive(Deserialize, PartialEq, Eq, Hash)]
    struct Name(String);

    #[derive(Deserialize, PartialEq, Eq, Hash)]
    enum Color {
        Red,
    }

    #[derive(Deserialize)]
    struct Tree(#[allow(dead_code)] Vec<Tree>);

    #[test]
    fn structs_and_lists_are_structured_keys() {
        assert!(has_structured_keys::<HashMap<Point, u8>>());
        assert!(has_structured_keys::<BTreeMap<(u8, u8), u8>>());
        assert!(has_structured_keys::<Option<Vec<HashMap<Vec<u8>, u8>>>>());
        assert!(has_structured_keys::<Box<HashMap<Option<Point>, u8>>>());
        assert!(!has_structured_keys::<HashMap<String, Point>>());
        assert!(!has_structured_keys::<HashMap<Name, u8>>());
        assert!(!has_structured_keys::<HashMap<Color, u8>>());
        assert!(!has_structured_keys::<HashMap<i64, u8>>());
        assert!(!has_structured_keys::<HashMap<bool, u8>>());
        assert!(!has_structured_keys::<Tree>());
        assert!(!has_structured_keys::<Point>());
        assert!(!has_structured_keys::<serde_json::Value>());
    }
}
