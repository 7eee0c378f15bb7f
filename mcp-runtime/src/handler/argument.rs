//! The types of arguments: the slots that they are decoded into, and whether decoding enforces their schema.

use std::{
    any::Any,
    borrow::Cow,
    collections::{BTreeMap, HashMap, VecDeque},
    marker::PhantomData,
    path::PathBuf,
};

use schemars::JsonSchema;
use serde::{
    Deserializer,
    de::{self, DeserializeOwned, Visitor},
    forward_to_deserialize_any,
};
use serde_json::{Map, Value};

use crate::jsonrpc::raw;

/// A type that a caller can pass as an argument: any type that implements `serde::Deserialize` and
/// `schemars::JsonSchema`.
///
/// It is implemented automatically: `#[derive(serde::Deserialize, schemars::JsonSchema)]` is enough.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument: it must implement `serde::Deserialize` and `schemars::JsonSchema`",
    label = "this type, or a type inside it, does not implement both traits",
    note = "for a type of your own, add `#[derive(serde::Deserialize, schemars::JsonSchema)]`",
    note = "`JsonSchema` must be the trait of `schemars` 1.x: `schemars` 0.8 has another trait of this name, so run `cargo add schemars@1`",
    note = "for a type of another crate, enable its feature `serde`, and the feature of `schemars` that has its name and version: `chrono04`, `jiff02`, `uuid1`, `url2`, `semver1`, …; without such a feature, take a `String`",
    note = "a value that the server provides is taken by reference: `&Context`, or `&T` for shared state of type `T` or `Arc<T>`"
)]
pub trait Argument: DeserializeOwned + JsonSchema + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema + Send + 'static> Argument for T {}

/// The slot that an argument is decoded into.
///
/// It captures everything that depends on the type, so that an unsupported type is reported in one place.
#[derive(Debug)]
pub struct ArgumentSlot<T> {
    value: Option<T>,
    fallback: Fallback<T>,
    read: fn(&str) -> Result<T, serde_json::Error>,
}

/// The value of an argument that is missing.
#[derive(Debug)]
enum Fallback<T> {
    /// The value that serde provides for a missing field, if any.
    Missing(fn() -> Option<T>),
    Json(&'static str),
    Expression(fn() -> T),
}

/// Creates a slot for an argument without a default.
pub fn slot<T: Argument>() -> ArgumentSlot<T> {
    ArgumentSlot { value: None, fallback: Fallback::Missing(|| T::deserialize(Missing).ok()), read }
}

/// Decodes a value. A `String`, which may be long, is decoded several times as fast as by `serde_json`, with a single
/// allocation.
fn read<T: Argument>(json: &str) -> Result<T, serde_json::Error> {
    let mut value: Option<T> = None;
    if let Some(text) = (&mut value as &mut dyn Any).downcast_mut::<Option<String>>() {
        *text = raw::string(json).map(Cow::into_owned);
    }
    value.map_or_else(|| serde_json::from_str(json), Ok)
}

/// Creates a slot for an argument whose default is a literal, as JSON.
pub fn slot_or_json<T: Argument>(default: &'static str) -> ArgumentSlot<T> {
    ArgumentSlot { fallback: Fallback::Json(default), ..slot() }
}

/// Creates a slot for an argument whose default is an expression.
pub fn slot_or_else<T: Argument>(default: fn() -> T) -> ArgumentSlot<T> {
    ArgumentSlot { fallback: Fallback::Expression(default), ..slot() }
}

impl<T> ArgumentSlot<T> {
    /// Takes the decoded argument out of the slot.
    ///
    /// # Panics
    ///
    /// Panics if [`Input::decode`](super::Input::decode) has not succeeded before, or if called twice.
    pub fn take(&mut self) -> T {
        self.value.take().expect("arguments are taken once, after decoding")
    }
}

/// A slot of any type, so that decoding is compiled only once for all functions.
pub trait Decode {
    /// Decodes the argument from JSON.
    #[doc(hidden)]
    fn decode(&mut self, json: &str) -> Result<(), serde_json::Error>;

    /// Fills an empty slot with the default. Returns `false` if the slot is empty and there is no default.
    #[doc(hidden)]
    fn apply_default(&mut self) -> bool;
}

impl<T> Decode for ArgumentSlot<T> {
    fn decode(&mut self, json: &str) -> Result<(), serde_json::Error> {
        match (self.read)(json) {
            Ok(value) => self.value = Some(value),
            // Models write `null` for arguments that they omit.
            Err(_) if json == "null" && !matches!(self.fallback, Fallback::Missing(_)) => self.value = None,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn apply_default(&mut self) -> bool {
        if self.value.is_none() {
            self.value = match self.fallback {
                Fallback::Missing(value) => value(),
                Fallback::Json(json) => (self.read)(json).ok(),
                Fallback::Expression(value) => Some(value()),
            };
        }
        self.value.is_some()
    }
}

/// Returns whether serde can deserialize the type from a missing argument, as it can for `Option`.
pub(super) fn is_optional<T: DeserializeOwned>() -> bool {
    T::deserialize(Missing).is_ok()
}

/// The deserializer of a missing field, which has a value only for types that deserialize an option.
struct Missing;

impl<'de> Deserializer<'de> for Missing {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("missing"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_none()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// A type that cannot be decoded from any value that its schema refuses.
///
/// It is implemented for types of the standard library and of `serde_json`, whose `Deserialize` and `JsonSchema` are
/// known here, and for no other types: an attribute or an implementation of an author can make the schema of a type
/// stricter than its decoding, and nothing in the schema reveals that. Sets are missing because they accept duplicates,
/// and maps with other keys because `schemars` describes these by patterns.
pub trait EnforcesSchema {}

macro_rules! enforce {
    ($($ty:ty),+) => {
        $(impl EnforcesSchema for $ty {})+
    };
}

enforce!(bool, char, u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64);
enforce!(str, String, PathBuf, Value, Map<String, Value>);

impl<T: EnforcesSchema> EnforcesSchema for Option<T> {}
impl<T: EnforcesSchema + ?Sized> EnforcesSchema for Box<T> {}
impl<T: EnforcesSchema + ToOwned + ?Sized> EnforcesSchema for Cow<'_, T> {}
impl<T: EnforcesSchema> EnforcesSchema for [T] {}
impl<T: EnforcesSchema, const N: usize> EnforcesSchema for [T; N] {}
impl<T: EnforcesSchema> EnforcesSchema for Vec<T> {}
impl<T: EnforcesSchema> EnforcesSchema for VecDeque<T> {}
impl<V: EnforcesSchema> EnforcesSchema for BTreeMap<String, V> {}
impl<V: EnforcesSchema, S> EnforcesSchema for HashMap<String, V, S> {}

macro_rules! enforce_tuples {
    () => {};
    ($first:ident $($rest:ident)*) => {
        impl<$first: EnforcesSchema, $($rest: EnforcesSchema),*> EnforcesSchema for ($first, $($rest,)*) {}
        enforce_tuples!($($rest)*);
    };
}

enforce_tuples!(A B C D E F G H I J K L);

/// Determines whether decoding into a type enforces its schema: the inherent constant of a type that implements
/// [`EnforcesSchema`] takes precedence over the constant of [`AnyDecoding`].
#[derive(Debug)]
pub struct Decoding<T: ?Sized>(PhantomData<T>);

impl<T: EnforcesSchema + ?Sized> Decoding<T> {
    /// Decoding enforces the schema.
    pub const ENFORCES_SCHEMA: bool = true;
}

macro_rules! integers {
    ($($ty:ty),+) => {
        $(
            impl Decoding<$ty> {
                /// The least and the greatest integer.
                pub const INTEGERS: (i128, i128) = (<$ty>::MIN as i128, <$ty>::MAX as i128);
            }

            impl Decoding<Option<$ty>> {
                /// The least and the greatest integer.
                pub const INTEGERS: (i128, i128) = Decoding::<$ty>::INTEGERS;
            }
        )+
    };
}

integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, i128, isize);

/// The decoding of all types.
pub trait AnyDecoding {
    /// Decoding may accept values that the schema refuses.
    const ENFORCES_SCHEMA: bool = false;
    /// The least and the greatest integer that the type can represent, as far as it is known.
    const INTEGERS: (i128, i128) = (i128::MIN, i128::MAX);
}

impl<T: ?Sized> AnyDecoding for Decoding<T> {}

/// Returns whether a type with these `INTEGERS` can represent an integer.
pub const fn represents(integers: (i128, i128), integer: i128) -> bool {
    integers.0 <= integer && integer <= integers.1
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
    fn null_selects_the_default_but_is_not_a_value() {
        let mut with_default = slot_or_json::<u8>("7");
        assert!(with_default.decode("null").is_ok() && with_default.apply_default());
        assert_eq!(with_default.take(), 7);
        assert!(slot::<u8>().decode("null").is_err());
    }
}
