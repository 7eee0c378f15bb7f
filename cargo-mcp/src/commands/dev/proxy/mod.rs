//! The proxy of one client as a state machine without I/O: it receives events and returns effects.

mod client;
mod reload;
mod server;
mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use self::state::{Effect, Event, Proxy, ProxyConfig};
use self::{
    client::handle_client_line,
    reload::{build_to_start, handle_build, handle_build_failure, handle_exit, handle_start_timeout, start},
    server::handle_server_line,
    state::{Phase, STDIN_CLOSED, Timer},
};

/// Processes an event. Returns the effects in the order in which they must be carried out.
pub(crate) fn handle(proxy: &mut Proxy, event: Event) -> Vec<Effect> {
    if proxy.phase != Phase::Done {
        match event {
            Event::ClientLine(line) => handle_client_line(proxy, &line),
            Event::ServerLine(server, line) => handle_server_line(proxy, server, &line),
            Event::ServerExited(server, how) => handle_exit(proxy, server, &how),
            Event::BuildSucceeded(build) => handle_build(proxy, build),
            Event::BuildFailed(error) => handle_build_failure(proxy, &error),
            Event::TimerExpired(timer) => handle_timer(proxy, timer),
            Event::ClientClosed => handle_client_closed(proxy),
            Event::ShutdownRequested => proxy.exit("`cargo mcp dev` was stopped"),
        }
    }
    std::mem::take(&mut proxy.effects)
}

fn handle_timer(proxy: &mut Proxy, timer: Timer) {
    match timer {
        Timer::StartTimeout(server) if proxy.candidate == Some(server) => handle_start_timeout(proxy, server),
        Timer::GracePeriod(server) if proxy.servers.contains_key(&server) => {
            let reason = "the server was rebuilt and the request did not finish within the grace period; send it again";
            proxy.fail_calls_of(server, reason);
            proxy.stop(server);
            proxy.stop_idle_servers();
        }
        Timer::Restart => {
            proxy.is_restart_scheduled = false;
            if let Some(build) = build_to_start(proxy).filter(|_| !proxy.queue.is_empty()) {
                start(proxy, build);
            }
        }
        Timer::Shutdown => proxy.exit(STDIN_CLOSED),
        Timer::StartTimeout(_) | Timer::GracePeriod(_) => {}
    }
}

/// Lets calls in flight finish.
fn handle_client_closed(proxy: &mut Proxy) {
    proxy.phase = Phase::Draining;
    if let Some(candidate) = proxy.candidate.take() {
        proxy.stop(candidate);
    }
    proxy.fail_queue("stdin of `cargo mcp dev` was closed before the server started");
    if let Some(active) = proxy.active {
        proxy.effect(Effect::CloseInput(active));
        proxy.effect(Effect::StartTimer(proxy.config.grace + Duration::from_secs(1), Timer::Shutdown));
    }
    proxy.stop_idle_servers();
}
