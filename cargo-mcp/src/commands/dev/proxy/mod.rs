//! The proxy of one client as a state machine without I/O: it receives events and returns effects.

mod client;
mod event;
mod exit;
mod reload;
mod server;
mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::{
    event::Timer,
    state::{Phase, STDIN_CLOSED},
};
pub(crate) use self::{
    event::{Effect, Event, ProxyConfig, Severity},
    reload::{LEVELS_WITH_ERRORS, build_failure_notification},
    server::capabilities_changed,
    state::Proxy,
};

impl Proxy {
    /// Processes an event. Returns the effects in the order in which they must be carried out.
    pub(crate) fn handle(&mut self, event: Event) -> Vec<Effect> {
        if self.phase != Phase::Done {
            match event {
                Event::ClientLine(line) => self.handle_client_line(&line),
                Event::ServerLine(server, line) => self.handle_server_line(server, &line),
                Event::ServerExited(server, how) => self.handle_exit(server, &how),
                Event::BuildSucceeded(build) => self.handle_build(build),
                Event::BuildFailed(error) => self.handle_build_failure(&error),
                Event::TimerExpired(timer) => self.handle_timer(timer),
                Event::ClientClosed => self.handle_client_closed(),
                Event::ShutdownRequested => self.exit("`cargo mcp dev` was stopped"),
            }
        }
        std::mem::take(&mut self.effects)
    }

    fn handle_timer(&mut self, timer: Timer) {
        match timer {
            Timer::StartTimeout(server) if self.candidate == Some(server) => self.handle_start_timeout(server),
            Timer::GracePeriod(server) if self.servers.contains_key(&server) => {
                let reason =
                    "the server was rebuilt and the request did not finish within the grace period; send it again";
                self.fail_calls_of(server, reason);
                self.stop(server);
                self.stop_idle_servers();
            }
            Timer::Restart => {
                self.is_restart_scheduled = false;
                if let Some(build) = self.build_to_start().filter(|_| !self.queue.is_empty()) {
                    self.start(build);
                }
            }
            Timer::Shutdown => self.exit(STDIN_CLOSED),
            Timer::StartTimeout(_) | Timer::GracePeriod(_) => {}
        }
    }

    /// Lets calls in flight finish.
    fn handle_client_closed(&mut self) {
        self.phase = Phase::Draining;
        if let Some(candidate) = self.candidate.take() {
            self.stop(candidate);
        }
        self.fail_queue("stdin of `cargo mcp dev` was closed before the server started");
        if let Some(active) = self.active {
            self.effect(Effect::CloseInput(active));
            self.effect(Effect::StartTimer(self.config.grace + Duration::from_secs(1), Timer::Shutdown));
        }
        self.stop_idle_servers();
    }
}
