//! The protocol engine: messages in, messages out.
//!
//! The engine owns the lifecycle, dispatch, calls in flight, cancellation, subscriptions, tasks and limits. It does no
//! I/O: transports pass messages to a [`Connection`] and take its output.

mod batches;
mod call;
#[cfg_attr(not(feature = "ask"), path = "no_client_requests.rs")]
mod client_requests;
mod connection;
mod description;
mod dispatch;
#[cfg(feature = "http")]
mod exchange;
mod handshake;
pub(crate) mod layers;
mod limits;
mod methods;
mod outbox;
mod pending_requests;
mod rates;
#[cfg_attr(
    not(all(feature = "cluster", feature = "http", feature = "tasks")),
    allow(dead_code, reason = "only processes that share a backend need it")
)]
mod replicas;
mod request;
mod server;
mod session;
mod state_key;
mod stats;
mod subscriptions;
/// The synchronization primitives of the table of calls in flight and of the outbox: the primitives of `std`, or with
/// `--cfg shuttle` the primitives of shuttle, which runs the threads of a test in all interleavings.
mod sync {
    #[cfg(all(test, shuttle))]
    pub(super) use shuttle::sync::{Mutex, MutexGuard, atomic};
    #[cfg(not(all(test, shuttle)))]
    pub(super) use std::sync::{Mutex, MutexGuard, atomic};
}
#[cfg_attr(not(feature = "tasks"), path = "no_tasks.rs")]
mod tasks;
mod weak_set;

#[cfg(feature = "http")]
pub(crate) use call::in_flight::InFlight;
#[cfg(feature = "http")]
pub(crate) use call::response::write_error;
#[cfg(feature = "ask")]
pub(crate) use client_requests::RootsHook;
#[cfg(feature = "http")]
pub(crate) use connection::ReceiveOutcome;
pub(crate) use connection::{Connection, RequestIds};
pub(crate) use description::OWN_EXTENSIONS;
#[cfg(all(feature = "cluster", feature = "http"))]
pub(crate) use handshake::{Declared, restore_session};
pub use limits::TaskLimits;
#[cfg(feature = "http")]
pub(crate) use limits::{MIN_PERIOD, Meter};
#[cfg(feature = "http")]
pub(crate) use outbox::Outbox;
#[cfg(feature = "http")]
pub(crate) use pending_requests::session_ended;
#[cfg(feature = "rate-limit")]
pub(crate) use rates::Bucket;
#[cfg(all(feature = "cluster", feature = "http"))]
pub(crate) use rates::FlowControl;
pub(crate) use rates::MAX_PERIOD;
pub use rates::{Rate, SessionRates};
#[cfg(feature = "http")]
pub(crate) use replicas::SessionMessage;
#[cfg(all(feature = "cluster", feature = "http"))]
pub(crate) use replicas::{InputResponse, SessionChange};
#[cfg(feature = "cluster")]
pub(crate) use replicas::{ReplicaHandler, Replicas, SharedKeys, Slot};
pub(crate) use request::source::Visibility;
#[cfg(feature = "http")]
pub(crate) use request::source::{MirroredFields, Permit, RequestSource};
pub(crate) use server::{Engine, Profile};
#[cfg(feature = "http")]
pub(crate) use session::Session;
#[cfg(all(feature = "cluster", feature = "http"))]
pub(crate) use session::SessionInfo;
#[cfg(feature = "cluster")]
pub(crate) use session::SessionLog;
#[cfg(feature = "cluster")]
pub(crate) use state_key::{KEY_ID_LEN, base64_key};
pub use state_key::{StateKey, StateKeyError};
#[cfg(feature = "http")]
pub(crate) use subscriptions::filter::too_many_listeners;
#[cfg(all(feature = "cluster", feature = "http"))]
pub(crate) use subscriptions::subscriber::{MAX_RESOURCES, MAX_URI_BYTES};
#[cfg(all(test, feature = "cluster", feature = "http"))]
pub(crate) use subscriptions::subscriber::{Subscriber, Subscriptions};
#[cfg(feature = "tasks")]
pub use tasks::TaskStatus;
