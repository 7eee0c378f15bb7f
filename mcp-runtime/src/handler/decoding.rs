//! Types whose decoding enforces their schema, so that their values need no separate check.

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
/// known here, and for no others: an attribute or an implementation of an author can make the schema of a type stricter
/// than its decoding, and nothing in the schema reveals that. Sets are missing because they accept duplicates, and maps
/// with other keys because `schemars` describes these by patterns.
pub trait EnforcesSchema {}

macro_rules! enforce {
    ($([$($generics:tt)*] $ty:ty,)*) => {
        $(impl<$($generics)*> EnforcesSchema for $ty {})*
    };
}

enforce! {
    [] bool,
    [] char,
    [] u8,
    [] u16,
    [] u32,
    [] u64,
    [] u128,
    [] usize,
    [] i8,
    [] i16,
    [] i32,
    [] i64,
    [] i128,
    [] isize,
    [] f32,
    [] f64,
    [] str,
    [] String,
    [] PathBuf,
    [] Value,
    [] Map<String, Value>,
    [T: EnforcesSchema] Option<T>,
    [T: EnforcesSchema + ?Sized] Box<T>,
    [T: EnforcesSchema + ToOwned + ?Sized] Cow<'_, T>,
    [T: EnforcesSchema] [T],
    [T: EnforcesSchema, const N: usize] [T; N],
    [T: EnforcesSchema] Vec<T>,
    [T: EnforcesSchema] VecDeque<T>,
    [V: EnforcesSchema] BTreeMap<String, V>,
    [V: EnforcesSchema, S] HashMap<String, V, S>,
}

macro_rules! enforce_tuples {
    () => {};
    ($first:ident $($rest:ident)*) => {
        impl<$first: EnforcesSchema, $($rest: EnforcesSchema),*> EnforcesSchema for ($first, $($rest,)*) {}
        enforce_tuples!($($rest)*);
    };
}

enforce_tuples!(A B C D E F G H I J K L);

/// Determines whether decoding into a type enforces its schema: the inherent constant of a type that implements
/// [`EnforcesSchema`] takes precedence over that of [`AnyDecoding`].
#[derive(Debug)]
pub struct Decoding<T: ?Sized>(PhantomData<T>);

impl<T: EnforcesSchema + ?Sized> Decoding<T> {
    /// Decoding enforces the schema.
    pub const ENFORCES_SCHEMA: bool = true;
}

/// The decoding of all types.
pub trait AnyDecoding {
    /// Decoding may accept values that the schema refuses.
    const ENFORCES_SCHEMA: bool = false;
}

impl<T: ?Sized> AnyDecoding for Decoding<T> {}
