//! Listens on an address: connections, paths, the end.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use http::{Request, StatusCode};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{rt::TokioIo, server::graceful::GracefulShutdown};
use tokio::{net::TcpListener, sync::OwnedSemaphorePermit};
use tower_http::cors::Cors;
use tower_layer::Layer as _;
use tower_service::Service;

use super::{
    HttpOptions, HttpService, first, guard,
    legacy::Legacy,
    response::{self, HttpResponse},
    socket::{Places, Socket},
    timer::SharedTimer,
};
use crate::engine::Engine;

/// How many headers a request may have, and how many bytes of them.
const HEADERS: usize = 100;
const HEADER_BYTES: usize = 64 << 10;

/// A server that is bound to an address.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    places: Places,
    site: Site,
    grace: Duration,
}

impl Listener {
    /// Binds an address.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound, or if other machines can reach it and no host is allowed.
    pub(crate) async fn bind(engine: Arc<Engine>, address: SocketAddr, options: HttpOptions) -> io::Result<Self> {
        if let Some(why) = options.refuse(address) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let listener = TcpListener::bind(address).await?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
            grace: engine.limits.grace,
            places: Places::new(options.max_connections),
            site: Site::new(engine, options),
        })
    }

    /// The bound address, with the actual port if port 0 was requested.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts connections until `stop` completes, then shuts down gracefully.
    pub(crate) async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { listener, mut places, site, grace, .. } = self;
        let connections = GracefulShutdown::new();
        tokio::pin!(stop);
        loop {
            match first(stop.as_mut(), listener.accept()).await {
                Err(Ok((stream, peer))) => {
                    if let Some((stream, place)) = places.admit(stream) {
                        let socket = Socket::new(stream, site.options.write_timeout);
                        site.connect(socket, peer, place, &connections);
                    }
                }
                Err(Err(error)) => {
                    // Usually too many open files: wait until some are closed.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Ok(()) => break,
            }
        }
        drop(listener);
        site.end(connections, grace).await;
    }
}

/// What stands at which path.
#[derive(Debug, Clone)]
struct Site {
    service: HttpService,
    legacy: Option<Cors<Legacy>>,
    options: Arc<HttpOptions>,
}

impl Site {
    fn new(engine: Arc<Engine>, options: HttpOptions) -> Self {
        let service = HttpService::new(engine, options);
        let options = Arc::clone(service.endpoint.options());
        let legacy = options.legacy_sse.then(|| guard::cors(&options).layer(Legacy::new(service.endpoint.clone())));
        Self { service, legacy, options }
    }

    /// The same site, for the requests of one peer.
    fn seen_from(&self, peer: SocketAddr) -> Self {
        let mut site = self.clone();
        site.service.endpoint = self.service.endpoint.seen_from(peer);
        if let Some(legacy) = &mut site.legacy {
            legacy.get_mut().seen_from(peer);
        }
        site
    }

    fn connect(&self, socket: Socket, peer: SocketAddr, place: OwnedSemaphorePermit, connections: &GracefulShutdown) {
        let site = Arc::new(self.seen_from(peer));
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = match request.uri().path() == site.options.path {
                true => Ok(site.service.answer(request)),
                false => Err((Arc::clone(&site), Box::new(request))),
            };
            async move {
                Ok::<_, Infallible>(match answer {
                    Ok(answer) => answer.await,
                    Err((site, request)) => Box::pin(site.route(*request)).await,
                })
            }
        });
        let connection = http1::Builder::new()
            .timer(SharedTimer::default())
            .header_read_timeout(self.options.header_timeout)
            .max_headers(HEADERS)
            .max_buf_size(HEADER_BYTES)
            .serve_connection(TokioIo::new(socket), service);
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, %peer, "a connection broke off");
            }
            drop(place);
        });
    }

    /// Answers whatever does not come to the endpoint.
    async fn route(&self, request: Request<Incoming>) -> HttpResponse {
        let path = request.uri().path();
        if self.options.health.as_ref().is_some_and(|(alive, ready)| path == alive || path == ready) {
            return response::empty(StatusCode::OK);
        }
        if let Some(legacy) = self.legacy.as_ref().filter(|_| Legacy::stands_at(path)) {
            return legacy.clone().call(request).await.unwrap_or_else(|never| match never {});
        }
        let why = format!("nothing stands here, the endpoint is {}", self.options.path);
        response::refuse_because(StatusCode::NOT_FOUND, &why)
    }

    /// Answers whoever listens, lets what is in work end, then ends the streams, then the connections.
    async fn end(self, connections: GracefulShutdown, grace: Duration) {
        self.service.endpoint.end_listens();
        let closing = connections.shutdown();
        tokio::pin!(closing);
        // Idle connections end now.
        let settled = first(self.service.endpoint.work().settled(), closing.as_mut());
        match tokio::time::timeout(grace, settled).await {
            Ok(Ok(())) => {}
            Ok(Err(())) => return self.service.endpoint.close(),
            Err(_) => tracing::warn!("calls were given up at the end of the server"),
        }
        self.service.endpoint.close();
        if tokio::time::timeout(grace, &mut closing).await.is_err() {
            tracing::warn!("connections were given up at the end of the server");
        }
    }
}
