use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    fmt,
    sync::Arc,
};

/// The values that functions take by reference, one of a type.
#[derive(Default)]
pub(crate) struct States {
    /// Each an `Arc<T>` behind the id of `T`, so that `T` may be a trait object.
    values: HashMap<TypeId, (Box<dyn Any + Send + Sync>, Option<&'static str>)>,
}

impl States {
    /// Puts a value in; false if one of its type was there.
    pub(crate) fn insert<T: ?Sized + Send + Sync + 'static>(&mut self, value: Arc<T>) -> bool {
        self.values.insert(TypeId::of::<T>(), (Box::new(value), Some(type_name::<T>()))).is_none()
    }

    /// Puts in what the runtime itself gives, which no message names.
    pub(crate) fn provide<T: Send + Sync + 'static>(&mut self, value: Arc<T>) {
        self.values.insert(TypeId::of::<T>(), (Box::new(value), None));
    }

    pub(crate) fn get<T: ?Sized + 'static>(&self) -> Option<&T> {
        self.values.get(&TypeId::of::<T>())?.0.downcast_ref::<Arc<T>>().map(|value| &**value)
    }

    pub(crate) fn has(&self, type_id: TypeId) -> bool {
        self.values.contains_key(&type_id)
    }

    /// Names the types that the author gave, sorted.
    pub(crate) fn type_names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.values.values().filter_map(|(_, name)| *name).collect();
        names.sort_unstable();
        names
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.type_names()).finish()
    }
}
