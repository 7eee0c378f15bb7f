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
    matches!(T::deserialize(Probe { depth: 0, is_key: false }), Err(Found::StructuredKey))
}

/// Why deserialization ended.
#[derive(Debug, PartialEq)]
enum Found {
    StructuredKey,
    Anything,
}

/// The deserializer of a value, which descends to the first map, or of a key of that map.
struct Probe {
    depth: u8,
    is_key: bool,
}

impl Probe {
    fn inner(&self) -> Result<Self, Found> {
        if self.depth < MAX_DEPTH { Ok(Self { depth: self.depth + 1, ..*self }) } else { Err(Found::Anything) }
    }

    /// Ends deserialization at a struct or a tuple, in which maps are not searched.
    fn end(&self) -> Found {
        if self.is_key { Found::StructuredKey } else { Found::Anything }
    }
}

impl<'de> Deserializer<'de> for Probe {
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
        if self.is_key { Err(self.end()) } else { visitor.visit_seq(First(Some(self.inner()?))) }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Found> {
        if self.is_key { Err(self.end()) } else { visitor.visit_map(First(Some(self.inner()?))) }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Found> {
        Err(self.end())
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, _: usize, _: V) -> Result<V::Value, Found> {
        Err(self.end())
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Found> {
        Err(self.end())
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        enum identifier ignored_any
    }
}

/// The first item of a list, or the first entry of a map. A list ends after it, since items may accept everything.
struct First(Option<Probe>);

impl<'de> SeqAccess<'de> for First {
    type Error = Found;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Found> {
        let Some(list) = self.0.take() else { return Ok(None) };
        seed.deserialize(list.inner()?).map(Some)
    }
}

impl<'de> MapAccess<'de> for First {
    type Error = Found;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Found> {
        seed.deserialize(Probe { depth: 0, is_key: true }).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, _: V) -> Result<V::Value, Found> {
        Err(Found::Anything)
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
    use std::{
        cell::Cell,
        collections::{BTreeMap, HashMap},
    };

    use serde::{Deserialize, Deserializer};

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

    /// A type with a value for everything that it does not understand.
    struct Lenient;

    impl<'de> Deserialize<'de> for Lenient {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            thread_local! {
                static COUNT: Cell<u8> = const { Cell::new(0) };
            }
            assert!(COUNT.replace(COUNT.get() + 1) < 9, "the list is endless");
            let _ = String::deserialize(deserializer);
            Ok(Self)
        }
    }

    #[test]
    fn a_list_of_items_that_accept_everything_ends() {
        assert!(!has_structured_keys::<Vec<Lenient>>());
    }

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
