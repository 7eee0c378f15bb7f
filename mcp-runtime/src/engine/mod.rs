//! One message in, messages out: lifecycle, dispatch, calls in flight, cancellation, limits.
//!
//! Nothing here knows where the bytes come from or go to.

mod batch;
mod calls;
mod connection;
mod dispatch;
mod flights;
mod origin;
mod outbox;
mod params;
mod results;
mod session;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

pub(crate) use connection::Connection;
#[cfg(feature = "http")]
pub(crate) use connection::Receipt;
#[cfg(feature = "http")]
pub(crate) use flights::{Flights, Permit};
#[cfg(feature = "http")]
pub(crate) use origin::Mirrored;
pub(crate) use origin::Origin;
#[cfg(feature = "http")]
pub(crate) use outbox::Outbox;
#[cfg(feature = "http")]
pub(crate) use results::refuse;
pub(crate) use session::Session;

use crate::{
    handler::{States, Wire},
    model::Implementation,
    registry::{Lists, Registry},
    revision::{self, Dialect},
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
}

/// A server that is built: everything that its connections share.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) registry: Registry,
    pub(crate) states: Arc<States>,
    pub(crate) identity: Implementation,
    pub(crate) instructions: Option<String>,
    pub(crate) limits: Limits,
    /// Whether the log of functions goes to their clients.
    pub(crate) forwards_log: bool,
    /// One for each of [`revision::ALL`].
    voices: [Voice; revision::ALL.len()],
}

/// How the server speaks in one dialect.
#[derive(Debug)]
struct Voice {
    wire: Arc<Wire>,
    /// The finished results of every list, made when they are first asked for.
    lists: OnceLock<Lists>,
    /// The finished result of `initialize` or `server/discover`.
    introduction: OnceLock<Vec<u8>>,
}

impl Engine {
    pub(crate) fn new(registry: Registry, states: States, profile: Profile) -> Self {
        let Profile { identity, instructions, limits, forwards_log } = profile;
        let voices = revision::ALL.map(|dialect| Voice {
            wire: Arc::new(results::wire(dialect, &identity)),
            lists: OnceLock::new(),
            introduction: OnceLock::new(),
        });
        Self { registry, states: Arc::new(states), identity, instructions, limits, forwards_log, voices }
    }

    fn voice(&self, dialect: &'static dyn Dialect) -> &Voice {
        let newest_first = revision::ALL.len() - 1 - dialect.revision() as usize;
        &self.voices[newest_first]
    }

    fn wire(&self, dialect: &'static dyn Dialect) -> &Arc<Wire> {
        &self.voice(dialect).wire
    }

    fn lists(&self, dialect: &'static dyn Dialect) -> &Lists {
        let voice = self.voice(dialect);
        voice.lists.get_or_init(|| Lists::write(&self.registry, &voice.wire, self.limits.page, self.limits.list_ttl))
    }

    fn introduction(&self, dialect: &'static dyn Dialect) -> &[u8] {
        let voice = self.voice(dialect);
        voice.introduction.get_or_init(|| results::introduction(self, dialect))
    }
}
