//! Shared state: the values that functions take by reference.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    fmt,
    sync::Arc,
};

use super::data::{Kind, ProvidedByReference};

/// The shared state of a server, at most one value of each type.
#[derive(Default)]
pub(crate) struct StateMap {
    /// Each value is an `Arc<T>` under the id of `T`, which allows `T` to be a trait object.
    values: HashMap<TypeId, State>,
}

struct State {
    value: Box<dyn Any + Send + Sync>,
    /// The name of the type, unless the value is built in.
    type_name: Option<&'static str>,
}

impl StateMap {
    /// Adds a value. Returns `false` if it replaced a value of the same type.
    pub(crate) fn insert<T: ?Sized + Send + Sync + 'static>(&mut self, value: Arc<T>) -> bool {
        let state = State { value: Box::new(value), type_name: Some(type_name::<T>()) };
        self.values.insert(TypeId::of::<T>(), state).is_none()
    }

    /// Adds a built-in value, which is omitted from messages. Returns `false` if it replaced a value of the same type.
    pub(crate) fn insert_builtin<T: ?Sized + Send + Sync + 'static>(&mut self, value: Arc<T>) -> bool {
        self.values.insert(TypeId::of::<T>(), State { value: Box::new(value), type_name: None }).is_none()
    }

    pub(crate) fn get<T: ?Sized + 'static>(&self) -> Option<&T> {
        self.values.get(&TypeId::of::<T>())?.value.downcast_ref::<Arc<T>>().map(|value| &**value)
    }

    pub(crate) fn contains(&self, type_id: TypeId) -> bool {
        self.values.contains_key(&type_id)
    }

    /// Returns the sorted names of the types, without those of built-in values.
    pub(crate) fn type_names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.values.values().filter_map(|state| state.type_name).collect();
        names.sort_unstable();
        names
    }
}

impl fmt::Debug for StateMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.type_names()).finish()
    }
}

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
