//! Starts the server of a build, brings it to the state of the client's session, makes it the active one, and handles
//! servers that exit or do not start.

use std::{collections::BTreeSet, time::Duration};

use super::{
    super::{
        message::{BuildId, Generation, Message, RequestId, notification, replace_part},
        session::{SessionState, build_failure_notification},
        snapshot::{Capability, List, Snapshot},
    },
    state::{Effect, InFlightCall, OwnRequest, Phase, Proxy, ServerState, Timer},
};

/// The maximum delay before a restart.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Starts the server of a new build, in place of a candidate of an older build.
pub(super) fn handle_build(proxy: &mut Proxy, build: BuildId) {
    proxy.builds.newest = Some(build);
    proxy.builds.is_newest_broken = false;
    proxy.crashes = 0;
    if proxy.phase != Phase::Running {
        return;
    }
    if let Some(candidate) = proxy.candidate.take() {
        proxy.stop(candidate);
    }
    start(proxy, build);
}

/// Reports a failed build to the developer and to a client that receives log messages.
pub(super) fn handle_build_failure(proxy: &mut Proxy, error: &str) {
    if proxy.active.or(proxy.candidate).is_some() {
        proxy.warn("build failed; still serving the last successful build");
    } else if proxy.builds.working.is_some() {
        proxy.warn("build failed; the next request starts the last successful build");
    } else {
        proxy.warn("build failed; clients wait until a build succeeds");
    }
    if proxy.session.as_ref().is_some_and(SessionState::receives_errors) {
        proxy.send_to_client(build_failure_notification(error));
    }
}

/// Returns the build to start when a server is needed, or `None` if one is running or starting.
pub(super) fn build_to_start(proxy: &Proxy) -> Option<BuildId> {
    let is_idle = proxy.active.is_none() && proxy.candidate.is_none() && proxy.phase == Phase::Running;
    let newest = proxy.builds.newest.filter(|_| !proxy.builds.is_newest_broken);
    proxy.builds.working.or(newest).filter(|_| is_idle)
}

/// Starts a server for the queue. Waits first if the last servers crashed.
pub(super) fn start_for_queue(proxy: &mut Proxy) {
    let Some(build) = build_to_start(proxy).filter(|_| !proxy.is_restart_scheduled) else { return };
    let delay = backoff(proxy.crashes);
    if delay.is_zero() {
        start(proxy, build);
    } else {
        proxy.is_restart_scheduled = true;
        proxy.effect(Effect::StartTimer(delay, Timer::Restart));
    }
}

/// Starts the server of a build as the candidate.
pub(super) fn start(proxy: &mut Proxy, build: BuildId) {
    proxy.last_generation += 1;
    let server = proxy.last_generation;
    let snapshot = proxy.config.can_list.then(Snapshot::default);
    let state = ServerState { build, snapshot, ..ServerState::default() };
    proxy.servers.insert(server, state);
    proxy.candidate = Some(server);
    proxy.effect(Effect::StartServer(server, build));
    proxy.effect(Effect::StartTimer(proxy.config.start_timeout, Timer::StartTimeout(server)));
    if proxy.config.can_list {
        for list in List::ALL {
            request_page(proxy, server, list, 1, None);
        }
    }
    advance_start(proxy, server);
}

/// Requests a page of a list without a session.
pub(super) fn request_page(proxy: &mut Proxy, server: Generation, list: List, page: u32, cursor: Option<&str>) {
    let (id, key) = proxy.next_own_id();
    let request = list.request(&id, cursor);
    if let Some(state) = proxy.servers.get_mut(&server) {
        state.own_requests.insert(key, OwnRequest::List(list, page));
        state.pending_pages += 1;
    }
    proxy.send_to_server(server, request);
}

/// Takes the next step of a candidate's start. Activates it after the last one.
pub(super) fn advance_start(proxy: &mut Proxy, server: Generation) {
    if proxy.candidate != Some(server) {
        return;
    }
    let initialize = proxy.session.as_ref().map(|session| session.initialize.clone());
    let Some(state) = proxy.servers.get_mut(&server) else { return };
    if let Some(initialize) = initialize.filter(|_| !state.is_initialize_sent) {
        state.is_initialize_sent = true;
        replay(proxy, server, &initialize, OwnRequest::Initialize);
    }
    let Some(state) = proxy.servers.get(&server) else { return };
    if state.is_initialize_sent == state.is_initialized && state.pending_pages == 0 {
        activate(proxy, server);
    }
}

/// Sends a request of the client again, as a request of the proxy.
fn replay(proxy: &mut Proxy, server: Generation, line: &str, request: OwnRequest) {
    let (id, key) = proxy.next_own_id();
    let Some(client_id) = Message::parse(line).and_then(|message| message.id) else { return };
    let line = replace_part(line, client_id.get(), &id);
    if let Some(state) = proxy.servers.get_mut(&server) {
        state.own_requests.insert(key, request);
    }
    proxy.send_to_server(server, line);
}

/// Makes the candidate the active server. The previous one has a grace period to finish its calls.
pub(super) fn activate(proxy: &mut Proxy, server: Generation) {
    proxy.candidate = None;
    let previous = proxy.active.replace(server);
    let Some(state) = proxy.servers.get_mut(&server) else { return };
    let (build, snapshot) = (state.build, state.snapshot.take());
    let previous_build = proxy.builds.working.replace(build);
    replay_session_state(proxy, server);
    move_initialize(proxy, server, previous);
    proxy.dispatch_queue(server);
    move_listening(proxy, server);
    report_changes(proxy, server, snapshot, previous_build, build);
    if let Some(previous) = previous {
        proxy.effect(Effect::StartTimer(proxy.config.grace, Timer::GracePeriod(previous)));
    }
    proxy.stop_idle_servers();
}

fn replay_session_state(proxy: &mut Proxy, server: Generation) {
    let Some(session) = &proxy.session else { return };
    if session.is_initialized {
        proxy.effects.push(Effect::SendToServer(server, notification("notifications/initialized", None)));
    }
    for (method, line) in session.requests() {
        replay(proxy, server, &line, OwnRequest::SessionState(method));
    }
}

/// Moves an unanswered `initialize` request from the previous server.
fn move_initialize(proxy: &mut Proxy, server: Generation, previous: Option<Generation>) {
    let is_initialize =
        |call: &&mut InFlightCall| call.method == "initialize" && call.server.is_some() && call.server == previous;
    for call in proxy.calls.values_mut().filter(is_initialize) {
        call.server = Some(server);
        proxy.effects.push(Effect::SendToServer(server, call.line.clone()));
    }
}

/// Moves `subscriptions/listen` requests from previous servers.
fn move_listening(proxy: &mut Proxy, server: Generation) {
    let is_elsewhere = |call: &&mut InFlightCall| call.is_listening() && call.server != Some(server);
    let mut calls: Vec<_> = proxy.calls.values_mut().filter(is_elsewhere).collect();
    calls.sort_by(|a, b| a.id.cmp(&b.id));
    for call in calls {
        call.server = Some(server);
        proxy.effects.push(Effect::SendToServer(server, call.line.clone()));
    }
}

/// Reports the changes since the previous server to the developer and the client.
fn report_changes(
    proxy: &mut Proxy,
    server: Generation,
    snapshot: Option<Snapshot>,
    previous_build: Option<BuildId>,
    build: BuildId,
) {
    let mut changed = std::mem::take(&mut proxy.changed_since);
    let verb = if previous_build == Some(build) { "restarted" } else { "reloaded" };
    match (previous_build, &proxy.snapshot, &snapshot) {
        (None, _, Some(new)) => proxy.info(format_args!("serving: {new}")),
        (None, _, None) => proxy.info("serving"),
        (Some(_), Some(old), Some(new)) => {
            let diff = new.diff(old);
            proxy.info(format_args!("{verb}: {diff}"));
            changed.extend(diff.capabilities);
        }
        (Some(_), ..) => {
            proxy.info(verb);
            changed.extend(Capability::ALL);
        }
    }
    if previous_build.is_some() {
        notify_client(proxy, &changed);
    }
    proxy.effect(Effect::Activated(server, changed));
    proxy.snapshot = snapshot;
}

/// Notifies the client of changed lists, and of its resources, whose content may have changed.
fn notify_client(proxy: &mut Proxy, changed: &BTreeSet<Capability>) {
    let mut lines = Vec::new();
    if let Some(session) = proxy.session.as_ref().filter(|session| session.is_initialized) {
        lines.extend(session.change_notifications(changed));
    }
    let mut calls: Vec<_> = proxy.calls.values().filter(|call| call.is_listening()).collect();
    calls.sort_by(|a, b| a.id.cmp(&b.id));
    let listening = calls.into_iter().filter_map(|call| call.listen.as_ref());
    lines.extend(listening.flat_map(|listen| listen.change_notifications(changed)));
    lines.into_iter().for_each(|line| proxy.send_to_client(line));
}

/// Returns the delay before the next start. The first crash is followed by an immediate restart.
fn backoff(crashes: u32) -> Duration {
    match crashes {
        0 | 1 => Duration::ZERO,
        more => MAX_BACKOFF.min(Duration::from_millis(500) * 2_u32.saturating_pow(more - 2)),
    }
}

/// The number of consecutive crashes after which an `initialize` request is answered with an error.
const MAX_INITIALIZE_ATTEMPTS: u32 = 3;

/// Handles a server that exited without being stopped.
pub(super) fn handle_exit(proxy: &mut Proxy, server: Generation, how: &str) {
    let Some(build) = proxy.servers.get(&server).map(|state| state.build) else { return };
    proxy.forget(server);
    if proxy.candidate == Some(server) {
        proxy.candidate = None;
        handle_failed_start(proxy, build, how);
    } else if proxy.active == Some(server) {
        proxy.active = None;
        handle_crash(proxy, server, how);
    } else {
        let reason = format!("the previous server exited while processing this request ({how})");
        proxy.fail_calls_of(server, &reason);
    }
    proxy.stop_idle_servers();
}

/// Handles a candidate that did not start in time.
pub(super) fn handle_start_timeout(proxy: &mut Proxy, server: Generation) {
    if let Some(state) = proxy.servers.get_mut(&server).filter(|state| state.is_initialized) {
        // It accepted the session, so it serves clients even if it does not answer the requests for its lists.
        state.snapshot = None;
        return activate(proxy, server);
    }
    let why = format!("no response within {} s", proxy.config.start_timeout.as_secs());
    reject_candidate(proxy, server, &why);
}

/// Stops a candidate that runs but cannot become active.
pub(super) fn reject_candidate(proxy: &mut Proxy, server: Generation, why: &str) {
    let Some(build) = proxy.servers.get(&server).map(|state| state.build) else { return };
    proxy.stop(server);
    proxy.candidate = None;
    handle_failed_start(proxy, build, why);
}

fn handle_crash(proxy: &mut Proxy, server: Generation, how: &str) {
    proxy.crashes += 1;
    if proxy.phase == Phase::Running {
        proxy.warn(format_args!("the server exited ({how}); the next request or change restarts it"));
    }
    requeue_initialize(proxy, server);
    proxy.fail_calls_of(server, &format!("the server exited while processing this request ({how})"));
    if !proxy.queue.is_empty() {
        start_for_queue(proxy);
    }
}

/// Puts an unanswered `initialize` request back into the queue.
fn requeue_initialize(proxy: &mut Proxy, server: Generation) {
    if proxy.crashes > MAX_INITIALIZE_ATTEMPTS || proxy.phase != Phase::Running {
        return;
    }
    let is_initialize = |call: &InFlightCall| call.method == "initialize" && call.is_pending_on(server);
    for call in proxy.calls.values_mut().filter(|call| is_initialize(call)) {
        call.server = None;
        proxy.queue.extend(RequestId::parse(&call.id).map(|id| (call.line.clone(), vec![id])));
    }
}

/// Continues without a server that failed to start.
fn handle_failed_start(proxy: &mut Proxy, build: BuildId, why: &str) {
    if proxy.builds.newest == Some(build) {
        proxy.builds.is_newest_broken = true;
    }
    if proxy.active.is_some() {
        return proxy.warn(format_args!("the new server failed to start ({why}); still serving the previous one"));
    }
    match proxy.builds.working {
        None => proxy.warn(format_args!("the server failed to start ({why}); clients wait for the next build")),
        Some(working) if working != build => {
            proxy.warn(format_args!("the new server failed to start ({why}); restarting the last successful build"));
            if proxy.phase == Phase::Running {
                start(proxy, working);
            }
        }
        Some(_) => {
            proxy.crashes += 1;
            proxy.warn(format_args!("the server failed to start ({why}); the next request starts it again"));
            proxy.fail_queue(&format!("the server failed to start ({why})"));
        }
    }
    proxy.stop_idle_servers();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_before_a_restart_is_bounded() {
        for (crashes, milliseconds) in
            [(0, 0), (1, 0), (2, 500), (3, 1000), (7, 16_000), (8, 30_000), (100, 30_000), (u32::MAX, 30_000)]
        {
            assert_eq!(backoff(crashes), Duration::from_millis(milliseconds), "{crashes}");
        }
    }
}
