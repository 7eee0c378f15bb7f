//! The protocol engine: messages in, messages out.
//!
//! The engine owns the lifecycle, dispatch, calls in flight, cancellation, subscriptions, tasks and limits. It does no
//! I/O: transports pass messages to a [`Connection`] and take its output.

#[cfg(not(all(feature = "ask", feature = "tasks")))]
mod absent;
mod call;
#[cfg(feature = "ask")]
mod client_requests;
mod connection;
mod dispatch;
pub(crate) mod layers;
mod limits;
mod listener;
mod methods;
mod outbox;
mod pending_requests;
mod profile;
#[cfg_attr(
    not(all(feature = "cluster", feature = "http", feature = "tasks")),
    allow(dead_code, reason = "only processes that share a backend need it")
)]
mod replicas;
mod request;
mod server;
mod session;
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
#[cfg(feature = "tasks")]
mod tasks;

#[cfg(not(feature = "ask"))]
use absent::client_requests;
#[cfg(not(feature = "tasks"))]
use absent::tasks;
#[cfg(feature = "http")]
pub(crate) use call::in_flight::InFlight;
#[cfg(feature = "http")]
pub(crate) use call::response::write_error;
#[cfg(feature = "ask")]
pub(crate) use client_requests::RootsHook;
#[cfg(feature = "http")]
pub(crate) use connection::ReceiveOutcome;
pub(crate) use connection::{Connection, RequestIds};
#[cfg(feature = "rate-limit")]
pub(crate) use limits::Bucket;
#[cfg(all(feature = "cluster", feature = "http"))]
pub(crate) use limits::FlowControl;
pub(crate) use limits::MAX_PERIOD;
#[cfg(feature = "http")]
pub(crate) use limits::MIN_PERIOD;
pub use limits::{Rate, SessionRates, TaskLimits};
#[cfg(feature = "http")]
pub(crate) use listener::too_many_listeners;
#[cfg(feature = "http")]
pub(crate) use outbox::{Meter, MeteredBytes, Outbox};
#[cfg(feature = "http")]
pub(crate) use pending_requests::session_ended;
pub(crate) use profile::{OWN_EXTENSIONS, Profile};
#[cfg(feature = "http")]
pub(crate) use replicas::SessionMessage;
#[cfg(all(feature = "cluster", feature = "http"))]
pub(crate) use replicas::{InputResponse, SessionChange};
#[cfg(feature = "cluster")]
pub(crate) use replicas::{KEY_ID_LEN, ReplicaHandler, Replicas, SharedKeys, Slot, base64_key};
pub use replicas::{StateKey, StateKeyError};
pub(crate) use request::source::Visibility;
#[cfg(feature = "http")]
pub(crate) use request::source::{MirroredFields, Permit, RequestSource};
pub(crate) use server::Engine;
#[cfg(feature = "http")]
pub(crate) use session::Session;
#[cfg(feature = "cluster")]
pub(crate) use session::Sessions;
#[cfg(all(feature = "cluster", feature = "http"))]
pub(crate) use session::{Declared, SessionInfo};
#[cfg(all(feature = "cluster", feature = "http"))]
pub(crate) use subscriptions::{MAX_RESOURCES, MAX_URI_BYTES};
#[cfg(all(test, feature = "cluster", feature = "http"))]
pub(crate) use subscriptions::{Subscriber, Subscriptions};
#[cfg(feature = "tasks")]
pub use tasks::TaskStatus;
