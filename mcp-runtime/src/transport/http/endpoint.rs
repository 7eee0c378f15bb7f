//! One endpoint: what is common to all requests, and the methods that are not POST.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::Arc,
    task,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header, request::Parts};
use http_body::Body;
use tokio::sync::watch;
use tower_service::Service;

use super::{
    HttpOptions,
    body::HttpBody,
    guard,
    headers::{self, HttpRequestSource, SESSION, VERSION},
    response::{self, Answer, HttpResponse},
    sessions::{HttpSession, Sessions},
    stream::{Closing, Events, Manner, read_event_id},
    work::Work,
};
use crate::{
    engine::{Engine, Session},
    error::Fault,
    revision::{self, Feature},
};

/// The time between two looks for sessions that were idle too long.
const SWEEP: Duration = Duration::from_secs(30);

/// The MCP endpoint, without what browsers need.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    shared: Arc<Shared>,
    /// Where the requests come from, if that is known.
    peer: Option<SocketAddr>,
}

#[derive(Debug)]
struct Shared {
    engine: Arc<Engine>,
    options: Arc<HttpOptions>,
    sessions: Arc<Sessions>,
    work: Arc<Work>,
    closing: watch::Sender<Closing>,
    swept: std::sync::Mutex<Instant>,
}

impl Endpoint {
    pub(super) fn new(engine: Arc<Engine>, options: HttpOptions) -> Self {
        let sessions = Arc::new(Sessions::new(options.max_sessions, options.session_idle));
        let shared = Shared {
            engine,
            work: Arc::new(Work::new(&options, Arc::clone(&sessions))),
            sessions,
            options: Arc::new(options),
            closing: watch::Sender::new(Closing::No),
            swept: std::sync::Mutex::new(Instant::now()),
        };
        Self { shared: Arc::new(shared), peer: None }
    }

    /// The same endpoint, for the requests of one peer.
    pub(super) fn seen_from(&self, peer: SocketAddr) -> Self {
        Self { shared: Arc::clone(&self.shared), peer: Some(peer) }
    }

    /// Where a request comes from, for the engine.
    pub(super) fn request_source(&self, request: Parts) -> Arc<HttpRequestSource> {
        Arc::new(HttpRequestSource::new(request, self.peer, &self.shared.work))
    }

    pub(super) fn options(&self) -> &Arc<HttpOptions> {
        &self.shared.options
    }

    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    pub(super) fn sessions(&self) -> &Sessions {
        &self.shared.sessions
    }

    pub(super) fn work(&self) -> &Arc<Work> {
        &self.shared.work
    }

    /// Turns away whom the server is not meant for.
    pub(super) fn guard(&self, request: &Parts) -> Result<(), Box<HttpResponse>> {
        guard::check(request, self.options()).map_err(|refused| {
            refused.log(request);
            let status = match refused {
                guard::Refused::NoHost => StatusCode::BAD_REQUEST,
                guard::Refused::Host | guard::Refused::Origin => StatusCode::FORBIDDEN,
            };
            Box::new(response::refuse_because(status, refused.why()))
        })
    }

    pub(super) fn closing(&self) -> watch::Receiver<Closing> {
        self.shared.closing.subscribe()
    }

    /// Answers every request that listens.
    pub(super) fn end_listeners(&self) {
        self.shared
            .closing
            .send_if_modified(|closing| std::mem::replace(closing, Closing::Listens.max(*closing)) < Closing::Listens);
    }

    /// Ends every stream and session.
    pub(super) fn close(&self) {
        self.shared.closing.send_replace(Closing::Everything);
        self.shared.sessions.close_all();
    }

    pub(super) async fn handle<B>(&self, request: Request<B>) -> HttpResponse
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        if parts.method == Method::POST {
            return self.handle_post(self.request_source(parts), body).await;
        }
        let now = Instant::now();
        self.sweep(now);
        if let Err(response) = self.guard(&parts) {
            return *response;
        }
        match parts.method {
            Method::GET => self.get(&parts, now),
            Method::DELETE => self.delete(&parts, now),
            _ => not_allowed("GET, POST, DELETE"),
        }
    }

    /// Answers a POST, without a look at its method.
    pub(super) async fn handle_post<B>(&self, source: Arc<HttpRequestSource>, body: B) -> HttpResponse
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let now = Instant::now();
        self.sweep(now);
        match self.guard(source.request()) {
            Ok(()) => self.post(source, body, now).await,
            Err(response) => *response,
        }
    }

    /// Opens the stream for messages that belong to no request, or takes up a stream that was lost.
    fn get(&self, request: &Parts, now: Instant) -> HttpResponse {
        let session = match self.session_of(request, now) {
            Ok(session) => session,
            Err(response) => return *response,
        };
        if !headers::accepts(&request.headers, "text", "event-stream") {
            return response::refuse_because(StatusCode::NOT_ACCEPTABLE, "`Accept` must take text/event-stream");
        }
        let (stream, at) = match request.headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default()) {
            None => {
                let stream = session.standing_stream();
                // What no response carried is still to come.
                let at = stream.written();
                (stream, at)
            }
            Some(id) => {
                let found = read_event_id(id).and_then(|(stream, at)| Some((session.stream(stream)?, at)));
                let why = "`Last-Event-ID` names no event of this session that is still kept";
                let Some((stream, at)) = found.filter(|(stream, at)| *at <= stream.last()) else {
                    return response::refuse_because(StatusCode::BAD_REQUEST, why);
                };
                if stream.is_over() && at == stream.last() {
                    // The client has everything; this status keeps it from asking again.
                    return response::empty(StatusCode::NO_CONTENT);
                }
                (stream, at)
            }
        };
        let manner = Manner { primed: false, ..self.manner(&session.session) };
        response::events(Events::new(stream, manner, at, self.closing()).busy(Some(session.busy())))
    }

    /// Ends a session.
    fn delete(&self, request: &Parts, now: Instant) -> HttpResponse {
        match self.session_of(request, now) {
            Ok(_) => {
                let id = request.headers.get(&SESSION).and_then(|id| id.to_str().ok()).unwrap_or_default();
                self.sessions().close(id);
                response::empty(StatusCode::NO_CONTENT)
            }
            Err(response) => *response,
        }
    }

    /// Finds the session that a GET or DELETE belongs to.
    fn session_of(&self, request: &Parts, now: Instant) -> Result<Arc<HttpSession>, Box<HttpResponse>> {
        if is_stateless(request) {
            return Err(Box::new(not_allowed("POST")));
        }
        check_version(headers::plain(&request.headers, &VERSION))?;
        self.find_session(request, now)?
            .ok_or_else(|| Box::new(response::refuse_because(StatusCode::BAD_REQUEST, "`Mcp-Session-Id` is missing")))
    }

    /// Finds the session that a request names, if it names one.
    pub(super) fn find_session(
        &self,
        request: &Parts,
        now: Instant,
    ) -> Result<Option<Arc<HttpSession>>, Box<HttpResponse>> {
        let mut ids = request.headers.get_all(&SESSION).iter();
        let Some(id) = ids.next() else { return Ok(None) };
        let found = id.to_str().ok().filter(|_| ids.next().is_none()).and_then(|id| self.sessions().find(id, now));
        let gone =
            || Box::new(response::refuse_because(StatusCode::NOT_FOUND, "there is no such session, or no longer"));
        found.map(Some).ok_or_else(gone)
    }

    /// How the streams of a session are written.
    pub(super) fn manner(&self, session: &Session) -> Manner {
        Manner { ids: true, primed: session.dialect.has(Feature::StreamPolling), keep_alive: self.options().keep_alive }
    }

    fn sweep(&self, now: Instant) {
        let Ok(mut swept) = self.shared.swept.try_lock() else { return };
        if now.saturating_duration_since(*swept) > SWEEP {
            *swept = now;
            self.sessions().sweep(now);
        }
    }
}

/// Says whether the header names a version that knows no sessions, known to the server or not.
fn is_stateless(request: &Parts) -> bool {
    let version = request.headers.get(&VERSION).and_then(|version| version.to_str().ok());
    version.is_some_and(|version| revision::stateless(version.trim()).is_some())
}

/// Refuses a version that no session can have.
///
/// See [Protocol version header](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#protocol-version-header).
pub(super) fn check_version(version: Result<Option<&str>, Fault>) -> Result<(), Box<HttpResponse>> {
    match version {
        Ok(Some(version)) if revision::handshake(version).is_none() => {
            let why = format!("the protocol version {version:?} is not supported");
            Err(Box::new(response::refuse_because(StatusCode::BAD_REQUEST, &why)))
        }
        Ok(_) => Ok(()),
        Err(fault) => Err(Box::new(response::refuse(StatusCode::BAD_REQUEST, &fault))),
    }
}

pub(super) fn not_allowed(methods: &'static str) -> HttpResponse {
    let mut response =
        response::refuse_because(StatusCode::METHOD_NOT_ALLOWED, "this path does not know this HTTP method");
    response::set(&mut response, header::ALLOW, methods);
    response
}

impl<B> Service<Request<B>> for Endpoint
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), Infallible>> {
        task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answer {
        let endpoint = self.clone();
        Box::pin(async move { Ok(endpoint.handle(request).await) })
    }
}
