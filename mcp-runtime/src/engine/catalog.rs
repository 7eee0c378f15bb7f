//! What the server offers at one moment, with the finished bytes that follow from it. A change makes another one.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::{Engine, results};
use crate::{
    error::BuildError,
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

    pub(super) fn introduction(&self, engine: &Engine, dialect: &'static Dialect) -> &[u8] {
        let spoken = &self.spoken[dialect.revision() as usize];
        spoken.introduction.get_or_init(|| results::introduction(engine, self, dialect))
    }
}

/// What the catalogs are made from, which one change at a time works on.
#[derive(Debug)]
pub(super) struct Workshop(Mutex<Stock>);

impl Workshop {
    pub(super) fn new(stock: Stock) -> Self {
        Self(Mutex::new(stock))
    }
}

impl Engine {
    /// Changes what the server offers, and tells whoever wants to know; says whether anything changed.
    ///
    /// # Errors
    ///
    /// Those of `change`, which leave everything as it was.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut Stock) -> Result<bool, BuildError>,
    ) -> Result<bool, BuildError> {
        let mut stock = self.workshop.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = stock.clone();
        if !change(&mut changed)? {
            return Ok(false);
        }
        let before = self.catalog.load_full();
        let catalog = Catalog::new(&changed, before.registry.offers(), self.forwards_log);
        let kinds = before.registry.differs(&catalog.registry);
        *stock = changed;
        self.catalog.store(catalog.into());
        self.subscriptions.lists_changed(kinds);
        Ok(true)
    }

    /// Says from now on that the server may change.
    pub(crate) fn announce_changes(&self) {
        if self.announces_changes.swap(true, std::sync::atomic::Ordering::AcqRel) {
            return;
        }
        let stock = self.workshop.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.catalog.load().registry.offers();
        self.catalog.store(Catalog::new(&stock, before, self.forwards_log).into());
    }

    /// A copy of the items, for whoever decides about them in peace.
    pub(crate) fn stock(&self) -> Stock {
        self.workshop.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
