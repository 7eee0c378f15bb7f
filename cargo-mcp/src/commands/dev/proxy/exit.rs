//! Servers that exit or do not start.

use super::{
    super::{
        ids::{BuildId, Generation},
        message::RequestId,
    },
    state::{InFlightCall, Phase, Proxy},
};

/// The number of consecutive crashes after which an `initialize` request is answered with an error.
const MAX_INITIALIZE_ATTEMPTS: u32 = 3;

impl Proxy {
    /// Handles a server that exited without being stopped.
    pub(super) fn handle_exit(&mut self, server: Generation, how: &str) {
        let Some(build) = self.servers.get(&server).map(|state| state.build) else { return };
        self.forget(server);
        if self.candidate == Some(server) {
            self.candidate = None;
            self.handle_failed_start(build, how);
        } else if self.active == Some(server) {
            self.active = None;
            self.handle_crash(server, how);
        } else {
            let reason = format!("the previous server exited while processing this request ({how})");
            self.fail_calls_of(server, &reason);
        }
        self.stop_idle_servers();
    }

    /// Handles a candidate that did not start in time.
    pub(super) fn handle_start_timeout(&mut self, server: Generation) {
        if let Some(state) = self.servers.get_mut(&server).filter(|state| state.is_initialized) {
            // It accepted the session, so it serves clients even if it does not answer the requests for its lists.
            state.snapshot = None;
            return self.activate(server);
        }
        let why = format!("no response within {} s", self.config.start_timeout.as_secs());
        self.reject_candidate(server, &why);
    }

    /// Stops a candidate that runs but cannot become active.
    pub(super) fn reject_candidate(&mut self, server: Generation, why: &str) {
        let Some(build) = self.servers.get(&server).map(|state| state.build) else { return };
        self.stop(server);
        self.candidate = None;
        self.handle_failed_start(build, why);
    }

    fn handle_crash(&mut self, server: Generation, how: &str) {
        self.crashes += 1;
        if self.phase == Phase::Running {
            self.warn(format_args!("the server exited ({how}); the next request or change restarts it"));
        }
        self.requeue_initialize(server);
        self.fail_calls_of(server, &format!("the server exited while processing this request ({how})"));
        if !self.queue.is_empty() {
            self.start_for_queue();
        }
    }

    /// Puts an unanswered `initialize` request back into the queue.
    fn requeue_initialize(&mut self, server: Generation) {
        if self.crashes > MAX_INITIALIZE_ATTEMPTS || self.phase != Phase::Running {
            return;
        }
        let is_initialize = |call: &InFlightCall| call.method == "initialize" && call.is_pending_on(server);
        for call in self.calls.values_mut().filter(|call| is_initialize(call)) {
            call.server = None;
            self.queue.extend(RequestId::parse(&call.id).map(|id| (call.line.clone(), vec![id])));
        }
    }

    /// Continues without a server that failed to start.
    fn handle_failed_start(&mut self, build: BuildId, why: &str) {
        if self.builds.newest == Some(build) {
            self.builds.is_newest_broken = true;
        }
        if self.active.is_some() {
            return self.warn(format_args!("the new server failed to start ({why}); still serving the previous one"));
        }
        match self.builds.working {
            None => self.warn(format_args!("the server failed to start ({why}); clients wait for the next build")),
            Some(working) if working != build => {
                self.warn(format_args!("the new server failed to start ({why}); restarting the last successful build"));
                if self.phase == Phase::Running {
                    self.start(working);
                }
            }
            Some(_) => {
                self.crashes += 1;
                self.warn(format_args!("the server failed to start ({why}); the next request starts it again"));
                self.fail_queue(&format!("the server failed to start ({why})"));
            }
        }
        self.stop_idle_servers();
    }
}
