//! The inputs and outputs of the proxy's state machine.

use std::{collections::BTreeSet, time::Duration};

use super::super::{
    ids::{BuildId, Generation},
    snapshot::Capability,
};

/// An input of the state machine.
#[derive(Debug)]
pub(crate) enum Event {
    /// The client sent a line.
    ClientLine(String),
    /// A server sent a line.
    ServerLine(Generation, String),
    /// A server exited or could not be started. Its last event.
    ServerExited(Generation, String),
    BuildSucceeded(BuildId),
    /// A build failed with this error, the first one.
    BuildFailed(String),
    /// A timer that the state machine started has expired.
    TimerExpired(Timer),
    /// The client closed its end of the connection.
    ClientClosed,
    /// A signal asked this process to exit.
    ShutdownRequested,
}

/// An output of the state machine, which does no I/O.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    SendToClient(String),
    SendToServer(Generation, String),
    StartServer(Generation, BuildId),
    /// Closes a server's input.
    CloseInput(Generation),
    /// Ends a server, from which no more events are expected.
    StopServer(Generation),
    StartTimer(Duration, Timer),
    /// A server became the active one. Its lists differ from those of the previous one.
    Activated(Generation, BTreeSet<Capability>),
    /// Writes a status line for the developer.
    Report(Severity, String),
    /// Ends this process.
    Exit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A new server must be ready.
    StartTimeout(Generation),
    /// A replaced server must have answered its calls.
    GracePeriod(Generation),
    /// A server that crashed repeatedly may be restarted.
    Restart,
    /// All calls must be answered after the client closed the connection.
    Shutdown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    Info,
    Warning,
}

/// The settings of a proxy.
#[derive(Debug)]
pub(crate) struct ProxyConfig {
    /// The prefix of the ids of the proxy's own requests. Random, so that no client uses it.
    pub(crate) id_prefix: String,
    /// Whether servers answer stateless requests in addition to a session, so that the proxy can request their lists.
    pub(crate) can_list: bool,
    /// The time that calls have to finish after a new build.
    pub(crate) grace: Duration,
    /// The time that a server has to start.
    pub(crate) start_timeout: Duration,
}
