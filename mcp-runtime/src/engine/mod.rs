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
#[cfg(feature = "ask")]
pub(crate) use client_requests::RootsHook;
#[cfg(test)]
pub(crate) use subscriptions::{Subscriber, Subscriptions};
#[cfg(feature = "tasks")]
pub use tasks::TaskStatus;

pub(crate) use self::{
    call::{in_flight::InFlight, response::write_error},
    connection::{Connection, ReceiveOutcome, RequestIds},
    limits::{Bucket, FlowControl, MAX_PERIOD, MIN_PERIOD},
    listener::too_many_listeners,
    outbox::{Meter, MeteredBytes, Outbox},
    pending_requests::session_ended,
    profile::{OWN_EXTENSIONS, Profile},
    replicas::{
        InputResponse, KEY_ID_LEN, ReplicaHandler, Replicas, SessionChange, SessionMessage, SharedKeys, Slot,
        base64_key,
    },
    request::source::{MirroredFields, Permit, RequestSource, Visibility},
    server::Engine,
    session::{Declared, Session, Sessions},
    subscriptions::{MAX_RESOURCES, MAX_URI_BYTES},
};
pub use self::{
    limits::{Rate, SessionRates, TaskLimits},
    replicas::{StateKey, StateKeyError},
};
