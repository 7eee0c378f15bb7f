//! The types whose decoding enforces their schema.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, VecDeque},
    marker::PhantomData,
    path::PathBuf,
};

use serde_json::{Map, Value};

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
