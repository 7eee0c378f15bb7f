//! Tells arguments that were taken by reference by mistake from shared state.
//!
//! A parameter of type `&T` is shared state, whatever `T` is. If `T` is a plain data type of the standard library, the
//! author meant an argument: such a type says nothing about which value of the server it stands for.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    ffi::{OsStr, OsString},
    marker::PhantomData,
    path::{Path, PathBuf},
    time::Duration,
};

/// The kind of a type: [`Shared`], or the type that an argument has instead.
#[derive(Debug)]
pub struct Kind<K>(PhantomData<fn() -> K>);

/// The kind of types that can be shared state.
#[derive(Debug)]
pub struct Shared;

/// A type that the server can provide by reference.
#[diagnostic::on_unimplemented(
    message = "`&{Self}` cannot be a parameter",
    label = "a reference is provided by the server, and a `{Self}` is not shared state",
    note = "for an argument, take it by value: `{K}` (`&str` and `&[T]` are arguments, too)",
    note = "for shared state, wrap it in a type of your own, such as `struct Settings({K});`"
)]
pub trait ProvidedByReference<K> {}

#[diagnostic::do_not_recommend]
impl<T: ?Sized> ProvidedByReference<Shared> for T {}

/// A second implementation, so that the compiler takes the kind from the argument instead of the only implementation.
#[diagnostic::do_not_recommend]
impl<T: ?Sized> ProvidedByReference<Unused> for T {}

/// The kind of no type.
#[derive(Debug)]
pub enum Unused {}

/// Determines the kind of a type: the inherent constant of a plain data type takes precedence over that of
/// [`AnyState`].
#[derive(Debug)]
pub struct StateOrData<T: ?Sized>(PhantomData<T>);

/// The kind of all types that are not plain data.
pub trait AnyState {
    /// The kind.
    const KIND: Kind<Shared> = Kind(PhantomData);
}

impl<T: ?Sized> AnyState for StateOrData<T> {}

macro_rules! data {
    ($([$($generics:tt)*] $borrowed:ty => $owned:ty,)*) => {
        $(impl<$($generics)*> StateOrData<$borrowed> {
            /// The type of an argument.
            pub const KIND: Kind<$owned> = Kind(PhantomData);
        })*
    };
}

data! {
    [] bool => bool,
    [] char => char,
    [] u8 => u8,
    [] u16 => u16,
    [] u32 => u32,
    [] u64 => u64,
    [] u128 => u128,
    [] usize => usize,
    [] i8 => i8,
    [] i16 => i16,
    [] i32 => i32,
    [] i64 => i64,
    [] i128 => i128,
    [] isize => isize,
    [] f32 => f32,
    [] f64 => f64,
    [] String => String,
    [] Path => PathBuf,
    [] PathBuf => PathBuf,
    [] OsStr => String,
    [] OsString => String,
    [] Duration => Duration,
    [T] Option<T> => Option<T>,
    [T] Vec<T> => Vec<T>,
    [T] VecDeque<T> => VecDeque<T>,
    [T, S] HashSet<T, S> => HashSet<T, S>,
    [T] BTreeSet<T> => BTreeSet<T>,
    [K, V, S] HashMap<K, V, S> => HashMap<K, V, S>,
    [K, V] BTreeMap<K, V> => BTreeMap<K, V>,
    [] serde_json::Value => serde_json::Value,
}
