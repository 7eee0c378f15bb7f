//! The values of `ctx.once`.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The values that a call computed with `ctx.once`, as JSON, by key.
#[derive(Debug, Default)]
pub(crate) struct OnceValues(Mutex<HashMap<String, String>>);

impl OnceValues {
    pub(super) fn get(&self, key: &str) -> Option<String> {
        self.lock().get(key).cloned()
    }

    pub(super) fn set(&self, key: &str, value: String) {
        self.lock().insert(key.to_owned(), value);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<HashMap<String, String>> for OnceValues {
    fn from(values: HashMap<String, String>) -> Self {
        Self(Mutex::new(values))
    }
}
