//! Shared state: the values that functions take by reference.
//!
//! A parameter of type `&T` is shared state, whatever `T` is. If `T` is a plain data type of the standard library, the
//! author meant an argument: such a type says nothing about which value of the server it stands for.

use std::{
    any::{Any, TypeId, type_name},
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque, hash_map::Entry},
    ffi::{OsStr, OsString},
    marker::PhantomData,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{
    handler::{Function, entry::EntryGroup},
    stdx::debug,
};

/// The shared state of a server, at most one value of each type.
#[derive(Clone, Default)]
pub(crate) struct StateMap {
    /// Each value is an `Arc<T>` under the id of `T`, which allows `T` to be a trait object.
    values: HashMap<TypeId, State>,
    /// The state of functions of mounted servers, if it differs.
    mounted: Vec<(Arc<EntryGroup>, Arc<StateMap>)>,
}

#[derive(Clone)]
struct State {
    value: Arc<dyn Any + Send + Sync>,
    /// The name of the type, unless the value is built in.
    type_name: Option<&'static str>,
}

impl StateMap {
    /// Adds a value. Returns `false` if it replaced a value of the same type.
    pub(crate) fn insert<T: ?Sized + Send + Sync + 'static>(&mut self, value: Arc<T>) -> bool {
        let state = State { value: Arc::new(value), type_name: Some(type_name::<T>()) };
        self.values.insert(TypeId::of::<T>(), state).is_none()
    }

    /// Adds a built-in value, which is omitted from messages. Returns `false` if it replaced a value of the same type.
    pub(crate) fn insert_builtin<T: ?Sized + Send + Sync + 'static>(&mut self, value: Arc<T>) -> bool {
        self.values.insert(TypeId::of::<T>(), State { value: Arc::new(value), type_name: None }).is_none()
    }

    /// Adds a built-in value that replaces another one for the functions of a group, unless they belong to an earlier group.
    pub(crate) fn insert_for<T: ?Sized + Send + Sync + 'static>(&mut self, group: &Arc<EntryGroup>, value: Arc<T>) {
        let mut state = Self { values: self.values.clone(), mounted: Vec::new() };
        state.insert_builtin(value);
        self.mounted.push((Arc::clone(group), Arc::new(state)));
    }

    /// Returns the state of a function.
    pub(crate) fn of_function(self: &Arc<Self>, function: &Function) -> Arc<Self> {
        let found = self.mounted.iter().find(|(group, _)| group.contains(&function.info()));
        Arc::clone(found.map_or(self, |(_, state)| state))
    }

    /// Adds the values of another map. Returns the types of values that exist already, which are kept.
    pub(crate) fn merge(&mut self, other: Self) -> Vec<&'static str> {
        let mut clashes = Vec::new();
        for (id, state) in other.values {
            match self.values.entry(id) {
                Entry::Occupied(_) => clashes.extend(state.type_name),
                Entry::Vacant(entry) => drop(entry.insert(state)),
            }
        }
        clashes
    }

    pub(crate) fn get<T: ?Sized + 'static>(&self) -> Option<&T> {
        self.values.get(&TypeId::of::<T>())?.value.downcast_ref::<Arc<T>>().map(|value| &**value)
    }

    pub(crate) fn contains(&self, type_id: TypeId) -> bool {
        self.values.contains_key(&type_id)
    }

    /// Returns the sorted names of the types, without the types of built-in values.
    pub(crate) fn type_names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.values.values().filter_map(|state| state.type_name).collect();
        names.sort_unstable();
        names
    }
}

debug!(StateMap, self, types: self.type_names());

/// A type that concurrent calls can take by reference.
#[diagnostic::on_unimplemented(
    message = "`&{Self}` cannot be passed to a function: concurrent calls on several threads share it",
    label = "this type is not `Send + Sync`",
    note = "a value that the server passes by reference must be `Send + Sync + 'static`: replace `Rc` with `Arc`, and `RefCell` or `Cell` with `Mutex` or an atomic",
    note = "a value that the caller provides is taken by value: `{Self}`"
)]
pub trait SharedState: Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: ?Sized + Send + Sync + 'static> SharedState for T {}

/// A parameter that the server passes by reference: shared state, or a value that belongs to the request.
#[derive(Debug, Clone, Copy)]
pub struct Dependency {
    /// The name of the parameter.
    pub parameter: &'static str,
    pub(crate) type_id: fn() -> TypeId,
    pub(crate) type_name: fn() -> &'static str,
}

impl Dependency {
    /// Describes a parameter of type `&T`.
    pub const fn of<T: ?Sized + 'static>(parameter: &'static str) -> Self {
        Self { parameter, type_id: TypeId::of::<T>, type_name: type_name::<T> }
    }
}

/// Describes a parameter of type `&T` of an annotated function.
pub const fn dependency<T: ?Sized + SharedState + ProvidedByReference<K>, K>(
    parameter: &'static str,
    _: Kind<K>,
) -> Dependency {
    Dependency::of::<T>(parameter)
}

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

/// Determines the kind of a type: the inherent constant of a plain data type takes precedence over the constant of
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
    ($($ty:ty),+) => {
        $(data! { [] $ty => $ty, })+
    };
}

data!(bool, char, u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64);
data!(String, PathBuf, Duration, serde_json::Value);
data! {
    [] Path => PathBuf,
    [] OsStr => String,
    [] OsString => String,
    [T] Option<T> => Option<T>,
    [T] Vec<T> => Vec<T>,
    [T] VecDeque<T> => VecDeque<T>,
    [T, S] HashSet<T, S> => HashSet<T, S>,
    [T] BTreeSet<T> => BTreeSet<T>,
    [K, V, S] HashMap<K, V, S> => HashMap<K, V, S>,
    [K, V] BTreeMap<K, V> => BTreeMap<K, V>,
}
