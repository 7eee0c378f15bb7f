//! One message in, messages out: lifecycle, dispatch, calls in flight, cancellation, limits.
//!
//! Nothing here knows where the bytes come from or go to.

mod batch;
mod caller;
mod calls;
mod client_requests;
mod clock;
mod complete;
mod connection;
mod current_registry;
mod dispatch;
mod in_flight;
pub(crate) mod layers;
mod list;
mod listen;
mod outbox;
mod params;
mod request_source;
mod results;
mod session;
mod skills;
mod subscriptions;
mod tasks;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub use caller::Caller;
pub(crate) use caller::Visibility;
pub(crate) use client_requests::StateKeys;
pub use client_requests::{StateKey, StateKeyError};
pub(crate) use connection::Connection;
#[cfg(feature = "http")]
pub(crate) use connection::Receipt;
#[cfg(feature = "http")]
pub(crate) use in_flight::InFlight;
#[cfg(feature = "http")]
pub(crate) use outbox::{Meter, Outbox};
pub(crate) use request_source::RequestSource;
#[cfg(feature = "http")]
pub(crate) use request_source::{Mirrored, Permit};
#[cfg(feature = "http")]
pub(crate) use results::{is_result, refuse};
pub(crate) use session::Session;
pub(crate) use tasks::TaskTerms;

use current_registry::CurrentRegistry;
use layers::Layers;
use subscriptions::Subscriptions;
use tasks::Tasks;

use crate::{
    backend::TaskStore,
    handler::{Encoding, States},
    model::Implementation,
    registry::{Pager, Registry},
    revision::{self, Dialect, Revision},
};

/// What one peer may take of the server.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// The most bytes of one message.
    pub(crate) message: usize,
    /// The most calls in flight on one connection.
    pub(crate) in_flight: usize,
    /// The most messages of one batch.
    pub(crate) batch: usize,
    /// The bytes that may wait to be read by the peer before nothing more is read from it.
    pub(crate) unread: usize,
    /// How long a call may take, where its function does not say; none for ever.
    pub(crate) timeout: Option<Duration>,
    /// How long calls in flight may go on when the connection ends.
    pub(crate) grace: Duration,
    /// The most items of one page of a list.
    pub(crate) page: usize,
    /// How long clients may keep lists and the server's description.
    pub(crate) list_ttl: Duration,
    /// How long a client may take to answer one question.
    pub(crate) answer: Duration,
    /// How long a client may take from one round of a request to the next.
    pub(crate) round: Duration,
    pub(crate) tasks: TaskTerms,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: 16 << 20,
            in_flight: 1024,
            batch: 100,
            unread: 1 << 20,
            timeout: Some(Duration::from_secs(300)),
            grace: Duration::from_secs(5),
            page: 1000,
            list_ttl: Duration::from_secs(60),
            answer: Duration::from_secs(600),
            round: Duration::from_secs(3600),
            tasks: TaskTerms::default(),
        }
    }
}

/// How a server presents itself, and what it allows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Profile {
    pub(crate) identity: Implementation,
    pub(crate) instructions: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) forwards_log: bool,
    /// What seals the state of requests; a random key if there is none.
    pub(crate) state_keys: Vec<StateKey>,
    /// Who sees what; everybody everything where nobody decides.
    pub(crate) visibility: Option<Visibility>,
    /// Where tasks are kept; in memory if nobody says.
    pub(crate) task_store: Option<Arc<dyn TaskStore>>,
    pub(crate) layers: Layers,
}

/// A server that is built: everything that its connections share.
#[derive(Debug)]
pub(crate) struct Engine {
    current: CurrentRegistry,
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// Whether clients are told that the server may change.
    announces_changes: AtomicBool,
    pub(crate) states: Arc<States>,
    pub(crate) identity: Implementation,
    pub(crate) instructions: Option<String>,
    pub(crate) limits: Limits,
    /// Whether the log of functions goes to their clients.
    pub(crate) forwards_log: bool,
    state_keys: Arc<StateKeys>,
    tasks: Arc<Tasks>,
    visibility: Option<Visibility>,
    layers: Layers,
    /// One for each of [`Revision::ALL`].
    encodings: [Arc<Encoding>; Revision::ALL.len()],
}

impl Engine {
    pub(crate) fn new(registry: Registry, states: States, profile: Profile, announces_changes: bool) -> Self {
        let Profile { identity, instructions, limits, forwards_log, state_keys, visibility, task_store, layers } =
            profile;
        let encodings =
            revision::DIALECTS.map(|dialect| Arc::new(results::encoding(dialect, &identity, visibility.is_some())));
        Self {
            current: CurrentRegistry::new(registry),
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

    /// Returns the registry that the server offers now.
    pub(crate) fn registry(&self) -> arc_swap::Guard<Arc<Registry>> {
        self.current.load()
    }

    fn announces_changes(&self) -> bool {
        self.announces_changes.load(Ordering::Acquire)
    }

    fn encoding(&self, dialect: &'static Dialect) -> &Arc<Encoding> {
        &self.encodings[dialect.revision() as usize]
    }

    fn pager(&self, dialect: &'static Dialect) -> Pager<'_> {
        Pager { encoding: self.encoding(dialect), page: self.limits.page, ttl: Some(self.limits.list_ttl) }
    }
}
