use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use arc_swap::ArcSwap;

use super::{
    catalog::{Catalog, Workshop},
    client_requests::{StateKey, StateKeys},
    introduction::{self, Introduction},
    layers::Layers,
    limits::Limits,
    request::caller::Visibility,
    subscriptions::subscriber::Subscriptions,
    tasks::service::Tasks,
};
use crate::{
    backend::TaskStore,
    error::BuildError,
    handler::{Encoding, StateMap},
    model::Implementation,
    registry::{Offers, Pager, Stock},
    revision::{self, Dialect, Revision},
};

/// The description and the settings of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Profile {
    pub(crate) identity: Implementation,
    pub(crate) instructions: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) forwards_log: bool,
    /// The keys that seal the state of requests. If empty, the server uses a random key.
    pub(crate) state_keys: Vec<StateKey>,
    /// Decides which entries a caller sees. Without it, every caller sees everything.
    pub(crate) visibility: Option<Visibility>,
    /// The store of tasks. Without it, tasks are kept in memory.
    pub(crate) task_store: Option<Arc<dyn TaskStore>>,
    pub(crate) layers: Layers,
}

/// A built server: the state that its connections share.
#[derive(Debug)]
pub(crate) struct Engine {
    catalog: ArcSwap<Catalog>,
    workshop: Workshop,
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// Whether clients are told that the lists may change.
    announces_changes: AtomicBool,
    pub(crate) states: Arc<StateMap>,
    pub(crate) identity: Implementation,
    pub(crate) instructions: Option<String>,
    pub(crate) limits: Limits,
    /// Whether log events of functions are sent to the clients that called them.
    pub(crate) forwards_log: bool,
    pub(super) state_keys: Arc<StateKeys>,
    pub(super) tasks: Arc<Tasks>,
    pub(super) visibility: Option<Visibility>,
    pub(super) layers: Layers,
    /// One per entry of [`Revision::ALL`].
    encodings: [Arc<Encoding>; Revision::ALL.len()],
}

impl Engine {
    pub(crate) fn new(stock: Stock, states: StateMap, profile: Profile, announces_changes: bool) -> Self {
        let Profile { identity, instructions, limits, forwards_log, state_keys, visibility, task_store, layers } =
            profile;
        let encodings = revision::DIALECTS
            .map(|dialect| Arc::new(introduction::encoding(dialect, &identity, visibility.is_some())));
        Self {
            catalog: ArcSwap::from_pointee(Catalog::new(&stock, Offers::default(), forwards_log)),
            workshop: Workshop::new(stock),
            subscriptions: Arc::default(),
            announces_changes: AtomicBool::new(announces_changes),
            states: Arc::new(states),
            identity,
            instructions,
            state_keys: Arc::new(StateKeys::new(state_keys, limits.round)),
            tasks: Arc::new(Tasks::new(task_store, limits.tasks.clone())),
            limits,
            forwards_log,
            visibility,
            layers,
            encodings,
        }
    }

    /// Returns the current snapshot of what the server offers.
    pub(crate) fn catalog(&self) -> arc_swap::Guard<Arc<Catalog>> {
        self.catalog.load()
    }

    pub(super) fn announces_changes(&self) -> bool {
        self.announces_changes.load(Ordering::Acquire)
    }

    pub(super) fn encoding(&self, dialect: &'static Dialect) -> &Arc<Encoding> {
        &self.encodings[dialect.revision() as usize]
    }

    pub(super) fn pager(&self, dialect: &'static Dialect) -> Pager<'_> {
        Pager { encoding: self.encoding(dialect), page: self.limits.page, ttl: Some(self.limits.list_ttl) }
    }

    /// Returns the result of `initialize` or, in a stateless dialect, of `server/discover`.
    pub(super) fn introduction<'a>(&self, catalog: &'a Catalog, dialect: &'static Dialect) -> &'a [u8] {
        catalog.introduction(dialect, || {
            let introduction = Introduction {
                identity: &self.identity,
                instructions: self.instructions.as_deref(),
                offers: catalog.registry.offers(),
                announces_changes: self.announces_changes(),
                ttl: self.limits.list_ttl,
            };
            introduction.write(dialect)
        })
    }

    /// Changes what the server offers and notifies subscribers. Returns whether anything changed.
    ///
    /// # Errors
    ///
    /// Returns the error of `change`, in which case nothing changes.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut Stock) -> Result<bool, BuildError>,
    ) -> Result<bool, BuildError> {
        let mut stock = self.workshop.lock();
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

    /// Announces from now on that the lists may change.
    pub(crate) fn announce_changes(&self) {
        if self.announces_changes.swap(true, Ordering::AcqRel) {
            return;
        }
        let stock = self.workshop.lock();
        let before = self.catalog.load().registry.offers();
        self.catalog.store(Catalog::new(&stock, before, self.forwards_log).into());
    }

    /// Returns a copy of the registered items.
    pub(crate) fn stock(&self) -> Stock {
        self.workshop.lock().clone()
    }
}
