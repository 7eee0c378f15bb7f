//! The front over HTTP: one address that stays, with the newest build behind it.
//!
//! Requests are passed on with their `Host` and `Origin`, so that it is the server that lets them in or turns them away. The transport
//! of 2024-11-05 is not for it: its streams end with their server.

mod backend;
mod events;
mod exchange;
mod listen;
mod sessions;
mod standing;

use std::{collections::HashMap, sync::Arc, sync::Mutex, sync::MutexGuard, sync::PoisonError, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts},
};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use tokio::{net::TcpListener, sync::mpsc, time::timeout};

use super::{
    Generation, Say, Stops,
    build::News,
    front::Settings,
    listening::LISTEN,
    message::{INTERNAL_ERROR, Key, Kind as Is, Message, error},
    stdio::Manner,
};
use backend::{Backends, Supervisor};
use exchange::{Filter, Opening};
use sessions::{Session, messages};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// The longest body that is passed on.
const LONGEST: usize = 64 << 20;
/// How long the last responses may take.
const LAST: Duration = Duration::from_secs(1);

/// What all requests have in common.
#[derive(Debug)]
struct Front {
    backends: Backends,
    sessions: Mutex<HashMap<String, Arc<Held>>>,
    say: Say,
}

/// A session that is kept.
#[derive(Debug)]
struct Held {
    /// Its id, as the client knows it.
    id: String,
    state: Mutex<Session>,
    /// Held while the handshake is replayed.
    shaking: tokio::sync::Mutex<()>,
}

type Answer = Response<Body>;

/// Serves clients until this process is told to stop.
pub(super) async fn serve(
    listener: TcpListener,
    settings: Settings,
    manner: Manner,
    say: Say,
    news: mpsc::UnboundedReceiver<News>,
    stops: Stops,
) {
    let (backends, inbox) = Backends::new();
    let front = Arc::new(Front { backends, sessions: Mutex::default(), say: say.clone() });
    if let Ok(address) = listener.local_addr() {
        say.info(format_args!("listening on http://{address}/mcp"));
    }
    let app = Router::new().fallback(handle).with_state(Arc::clone(&front));
    let over = front.backends.over();
    let serving = tokio::spawn(async move { axum::serve(listener, app).with_graceful_shutdown(over).await });
    Supervisor::new(Arc::clone(&front), settings, manner, say).run(inbox, news, stops).await;
    let _ = timeout(LAST, serving).await;
}

async fn handle(State(front): State<Arc<Front>>, request: Request) -> Answer {
    let (mut parts, body) = request.into_parts();
    if let Err(why) = tidy(&mut parts) {
        return refuse(StatusCode::BAD_REQUEST, why);
    }
    let Ok(body) = Limited::new(body, LONGEST).collect().await else {
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long, or did not come as a whole");
    };
    let body = body.to_bytes();
    let session = parts.headers.get(&SESSION).and_then(|id| front.session(id.to_str().ok()?));
    match (&parts.method, session) {
        (&Method::POST, Some(session)) => front.post_in(&session, &parts, &body).await,
        (&Method::POST, None) => front.post(&parts, body).await,
        (&Method::GET, Some(session)) => front.stand(&session, parts).await,
        (&Method::DELETE, Some(session)) => front.delete(&session, &parts).await,
        _ => front.pass(&parts, body).await,
    }
}

impl Front {
    fn session(&self, id: &str) -> Option<Arc<Held>> {
        lock(&self.sessions).get(id).cloned()
    }

    fn all_sessions(&self) -> Vec<Arc<Held>> {
        lock(&self.sessions).values().cloned().collect()
    }

    /// Passes a message on that belongs to no session, and its answer back.
    async fn post(self: &Arc<Self>, parts: &Parts, body: Bytes) -> Answer {
        let text = String::from_utf8_lossy(&body).into_owned();
        let message = Message::read(&text);
        let method = message.as_ref().and_then(|message| message.method.clone()).unwrap_or_default();
        if let Some((message, id)) = message.as_ref().and_then(|message| Some((message, message.id?)))
            && method == LISTEN
        {
            return self.listen(parts, body.clone(), id.get(), message).await;
        }
        let ids = request_ids(&text);
        let mut work = match self.backends.begin().await {
            Ok(work) => work,
            Err(why) => return failed(&ids, &text, &why),
        };
        let response = match work.send(parts, body.clone()).await {
            Ok(response) => response,
            Err(why) => return failed(&ids, &text, &why),
        };
        let id = response.headers().get(&SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let opening = id.filter(|_| method == "initialize").map(|id| Opening { id, parts: parts.clone(), body });
        let tells = matches!(&*method, "initialize" | "server/discover");
        let filter = Filter::new(Arc::clone(self), work.backend().generation, None, ids, opening, tells);
        exchange::answer(response, filter, work).await
    }

    /// Passes a message of a session on to the server that it is for.
    async fn post_in(self: &Arc<Self>, held: &Arc<Held>, parts: &Parts, body: &Bytes) -> Answer {
        let text = String::from_utf8_lossy(body);
        let Some(passed) = lock(&held.state).of_client(&text) else { return empty(StatusCode::ACCEPTED) };
        if let Some(server) = passed.server.filter(|server| !self.backends.is_current(*server)) {
            self.post_to(server, held, parts, passed.body).await;
            return empty(StatusCode::ACCEPTED);
        }
        let ids = passed.requests;
        let failed = |why: &str| failed(&ids, &text, why);
        let mut work = match self.backends.begin().await {
            Ok(work) => work,
            Err(why) => return failed(&why),
        };
        let id = match self.join(held, work.backend()).await {
            Ok(id) => id,
            Err(exchange::Apart::Refused) => return gone(),
            Err(exchange::Apart::Failed) => return failed(&work.why("it did not take the session up").await),
        };
        let server = work.backend().generation;
        lock(&held.state).begin(server, &passed.body);
        let mut parts = parts.clone();
        parts.headers.insert(SESSION, header_value(&id));
        let filter = Filter::new(Arc::clone(self), server, Some(Arc::clone(held)), ids.clone(), None, false);
        match work.send(&parts, passed.body.into()).await {
            Ok(response) => {
                if response.status() == StatusCode::NOT_FOUND {
                    lock(&self.sessions).remove(&held.id);
                }
                exchange::answer(response, filter, work).await
            }
            Err(why) => {
                drop(filter);
                lock(&held.state).unanswered(Some(&ids), |_| true);
                failed(&why)
            }
        }
    }

    /// Passes something on to a server that is on its way out, if it is still there.
    async fn post_to(&self, server: super::Generation, held: &Held, parts: &Parts, body: String) {
        let id = lock(&held.state).ids.get(&server).cloned();
        let Some((backend, id)) = self.backends.alive(server).zip(id) else { return };
        let mut parts = parts.clone();
        parts.headers.insert(SESSION, header_value(&id));
        let _ = timeout(Duration::from_secs(5), backend.send(&parts, body.into())).await;
    }

    /// Ends a session, wherever it is.
    async fn delete(&self, held: &Held, parts: &Parts) -> Answer {
        lock(&self.sessions).remove(&held.id);
        let ids: Vec<_> = lock(&held.state).ids.clone().into_iter().collect();
        for (server, id) in ids {
            let Some(backend) = self.backends.alive(server) else { continue };
            let mut parts = parts.clone();
            parts.headers.insert(SESSION, header_value(&id));
            let _ = timeout(Duration::from_secs(5), backend.send(&parts, Bytes::new())).await;
        }
        empty(StatusCode::NO_CONTENT)
    }

    /// Passes a request on as it is.
    async fn pass(self: &Arc<Self>, parts: &Parts, body: Bytes) -> Answer {
        let mut work = match self.backends.begin().await {
            Ok(work) => work,
            Err(why) => return refuse(StatusCode::SERVICE_UNAVAILABLE, &why),
        };
        match work.send(parts, body).await {
            Ok(response) => {
                let filter = Filter::new(Arc::clone(self), work.backend().generation, None, Vec::new(), None, false);
                exchange::answer(response, filter, work).await
            }
            Err(why) => refuse(StatusCode::BAD_GATEWAY, &why),
        }
    }
}

/// Makes a request one that can be passed on: the one `Host` that a server looks at, and nothing that concerns this connection only.
fn tidy(parts: &mut Parts) -> Result<(), &'static str> {
    if let Some(authority) = parts.uri.authority() {
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| "the request's URI has no host")?;
        parts.headers.insert(header::HOST, host);
    }
    if parts.headers.get_all(header::HOST).iter().count() != 1 {
        return Err("the request needs one `Host` header");
    }
    let named: Vec<HeaderName> = parts
        .headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| *name != header::HOST)
        .collect();
    let ours = [
        header::CONNECTION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::CONTENT_LENGTH,
        header::EXPECT,
        header::ACCEPT_ENCODING,
        HeaderName::from_static("keep-alive"),
    ];
    for name in named.iter().chain(&ours) {
        parts.headers.remove(name);
    }
    Ok(())
}

/// The ids of the requests in a body.
fn request_ids(text: &str) -> Vec<String> {
    let elements = messages(text).unwrap_or_else(|| vec![text]);
    let id = |text: &&str| match Message::read(text)?.kind() {
        Is::Request { id, .. } => Key::read(id).map(|_| id.to_owned()),
        _ => None,
    };
    elements.iter().filter_map(id).collect()
}

/// The answer to requests that no server answers.
fn failed(ids: &[String], text: &str, why: &str) -> Answer {
    let errors: Vec<_> = ids.iter().map(|id| error(id, INTERNAL_ERROR, why)).collect();
    match (&*errors, messages(text)) {
        ([], _) => empty(StatusCode::ACCEPTED),
        (_, Some(_)) => json(StatusCode::OK, format!("[{}]", errors.join(","))),
        (_, None) => json(StatusCode::OK, errors.concat()),
    }
}

fn refuse(status: StatusCode, why: &str) -> Answer {
    json(status, error("null", super::message::INVALID_REQUEST, why))
}

/// The answer to whoever must begin a new session.
fn gone() -> Answer {
    refuse(StatusCode::NOT_FOUND, "the rebuilt server does not take up this session; begin a new one")
}

fn json(status: StatusCode, text: String) -> Answer {
    let mut response = empty(status);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *response.body_mut() = text.into();
    response
}

fn empty(status: StatusCode) -> Answer {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn is_events(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_keeps_the_host_that_it_was_sent_to() {
        for (uri, hosts, expected) in [
            ("/mcp", &["localhost:8080"][..], Ok("localhost:8080")),
            ("/mcp", &["evil.example"], Ok("evil.example")),
            ("http://evil.example/mcp", &["localhost:8080"], Ok("evil.example")),
            ("/mcp", &[], Err("the request needs one `Host` header")),
            ("/mcp", &["localhost", "evil.example"], Err("the request needs one `Host` header")),
        ] {
            let mut request =
                Request::builder().uri(uri).header("connection", "x-secret, host").header("x-secret", "1");
            for host in hosts {
                request = request.header("host", *host);
            }
            let (mut parts, ()) = request.body(()).expect("a request").into_parts();
            let tidied = tidy(&mut parts);
            let host = parts.headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
            assert_eq!(tidied.map(|()| host), expected, "{uri} {hosts:?}");
            if expected.is_ok() {
                assert!(!parts.headers.contains_key("x-secret"));
            }
        }
    }
}
