//! What the server offers at one moment, with the finished bytes that follow from it. A change makes another one.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::{
    registry::{Lists, Offers, Pager, Registry, Stock},
    revision::{Dialect, Revision},
};

/// What the server offers at one moment. Whoever reads it never waits for a change, and keeps what it has begun with.
#[derive(Debug)]
pub(crate) struct Catalog {
    pub(crate) registry: Registry,
    /// One for each of [`Revision::ALL`].
    spoken: [Spoken; Revision::ALL.len()],
}

/// The finished bytes of one dialect, made when they are first asked for.
#[derive(Debug, Default)]
struct Spoken {
    lists: OnceLock<Lists>,
    /// The result of `initialize` or `server/discover`.
    introduction: OnceLock<Vec<u8>>,
}

impl Catalog {
    pub(super) fn new(stock: &Stock, before: Offers, forwards_log: bool) -> Self {
        Self { registry: stock.registry(before, forwards_log), spoken: Default::default() }
    }

    pub(super) fn lists(&self, pager: &Pager<'_>) -> &Lists {
        let spoken = &self.spoken[pager.encoding.dialect.revision() as usize];
        spoken.lists.get_or_init(|| Lists::write(&self.registry, pager))
    }

    pub(super) fn introduction(&self, dialect: &'static Dialect, write: impl FnOnce() -> Vec<u8>) -> &[u8] {
        let spoken = &self.spoken[dialect.revision() as usize];
        spoken.introduction.get_or_init(write)
    }
}

/// What the catalogs are made from, which one change at a time works on.
#[derive(Debug)]
pub(super) struct Workshop(Mutex<Stock>);

impl Workshop {
    pub(super) fn new(stock: Stock) -> Self {
        Self(Mutex::new(stock))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Stock> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
