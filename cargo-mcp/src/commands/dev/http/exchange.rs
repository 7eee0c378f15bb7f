//! A request's answer on its way back, and handshakes on their way to another server.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts},
};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};

use super::{
    super::{
        Generation,
        message::{INTERNAL_ERROR, Key, Kind as Is, Message, error, member, notification, replace},
    },
    Answer, Front, Held, SESSION,
    backend::{Backend, Work},
    events::{Event, Splitter},
    header_value, is_events, lock,
    sessions::{self, Session},
};

/// How many events may wait for a client.
const EVENTS: usize = 64;
/// How long a replayed request may take.
const REPLAY: Duration = Duration::from_secs(30);

/// Looks at what a server answers.
pub(super) struct Filter {
    front: Arc<Front>,
    server: Generation,
    session: Option<Arc<Held>>,
    /// The requests that are not answered.
    open: Vec<String>,
    opening: Option<Opening>,
    /// Whether the answer tells of capabilities.
    tells: bool,
}

/// A session that a good answer opens.
pub(super) struct Opening {
    pub(super) id: String,
    pub(super) parts: Parts,
    pub(super) body: Bytes,
}

impl Filter {
    pub(super) fn new(
        front: Arc<Front>,
        server: Generation,
        session: Option<Arc<Held>>,
        open: Vec<String>,
        opening: Option<Opening>,
        tells: bool,
    ) -> Self {
        Self { front, server, session, open, opening, tells }
    }

    /// Takes note of a message; gives it as the client is to have it, if it is to have it.
    fn message(&mut self, text: &str) -> Option<String> {
        if let Some(session) = &self.session {
            return lock(&session.state).of_server(self.server, text);
        }
        for answered in super::messages(text).unwrap_or_else(|| vec![text]) {
            let Some(message) = Message::read(answered) else { continue };
            let Is::Response { id } = message.kind() else { continue };
            let key = Key::read(id);
            self.open.retain(|open| Key::read(open) != key);
            if message.result.is_none() {
                continue;
            }
            if let Some(Opening { id, parts, body }) = self.opening.take()
                && let Some(state) = Session::open(&parts, &body, self.server, &id, answered)
            {
                let held = Held { id: id.clone(), state: state.into(), shaking: tokio::sync::Mutex::default() };
                lock(&self.front.sessions).insert(id, Arc::new(held));
            }
        }
        Some(if self.tells { sessions::patched(text.to_owned()) } else { text.to_owned() })
    }

    /// An event as the client is to have it.
    pub(super) fn event(&mut self, event: &Event) -> Option<Event> {
        let event = match event.data() {
            Some(data) => {
                let text = self.message(&data)?;
                if text == data { event.clone() } else { event.with_data(&text) }
            }
            None => event.clone(),
        };
        Some(if self.session.is_some() { event.of_server(self.server) } else { event })
    }

    /// Whether there is something that the server has not answered.
    fn owes(&self) -> bool {
        match &self.session {
            Some(session) => lock(&session.state).owes(self.server, &self.open),
            None => !self.open.is_empty(),
        }
    }

    /// A response that answers with errors.
    fn failed(mut self, why: &str) -> Answer {
        let errors = self.errors(why);
        let text = if let [one] = &*errors { one.clone() } else { format!("[{}]", errors.join(",")) };
        super::json(StatusCode::OK, text)
    }

    /// Errors for what will not be answered.
    fn errors(&mut self, why: &str) -> Vec<String> {
        let ids = match &self.session {
            Some(session) => lock(&session.state).unanswered(Some(&self.open), |server| server == self.server),
            None => std::mem::take(&mut self.open),
        };
        ids.iter().map(|id| error(id, INTERNAL_ERROR, why)).collect()
    }
}

/// Gives a client what its server answers.
pub(super) async fn answer(response: Response<Body>, mut filter: Filter, mut work: Work) -> Answer {
    let (mut head, body) = response.into_parts();
    for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION] {
        head.headers.remove(name);
    }
    if let Some(session) = filter.session.as_ref().filter(|_| head.headers.contains_key(&SESSION)) {
        head.headers.insert(SESSION, header_value(&session.id));
    }
    if is_events(&head.headers) {
        let (events, readable) = channel();
        tokio::spawn(pump(body, filter, work, events));
        return Response::from_parts(head, readable.into_body());
    }
    let whole = tokio::select! {
        biased;
        whole = body.collect() => whole.ok(),
        _ = work.failed() => None,
    };
    let Some(whole) = whole else {
        let why = work.why("its response ended too early").await;
        return filter.failed(&why);
    };
    let whole = whole.to_bytes();
    // What is no text is not ours to look at.
    let body = match std::str::from_utf8(&whole) {
        Ok(text) if !text.is_empty() => filter.message(text).unwrap_or_default().into(),
        _ => whole,
    };
    match head.status.is_success() && body.is_empty() && filter.owes() {
        true => filter.failed("the server answered with nothing"),
        false => Response::from_parts(head, body.into()),
    }
}

/// Where events for a client go.
pub(super) type Events = mpsc::Sender<Event>;

/// What a client reads events from.
pub(super) struct Readable(mpsc::Receiver<Event>);

pub(super) fn channel() -> (Events, Readable) {
    let (events, read) = mpsc::channel(EVENTS);
    (events, Readable(read))
}

impl Readable {
    pub(super) fn into_body(self) -> Body {
        Body::from_stream(stream::unfold(self.0, |mut events| async {
            let event = events.recv().await?;
            Some((Ok::<_, std::convert::Infallible>(event.into_bytes()), events))
        }))
    }

    /// A response that is a stream of events.
    pub(super) fn into_response(self) -> Answer {
        let mut response = Response::new(self.into_body());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
        response
    }
}

/// How a stream of a server ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// As the server wanted.
    Well,
    /// Before its end.
    Badly,
    /// Nobody reads it.
    Unread,
}

/// Passes events on, until the stream ends.
pub(super) async fn forward(body: &mut Body, events: &Events, mut one: impl FnMut(&Event) -> Option<Event>) -> Ended {
    let mut splitter = Splitter::default();
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = events.closed() => return Ended::Unread,
        };
        let bytes = match frame {
            None => return Ended::Well,
            Some(Err(_)) => return Ended::Badly,
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
        };
        for event in splitter.add(&bytes).iter().filter_map(&mut one) {
            if events.send(event).await.is_err() {
                return Ended::Unread;
            }
        }
    }
}

/// Passes the answer to a request on; what its server does not answer, is answered with an error.
async fn pump(mut body: Body, mut filter: Filter, mut work: Work, events: Events) {
    let ended = tokio::select! {
        biased;
        ended = forward(&mut body, &events, |event| filter.event(event)) => ended,
        _ = work.failed() => Ended::Badly,
    };
    // The client comes back for the rest of a session's stream, which the server keeps.
    let is_kept = filter.session.is_some() && filter.front.backends.alive(filter.server).is_some();
    if ended == Ended::Unread || (ended == Ended::Well && is_kept) || !filter.owes() {
        return;
    }
    let why = work.why("its response ended too early").await;
    if events.is_closed() {
        // Whoever takes the stream up again is told.
        return;
    }
    for error in filter.errors(&why) {
        let _ = events.send(Event::of_message(&error)).await;
    }
}

/// Why a server did not take a session up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Apart {
    /// It does not want to.
    Refused,
    /// It went away.
    Failed,
}

impl Front {
    /// The id of a session with a server, which is brought to where the session is if it does not know it.
    ///
    /// # Errors
    ///
    /// The server refuses the handshake, and the session is over; or it went away.
    pub(super) async fn join(&self, held: &Held, backend: &Backend) -> Result<String, Apart> {
        let _shaking = held.shaking.lock().await;
        let known = |held: &Held| lock(&held.state).ids.get(&backend.generation).cloned();
        if let Some(id) = known(held) {
            return Ok(id);
        }
        let joined = timeout(REPLAY, self.replay(held, backend)).await.unwrap_or(Err(Apart::Failed));
        match &joined {
            Ok(id) => {
                lock(&held.state).ids.insert(backend.generation, id.clone());
            }
            Err(Apart::Refused) => {
                lock(&self.sessions).remove(&held.id);
            }
            Err(Apart::Failed) => {}
        }
        joined
    }

    /// Opens a session with a server, as the client did.
    async fn replay(&self, held: &Held, backend: &Backend) -> Result<String, Apart> {
        let (parts, initialize, revision, capabilities) = {
            let state = lock(&held.state);
            let parts = post(&state);
            (parts, state.initialize.clone(), state.revision.clone(), state.capabilities.clone())
        };
        let (headers, answer) = exchange(backend, &parts, initialize).await.ok_or(Apart::Failed)?;
        let message = answer.as_deref().and_then(Message::read);
        let Some(result) = message.as_ref().and_then(|message| message.result) else {
            let why = message.and_then(|message| message.error_message()).unwrap_or_default();
            self.say.warn(format_args!("the new server refuses the handshake of a session: {why}"));
            return Err(Apart::Refused);
        };
        let (new_revision, new_capabilities) = sessions::settled(result.get());
        if new_revision != revision {
            self.say.warn(format_args!("a session speaks {revision}, and the new server offers {new_revision}"));
            return Err(Apart::Refused);
        }
        if new_capabilities != capabilities {
            let listed =
                |names: &std::collections::BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
            self.say.warn(format_args!(
                "a client was told of {}, and now there is {}: connect it anew",
                listed(&capabilities),
                listed(&new_capabilities)
            ));
        }
        let id = headers.get(&SESSION).and_then(|id| id.to_str().ok()).ok_or(Apart::Refused)?.to_owned();
        let mut parts = parts;
        parts.headers.insert(SESSION, header_value(&id));
        parts.headers.insert(super::VERSION, header_value(&revision));
        let lines = {
            let state = lock(&held.state);
            let initialized = state.is_initialized.then(|| notification("notifications/initialized", None));
            let others = state.level.iter().chain(state.subscriptions.values()).enumerate();
            let own = |(at, line): (usize, &String)| replayed(line, at);
            initialized.into_iter().chain(others.filter_map(own)).collect::<Vec<_>>()
        };
        for line in lines {
            exchange(backend, &parts, line.into()).await.ok_or(Apart::Failed)?;
        }
        Ok(id)
    }
}

/// A request of the client's with an id of ours; the session with this server knows no other.
fn replayed(line: &str, at: usize) -> Option<String> {
    let id = Message::read(line)?.id?;
    Some(replace(line, id.get(), &json!(format!("cargo-mcp-{at}")).to_string()))
}

/// A POST to where the client's handshake went, with what stood in its headers.
fn post(session: &Session) -> Parts {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = Method::POST;
    parts.uri = session.uri.clone();
    parts.headers = session.headers.clone();
    parts.headers.remove(&SESSION);
    parts
}

/// Sends a message of our own; gives the headers of the response, and the answer if there is one.
async fn exchange(backend: &Backend, parts: &Parts, body: Bytes) -> Option<(HeaderMap, Option<String>)> {
    let text = String::from_utf8_lossy(&body).into_owned();
    let id = member(&text, "id").and_then(Key::read);
    let response = backend.send(parts, body).await.ok()?;
    let (head, mut body) = response.into_parts();
    let is_answer = |text: &str| id.is_some() && Message::read(text).and_then(|it| Key::read(it.id?.get())) == id;
    if !is_events(&head.headers) {
        let whole = body.collect().await.ok()?.to_bytes();
        return Some((head.headers, String::from_utf8(whole.to_vec()).ok().filter(|text| !text.is_empty())));
    }
    let mut splitter = Splitter::default();
    while let Some(frame) = body.frame().await {
        let bytes = frame.ok()?.into_data().unwrap_or_default();
        let found = splitter.add(&bytes).iter().filter_map(Event::data).find(|data| is_answer(data));
        if found.is_some() {
            return Some((head.headers, found));
        }
    }
    Some((head.headers, None))
}
