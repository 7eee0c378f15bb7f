//! Interruptions at every byte of a POST: at most one response, and nothing is left behind.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http_body_util::BodyExt as _;
use mcp_runtime::{Context, HttpOptions, Server, function::ToolEntry, http::HttpService, tool};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::{
    CallGuard, Gate, Ordering,
    client::{Connection, Endpoint, Session, soon, until},
    principals::{self, in_session, post, send_as, service},
    request::{Request, call, initialize},
    server,
};

/// Wait once, and count the call.
#[tool]
async fn yields(gate: &Gate) -> &'static str {
    let _guard = CallGuard::begin(gate);
    tokio::task::yield_now().await;
    "yielded"
}

/// Starts a server on which a permit or a session that is left behind makes the next request fail.
async fn serve_one(idle: Duration) -> (Arc<Gate>, Endpoint) {
    let (gate, server) = server();
    let options = HttpOptions::default().max_in_flight(1).max_sessions(1).max_peer_share(1.0).session_idle(idle);
    (gate, Endpoint::start(server.with::<yields>(), options).await)
}

const VERSION: &str = "2025-11-25";
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(50);

/// The event after the first bytes of a POST.
#[derive(Debug, Clone, Copy)]
enum Interruption {
    Nothing,
    /// The session is deleted.
    Delete,
    /// The request is cancelled, before it has arrived.
    Cancel,
    /// Another request opens a session, which evicts this one unless it is in use.
    Open,
    /// A stream is opened, and resumed after an event that does not exist.
    Resume,
    /// The connection is closed.
    Disconnect,
    /// The session has been idle for too long, unless the server has read the head of the request.
    Expire,
}

impl Interruption {
    const ALL: [Self; 7] =
        [Self::Nothing, Self::Delete, Self::Cancel, Self::Open, Self::Resume, Self::Disconnect, Self::Expire];

    /// Returns the time after which sessions expire, and the number of bytes between two interruptions.
    fn setting(self) -> (Duration, usize) {
        if matches!(self, Self::Expire) { (SHORT, 16) } else { (LONG, 1) }
    }

    /// Returns whether the session may end, so that the next POST needs another one.
    fn may_end_session(self) -> bool {
        matches!(self, Self::Delete | Self::Open | Self::Expire)
    }

    async fn happen(self, session: &Session<'_>) {
        let request = match self {
            Self::Nothing | Self::Disconnect => return,
            Self::Expire => return tokio::time::sleep(2 * SHORT).await,
            Self::Delete => session.delete(),
            Self::Cancel => session.cancel(1),
            Self::Open => initialize(VERSION),
            Self::Resume => session.resume("1-7"),
        };
        session.endpoint.open(&request).await;
    }

    /// Returns whether a call may get this status, if the request was complete or incomplete before.
    fn allows(self, status: u16, is_complete: bool) -> bool {
        match self {
            Self::Nothing | Self::Cancel | Self::Resume => status == 200,
            Self::Delete if !is_complete => status == 404,
            Self::Delete | Self::Open | Self::Expire => [200, 404].contains(&status),
            Self::Disconnect => false,
        }
    }
}

/// Sends a POST with an interruption after its first bytes. Returns the status and the messages of its response.
async fn interrupted(
    session: &Session<'_>,
    post: &Request,
    at: usize,
    interruption: Interruption,
) -> Option<(u16, Vec<Value>)> {
    let bytes = post.bytes();
    let (first, rest) = bytes.split_at(at);
    let mut connection = session.endpoint.connect().await;
    connection.write(first).await;
    interruption.happen(session).await;
    if matches!(interruption, Interruption::Disconnect) {
        return None;
    }
    // The server may have responded already, and closed the connection.
    let _ = connection.0.get_mut().write_all(rest).await;
    let mut response = connection.response().await;
    let status = response.status;
    let messages = match response.header("content-type") {
        Some("text/event-stream") => soon(response.messages()).await,
        _ => vec![response.full().await.0.json()],
    };
    Some((status, messages))
}

/// Opens a session, which fails if an earlier one is still in use.
async fn open(endpoint: &Endpoint) -> Session<'_> {
    loop {
        let opened = endpoint.send(&initialize(VERSION)).await;
        let id = opened.header("mcp-session-id").expect("a session").to_owned();
        let session = Session { endpoint, version: VERSION, id };
        let initialized = session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        // On a busy machine, a session may expire at once.
        if endpoint.send(&initialized).await.status == 202 {
            return session;
        }
    }
}

/// Ends the session, unless it has ended.
async fn end(session: &Session<'_>) {
    assert!([204, 404].contains(&session.endpoint.send(&session.delete()).await.status));
}

#[tokio::test]
async fn a_call_that_is_interrupted_at_any_byte_has_at_most_one_response() {
    for interruption in Interruption::ALL {
        let (idle, step) = interruption.setting();
        let (gate, endpoint) = serve_one(idle).await;
        let mut at = 0;
        let mut session = open(&endpoint).await;
        loop {
            let post = session.call(1, "yields");
            let length = post.bytes().len();
            let is_complete = at == length;
            let begun = gate.begun.load(Ordering::SeqCst);
            if let Some((status, messages)) = interrupted(&session, &post, at, interruption).await {
                assert!(interruption.allows(status, is_complete), "{interruption:?} at byte {at}: status {status}");
                let responses = messages.iter().filter(|message| message.get("method").is_none()).count();
                assert!(responses <= 1, "{interruption:?} at byte {at}: {messages:?}");
                // Only a cancellation withholds the response.
                let is_answered = responses == 1 || matches!(interruption, Interruption::Cancel);
                assert!(is_answered, "{interruption:?} at byte {at}: {messages:?}");
                let has_run = gate.begun.load(Ordering::SeqCst) > begun;
                assert_eq!(has_run, status == 200, "{interruption:?} at byte {at}: {messages:?}");
            }
            if is_complete {
                break;
            }
            if interruption.may_end_session() {
                end(&session).await;
                session = open(&endpoint).await;
            }
            at = length.min(at + step);
        }
        // The session is not in use any more, so that another one evicts it.
        soon(async { while endpoint.send(&initialize(VERSION)).await.status != 200 {} }).await;
        until(|| gate.begun.load(Ordering::SeqCst) == gate.dropped.load(Ordering::SeqCst)).await;
        // The only permit is free.
        assert_eq!(endpoint.send(&call("yields")).await.text(), "yielded", "{interruption:?}");
    }
}

/// A cancellation arrives while its call ends: the call has one response or none, and its id can be used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancellation_that_is_interrupted_by_the_end_of_its_call_withholds_at_most_its_response() {
    let (gate, endpoint) = serve_one(LONG).await;
    let session = endpoint.session(VERSION).await;
    let cancel = session.cancel(1).bytes();
    for at in 0..=cancel.len() {
        let begun = gate.begun.load(Ordering::SeqCst);
        let mut calling = endpoint.connect().await;
        calling.write(&session.call(1, "waits").bytes()).await;
        gate.has_begun(begun + 1).await;
        let mut cancelling = endpoint.connect().await;
        cancelling.write(&cancel[..at]).await;
        let is_cancelled = at == cancel.len();
        let cancelled = async {
            cancelling.write(&cancel[at..]).await;
            assert_eq!(cancelling.response().await.status, 202, "at byte {at}");
        };
        if is_cancelled {
            cancelled.await;
            gate.open();
        } else if at % 2 == 0 {
            gate.open();
            cancelled.await;
        } else {
            tokio::join!(cancelled, async { gate.open() });
        }
        let mut response = calling.response().await;
        let messages = match response.header("content-type") {
            Some("text/event-stream") => soon(response.messages()).await,
            _ => vec![response.full().await.0.json()],
        };
        assert!(messages.len() <= usize::from(!is_cancelled), "at byte {at}: {messages:?}");
        gate.has_dropped(begun + 1).await;
        // A call that was cancelled has not used the permit of the gate.
        while let Ok(permit) = gate.permits.try_acquire() {
            permit.forget();
        }
        // The permit of a call is released soon after its response.
        soon(async { while endpoint.send(&session.call(1, "quick")).await.status == 503 {} }).await;
    }
    end(&session).await;
}

/// A server that is shut down while a POST arrives answers it, or refuses it, and stops.
#[tokio::test]
async fn a_shutdown_during_a_post_leaves_nothing_behind() {
    let length = shut_down_at(usize::MAX).await;
    for at in 0..length {
        shut_down_at(at).await;
    }
}

/// Shuts a server down after the first bytes of a POST, and returns the length of the POST.
async fn shut_down_at(at: usize) -> usize {
    let (gate, server) = server();
    let server = server.with::<yields>().shutdown_grace(Duration::from_secs(20));
    let mut endpoint = Endpoint::start(server, HttpOptions::default()).await;
    let session = endpoint.session(VERSION).await;
    let post = session.call(1, "yields").bytes();
    let mut connection = Connection::to(endpoint.address).await;
    let at = at.min(post.len());
    connection.write(&post[..at]).await;
    endpoint.stop();
    // The server closes the connection if nothing has arrived on it.
    let _ = connection.0.get_mut().write_all(&post[at..]).await;
    let mut output = Vec::new();
    let _ = soon(tokio::io::AsyncReadExt::read_to_end(&mut connection.0, &mut output)).await;
    let text = String::from_utf8_lossy(&output).into_owned();
    let responses = text.matches(r#""id":1,"#).count();
    assert!(responses <= 1, "at byte {at}: {text}");
    let is_refused = text.is_empty() || [" 503 ", " 404 "].iter().any(|status| text.contains(status));
    assert!(responses == 1 || is_refused, "at byte {at}: {text}");
    endpoint.stopped().await;
    until(|| gate.begun.load(Ordering::SeqCst) == gate.dropped.load(Ordering::SeqCst)).await;
    post.len()
}

/// An answer arrives in pieces while the session of its question ends.
#[tokio::test]
async fn an_answer_that_is_interrupted_by_the_end_of_its_session_is_forgotten() {
    let (gate, endpoint) = serve_one(LONG).await;
    for at in 0.. {
        let opened = initialize("2025-06-18").change(|message| {
            message["params"]["capabilities"] = json!({"elicitation": {}});
        });
        let opened = endpoint.send(&opened).await;
        let id = opened.header("mcp-session-id").unwrap().to_owned();
        let session = Session { endpoint: &endpoint, version: "2025-06-18", id };
        session.initialized().await;
        let mut asking = endpoint.open(&session.call(1, "asks")).await;
        let question = soon(asking.message()).await.unwrap();
        let result = json!({"action": "accept", "content": {"sure": true}});
        let answer = session.post(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).bytes();
        let split = answer.len().min(at);
        let mut answering = endpoint.connect().await;
        answering.write(&answer[..split]).await;
        assert_eq!(endpoint.send(&session.delete()).await.status, 204);
        let _ = answering.0.get_mut().write_all(&answer[split..]).await;
        let status = answering.response().await.status;
        assert!([202, 404].contains(&status), "at byte {at}: status {status}");
        let rest = soon(asking.messages()).await;
        let responses = rest.iter().filter(|message| message.get("method").is_none()).count();
        assert_eq!(responses, 1, "at byte {at}: {rest:?}");
        if at >= answer.len() {
            break;
        }
    }
    until(|| gate.begun.load(Ordering::SeqCst) == gate.dropped.load(Ordering::SeqCst)).await;
    assert_eq!(endpoint.send(&call("yields")).await.text(), "yielded");
}

/// The function ends its session before its call is among the calls in flight.
#[tokio::test]
async fn a_call_fails_if_its_session_ends_while_it_begins() {
    let ending = Arc::new(Mutex::new(None::<(HttpService, Request)>));
    let shared = Arc::clone(&ending);
    let tool = ToolEntry::new("ends", json!({"type": "object"}), move |_: Value, _: Context| {
        let (service, delete) = shared.lock().unwrap().take().unwrap();
        async move {
            assert_eq!(send_as(&service, None, delete).await.status(), 204);
            std::future::pending::<()>().await;
        }
    });
    let service = service(Server::empty("ending", "1.0.0").with_entry(tool), HttpOptions::default());
    let id = principals::open(&service, None).await;
    *ending.lock().unwrap() = Some((service.clone(), in_session(&id, Request::new("DELETE"))));
    let response = send_as(&service, None, post(&id, "tools/call", json!({"name": "ends"}))).await;
    let body = soon(response.into_body().collect()).await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&body);
    assert!(text.contains("the session has ended"), "{text}");
}
