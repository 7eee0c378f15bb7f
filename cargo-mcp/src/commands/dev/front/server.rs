//! What servers say.

use serde_json::Value;

use super::{
    super::{
        Generation,
        listening::ACKNOWLEDGED,
        message::{Key, Kind as Is, METHOD_NOT_FOUND, Message, announce_changes, elements, member, replace, string},
        offers::Kind,
    },
    Call, Front, Replay, Session,
};

/// The most pages of a list that are read.
const PAGES: u32 = 100;
/// How much of a line that is no message is shown.
const SHOWN: usize = 200;

impl Front {
    pub(super) fn server_line(&mut self, server: Generation, line: &str) {
        if !self.servers.contains_key(&server) || line.trim().is_empty() {
            return;
        }
        let batch = if line.trim_start().starts_with('[') { elements(line) } else { None };
        let text = match (batch, Message::read(line)) {
            (Some(elements), _) => {
                let of_server = |element: &&str| self.of_server(server, element, &Message::read(element)?);
                let passed: Vec<String> = elements.iter().filter_map(of_server).collect();
                (!passed.is_empty()).then(|| format!("[{}]", passed.join(",")))
            }
            (None, Some(message)) => self.of_server(server, line, &message),
            (None, None) => {
                let shown: String = line.trim().chars().take(SHOWN).collect();
                return self.warn(format_args!("the server printed to stdout what is no message: {shown}"));
            }
        };
        if let Some(text) = text {
            self.send_client(text);
        }
        self.settle();
    }

    /// Takes note of a message; gives it as the client is to have it, if it is to have it.
    fn of_server(&mut self, server: Generation, text: &str, message: &Message<'_>) -> Option<String> {
        match message.kind() {
            Is::Request { id, .. } => {
                let known_as = self.questions.ask(server, id, message.meta("progressToken"));
                Some(if known_as == id { text.to_owned() } else { replace(text, id, &known_as) })
            }
            Is::Notification { method: "notifications/cancelled" } => {
                let id = message.param("requestId")?;
                let known_as = self.questions.take_back(server, id)?;
                Some(replace(text, id, &known_as))
            }
            Is::Notification { method: ACKNOWLEDGED } => self.acknowledged(server, text, message),
            Is::Notification { method } => {
                let kind = Kind::ALL.into_iter().find(|kind| kind.changed() == method);
                self.stale.extend(kind);
                Some(text.to_owned())
            }
            Is::Response { id } => self.response(server, text, message, &Key::read(id)?),
            Is::Other => (message.error.is_some() && self.current == Some(server)).then(|| text.to_owned()),
        }
    }

    fn response(&mut self, server: Generation, text: &str, message: &Message<'_>, key: &Key) -> Option<String> {
        if let Some(replay) = self.servers.get_mut(&server)?.replays.remove(key) {
            self.replayed(server, replay, message);
            return None;
        }
        let call = self.calls.get_mut(key).filter(|call| call.server == Some(server))?;
        if call.is_listening() && message.error_code() == Some(METHOD_NOT_FOUND) {
            call.server = None;
            return self.hold(key);
        }
        let call = self.calls.remove(key)?;
        if self.current == Some(server) && call.method != "initialize" {
            self.crashes = 0;
        }
        match message.result {
            Some(_) => Some(self.answered(&call, text, message)),
            None => Some(text.to_owned()),
        }
    }

    /// Remembers what a good answer settles.
    fn answered(&mut self, call: &Call, text: &str, message: &Message<'_>) -> String {
        let request = Message::read(&call.line);
        let param = |name| request.as_ref().and_then(|request| request.param(name));
        match (&*call.method, &mut self.session) {
            ("initialize", session) => {
                *session = message.result.map(|result| Session::read(&call.line, result.get()));
                announce_changes(text).unwrap_or_else(|| text.to_owned())
            }
            ("server/discover", _) => announce_changes(text).unwrap_or_else(|| text.to_owned()),
            ("logging/setLevel", Some(session)) => {
                let level = param("level").and_then(string).unwrap_or_default();
                session.level = Some((call.line.clone(), level));
                text.to_owned()
            }
            ("resources/subscribe", Some(session)) => {
                let uri = param("uri").and_then(string).unwrap_or_default();
                session.subscriptions.insert(uri, call.line.clone());
                text.to_owned()
            }
            ("resources/unsubscribe", Some(session)) => {
                session.subscriptions.remove(&param("uri").and_then(string).unwrap_or_default());
                text.to_owned()
            }
            _ => text.to_owned(),
        }
    }

    /// Serves a request that listens, since its server cannot: its lists change only with a build.
    fn hold(&mut self, key: &Key) -> Option<String> {
        self.calls.get_mut(key)?.listen.as_mut()?.acknowledge()
    }

    /// Lets the client know that it is told of lists, too; it hears so once only.
    fn acknowledged(&mut self, server: Generation, text: &str, message: &Message<'_>) -> Option<String> {
        let is_it = |call: &&mut Call| call.server == Some(server) && call.listens_for(message);
        self.calls.values_mut().find(is_it)?.listen.as_mut()?.acknowledged(text, message)
    }

    /// Takes the answer to a request of the front's own.
    fn replayed(&mut self, server: Generation, replay: Replay, message: &Message<'_>) {
        match replay {
            Replay::State(what) => {
                if let Some(why) = message.error_message() {
                    self.warn(format_args!("the new server refuses `{what}`, which the old one took: {why}"));
                }
                return;
            }
            Replay::Initialize => self.shaken(server, message),
            Replay::List(list, page) => {
                let Some(state) = self.servers.get_mut(&server) else { return };
                state.pages -= 1;
                let next = match (message.result, message.error_code()) {
                    (Some(result), _) => state.offers.as_mut().and_then(|offers| offers.add(list, result.get())),
                    (None, Some(METHOD_NOT_FOUND)) => None,
                    (None, _) => {
                        state.offers = None;
                        None
                    }
                };
                if let Some(cursor) = next.filter(|_| page < PAGES) {
                    self.ask_for(server, list, page + 1, Some(&cursor));
                }
            }
        }
        self.advance(server);
    }

    /// Compares the handshake of a new server with the one that the client saw.
    fn shaken(&mut self, server: Generation, message: &Message<'_>) {
        let Some(session) = &self.session else { return };
        if let Some(why) = message.error_message() {
            let why = format!("it refuses the client's handshake ({why})");
            return self.unfit(server, &why);
        }
        let now = Session::read("", message.result.map_or("{}", |result| result.get()));
        if now.revision != session.revision {
            let why = format!("it offers revision {}, the client speaks {}", now.revision, session.revision);
            return self.unfit(server, &why);
        }
        let names = |capabilities: &Value| capabilities.as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
        let (old, new) =
            (names(&session.capabilities).unwrap_or_default(), names(&now.capabilities).unwrap_or_default());
        if old != new {
            let listed = |names: &[String]| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            self.warn(format_args!(
                "the client was told of {}, and now there is {}: connect it anew",
                listed(&old),
                listed(&new)
            ));
        }
        if let Some(state) = self.servers.get_mut(&server) {
            state.is_shaken = true;
        }
    }
}

impl Session {
    fn read(initialize: &str, result: &str) -> Self {
        let capabilities = member(result, "capabilities").and_then(|json| serde_json::from_str(json).ok());
        Self {
            initialize: initialize.to_owned(),
            revision: member(result, "protocolVersion").and_then(string).unwrap_or_default(),
            capabilities: capabilities.unwrap_or_default(),
            is_initialized: false,
            level: None,
            subscriptions: Default::default(),
        }
    }
}
