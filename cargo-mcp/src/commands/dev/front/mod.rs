//! The front of one client: what becomes of each message, build and end of a server. It does nothing itself: it says what is to be done.
//!
//! A server has a number, its generation. One is `current` and gets what the client says; one may be `next`, which is started and is
//! brought to where the client's session is; those before have calls in flight and go when these are answered.

mod client;
mod server;
mod switch;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    Generation,
    listening::Listening,
    message::{INTERNAL_ERROR, Key, Message, error, notification},
    offers::{Kind, List, Offers},
    questions::Questions,
};

pub(crate) use switch::broken_build;

/// The levels at which a client is told of a build that failed.
pub(crate) const BELOW_ERROR: [&str; 5] = ["debug", "info", "notice", "warning", "error"];

/// A build that went well; each is another program.
pub(crate) type Build = u64;

/// What the front is told.
#[derive(Debug)]
pub(crate) enum Event {
    /// The client sent a line.
    Client(String),
    /// A server sent a line.
    Server(Generation, String),
    /// A server is gone, or could not be started; nothing more comes from it.
    Gone(Generation, String),
    Built(Build),
    /// A build failed, with this error before all others.
    BuildFailed(String),
    /// A time is over that the front asked for.
    Timer(Timer),
    /// The client sends nothing more.
    ClientGone,
    /// The whole is to end now.
    Interrupted,
}

/// What the front wants done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    ToClient(String),
    ToServer(Generation, String),
    Start(Generation, Build),
    /// Says to a server that nothing more comes.
    CloseInput(Generation),
    /// Ends a server, which the front does not listen to any more.
    Stop(Generation),
    Timer(Duration, Timer),
    /// Says that a server is the current one from here on, and which lists are other ones.
    TookOver(Generation, BTreeSet<Kind>),
    /// Tells the author.
    Say(Tone, String),
    /// Ends the whole.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A new server must be ready.
    Ready(Generation),
    /// An old server's calls must be answered.
    Grace(Generation),
    /// A server that ended may be started again.
    Retry,
    /// Calls must be answered after the end of the client's input.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Info,
    Warning,
}

/// What stays the same.
#[derive(Debug)]
pub(crate) struct Settings {
    /// What the ids of the front's own requests begin with; no client's do.
    pub(crate) prefix: String,
    /// Whether servers answer stateless requests beside a session, so that the front may ask for their lists.
    pub(crate) probes: bool,
    /// The time that calls have to end after a new build.
    pub(crate) grace: Duration,
    /// The time that a server has to begin.
    pub(crate) start: Duration,
}

#[derive(Debug)]
pub(crate) struct Front {
    settings: Settings,
    effects: Vec<Effect>,
    phase: Phase,
    /// Counts the front's own requests.
    requests: u64,
    /// Counts the client's batches.
    batches: u64,
    generations: Generation,
    servers: BTreeMap<Generation, Server>,
    current: Option<Generation>,
    next: Option<Generation>,
    builds: Builds,
    /// How often a server ended by itself since the last good answer.
    crashes: u32,
    is_retry_due: bool,
    session: Option<Session>,
    calls: HashMap<Key, Call>,
    /// What waits for a server, with the requests in it.
    waiting: VecDeque<(String, Vec<Key>)>,
    questions: Questions,
    /// What the client knows of: the lists of the server that served last.
    offers: Option<Offers>,
    /// What the server changed in its lists since.
    stale: BTreeSet<Kind>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// The client's input has ended.
    Closing,
    Over,
}

#[derive(Debug, Default)]
struct Builds {
    newest: Option<Build>,
    /// The newest one that served.
    good: Option<Build>,
    /// Whether the newest one does not start.
    is_broken: bool,
}

/// A process, and how far it is.
#[derive(Debug)]
struct Server {
    build: Build,
    /// The front's own requests that it has not answered.
    replays: HashMap<Key, Replay>,
    /// Whether `initialize` was replayed, and whether it was answered.
    is_asked: bool,
    is_shaken: bool,
    /// What it offers; none if it does not tell.
    offers: Option<Offers>,
    /// How many pages of lists are to come.
    pages: usize,
}

/// A request of the front's own.
#[derive(Debug)]
enum Replay {
    Initialize,
    List(List, u32),
    /// One whose answer does not matter, but for what it says when it is an error.
    State(&'static str),
}

/// What the client and the servers settled.
#[derive(Debug)]
struct Session {
    /// The `initialize` request.
    initialize: String,
    revision: String,
    /// What the client was told that the server has.
    capabilities: Value,
    is_initialized: bool,
    /// The `logging/setLevel` request, and the level.
    level: Option<(String, String)>,
    /// The `resources/subscribe` requests, by what they subscribe to.
    subscriptions: BTreeMap<String, String>,
}

/// A request of the client's that has no answer yet.
#[derive(Debug)]
struct Call {
    id: String,
    method: String,
    line: String,
    /// Who works on it; none while it waits.
    server: Option<Generation>,
    is_cancelled: bool,
    batch: Option<u64>,
    /// What is special about a request that listens: it goes on with the next server.
    listen: Option<Listening>,
}

impl Front {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            effects: Vec::new(),
            phase: Phase::Open,
            requests: 0,
            batches: 0,
            generations: 0,
            servers: BTreeMap::new(),
            current: None,
            next: None,
            builds: Builds::default(),
            crashes: 0,
            is_retry_due: false,
            session: None,
            calls: HashMap::new(),
            waiting: VecDeque::new(),
            questions: Questions::default(),
            offers: None,
            stale: BTreeSet::new(),
        }
    }

    /// Takes what happened, and gives what is to be done, in this order.
    pub(crate) fn handle(&mut self, event: Event) -> Vec<Effect> {
        if self.phase != Phase::Over {
            match event {
                Event::Client(line) => self.client_line(&line),
                Event::Server(server, line) => self.server_line(server, &line),
                Event::Gone(server, how) => self.gone(server, &how),
                Event::Built(build) => self.built(build),
                Event::BuildFailed(why) => self.build_failed(&why),
                Event::Timer(timer) => self.timer(timer),
                Event::ClientGone => self.client_gone(),
                Event::Interrupted => self.end("`cargo mcp dev` was stopped"),
            }
        }
        std::mem::take(&mut self.effects)
    }

    /// Whether a build may be started again.
    pub(crate) fn keeps(&self, build: Build) -> bool {
        self.builds.newest == Some(build) || self.builds.good == Some(build)
    }

    fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Ready(server) if self.next == Some(server) => self.too_slow(server),
            Timer::Grace(server) if self.servers.contains_key(&server) => {
                let why =
                    "the server was rebuilt, and this request took longer than the old one had left; send it again";
                self.fail(server, why);
                self.stop(server);
                self.settle();
            }
            Timer::Retry => {
                self.is_retry_due = false;
                if let Some(build) = self.startable().filter(|_| !self.waiting.is_empty()) {
                    self.start(build);
                }
            }
            Timer::End => self.end("the input of `cargo mcp dev` ended"),
            Timer::Ready(_) | Timer::Grace(_) => {}
        }
    }

    /// Lets calls in flight end, since nothing more comes.
    fn client_gone(&mut self) {
        self.phase = Phase::Closing;
        if let Some(next) = self.next.take() {
            self.stop(next);
        }
        self.fail_waiting("the input of `cargo mcp dev` ended before there was a server");
        if let Some(current) = self.current {
            self.effect(Effect::CloseInput(current));
            self.effect(Effect::Timer(self.settings.grace + Duration::from_secs(1), Timer::End));
        }
        self.settle();
    }

    /// Answers what is open, and ends.
    fn end(&mut self, why: &str) {
        let servers: Vec<_> = self.servers.keys().copied().collect();
        for server in servers {
            self.fail(server, why);
        }
        self.fail_waiting(why);
        let listens: Vec<_> = self.calls.extract_if(|_, call| call.is_listening()).collect();
        for listen in listens.into_iter().filter_map(|(_, call)| call.listen) {
            self.send_client(listen.completed());
        }
        self.phase = Phase::Over;
        self.effect(Effect::End);
    }

    /// Stops old servers that have nothing left to do, and ends when the last call of a client that is gone is answered.
    fn settle(&mut self) {
        let is_busy = |server: Generation| self.calls.values().any(|call| call.is_of(server));
        let idle =
            |server: &Generation| Some(*server) != self.current && Some(*server) != self.next && !is_busy(*server);
        let idle: Vec<_> = self.servers.keys().copied().filter(idle).collect();
        for server in idle {
            self.stop(server);
        }
        let is_open = |call: &Call| !call.is_cancelled && call.listen.is_none();
        if self.phase == Phase::Closing && !self.calls.values().any(is_open) {
            self.end("the input of `cargo mcp dev` ended");
        }
    }

    /// Stops listening to a server, and has it ended.
    fn stop(&mut self, server: Generation) {
        self.forget(server);
        self.effect(Effect::Stop(server));
    }

    /// Forgets a server, and takes back what it asked.
    fn forget(&mut self, server: Generation) {
        self.servers.remove(&server);
        self.calls.retain(|_, call| !(call.is_cancelled && call.server == Some(server)));
        for id in self.questions.abandon(server) {
            let params = json!({"requestId": id_value(&id), "reason": "the server was rebuilt or ended"});
            self.send_client(notification("notifications/cancelled", Some(&params)));
        }
    }

    /// Answers every call of a server with an error, but for those that listen: they go on with the next one.
    fn fail(&mut self, server: Generation, why: &str) {
        self.fail_those(why, |call| call.server == Some(server));
    }

    /// Answers what waits with an error.
    fn fail_waiting(&mut self, why: &str) {
        self.waiting.clear();
        self.fail_those(why, |call| call.server.is_none());
    }

    fn fail_those(&mut self, why: &str, is_one: impl Fn(&Call) -> bool) {
        for call in self.calls.values_mut().filter(|call| call.is_listening() && is_one(call)) {
            call.server = None;
        }
        let mut failed: Vec<Call> = self
            .calls
            .extract_if(|_, call| !call.is_listening() && is_one(call))
            .map(|(_, call)| call)
            .filter(|call| !call.is_cancelled)
            .collect();
        failed.sort_by(|a, b| (a.batch, &a.id).cmp(&(b.batch, &b.id)));
        for calls in failed.chunk_by(|a, b| a.batch.is_some() && a.batch == b.batch) {
            let errors: Vec<_> = calls.iter().map(|call| error(&call.id, INTERNAL_ERROR, why)).collect();
            self.send_client(match calls[0].batch {
                Some(_) => format!("[{}]", errors.join(",")),
                None => errors.concat(),
            });
        }
    }

    fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    fn send_client(&mut self, line: String) {
        self.effect(Effect::ToClient(line));
    }

    fn send_server(&mut self, server: Generation, line: String) {
        self.effect(Effect::ToServer(server, line));
    }

    fn info(&mut self, text: impl ToString) {
        self.effect(Effect::Say(Tone::Info, text.to_string()));
    }

    fn warn(&mut self, text: impl ToString) {
        self.effect(Effect::Say(Tone::Warning, text.to_string()));
    }

    /// An id for a request of the front's own.
    fn own_id(&mut self) -> (String, Key) {
        self.requests += 1;
        let id = format!("{}-{}", self.settings.prefix, self.requests);
        (format!("\"{id}\""), Key::Text(id))
    }
}

impl Call {
    /// Whether a server owes its answer.
    fn is_of(&self, server: Generation) -> bool {
        self.server == Some(server) && !self.is_cancelled
    }

    fn listens_for(&self, message: &Message<'_>) -> bool {
        self.listen.as_ref().is_some_and(|listen| listen.owns(message))
    }

    fn is_listening(&self) -> bool {
        self.listen.is_some() && !self.is_cancelled
    }
}

fn id_value(id: &str) -> Value {
    serde_json::from_str(id).unwrap_or_default()
}
