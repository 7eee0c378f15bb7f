//! The state of the proxy, and the operations that all events share.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use serde_json::{Value, json};

use super::super::{
    message::{BuildId, Generation, INTERNAL_ERROR, Message, RequestId, error_response, notification},
    session::{ListenRequest, ServerRequests, SessionState},
    snapshot::{Capability, List, Snapshot},
};

/// The error message for calls that are in flight when the client closes the connection.
pub(super) const STDIN_CLOSED: &str = "stdin of `cargo mcp dev` was closed";

/// The proxy between one client and the servers of successive builds.
///
/// The `active` server receives the client's messages. A `candidate` has been started and is brought to the state of
/// the client's session before it becomes active. Servers that were replaced finish their calls and are then stopped.
#[derive(Debug, Default)]
pub(crate) struct Proxy {
    pub(super) config: ProxyConfig,
    pub(super) effects: Vec<Effect>,
    pub(super) phase: Phase,
    /// The number of the proxy's own requests so far.
    pub(super) own_requests: u64,
    /// The number of the client's batches so far.
    pub(super) batches: u64,
    pub(super) last_generation: Generation,
    pub(super) servers: BTreeMap<Generation, ServerState>,
    pub(super) active: Option<Generation>,
    pub(super) candidate: Option<Generation>,
    pub(super) builds: Builds,
    /// The number of crashes since the last response.
    pub(super) crashes: u32,
    pub(super) is_restart_scheduled: bool,
    pub(super) session: Option<SessionState>,
    pub(super) calls: HashMap<RequestId, InFlightCall>,
    /// Lines that wait for a server, with the ids of the requests in them.
    pub(super) queue: VecDeque<(String, Vec<RequestId>)>,
    pub(super) server_requests: ServerRequests,
    /// The lists of the last active server.
    pub(super) snapshot: Option<Snapshot>,
    /// The capabilities whose lists the server has changed since the snapshot.
    pub(super) changed_since: BTreeSet<Capability>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Running,
    /// The client closed the connection. Calls in flight are still answered.
    Draining,
    Done,
}

#[derive(Debug, Default)]
pub(super) struct Builds {
    pub(super) newest: Option<BuildId>,
    /// The last build that became active.
    pub(super) working: Option<BuildId>,
    /// Whether the newest build failed to start.
    pub(super) is_newest_broken: bool,
}

/// A server process and how far its start has progressed.
#[derive(Debug, Default)]
pub(super) struct ServerState {
    pub(super) build: BuildId,
    /// The proxy's own requests without a response.
    pub(super) own_requests: HashMap<RequestId, OwnRequest>,
    pub(super) is_initialize_sent: bool,
    pub(super) is_initialized: bool,
    /// The server's lists. `None` if it does not answer requests for them.
    pub(super) snapshot: Option<Snapshot>,
    /// The number of pages that were requested and not received.
    pub(super) pending_pages: usize,
}

/// A request of the proxy.
#[derive(Debug)]
pub(super) enum OwnRequest {
    Initialize,
    /// Requests a page of a list.
    List(List, u32),
    /// Replays a request of the client with this method. Only an error response matters.
    SessionState(&'static str),
}

/// A request of the client without a response.
#[derive(Debug)]
pub(super) struct InFlightCall {
    pub(super) id: String,
    pub(super) method: String,
    pub(super) line: String,
    /// The server that processes the request, or `None` while it is queued.
    pub(super) server: Option<Generation>,
    pub(super) is_cancelled: bool,
    /// The number of the batch that contains the request.
    pub(super) batch: Option<u64>,
    /// Set for a `subscriptions/listen` request, which is moved to each new server.
    pub(super) listen: Option<ListenRequest>,
}

impl InFlightCall {
    /// Returns whether a server has to respond to this call.
    pub(super) fn is_pending_on(&self, server: Generation) -> bool {
        self.server == Some(server) && !self.is_cancelled
    }

    /// Returns whether a notification belongs to this `subscriptions/listen` request.
    pub(super) fn owns(&self, message: &Message<'_>) -> bool {
        self.listen.as_ref().is_some_and(|listen| listen.owns(message))
    }

    /// Returns whether this is a `subscriptions/listen` request that was not cancelled.
    pub(super) fn is_listening(&self) -> bool {
        self.listen.is_some() && !self.is_cancelled
    }
}

impl Proxy {
    pub(crate) fn new(config: ProxyConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Returns whether a build may be started again.
    pub(crate) fn may_start(&self, build: BuildId) -> bool {
        self.builds.newest == Some(build) || self.builds.working == Some(build)
    }

    /// Answers all calls and ends this process.
    pub(super) fn exit(&mut self, reason: &str) {
        self.queue.clear();
        self.fail_calls(reason, |_| true);
        let listening: Vec<_> = self.calls.extract_if(|_, call| call.is_listening()).collect();
        for listen in listening.into_iter().filter_map(|(_, call)| call.listen) {
            self.send_to_client(listen.response());
        }
        self.phase = Phase::Done;
        self.effect(Effect::Exit);
    }

    /// Stops replaced servers without calls in flight, and exits if the client is gone and all calls are answered.
    pub(super) fn stop_idle_servers(&mut self) {
        let is_busy = |server: Generation| self.calls.values().any(|call| call.is_pending_on(server));
        let is_idle =
            |server: &Generation| Some(*server) != self.active && Some(*server) != self.candidate && !is_busy(*server);
        let idle: Vec<_> = self.servers.keys().copied().filter(is_idle).collect();
        for server in idle {
            self.stop(server);
        }
        let is_open = |call: &InFlightCall| !call.is_cancelled && call.listen.is_none();
        if self.phase == Phase::Draining && !self.calls.values().any(is_open) {
            self.exit(STDIN_CLOSED);
        }
    }

    /// Stops a server and ignores its further output.
    pub(super) fn stop(&mut self, server: Generation) {
        self.forget(server);
        self.effect(Effect::StopServer(server));
    }

    /// Removes a server and cancels its requests to the client.
    pub(super) fn forget(&mut self, server: Generation) {
        self.servers.remove(&server);
        self.calls.retain(|_, call| !(call.is_cancelled && call.server == Some(server)));
        for id in self.server_requests.abandon(server) {
            let id: Value = serde_json::from_str(&id).unwrap_or_default();
            let params = json!({"requestId": id, "reason": "the server was rebuilt or exited"});
            self.send_to_client(notification("notifications/cancelled", Some(&params)));
        }
    }

    /// Answers the calls of a server with an error. Listening requests stay open for the next server.
    pub(super) fn fail_calls_of(&mut self, server: Generation, reason: &str) {
        self.fail_calls(reason, |call| call.server == Some(server));
    }

    /// Answers queued calls with an error.
    pub(super) fn fail_queue(&mut self, reason: &str) {
        self.queue.clear();
        self.fail_calls(reason, |call| call.server.is_none());
    }

    fn fail_calls(&mut self, reason: &str, matches: impl Fn(&InFlightCall) -> bool) {
        for call in self.calls.values_mut().filter(|call| call.is_listening() && matches(call)) {
            call.server = None;
        }
        let mut failed: Vec<InFlightCall> = self
            .calls
            .extract_if(|_, call| !call.is_listening() && matches(call))
            .map(|(_, call)| call)
            .filter(|call| !call.is_cancelled)
            .collect();
        failed.sort_by(|a, b| (a.batch, &a.id).cmp(&(b.batch, &b.id)));
        for calls in failed.chunk_by(|a, b| a.batch.is_some() && a.batch == b.batch) {
            let errors: Vec<_> = calls.iter().map(|call| error_response(&call.id, INTERNAL_ERROR, reason)).collect();
            self.send_to_client(match calls[0].batch {
                Some(_) => format!("[{}]", errors.join(",")),
                None => errors.concat(),
            });
        }
    }

    /// Sends a line to a server, which has to respond to the requests in it.
    pub(super) fn dispatch(&mut self, server: Generation, line: String, requests: &[RequestId]) {
        for id in requests {
            if let Some(call) = self.calls.get_mut(id) {
                call.server = Some(server);
            }
        }
        self.send_to_server(server, line);
    }

    /// Sends the queued lines to a server, except the lines whose requests were all cancelled.
    pub(super) fn dispatch_queue(&mut self, server: Generation) {
        for (line, requests) in std::mem::take(&mut self.queue) {
            let is_queued = |id: &RequestId| self.calls.get(id).is_some_and(|call| call.server.is_none());
            if requests.iter().any(is_queued) {
                self.dispatch(server, line, &requests);
            }
        }
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(super) fn send_to_client(&mut self, line: String) {
        self.effect(Effect::SendToClient(line));
    }

    pub(super) fn send_to_server(&mut self, server: Generation, line: String) {
        self.effect(Effect::SendToServer(server, line));
    }

    pub(super) fn info(&mut self, text: impl ToString) {
        self.effect(Effect::Info(text.to_string()));
    }

    pub(super) fn warn(&mut self, text: impl ToString) {
        self.effect(Effect::Warn(text.to_string()));
    }

    /// Returns the id for a request of the proxy, as JSON and as a key.
    pub(super) fn next_own_id(&mut self) -> (String, RequestId) {
        self.own_requests += 1;
        let id = format!("{}-{}", self.config.id_prefix, self.own_requests);
        (format!("\"{id}\""), RequestId::String(id))
    }
}

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
    /// A server became active. Its lists differ from the lists of the previous server.
    Activated(Generation, BTreeSet<Capability>),
    /// Writes a status line for the developer.
    Info(String),
    /// Writes a warning for the developer.
    Warn(String),
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

/// The settings of a proxy.
#[derive(Debug, Default)]
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
