//! What clients and servers settled over HTTP, so that another server can take up a session. Nothing here sends anything.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use axum::http::{HeaderMap, Uri, request::Parts};
use bytes::Bytes;
use serde_json::json;

use super::super::{
    Generation,
    front::BELOW_ERROR,
    message::{Key, Kind as Is, Message, announce_changes, elements, member, notification, replace, string},
    offers::Kind,
    questions::Questions,
};

/// A session, as its client sees it.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// The `initialize` request: where it went, its headers and its body.
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) initialize: Bytes,
    pub(super) revision: String,
    pub(super) capabilities: BTreeSet<String>,
    pub(super) is_initialized: bool,
    /// The `logging/setLevel` request.
    pub(super) level: Option<String>,
    /// The `resources/subscribe` requests.
    pub(super) subscriptions: BTreeMap<String, String>,
    /// The session's ids of the servers.
    pub(super) ids: HashMap<Generation, String>,
    questions: Questions,
    calls: HashMap<Key, Call>,
    /// The lists that changed, and nobody has told the client.
    untold: BTreeSet<Kind>,
    /// Whether another build serves since it was told.
    is_rebuilt: bool,
}

/// A request that has no answer yet.
#[derive(Debug)]
struct Call {
    server: Generation,
    id: String,
    method: String,
    text: String,
    is_cancelled: bool,
}

/// Where a body of the client's goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// The server that it is for; none for the current one.
    pub(super) server: Option<Generation>,
    pub(super) body: String,
    /// The ids of the requests in it.
    pub(super) requests: Vec<String>,
}

impl Session {
    /// The session that a good answer to `initialize` opens.
    pub(super) fn open(
        request: &Parts,
        initialize: &Bytes,
        server: Generation,
        id: &str,
        answer: &str,
    ) -> Option<Self> {
        let result = Message::read(answer)?.result?.get();
        let (revision, capabilities) = settled(result);
        Some(Self {
            uri: request.uri.clone(),
            headers: request.headers.clone(),
            initialize: initialize.clone(),
            revision,
            capabilities,
            ids: HashMap::from([(server, id.to_owned())]),
            ..Self::default()
        })
    }

    /// Finds out for whom the client's body is, and spells it for that server; none if nobody waits for it.
    pub(super) fn of_client(&mut self, body: &str) -> Option<Passed> {
        match messages(body) {
            Some(elements) => {
                let (mut server, mut bodies, mut requests) = (None, Vec::new(), Vec::new());
                for passed in elements.iter().filter_map(|element| self.one_of_client(element)) {
                    server = server.or(passed.server);
                    bodies.push(passed.body);
                    requests.extend(passed.requests);
                }
                let server = server.filter(|_| requests.is_empty());
                (!bodies.is_empty()).then(|| Passed { server, body: format!("[{}]", bodies.join(",")), requests })
            }
            None => self.one_of_client(body),
        }
    }

    fn one_of_client(&mut self, body: &str) -> Option<Passed> {
        let as_it_is = |server| Some(Passed { server, body: body.to_owned(), requests: Vec::new() });
        let Some(message) = Message::read(body) else { return as_it_is(None) };
        match message.kind() {
            Is::Response { id } => {
                let (server, asked) = self.questions.answer(id)?;
                Some(Passed { server: Some(server), body: replace(body, id, &asked), requests: Vec::new() })
            }
            Is::Notification { method: "notifications/cancelled" } => {
                let call = self.calls.get_mut(&Key::read(message.param("requestId")?)?)?;
                call.is_cancelled = true;
                as_it_is(Some(call.server))
            }
            Is::Notification { method: "notifications/progress" } => {
                as_it_is(message.param("progressToken").and_then(|token| self.questions.waits_for(token)))
            }
            Is::Notification { method: "notifications/initialized" } => {
                self.is_initialized = true;
                as_it_is(None)
            }
            Is::Request { id, .. } => {
                Some(Passed { server: None, body: body.to_owned(), requests: vec![id.to_owned()] })
            }
            Is::Notification { .. } | Is::Other => as_it_is(None),
        }
    }

    /// Notes that a server works on the requests of a body.
    pub(super) fn begin(&mut self, server: Generation, body: &str) {
        let elements = messages(body).unwrap_or_else(|| vec![body]);
        for text in elements {
            let Some(message) = Message::read(text) else { continue };
            if let Is::Request { id, method } = message.kind()
                && let Some(key) = Key::read(id)
            {
                let (id, method, text) = (id.to_owned(), method.to_owned(), text.to_owned());
                self.calls.insert(key, Call { server, id, method, text, is_cancelled: false });
            }
        }
    }

    /// Takes note of what a server says; gives it as the client is to have it, if it is to have it.
    pub(super) fn of_server(&mut self, server: Generation, text: &str) -> Option<String> {
        if let Some(elements) = messages(text) {
            let passed: Vec<_> = elements.iter().filter_map(|element| self.of_server(server, element)).collect();
            return (!passed.is_empty()).then(|| format!("[{}]", passed.join(",")));
        }
        let Some(message) = Message::read(text) else { return Some(text.to_owned()) };
        match message.kind() {
            Is::Request { id, .. } => {
                Some(replace(text, id, &self.questions.ask(server, id, message.meta("progressToken"))))
            }
            Is::Notification { method: "notifications/cancelled" } => {
                let id = message.param("requestId")?;
                Some(replace(text, id, &self.questions.take_back(server, id)?))
            }
            Is::Response { id } => {
                let key = Key::read(id)?;
                let call = self.calls.get(&key).filter(|call| call.server == server)?;
                if message.result.is_some() {
                    self.settle(&call.method.clone(), &call.text.clone());
                }
                self.calls.remove(&key);
                Some(text.to_owned())
            }
            Is::Notification { .. } | Is::Other => Some(text.to_owned()),
        }
    }

    /// Remembers what a good answer settles.
    fn settle(&mut self, method: &str, text: &str) {
        let uri = || string(Message::read(text)?.param("uri")?);
        match method {
            "logging/setLevel" => self.level = Some(text.to_owned()),
            "resources/subscribe" => {
                self.subscriptions.extend(uri().map(|uri| (uri, text.to_owned())));
            }
            "resources/unsubscribe" => {
                self.subscriptions.remove(&uri().unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Takes the requests that servers which are gone have not answered: all, or those with some ids.
    pub(super) fn unanswered(&mut self, among: Option<&[String]>, is_gone: impl Fn(Generation) -> bool) -> Vec<String> {
        let is_meant = |call: &Call| is_gone(call.server) && among.is_none_or(|ids| ids.contains(&call.id));
        let mut ids: Vec<_> = self
            .calls
            .extract_if(|_, call| is_meant(call))
            .filter(|(_, call)| !call.is_cancelled)
            .map(|(_, call)| call.id)
            .collect();
        ids.sort();
        ids
    }

    /// Whether a server has not answered one of some requests.
    pub(super) fn owes(&self, server: Generation, ids: &[String]) -> bool {
        self.calls.values().any(|call| call.server == server && !call.is_cancelled && ids.contains(&call.id))
    }

    /// Notes that another build serves, and which lists changed.
    pub(super) fn rebuilt(&mut self, kinds: &BTreeSet<Kind>) {
        let told = kinds.iter().filter(|kind| self.capabilities.contains(kind.capability()));
        self.untold.extend(told);
        self.is_rebuilt = true;
    }

    /// Takes what the client has not been told of: lists that changed, and what it subscribed to, which may read otherwise now.
    pub(super) fn take_news(&mut self) -> Vec<String> {
        let lists = std::mem::take(&mut self.untold).into_iter().map(|kind| notification(kind.changed(), None));
        let resources = self.subscriptions.keys().filter(|_| self.is_rebuilt);
        let updated = |uri: &String| notification("notifications/resources/updated", Some(&json!({"uri": uri})));
        let news = lists.chain(resources.map(updated)).collect();
        self.is_rebuilt = false;
        news
    }

    /// Whether the client wants to be told of errors.
    pub(super) fn hears_errors(&self) -> bool {
        let level = self.level.as_deref().and_then(|line| string(Message::read(line)?.param("level")?));
        let is_loud = level.is_none_or(|level| BELOW_ERROR.contains(&&*level));
        self.is_initialized && self.capabilities.contains("logging") && is_loud
    }

    /// Forgets a server; gives the ids of what it asked and does not want to know any more.
    pub(super) fn forget(&mut self, server: Generation) -> Vec<String> {
        self.ids.remove(&server);
        self.questions.abandon(server)
    }
}

/// The revision and the capabilities of a handshake's result.
pub(super) fn settled(result: &str) -> (String, BTreeSet<String>) {
    let capabilities = member(result, "capabilities").and_then(|json| serde_json::from_str(json).ok());
    let capabilities: BTreeMap<String, serde_json::Value> = capabilities.unwrap_or_default();
    let revision = member(result, "protocolVersion").and_then(string).unwrap_or_default();
    (revision, capabilities.into_keys().collect())
}

/// The messages of a batch; none if it is none.
pub(super) fn messages(body: &str) -> Option<Vec<&str>> {
    if body.trim_start().starts_with('[') { elements(body).filter(|elements| !elements.is_empty()) } else { None }
}

/// A server's answer to a handshake or `server/discover`, which tells of changes.
pub(super) fn patched(text: String) -> String {
    announce_changes(&text).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        let answer = r#"{"id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}"#;
        Session::open(&axum::http::Request::new(()).into_parts().0, &Bytes::new(), 1, "one", answer).expect("a session")
    }

    #[test]
    fn messages_find_their_server() {
        let mut session = session();
        session.begin(1, r#"{"id":1,"method":"tools/call"}"#);
        assert_eq!(
            session.of_server(1, r#"{"id":0,"method":"roots/list"}"#).as_deref(),
            Some(r#"{"id":0,"method":"roots/list"}"#)
        );
        let asked = session.of_server(2, r#"{"id":0,"method":"roots/list"}"#).expect("a question");
        assert_eq!(asked, r#"{"id":"cargo-mcp-2-1","method":"roots/list"}"#);
        for (body, server, passed) in [
            (r#"{"id":5,"method":"ping"}"#, None, Some(r#"{"id":5,"method":"ping"}"#)),
            (
                r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#,
                Some(1),
                Some(r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#),
            ),
            (r#"{"method":"notifications/cancelled","params":{"requestId":9}}"#, None, None),
            (r#"{"id":"cargo-mcp-2-1","result":{}}"#, Some(2), Some(r#"{"id":0,"result":{}}"#)),
            (r#"{"id":0,"result":{}}"#, Some(1), Some(r#"{"id":0,"result":{}}"#)),
            (r#"{"id":0,"result":{}}"#, None, None),
            ("nonsense", None, Some("nonsense")),
        ] {
            let found = session.of_client(body);
            assert_eq!(found.as_ref().map(|found| &*found.body), passed, "{body}");
            assert_eq!(found.and_then(|found| found.server), server, "{body}");
        }
    }

    #[test]
    fn every_request_has_one_answer() {
        let mut session = session();
        session.begin(1, r#"[{"id":1,"method":"a"},{"id":2,"method":"b"},{"id":3,"method":"c"}]"#);
        session.begin(2, r#"{"id":4,"method":"d"}"#);
        let answer = r#"{"id":2,"result":{}}"#;
        assert_eq!(session.of_server(2, answer), None, "it is not this server's");
        assert_eq!(session.of_server(1, answer).as_deref(), Some(answer));
        assert_eq!(session.of_server(1, answer), None, "it has been answered");
        let ids = ["1".to_owned()];
        assert_eq!(session.unanswered(Some(&ids), |_| true), ["1"]);
        assert_eq!(session.unanswered(None, |server| server == 1), ["3"]);
        assert_eq!(session.unanswered(None, |_| true), ["4"]);
    }

    #[test]
    fn what_is_settled_is_kept() {
        let mut session = session();
        let subscribe = r#"{"id":1,"method":"resources/subscribe","params":{"uri":"a://b"}}"#;
        let level = r#"{"id":2,"method":"logging/setLevel","params":{"level":"error"}}"#;
        for body in [subscribe, level] {
            session.begin(1, body);
        }
        session.of_server(1, r#"{"id":1,"result":{}}"#);
        session.of_server(1, r#"{"id":2,"error":{}}"#);
        assert!(session.subscriptions.values().eq([subscribe]));
        assert_eq!(session.level, None, "it was refused");
        session.rebuilt(&BTreeSet::from([Kind::Tools, Kind::Prompts]));
        let lists = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        let resource = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://b"}}"#;
        assert_eq!(session.take_news(), [lists, resource]);
        assert_eq!(session.take_news(), [""; 0]);
    }
}
