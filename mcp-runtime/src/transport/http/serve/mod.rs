//! Listening on an address: accepting connections, routing their requests by path, and shutting down.

mod connection;
#[cfg(feature = "tls")]
mod http2;
mod listener;
#[cfg(feature = "tls")]
mod tls;
#[cfg(unix)]
mod unix;

pub use listener::Listener;

use std::{
    convert::Infallible,
    error::Error,
    future::pending,
    io,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use http::{Request, StatusCode};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};

use self::connection::{ConnectionLimit, SharedTimer, Socket};
#[cfg(feature = "tls")]
use self::tls::{Certificate, is_http2};
#[cfg(feature = "tls")]
use crate::transport::http::peers::Pool;
use crate::{
    backend::Backoff,
    stdx::{debug, race},
    transport::{
        self,
        http::{
            authorization::AuthorizationService,
            legacy::LegacySessions,
            options::{ListenerOptions, MAX_HEADERS},
            peers::{PeerPermit, Remote},
            response::{self, HttpResponse},
            service::{HttpService, Prepared},
        },
    },
};

/// The longest time between two attempts to accept a connection.
const MAX_ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Serves an MCP endpoint over HTTP on a listener.
///
/// Like `axum::serve`, this returns a value to configure and await. Unlike it, without
/// [`with_graceful_shutdown`](Serve::with_graceful_shutdown), the process stops gracefully at SIGTERM and Ctrl-C.
///
/// ```
/// use mcp_runtime::{HttpOptions, Server, http};
/// use tokio::net::TcpListener;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # async fn shutdown_signal() {}
/// let service = Server::empty("notes", "1.0.0").build()?.into_http_service(HttpOptions::default())?;
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// http::serve(listener, service).with_graceful_shutdown(shutdown_signal()).await?;
/// # Ok(())
/// # }
/// ```
///
/// To serve other routes beside the endpoint, mount the service into an application and serve that.
pub fn serve(listener: impl Into<Listener>, service: HttpService) -> Serve {
    Serve { listener: listener.into(), service, options: ListenerOptions::default(), stop: None }
}

/// A server that starts when it is awaited. See [`serve`].
///
/// # Errors
///
/// The future returns an error if other machines can reach the address and no host is
/// [allowed](crate::HttpOptions::allow_host), or if the [backend](crate::Server::backend) belongs to a server with another
/// name. Failures of single connections are logged.
#[must_use = "servers do nothing unless you `.await` them"]
pub struct Serve {
    listener: Listener,
    service: HttpService,
    options: ListenerOptions,
    stop: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Serve {
    /// Sets the options of the listener.
    pub fn options(mut self, options: ListenerOptions) -> Self {
        self.options = options;
        self
    }

    /// Shuts down when `signal` completes, in place of SIGTERM and Ctrl-C: stops accepting connections, ends
    /// subscriptions, and waits for the calls in flight and running tasks, for at most
    /// [`Server::shutdown_grace`](crate::Server::shutdown_grace).
    pub fn with_graceful_shutdown(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stop = Some(Box::pin(signal));
        self
    }

    /// Serves without checking whether the server may start.
    pub(crate) async fn run(self) {
        let engine = self.service.endpoint.engine();
        let (grace, margin) = (engine.profile.limits.grace_period, engine.shutdown_margin());
        let stop = self.stop.unwrap_or_else(|| {
            let limit = self.options.drain_delay.saturating_add(grace).saturating_add(margin);
            Box::pin(transport::shutdown_signal(limit))
        });
        let drain_delay = self.options.drain_delay;
        let connection_limit =
            ConnectionLimit::new(&self.options, self.service.endpoint.options().max_peer_share, self.listener.is_tls());
        let (listener, router) = (self.listener, Router { service: self.service, options: Arc::new(self.options) });
        let connections = watch::Sender::new(());
        let endpoint = router.service.endpoint.clone();
        let stop = async move {
            stop.await;
            endpoint.drain(drain_delay).await;
        };
        tokio::pin!(stop);
        let mut backoff = Backoff::up_to(MAX_ACCEPT_PAUSE);
        loop {
            match race(stop.as_mut(), listener.accept()).await {
                Err(Ok((stream, remote))) => {
                    backoff.reset();
                    let router = Arc::new(router.for_remote(remote, listener.is_tls()));
                    let endpoint = &router.service.endpoint;
                    let Some((stream, permit)) = connection_limit.admit(stream, endpoint.peer()) else { continue };
                    let options = &router.options;
                    let reader = Arc::clone(endpoint.reader());
                    let socket = Socket::new(stream, options.write_timeout, options.min_read_rate, reader);
                    #[cfg(feature = "tls")]
                    if let Some(certificate) = &listener.certificate {
                        if let Some(handshake) = connection_limit.admit_handshake(endpoint.peer()) {
                            let (certificate, requests) = (Arc::clone(certificate), Arc::clone(&connection_limit.pool));
                            let serve = |stop| router.serve_tls(socket, certificate, handshake, requests, stop);
                            spawn(remote, permit, connections.subscribe(), serve);
                        }
                        continue;
                    }
                    spawn(remote, permit, connections.subscribe(), |stop| router.serve(socket, stop));
                }
                Err(Err(error)) => {
                    // The process may have too many open files, so this waits for other connections to close.
                    if backoff.is_reset() {
                        tracing::warn!(%error, "cannot accept connections: retrying");
                    }
                    backoff.wait().await;
                }
                Ok(()) => break,
            }
        }
        drop(listener);
        let engine = Arc::clone(router.service.endpoint.engine());
        router.shut_down(connections, grace).await;
        engine.flush_changes().await;
        engine.leave().await;
    }
}

impl IntoFuture for Serve {
    type Output = io::Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let address = self.listener.address();
            self.service.check_start(address.as_ref().ok()).await?;
            if let Ok(address) = address {
                tracing::info!(%address, "listening");
            }
            self.run().await;
            Ok(())
        })
    }
}

debug!(Serve, self, listener: self.listener, options: self.options);

type ConnectionResult = Result<(), Box<dyn Error + Send + Sync>>;

/// Serves a connection in a new task. The task creates the future, since its own would otherwise store it twice.
///
/// The shutdown of the listener waits until all receivers of `stop` are dropped, so the task drops the last one when it
/// has released the server.
fn spawn<F>(
    remote: Remote,
    permit: PeerPermit,
    stop: watch::Receiver<()>,
    serve: impl FnOnce(watch::Receiver<()>) -> F + Send + 'static,
) where
    F: Future<Output = ConnectionResult> + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = serve(stop.clone()).await {
            tracing::debug!(%error, ?remote, "connection failed");
        }
        drop(permit);
        drop(stop);
    });
}

/// A router that dispatches requests by path.
#[derive(Debug, Clone)]
struct Router {
    service: HttpService,
    options: Arc<ListenerOptions>,
}

impl Router {
    /// Returns the same router for the requests of one connection.
    fn for_remote(&self, remote: Remote, is_tls: bool) -> Self {
        Self { service: self.service.for_remote(remote, is_tls), options: Arc::clone(&self.options) }
    }

    /// Serves a connection until it ends. From the shutdown of the listener on, only until the current request ends.
    async fn serve<S>(self: Arc<Self>, socket: S, mut stop: watch::Receiver<()>) -> ConnectionResult
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|request: Request<Incoming>| self.respond(request));
        let connection = http1::Builder::new()
            .timer(SharedTimer::default())
            .header_read_timeout(self.options.header_timeout)
            .max_headers(MAX_HEADERS)
            .max_buf_size(self.options.max_head_bytes)
            .serve_connection(TokioIo::new(socket), service);
        let mut connection = pin!(connection);
        if let Ok(ended) = race(connection.as_mut(), stop.changed()).await {
            return Ok(ended?);
        }
        connection.as_mut().graceful_shutdown();
        Ok(connection.await?)
    }

    /// Serves a connection over TLS, with the protocol that the client chooses. Each request of HTTP/2 takes a permit of
    /// `requests`.
    #[cfg(feature = "tls")]
    async fn serve_tls(
        self: Arc<Self>,
        socket: Socket,
        certificate: Arc<Certificate>,
        handshake: PeerPermit,
        requests: Arc<Pool>,
        mut stop: watch::Receiver<()>,
    ) -> ConnectionResult {
        let accepted = certificate.accept(socket, self.options.header_timeout);
        let Ok(stream) = race(accepted, stop.changed()).await else { return Ok(()) };
        let stream = stream?;
        drop(handshake);
        if !is_http2(&stream) {
            return Box::pin(self.serve(stream, stop)).await;
        }
        let (options, endpoint) = (Arc::clone(&self.options), self.service.endpoint.clone());
        let remote = endpoint.remote();
        let admit = move || requests.try_acquire(endpoint.peer(), 1);
        let respond = move |request| {
            // The client may read some responses and not others, so each request has a reader of its own.
            let router = Arc::new(self.for_remote(remote, true));
            // Boxed, since hyper moves the future several times.
            (Arc::clone(router.service.endpoint.reader()), Box::pin(router.respond(request)))
        };
        Ok(Box::pin(http2::serve(stream, &options, admit, respond, stop)).await?)
    }

    /// Responds to a request. The future is small if the request is one to the endpoint.
    fn respond(&self, request: Request<Incoming>) -> impl Future<Output = Result<HttpResponse, Infallible>> + use<> {
        self.service.complete(self.route(request))
    }

    /// Returns whether a path is the endpoint's, with or without a slash at its end.
    fn is_endpoint(&self, path: &str) -> bool {
        let without_slash = |path: &'_ str| path.strip_suffix('/').map(str::len).unwrap_or(path.len());
        let own = &self.service.endpoint.options().path;
        path == own || path[..without_slash(path)] == own[..without_slash(own)]
    }

    /// Begins the response to a request, depending on its path.
    fn route(&self, request: Request<Incoming>) -> Prepared<Incoming> {
        let path = request.uri().path();
        let HttpService { endpoint, legacy, .. } = &self.service;
        if self.is_endpoint(path) || AuthorizationService::serves(endpoint, path) {
            return self.service.prepare(request);
        }
        if self.options.liveness_path.as_deref() == Some(path) {
            return Prepared::Ready(Box::new(response::health(None, None)));
        }
        if self.options.readiness_path.as_deref() == Some(path) {
            let endpoint = endpoint.clone();
            return Prepared::Other(Box::pin(async move {
                Ok(response::health(endpoint.unready().await, endpoint.authenticator_state()))
            }));
        }
        if self.options.legacy_sse && LegacySessions::serves(path) {
            let handle = |request| legacy.clone().respond(endpoint.clone(), request);
            return Prepared::Other(self.service.with_cors(request, handle));
        }
        let why = format!("path not found: the MCP endpoint is `{}`", endpoint.options().path);
        Prepared::Ready(Box::new(response::invalid_request(StatusCode::NOT_FOUND, &why)))
    }

    /// Ends subscriptions, waits for calls in flight, then ends the remaining streams and connections.
    async fn shut_down(self, connections: watch::Sender<()>, grace: Duration) {
        let endpoint = &self.service.endpoint;
        endpoint.end_subscriptions();
        // Closes idle connections at once.
        let _ = connections.send(());
        let closed = connections.closed();
        tokio::pin!(closed);
        let mut is_closed = false;
        let unreachable = async {
            closed.as_mut().await;
            is_closed = true;
            // Clients that have lost their connections resume their streams at other replicas.
            if endpoint.engine().replicas().is_some() {
                pending::<()>().await;
            }
        };
        endpoint.shut_down(grace, unreachable).await;
        if !is_closed && tokio::time::timeout(grace, closed).await.is_err() {
            tracing::warn!("shutdown grace period expired: closing connections");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use super::*;
    use crate::transport::http::peers::{Peers, Pool, Resource, Share};

    /// A part of the server whose drop takes a while, like that of telemetry, which exports what it has recorded.
    struct SlowDrop(Arc<AtomicBool>);

    impl Drop for SlowDrop {
        fn drop(&mut self) {
            thread::sleep(Duration::from_millis(100));
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// A program may end as soon as its server has stopped.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_shutdown_waits_until_connections_have_released_the_server() {
        let peer = Arc::new(Peers::new(Share::new(1.0))).principal("ada");
        let permit = Pool::new(Resource::Connections, 1, Share::new(1.0)).try_acquire(&peer, 1).unwrap();
        let (connections, is_dropped) = (watch::Sender::new(()), Arc::new(AtomicBool::new(false)));
        let server = SlowDrop(Arc::clone(&is_dropped));
        spawn(Remote::Unknown, permit, connections.subscribe(), |stop| async move {
            let _server = server;
            drop(stop);
            Ok(())
        });
        connections.closed().await;
        assert!(is_dropped.load(Ordering::Relaxed));
    }
}
