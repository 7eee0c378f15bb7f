//! Starts the server of a build, brings it to the state of the client's session, and makes it the active one.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use serde_json::json;

use super::{
    super::{
        ids::{BuildId, Generation},
        message::{Message, notification, replace_part},
        snapshot::{Capability, List, Snapshot},
    },
    event::{Effect, Timer},
    state::{InFlightCall, OwnRequest, Phase, Proxy, ServerState},
};

/// The log levels at which a client receives errors.
pub(crate) const LEVELS_WITH_ERRORS: [&str; 5] = ["debug", "info", "notice", "warning", "error"];

/// The maximum delay before a restart.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

impl Proxy {
    /// Starts the server of a new build, in place of a candidate of an older one.
    pub(super) fn handle_build(&mut self, build: BuildId) {
        self.builds.newest = Some(build);
        self.builds.is_newest_broken = false;
        self.crashes = 0;
        if self.phase != Phase::Running {
            return;
        }
        if let Some(candidate) = self.candidate.take() {
            self.stop(candidate);
        }
        self.start(build);
    }

    /// Reports a failed build to the developer and to a client that receives log messages.
    pub(super) fn handle_build_failure(&mut self, error: &str) {
        if self.active.or(self.candidate).is_some() {
            self.warn("build failed; still serving the last successful build");
        } else if self.builds.working.is_some() {
            self.warn("build failed; the next request starts the last successful build");
        } else {
            self.warn("build failed; clients wait until a build succeeds");
        }
        let Some(session) = self.session.as_ref().filter(|session| session.is_initialized) else { return };
        let level = session.log_level.as_ref().map(|level| &*level.level);
        let receives_errors = level.is_none_or(|level| LEVELS_WITH_ERRORS.contains(&level));
        if session.capabilities.get("logging").is_some() && receives_errors {
            self.send_to_client(build_failure_notification(error));
        }
    }

    /// Returns the build to start when a server is needed, or `None` if one is running or starting.
    pub(super) fn build_to_start(&self) -> Option<BuildId> {
        let is_idle = self.active.is_none() && self.candidate.is_none() && self.phase == Phase::Running;
        let newest = self.builds.newest.filter(|_| !self.builds.is_newest_broken);
        self.builds.working.or(newest).filter(|_| is_idle)
    }

    /// Starts a server for the queue. Waits first if the last ones crashed.
    pub(super) fn start_for_queue(&mut self) {
        let Some(build) = self.build_to_start().filter(|_| !self.is_restart_scheduled) else { return };
        let delay = backoff(self.crashes);
        if delay.is_zero() {
            self.start(build);
        } else {
            self.is_restart_scheduled = true;
            self.effect(Effect::StartTimer(delay, Timer::Restart));
        }
    }

    /// Starts the server of a build as the candidate.
    pub(super) fn start(&mut self, build: BuildId) {
        self.last_generation += 1;
        let server = self.last_generation;
        let state = ServerState {
            build,
            own_requests: HashMap::new(),
            is_initialize_sent: false,
            is_initialized: false,
            snapshot: self.config.can_list.then(Snapshot::default),
            pending_pages: 0,
        };
        self.servers.insert(server, state);
        self.candidate = Some(server);
        self.effect(Effect::StartServer(server, build));
        self.effect(Effect::StartTimer(self.config.start_timeout, Timer::StartTimeout(server)));
        if self.config.can_list {
            for list in List::ALL {
                self.request_page(server, list, 1, None);
            }
        }
        self.advance_start(server);
    }

    /// Requests a page of a list without a session.
    pub(super) fn request_page(&mut self, server: Generation, list: List, page: u32, cursor: Option<&str>) {
        let (id, key) = self.next_own_id();
        let request = list.request(&id, cursor);
        if let Some(state) = self.servers.get_mut(&server) {
            state.own_requests.insert(key, OwnRequest::List { list, page });
            state.pending_pages += 1;
        }
        self.send_to_server(server, request);
    }

    /// Takes the next step of a candidate's start. Activates it after the last one.
    pub(super) fn advance_start(&mut self, server: Generation) {
        if self.candidate != Some(server) {
            return;
        }
        let initialize = self.session.as_ref().map(|session| session.initialize.clone());
        let Some(state) = self.servers.get_mut(&server) else { return };
        if let Some(initialize) = initialize.filter(|_| !state.is_initialize_sent) {
            state.is_initialize_sent = true;
            self.replay(server, &initialize, OwnRequest::Initialize);
        }
        let Some(state) = self.servers.get(&server) else { return };
        if state.is_initialize_sent == state.is_initialized && state.pending_pages == 0 {
            self.activate(server);
        }
    }

    /// Sends a request of the client again, as a request of the proxy.
    fn replay(&mut self, server: Generation, line: &str, request: OwnRequest) {
        let (id, key) = self.next_own_id();
        let Some(client_id) = Message::parse(line).and_then(|message| message.id) else { return };
        let line = replace_part(line, client_id.get(), &id);
        if let Some(state) = self.servers.get_mut(&server) {
            state.own_requests.insert(key, request);
        }
        self.send_to_server(server, line);
    }

    /// Makes the candidate the active server. The previous one has a grace period to finish its calls.
    pub(super) fn activate(&mut self, server: Generation) {
        self.candidate = None;
        let previous = self.active.replace(server);
        let Some(state) = self.servers.get_mut(&server) else { return };
        let (build, snapshot) = (state.build, state.snapshot.take());
        let previous_build = self.builds.working.replace(build);
        self.replay_session_state(server);
        self.move_initialize(server, previous);
        self.dispatch_queue(server);
        self.move_listening(server);
        self.report_changes(server, snapshot, previous_build, build);
        if let Some(previous) = previous {
            self.effect(Effect::StartTimer(self.config.grace, Timer::GracePeriod(previous)));
        }
        self.stop_idle_servers();
    }

    fn replay_session_state(&mut self, server: Generation) {
        let Some(session) = &self.session else { return };
        if session.is_initialized {
            self.effects.push(Effect::SendToServer(server, notification("notifications/initialized", None)));
        }
        let level = session.log_level.iter().map(|level| ("logging/setLevel", level.request.clone()));
        let subscriptions = session.subscriptions.values().map(|line| ("resources/subscribe", line.clone()));
        let requests: Vec<_> = level.chain(subscriptions).collect();
        for (method, line) in requests {
            self.replay(server, &line, OwnRequest::SessionState(method));
        }
    }

    /// Moves an unanswered `initialize` request from the previous server.
    fn move_initialize(&mut self, server: Generation, previous: Option<Generation>) {
        let is_initialize =
            |call: &&mut InFlightCall| call.method == "initialize" && call.server.is_some() && call.server == previous;
        for call in self.calls.values_mut().filter(is_initialize) {
            call.server = Some(server);
            self.effects.push(Effect::SendToServer(server, call.line.clone()));
        }
    }

    /// Moves `subscriptions/listen` requests from previous servers.
    fn move_listening(&mut self, server: Generation) {
        let is_elsewhere = |call: &&mut InFlightCall| call.is_listening() && call.server != Some(server);
        let mut calls: Vec<_> = self.calls.values_mut().filter(is_elsewhere).collect();
        calls.sort_by(|a, b| a.id.cmp(&b.id));
        for call in calls {
            call.server = Some(server);
            self.effects.push(Effect::SendToServer(server, call.line.clone()));
        }
    }

    /// Tells the developer and the client what changed since the previous server.
    fn report_changes(
        &mut self,
        server: Generation,
        snapshot: Option<Snapshot>,
        previous_build: Option<BuildId>,
        build: BuildId,
    ) {
        let mut changed = std::mem::take(&mut self.changed_since);
        let verb = if previous_build == Some(build) { "restarted" } else { "reloaded" };
        match (previous_build, &self.snapshot, &snapshot) {
            (None, _, Some(new)) => self.info(format_args!("serving: {new}")),
            (None, _, None) => self.info("serving"),
            (Some(_), Some(old), Some(new)) => {
                let diff = new.diff(old);
                self.info(format_args!("{verb}: {diff}"));
                changed.extend(diff.capabilities);
            }
            (Some(_), ..) => {
                self.info(verb);
                changed.extend(Capability::ALL);
            }
        }
        if previous_build.is_some() {
            self.notify_client(&changed);
        }
        self.effect(Effect::Activated(server, changed));
        self.snapshot = snapshot;
    }

    /// Notifies the client of changed lists, and of its resources, whose content may have changed.
    fn notify_client(&mut self, changed: &BTreeSet<Capability>) {
        let mut lines = Vec::new();
        if let Some(session) = self.session.as_ref().filter(|session| session.is_initialized) {
            let declared = changed.iter().filter(|list| session.capabilities.get(list.name()).is_some());
            lines.extend(declared.map(|list| notification(list.changed_method(), None)));
            for uri in session.subscriptions.keys() {
                lines.push(notification("notifications/resources/updated", Some(&json!({"uri": uri}))));
            }
        }
        let mut calls: Vec<_> = self.calls.values().filter(|call| call.is_listening()).collect();
        calls.sort_by(|a, b| a.id.cmp(&b.id));
        let listening = calls.into_iter().filter_map(|call| call.listen.as_ref());
        lines.extend(listening.flat_map(|listen| listen.change_notifications(changed)));
        lines.into_iter().for_each(|line| self.send_to_client(line));
    }
}

/// Returns the delay before the next start. The first crash is followed by an immediate restart.
fn backoff(crashes: u32) -> Duration {
    match crashes {
        0 | 1 => Duration::ZERO,
        more => MAX_BACKOFF.min(Duration::from_millis(500) * 2_u32.saturating_pow(more - 2)),
    }
}

/// Formats a log message about a failed build for clients.
pub(crate) fn build_failure_notification(error: &str) -> String {
    let params = json!({"level": "error", "logger": "cargo mcp dev", "data": format!("build failed: {error}")});
    notification("notifications/message", Some(&params))
}
