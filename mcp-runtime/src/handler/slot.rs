use schemars::JsonSchema;
use serde::{Deserializer, de, de::DeserializeOwned, forward_to_deserialize_any};

/// A type that a caller can give by value: anything that serde reads and schemars describes.
///
/// There is nothing to implement: `#[derive(serde::Deserialize, schemars::JsonSchema)]` does it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument: it must be `serde::Deserialize` and `schemars::JsonSchema`",
    label = "this type, or a type inside it, lacks one of the two",
    note = "for a type of your own add `#[derive(serde::Deserialize, schemars::JsonSchema)]`, with `schemars` 1.x as a dependency",
    note = "a value that the server gives (state, `&Context`) is taken by reference: `&{Self}`"
)]
pub trait Argument: DeserializeOwned + JsonSchema + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema + Send + 'static> Argument for T {}

/// The place that an argument is decoded into.
///
/// It takes what it needs of its type when it is made, so that a type that does not fit is refused in one place.
#[derive(Debug)]
pub struct Slot<T> {
    value: Option<T>,
    fallback: Fallback<T>,
    read: fn(&str) -> Result<T, serde_json::Error>,
}

#[derive(Debug)]
enum Fallback<T> {
    /// None but what serde has for a missing field.
    Missing(fn() -> Option<T>),
    Json(&'static str),
    Value(fn() -> T),
}

/// A slot for an argument without a default.
pub fn slot<T: Argument>() -> Slot<T> {
    Slot {
        value: None,
        fallback: Fallback::Missing(|| T::deserialize(Missing).ok()),
        read: |json| serde_json::from_str(json),
    }
}

/// A slot for an argument whose default is a literal, as JSON.
pub fn slot_or_json<T: Argument>(default: &'static str) -> Slot<T> {
    Slot { fallback: Fallback::Json(default), ..slot() }
}

/// A slot for an argument whose default is an expression.
pub fn slot_or_else<T: Argument>(default: fn() -> T) -> Slot<T> {
    Slot { fallback: Fallback::Value(default), ..slot() }
}

impl<T> Slot<T> {
    /// Takes the decoded argument.
    ///
    /// # Panics
    ///
    /// Panics if [`Input::decode`](super::Input::decode) did not succeed before.
    pub fn take(&mut self) -> T {
        self.value.take().expect("an argument is taken once, after decoding")
    }

    fn fall_back(&mut self) -> bool {
        self.value = match self.fallback {
            Fallback::Missing(value) => value(),
            Fallback::Json(json) => (self.read)(json).ok(),
            Fallback::Value(make) => Some(make()),
        };
        self.value.is_some()
    }
}

/// A slot without its type, so that decoding is compiled once.
pub trait Fill {
    /// Decodes the JSON of the argument.
    #[doc(hidden)]
    fn fill(&mut self, json: &str) -> Result<(), serde_json::Error>;
    /// Puts the default into an argument that was not given; false if it has none.
    #[doc(hidden)]
    fn settle(&mut self) -> bool;
}

impl<T> Fill for Slot<T> {
    fn fill(&mut self, json: &str) -> Result<(), serde_json::Error> {
        match (self.read)(json) {
            Ok(value) => self.value = Some(value),
            // Models write `null` for what they leave out.
            Err(_) if json == "null" && !matches!(self.fallback, Fallback::Missing(_)) => self.value = None,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn settle(&mut self) -> bool {
        self.value.is_some() || self.fall_back()
    }
}

/// Says whether a type has a value for an argument that is not there, as `Option` has: serde itself decides.
pub(super) fn is_optional<T: DeserializeOwned>() -> bool {
    T::deserialize(Missing).is_ok()
}

/// What serde reads when a field is missing: nothing, unless the type asks for an option.
struct Missing;

impl<'de> Deserializer<'de> for Missing {
    type Error = NoValue;

    fn deserialize_any<V: de::Visitor<'de>>(self, _: V) -> Result<V::Value, NoValue> {
        Err(NoValue)
    }

    fn deserialize_option<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        visitor.visit_none()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[derive(Debug)]
struct NoValue;

impl std::fmt::Display for NoValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("missing")
    }
}

impl std::error::Error for NoValue {}

impl de::Error for NoValue {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[test]
    fn only_options_are_optional() {
        #[derive(Deserialize)]
        struct Wrapper(#[allow(dead_code)] Option<u8>);

        assert!(is_optional::<Option<u8>>());
        assert!(is_optional::<Option<Vec<String>>>());
        assert!(!is_optional::<Wrapper>());
        assert!(!is_optional::<String>());
        assert!(!is_optional::<Vec<u8>>());
        assert!(!is_optional::<serde_json::Value>());
        assert!(!is_optional::<()>());
    }

    #[test]
    fn null_stands_for_a_default_but_not_for_a_value() {
        let mut with_default = slot_or_json::<u8>("7");
        assert!(with_default.fill("null").is_ok() && with_default.settle());
        assert_eq!(with_default.take(), 7);
        assert!(slot::<u8>().fill("null").is_err());
    }
}
