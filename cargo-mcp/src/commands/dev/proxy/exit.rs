//! Servers that exit or do not start.

use super::{
    super::message::{BuildId, Generation, RequestId},
    reload::{activate, start, start_for_queue},
    state::{InFlightCall, Phase, Proxy},
};

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
