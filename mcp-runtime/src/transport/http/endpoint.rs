//! The state that all requests to one endpoint share, and signs that the client of a connection reads.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use http::request::Parts;
use tokio::sync::{SemaphorePermit, watch};

use super::{
    authorization::Authorization,
    limits::SharedLimits,
    options::HttpOptions,
    peers::{Peer, Remote},
    response,
    session::{LocalSessions, Sessions},
    sse::{
        body::{ShutdownPhase, SseBody, StreamConfig},
        events::StreamEvents,
    },
};
use crate::{
    backend::BACKEND_TIMEOUT,
    counters::{Counter, EndpointStats},
    engine::{Engine, Session},
    revision::Feature,
    stdx::{Mutex, race},
};

/// The minimum time between two searches for expired sessions.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// An MCP endpoint, as seen by the requests of one connection. Clones share their state, and count their references in the
/// connection, so that the requests of different connections write to different memory.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    connection: Arc<PeerConnection>,
}

/// The connection that carries requests, or the stream of one that carries a request of HTTP/2.
#[derive(Debug)]
struct PeerConnection {
    shared: Arc<Shared>,
    /// The sender at the other end.
    remote: Remote,
    /// Whether the listener encrypts it.
    is_tls: bool,
    /// The peer, to which requests without a principal belong unless they contain another address.
    peer: Arc<Peer>,
    reader: Arc<Reader>,
}

#[derive(Debug)]
struct Shared {
    engine: Arc<Engine>,
    authorization: Option<Arc<Authorization>>,
    options: Arc<HttpOptions>,
    sessions: Arc<dyn Sessions>,
    limits: Arc<SharedLimits>,
    shutdown: watch::Sender<ShutdownPhase>,
    created: Instant,
    /// The time of the last search for expired sessions, in seconds since the endpoint was created. Requests only read it.
    last_sweep: AtomicU64,
}

impl Endpoint {
    pub(crate) fn new(
        engine: Arc<Engine>,
        authorization: Option<Arc<Authorization>>,
        local: Arc<LocalSessions>,
        sessions: Arc<dyn Sessions>,
        options: HttpOptions,
    ) -> Self {
        let shutdown = watch::Sender::new(ShutdownPhase::Running);
        let limits = Arc::new(SharedLimits::new(&options, local, shutdown.subscribe()));
        let peer = limits.peers.remote(Remote::Unknown);
        let shared = Shared {
            engine,
            authorization,
            limits,
            sessions,
            options: Arc::new(options),
            shutdown,
            created: Instant::now(),
            last_sweep: AtomicU64::new(0),
        };
        let stats: Arc<dyn EndpointStats> = Arc::clone(&shared.limits) as _;
        shared.engine.add_endpoint(Arc::downgrade(&stats));
        let (shared, remote) = (Arc::new(shared), Remote::Unknown);
        Self { connection: Arc::new(PeerConnection { shared, remote, is_tls: false, peer, reader: Arc::default() }) }
    }

    /// Returns the same endpoint for the requests of one connection, or of one stream of it, which `is_tls` if the listener
    /// encrypts it.
    pub(super) fn for_remote(&self, remote: Remote, is_tls: bool) -> Self {
        let is_same = remote == self.remote();
        let peer = if is_same { Arc::clone(self.peer()) } else { self.limits().peers.remote(remote) };
        let shared = Arc::clone(self.shared());
        Self { connection: Arc::new(PeerConnection { shared, remote, is_tls, peer, reader: Arc::default() }) }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.connection.shared
    }

    /// Returns this endpoint for the requests of a connection, which may be one to another endpoint of the server.
    pub(super) fn for_connection(&self, connection: &Self) -> Self {
        if Arc::ptr_eq(self.shared(), connection.shared()) {
            return connection.clone();
        }
        self.for_remote(connection.remote(), connection.connection.is_tls)
    }

    /// Returns the peer of the connection.
    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.connection.peer
    }

    /// Returns the sender at the other end of the connection.
    pub(super) fn remote(&self) -> Remote {
        self.connection.remote
    }

    /// Returns the scheme of the URLs of the endpoint, as a client on the same machine uses them.
    pub(super) fn scheme(&self) -> &'static str {
        if self.connection.is_tls { "https" } else { "http" }
    }

    /// Returns the client of the connection as a reader.
    pub(super) fn reader(&self) -> &Arc<Reader> {
        &self.connection.reader
    }

    /// Sets the session that lives while the client of the connection reads.
    pub(super) fn set_reading_session(&self, session: Option<&Arc<Session>>) {
        if self.engine().profile.limits.ping_interval.is_some() {
            *self.reader().0.lock() = session.map_or_else(Weak::new, Arc::downgrade);
        }
    }

    /// Returns the peer whose share of the limits a request uses.
    pub(super) fn peer_of(&self, request: &Parts) -> Arc<Peer> {
        self.other_peer(request, self.sender_of(request)).unwrap_or_else(|| Arc::clone(self.peer()))
    }

    /// Returns the peer of a request from `sender`, or `None` if it is the peer of the connection.
    pub(super) fn other_peer(&self, request: &Parts, sender: Remote) -> Option<Arc<Peer>> {
        match response::principal(request) {
            Some(name) => Some(self.limits().peers.principal(name)),
            None if sender == self.remote() => None,
            None => Some(self.limits().peers.remote(sender)),
        }
    }

    /// Returns the sender of a request: the client that a trusted proxy states, or else the address that the author's
    /// function finds in the request, or else the other end of the connection.
    pub(super) fn sender_of(&self, request: &Parts) -> Remote {
        let options = self.options();
        let found = options.peer_addr.as_ref().and_then(|address| (address.0)(request));
        let sender = found.map_or(self.remote(), Remote::Address);
        let client = options.trusted_proxies.as_ref().ok().and_then(|proxies| proxies.client(sender, &request.headers));
        client.map_or(sender, Remote::Address)
    }

    pub(super) fn options(&self) -> &Arc<HttpOptions> {
        &self.shared().options
    }

    /// Returns how requests are authenticated. Returns `None` if they are not.
    pub(super) fn authorization(&self) -> Option<&Authorization> {
        self.shared().authorization.as_deref()
    }

    /// Returns a response body that carries the events of a stream, of a kind that is counted. It ends when the server
    /// shuts down or the credentials of the request have expired.
    pub(super) fn sse_body(
        &self,
        request: &Parts,
        events: StreamEvents,
        config: StreamConfig,
        kind: Counter,
    ) -> SseBody {
        let body = SseBody::new(events, config, self.shared().shutdown.subscribe());
        body.until(self.stream_deadline(request)).counted(kind, self.engine())
    }

    /// Returns the time at which the streams of a request's sender end because its credentials have expired.
    fn stream_deadline(&self, request: &Parts) -> Option<tokio::time::Instant> {
        let expires_at = response::identity(request)?.expires_at()?;
        let grace = self.options().expired_stream_grace?;
        let remaining = expires_at.checked_add(grace)?.duration_since(SystemTime::now()).unwrap_or_default();
        tokio::time::Instant::now().checked_add(remaining)
    }

    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.shared().engine
    }

    pub(super) fn sessions(&self) -> &dyn Sessions {
        &*self.shared().sessions
    }

    pub(super) fn limits(&self) -> &Arc<SharedLimits> {
        &self.shared().limits
    }

    /// Registers a message that is being received, until the returned value is dropped.
    pub(super) fn start_receiving(&self) -> watch::Receiver<()> {
        // Connections are at different addresses, which spreads them over the counters.
        self.limits().start_receiving(Arc::as_ptr(&self.connection).addr() / size_of::<PeerConnection>())
    }

    /// Returns the configuration of a session's streams.
    pub(super) fn session_stream_config(&self, session: &Session) -> StreamConfig {
        let polling = session.info.dialect.has(Feature::StreamPolling);
        StreamConfig { ids: true, polling, ..self.stream_config() }
    }

    /// Returns the configuration of streams without a session.
    pub(super) fn stream_config(&self) -> StreamConfig {
        StreamConfig { ids: false, named: false, polling: false, keep_alive: self.options().keep_alive }
    }

    /// Lets the readiness check fail, and waits for `delay`, in which load balancers notice it. All requests are still served.
    pub(super) async fn drain(&self, delay: Duration) {
        self.enter(ShutdownPhase::Draining);
        if !delay.is_zero() {
            tracing::info!(?delay, "shutting down: waiting until load balancers have noticed");
            tokio::time::sleep(delay).await;
        }
    }

    /// Begins a phase of the shutdown, unless it has begun already.
    fn enter(&self, next: ShutdownPhase) {
        self.shared().shutdown.send_if_modified(|phase| {
            let is_earlier = *phase < next;
            *phase = next.max(*phase);
            is_earlier
        });
    }

    /// Returns why the endpoint should not receive requests, or `None` if it should.
    pub(super) async fn unready(&self) -> Option<&'static str> {
        if *self.shared().shutdown.borrow() != ShutdownPhase::Running {
            return Some("the server is shutting down");
        }
        self.engine().backend_problem().await
    }

    /// Returns whether the authenticator could examine the last request, as text. Returns `None` without an
    /// authenticator.
    pub(super) fn authenticator_state(&self) -> Option<&'static str> {
        Some(if self.authorization()?.is_unavailable() { "unavailable" } else { "ok" })
    }

    /// Answers every subscription request, and ends the streams of 2024-11-05 whose clients have nothing in flight. Calls
    /// continue.
    pub(super) fn end_subscriptions(&self) {
        self.enter(ShutdownPhase::SubscriptionsEnded);
    }

    /// Waits for the messages that are being received, then for the calls in flight, unless clients are `unreachable`, and for
    /// running tasks, for at most `grace` in all. Then closes the endpoint. Rejects new calls once it waits for the calls in flight, and afterwards.
    pub(super) async fn shut_down(&self, grace: Duration, unreachable: impl Future<Output = ()>) {
        let settled = async {
            let settled = race(self.settled(), unreachable).await;
            self.engine().tasks.ended().await;
            settled
        };
        let settled = tokio::time::timeout(grace, settled).await;
        if settled.is_err() {
            tracing::warn!("shutdown grace period expired: cancelling calls and tasks in flight");
        }
        self.limits().close();
        drop(settled);
        self.engine().tasks.abort();
        self.sessions().local().close_all();
        // Other processes, and the responses that this one carries, read the responses to cancelled calls from the backend.
        let _ = tokio::time::timeout(grace.min(BACKEND_TIMEOUT), self.sessions().written()).await;
        self.enter(ShutdownPhase::Closed);
    }

    /// Waits until no call is in flight. If other replicas can resume streams, also waits until they can read all
    /// responses.
    async fn settled(&self) -> Option<SemaphorePermit<'_>> {
        let settled = self.limits().settled().await;
        self.sessions().written().await;
        settled
    }

    /// Ends every session and every stream.
    pub(super) fn close(&self) {
        self.sessions().local().close_all();
        self.enter(ShutdownPhase::Closed);
    }

    /// Removes expired sessions, at most once per [`SWEEP_INTERVAL`].
    pub(super) fn sweep(&self, now: Instant) {
        let Shared { created, last_sweep, .. } = &**self.shared();
        let (time, last) = (now.saturating_duration_since(*created).as_secs(), last_sweep.load(Relaxed));
        if time.saturating_sub(last) >= SWEEP_INTERVAL.as_secs()
            && last_sweep.compare_exchange(last, time, Relaxed, Relaxed).is_ok()
        {
            self.sessions().local().sweep(now);
        }
    }
}

/// The session whose output a connection carries. The connection reports to it that its client reads, so that a client
/// that is busy with a long response does not appear to be dead.
#[derive(Debug, Default)]
pub(super) struct Reader(Mutex<Weak<Session>>);

impl Reader {
    /// Records that the client has made room for output that was waiting.
    pub(super) fn record_read(&self) {
        let session = self.0.lock().upgrade();
        if let Some(session) = session {
            session.record_sign_of_life();
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, Request};

    use super::*;
    use crate::{
        Server,
        transport::http::{HttpBody, HttpService, LegacySessions, peers::Resource},
    };

    /// Sessions whose clients never return are removed, but not by a search for each request.
    #[test]
    fn expired_sessions_are_searched_for_at_intervals() {
        let built = Server::empty("idle", "1.0.0").build().unwrap();
        let endpoint = built.endpoint(HttpOptions::default().session_idle(Duration::from_secs(10)));
        for (seconds, opens, left) in [(29, true, 1), (30, false, 0), (59, true, 1), (60, false, 0)] {
            if opens {
                let opened = endpoint.sessions().local().open(Arc::new(Session::for_test()), endpoint.peer());
                assert!(opened.is_some(), "{seconds}");
            }
            endpoint.sweep(endpoint.shared().created + Duration::from_secs(seconds));
            assert_eq!(endpoint.peer().used(Resource::Sessions), left, "{seconds}");
        }
    }

    /// Even if no request names a session.
    #[tokio::test]
    async fn every_kind_of_request_searches_for_expired_sessions() {
        let request = |method: Method| Request::builder().method(method).uri("/mcp").header("host", "localhost");
        for (name, request) in [
            ("a POST", request(Method::POST)),
            ("a POST of a web page", request(Method::POST).header("origin", "http://localhost")),
            ("a GET", request(Method::GET)),
        ] {
            let built = Server::empty("idle", "1.0.0").build().unwrap();
            let mut endpoint = built.endpoint(HttpOptions::default().session_idle(Duration::ZERO));
            // As if it had been created earlier.
            let connection = Arc::get_mut(&mut endpoint.connection).unwrap();
            let shared = Arc::get_mut(&mut connection.shared).unwrap();
            shared.created = shared.created.checked_sub(SWEEP_INTERVAL).unwrap();
            let opened = endpoint.sessions().local().open(Arc::new(Session::for_test()), endpoint.peer());
            assert!(opened.is_some(), "{name}");
            let service = HttpService::new(endpoint.clone(), LegacySessions::default());
            let Ok(_) = service.respond(request.body(HttpBody::default()).unwrap()).await;
            assert_eq!(endpoint.peer().used(Resource::Sessions), 0, "{name}");
        }
    }
}
