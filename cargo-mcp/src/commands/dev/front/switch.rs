//! Starting servers, and letting a new one take over.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use serde_json::json;

use super::{
    super::{
        Generation,
        message::{Key, Message, notification, replace},
        offers::{Kind, List, Offers},
    },
    Build, Effect, Front, Replay, Server, Timer,
};

/// How often in a row a server may end before `initialize` is answered with that.
const TRIES: u32 = 3;
/// The longest time between two starts.
const LONGEST: Duration = Duration::from_secs(30);

impl Front {
    /// Starts the program that was built.
    pub(super) fn built(&mut self, build: Build) {
        self.builds.newest = Some(build);
        self.builds.is_broken = false;
        self.crashes = 0;
        if self.phase != super::Phase::Open {
            return;
        }
        if let Some(next) = self.next.take() {
            self.stop(next);
        }
        self.start(build);
    }

    /// Goes on with what there is.
    pub(super) fn build_failed(&mut self, why: &str) {
        match self.current.or(self.next) {
            Some(_) => self.warn("the build failed; the last good one goes on serving"),
            None if self.builds.good.is_some() => {
                self.warn("the build failed; the last good one is started when it is needed")
            }
            None => self.warn("the build failed; clients wait until it is mended"),
        }
        let Some(session) = self.session.as_ref().filter(|session| session.is_initialized) else { return };
        let is_loud = session.level.as_ref().is_none_or(|(_, level)| super::BELOW_ERROR.contains(&&**level));
        if session.capabilities.get("logging").is_some() && is_loud {
            let params =
                json!({"level": "error", "logger": "cargo mcp dev", "data": format!("the build failed: {why}")});
            self.send_client(notification("notifications/message", Some(&params)));
        }
    }

    /// The program to start when a server is needed.
    pub(super) fn startable(&self) -> Option<Build> {
        let is_idle = self.current.is_none() && self.next.is_none() && self.phase == super::Phase::Open;
        let newest = self.builds.newest.filter(|_| !self.builds.is_broken);
        self.builds.good.or(newest).filter(|_| is_idle)
    }

    /// Starts a server for what waits, later if it ended several times.
    pub(super) fn wake(&mut self) {
        let Some(build) = self.startable().filter(|_| !self.is_retry_due) else { return };
        match back_off(self.crashes) {
            Duration::ZERO => self.start(build),
            delay => {
                self.is_retry_due = true;
                self.effect(Effect::Timer(delay, Timer::Retry));
            }
        }
    }

    pub(super) fn start(&mut self, build: Build) {
        self.generations += 1;
        let server = self.generations;
        let offers = self.settings.probes.then(Offers::default);
        let state = Server { build, replays: HashMap::new(), is_asked: false, is_shaken: false, offers, pages: 0 };
        self.servers.insert(server, state);
        self.next = Some(server);
        self.effect(Effect::Start(server, build));
        self.effect(Effect::Timer(self.settings.start, Timer::Ready(server)));
        if self.settings.probes {
            for list in List::ALL {
                self.ask_for(server, list, 1, None);
            }
        }
        self.advance(server);
    }

    /// Asks a server for a page of a list, in words that need no session.
    pub(super) fn ask_for(&mut self, server: Generation, list: List, page: u32, cursor: Option<&str>) {
        let (id, key) = self.own_id();
        let request = list_request(&id, list, cursor);
        if let Some(state) = self.servers.get_mut(&server) {
            state.replays.insert(key, Replay::List(list, page));
            state.pages += 1;
        }
        self.send_server(server, request);
    }

    /// Brings the next server to where the client's session is; if it is there, it takes over.
    pub(super) fn advance(&mut self, server: Generation) {
        if self.next != Some(server) {
            return;
        }
        let initialize = self.session.as_ref().map(|session| session.initialize.clone());
        let Some(state) = self.servers.get_mut(&server) else { return };
        if let Some(initialize) = initialize.filter(|_| !state.is_asked) {
            state.is_asked = true;
            self.replay(server, &initialize, Replay::Initialize);
        }
        let Some(state) = self.servers.get(&server) else { return };
        if state.is_asked == state.is_shaken && state.pages == 0 {
            self.take_over(server);
        }
    }

    /// Sends a request of the client's once more, in the front's own name.
    fn replay(&mut self, server: Generation, line: &str, replay: Replay) {
        let (id, key) = self.own_id();
        let Some(spelled) = Message::read(line).and_then(|message| message.id) else { return };
        let line = replace(line, spelled.get(), &id);
        if let Some(state) = self.servers.get_mut(&server) {
            state.replays.insert(key, replay);
        }
        self.send_server(server, line);
    }

    fn take_over(&mut self, server: Generation) {
        self.next = None;
        let old = self.current.replace(server);
        let Some(state) = self.servers.get_mut(&server) else { return };
        let (build, offers) = (state.build, state.offers.take());
        let before = self.builds.good.replace(build);
        self.replay_state(server);
        self.move_calls(server, old);
        self.flush();
        self.reopen(server);
        self.tell(server, offers, before, build);
        if let Some(old) = old {
            self.effect(Effect::Timer(self.settings.grace, Timer::Grace(old)));
        }
        self.settle();
    }

    fn replay_state(&mut self, server: Generation) {
        let Some(session) = &self.session else { return };
        if session.is_initialized {
            self.effects.push(Effect::ToServer(server, notification("notifications/initialized", None)));
        }
        let level = session.level.iter().map(|(line, _)| ("logging/setLevel", line.clone()));
        let subscriptions = session.subscriptions.values().map(|line| ("resources/subscribe", line.clone()));
        let lines: Vec<_> = level.chain(subscriptions).collect();
        for (method, line) in lines {
            self.replay(server, &line, Replay::State(method));
        }
    }

    /// A handshake that the old server has not answered is the new one's.
    fn move_calls(&mut self, server: Generation, old: Option<Generation>) {
        let is_shaking =
            |call: &&mut super::Call| call.method == "initialize" && call.server.is_some() && call.server == old;
        for call in self.calls.values_mut().filter(is_shaking) {
            call.server = Some(server);
            self.effects.push(Effect::ToServer(server, call.line.clone()));
        }
    }

    /// Listens go on with the new server.
    fn reopen(&mut self, server: Generation) {
        let is_elsewhere = |call: &&mut super::Call| call.is_listening() && call.server != Some(server);
        let mut listens: Vec<_> = self.calls.values_mut().filter(is_elsewhere).collect();
        listens.sort_by(|a, b| a.id.cmp(&b.id));
        for call in listens {
            call.server = Some(server);
            self.effects.push(Effect::ToServer(server, call.line.clone()));
        }
    }

    /// Tells the author and the client what is different from what served before.
    fn tell(&mut self, server: Generation, offers: Option<Offers>, before: Option<Build>, build: Build) {
        let mut kinds = std::mem::take(&mut self.stale);
        let verb = if before == Some(build) { "started again" } else { "restarted" };
        match (before, &self.offers, &offers) {
            (None, _, Some(new)) => self.info(format_args!("serving: {new}")),
            (None, _, None) => self.info("serving"),
            (Some(_), Some(old), Some(new)) => {
                let changes = new.since(old);
                self.info(format_args!("{verb}: {changes}"));
                kinds.extend(changes.kinds);
            }
            (Some(_), ..) => {
                self.info(verb);
                kinds.extend(Kind::ALL);
            }
        }
        if before.is_some() {
            self.tell_client(&kinds);
        }
        self.effect(Effect::TookOver(server, kinds));
        self.offers = offers;
    }

    fn tell_client(&mut self, kinds: &BTreeSet<Kind>) {
        let mut lines = Vec::new();
        if let Some(session) = self.session.as_ref().filter(|session| session.is_initialized) {
            let known = kinds.iter().filter(|kind| session.capabilities.get(kind.capability()).is_some());
            lines.extend(known.map(|kind| notification(kind.changed(), None)));
            for uri in session.subscriptions.keys() {
                lines.push(notification("notifications/resources/updated", Some(&json!({"uri": uri}))));
            }
        }
        let mut listens: Vec<_> = self.calls.values().filter(|call| call.is_listening()).collect();
        listens.sort_by(|a, b| a.id.cmp(&b.id));
        lines.extend(listens.into_iter().filter_map(|call| call.listen.as_ref()).flat_map(|listen| listen.news(kinds)));
        lines.into_iter().for_each(|line| self.send_client(line));
    }

    /// A new server did not begin in time.
    pub(super) fn too_slow(&mut self, server: Generation) {
        if let Some(state) = self.servers.get_mut(&server).filter(|state| state.is_shaken) {
            // It is there for the client, whatever keeps its lists.
            state.offers = None;
            return self.take_over(server);
        }
        let why = format!("it does not answer within {} s", self.settings.start.as_secs());
        self.unfit(server, &why);
    }

    /// Gives up a new server that runs, but cannot take over.
    pub(super) fn unfit(&mut self, server: Generation, why: &str) {
        let Some(build) = self.servers.get(&server).map(|state| state.build) else { return };
        self.stop(server);
        self.next = None;
        self.rejected(build, why);
    }

    /// A server ended that was not told to.
    pub(super) fn gone(&mut self, server: Generation, how: &str) {
        let Some(build) = self.servers.get(&server).map(|state| state.build) else { return };
        self.forget(server);
        match () {
            () if self.next == Some(server) => {
                self.next = None;
                self.rejected(build, how);
            }
            () if self.current == Some(server) => {
                self.current = None;
                self.crashes += 1;
                if self.phase == super::Phase::Open {
                    self.warn(format_args!(
                        "the server ended: {how}; it is started again with the next request or change"
                    ));
                }
                self.requeue(server);
                self.fail(server, &format!("the server ended while it worked on this request: {how}"));
                if !self.waiting.is_empty() {
                    self.wake();
                }
            }
            () => self.fail(server, &format!("the old server ended while it worked on this request: {how}")),
        }
        self.settle();
    }

    /// A handshake waits for a server that can answer it.
    fn requeue(&mut self, server: Generation) {
        if self.crashes > TRIES || self.phase != super::Phase::Open {
            return;
        }
        let is_shaking = |call: &super::Call| call.method == "initialize" && call.is_of(server);
        for call in self.calls.values_mut().filter(|call| is_shaking(call)) {
            call.server = None;
            self.waiting.extend(Key::read(&call.id).map(|key| (call.line.clone(), vec![key])));
        }
    }

    /// Goes on without a server that does not begin.
    fn rejected(&mut self, build: Build, why: &str) {
        if self.builds.newest == Some(build) {
            self.builds.is_broken = true;
        }
        if self.current.is_some() {
            return self.warn(format_args!("the new server does not begin: {why}; the old one goes on serving"));
        }
        match self.builds.good {
            None => self.warn(format_args!("the server does not begin: {why}; clients wait until it is mended")),
            Some(good) if good != build => {
                self.warn(format_args!("the new server does not begin: {why}; the last good one is started again"));
                if self.phase == super::Phase::Open {
                    self.start(good);
                }
            }
            Some(_) => {
                self.crashes += 1;
                self.warn(format_args!("the server does not begin: {why}; it is tried again with the next request"));
                self.fail_waiting(&format!("the server does not begin: {why}"));
            }
        }
        self.settle();
    }
}

/// The time until a server that ended is started again.
fn back_off(crashes: u32) -> Duration {
    match crashes {
        0 | 1 => Duration::ZERO,
        more => LONGEST.min(Duration::from_millis(500) * 2_u32.saturating_pow(more - 2)),
    }
}

/// A stateless request for a page of a list.
pub(crate) fn list_request(id: &str, list: List, cursor: Option<&str>) -> String {
    let mut params = json!({"_meta": {
        super::super::message::VERSION: "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "cargo-mcp", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    if let Some(cursor) = cursor {
        params["cursor"] = cursor.into();
    }
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{}","params":{params}}}"#, list.method())
}

/// What a client is told when the source does not compile.
pub(crate) fn broken_build(why: &str) -> String {
    let params = json!({"level": "error", "logger": "cargo mcp dev", "data": format!("the build failed: {why}")});
    notification("notifications/message", Some(&params))
}
