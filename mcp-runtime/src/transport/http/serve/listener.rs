//! Accepting connections, routing their requests by path, and shutting down.

use std::{convert::Infallible, future::pending, io, sync::Arc, time::Duration};

use http::{Request, StatusCode};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{rt::TokioIo, server::graceful::GracefulShutdown};
use tower_http::cors::Cors;
use tower_layer::Layer as _;
use tower_service::Service;

use super::{
    acceptor::Acceptor,
    socket::{ConnectionLimit, Socket},
    timer::SharedTimer,
};
use crate::{
    race::race,
    transport::http::{
        address::HttpAddress,
        authorization::AuthorizationService,
        endpoint::Endpoint,
        guard,
        legacy::{LegacyService, LegacySessions},
        options::HttpOptions,
        peers::{PeerPermit, Remote},
        response::{self, HttpResponse},
        service::HttpService,
    },
};

/// The maximum number of headers of a request.
const MAX_HEADERS: usize = 100;

/// A server that is bound to an address.
#[derive(Debug)]
pub(crate) struct Listener {
    acceptor: Acceptor,
    address: HttpAddress,
    connection_limit: ConnectionLimit,
    router: Router,
    grace: Duration,
}

impl Listener {
    /// Binds an address.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound, or if other machines can reach it and no host is allowed.
    pub(crate) async fn bind(endpoint: Endpoint, legacy: LegacySessions, address: HttpAddress) -> io::Result<Self> {
        let options = endpoint.options();
        let acceptor = Acceptor::bind(&address, options).await?;
        Ok(Self {
            address: acceptor.address()?,
            acceptor,
            grace: endpoint.engine().profile.limits.grace_period,
            connection_limit: ConnectionLimit::new(options),
            router: Router::new(endpoint, legacy),
        })
    }

    /// Returns the bound address, with the actual port if port 0 was requested.
    pub(crate) fn address(&self) -> &HttpAddress {
        &self.address
    }

    /// Accepts connections until `stop` completes, and then as long as load balancers may need to notice. Then shuts down
    /// gracefully.
    pub(crate) async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { acceptor, mut connection_limit, router, grace, .. } = self;
        let connections = GracefulShutdown::new();
        let endpoint = router.service.endpoint().clone();
        let stop = async move {
            stop.await;
            endpoint.drain().await;
        };
        tokio::pin!(stop);
        loop {
            match race(stop.as_mut(), acceptor.accept()).await {
                Err(Ok((stream, remote))) => {
                    let router = router.for_remote(remote);
                    if let Some((stream, permit)) = connection_limit.admit(stream, router.service.endpoint().peer()) {
                        let options = &router.options;
                        let reader = Arc::clone(router.service.endpoint().reader());
                        let socket = Socket::new(stream, options.write_timeout, options.min_read_rate, reader);
                        router.connect(socket, remote, permit, &connections);
                    }
                }
                Err(Err(error)) => {
                    // The process may have too many open files, so this waits for other connections to close.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Ok(()) => break,
            }
        }
        drop(acceptor);
        let endpoint = router.service.endpoint().clone();
        router.shut_down(connections, grace).await;
        endpoint.flush(grace).await;
    }
}

/// A router that dispatches requests by path.
#[derive(Debug, Clone)]
struct Router {
    service: HttpService,
    legacy: Option<Cors<LegacyService>>,
    options: Arc<HttpOptions>,
}

impl Router {
    fn new(endpoint: Endpoint, legacy: LegacySessions) -> Self {
        let service = HttpService::new(endpoint);
        let endpoint = service.endpoint();
        let options = Arc::clone(endpoint.options());
        let legacy = || guard::cors(&options).layer(LegacyService::new(endpoint.clone(), legacy));
        let legacy = options.legacy_sse.then(legacy);
        Self { service, legacy, options }
    }

    /// Returns the same router for the requests of one connection.
    fn for_remote(&self, remote: Remote) -> Self {
        let mut legacy = self.legacy.clone();
        if let Some(legacy) = &mut legacy {
            legacy.get_mut().set_remote(remote);
        }
        Self { service: self.service.for_remote(remote), legacy, options: Arc::clone(&self.options) }
    }

    /// Serves a connection of the router in a new task.
    fn connect(self, socket: Socket, remote: Remote, permit: PeerPermit, connections: &GracefulShutdown) {
        let (header_timeout, max_head_bytes) = (self.options.header_timeout, self.options.max_head_bytes);
        let router = Arc::new(self);
        let service = service_fn(move |request: Request<Incoming>| {
            let response = if router.is_endpoint(request.uri().path()) {
                Ok(router.service.respond(request))
            } else {
                Err((Arc::clone(&router), Box::new(request)))
            };
            async move {
                Ok::<_, Infallible>(match response {
                    Ok(response) => response.await,
                    Err((router, request)) => Box::pin(router.route(*request)).await,
                })
            }
        });
        let connection = http1::Builder::new()
            .timer(SharedTimer::default())
            .header_read_timeout(header_timeout)
            .max_headers(MAX_HEADERS)
            .max_buf_size(max_head_bytes)
            .serve_connection(TokioIo::new(socket), service);
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, ?remote, "connection failed");
            }
            drop(permit);
        });
    }

    /// Returns whether a path is the endpoint's, with or without a slash at its end.
    fn is_endpoint(&self, path: &str) -> bool {
        let without_slash = |path: &'_ str| path.strip_suffix('/').map(str::len).unwrap_or(path.len());
        path == self.options.path
            || path[..without_slash(path)] == self.options.path[..without_slash(&self.options.path)]
    }

    /// Responds to requests for any path other than the endpoint's.
    async fn route(&self, request: Request<Incoming>) -> HttpResponse {
        let path = request.uri().path();
        match &self.options.health {
            Some((alive, _)) if path == alive => return response::empty(StatusCode::OK),
            Some((_, ready)) if path == ready => {
                let unready = self.service.endpoint().unready().await;
                return unready.map_or_else(|| response::empty(StatusCode::OK), response::unready);
            }
            _ => {}
        }
        if AuthorizationService::serves(self.service.endpoint(), path) {
            return self.service.authorization_service().respond(request).await;
        }
        if let Some(legacy) = self.legacy.as_ref().filter(|_| LegacyService::serves(path)) {
            return legacy.clone().call(request).await.unwrap_or_else(|never| match never {});
        }
        let why = format!("path not found: the MCP endpoint is `{}`", self.options.path);
        response::invalid_request(StatusCode::NOT_FOUND, &why)
    }

    /// Ends subscriptions, waits for calls in flight, then ends the remaining streams and connections.
    async fn shut_down(self, connections: GracefulShutdown, grace: Duration) {
        let endpoint = self.service.endpoint();
        endpoint.end_subscriptions();
        // Closes idle connections at once.
        let closed = connections.shutdown();
        tokio::pin!(closed);
        let mut is_closed = false;
        let unreachable = async {
            closed.as_mut().await;
            is_closed = true;
            // Clients that have lost their connections resume their streams at other replicas.
            if endpoint.sessions().are_shared() {
                pending::<()>().await;
            }
        };
        if tokio::time::timeout(grace, race(endpoint.settled(), unreachable)).await.is_err() {
            tracing::warn!("shutdown grace period expired: cancelling calls in flight");
        }
        endpoint.close();
        if !is_closed && tokio::time::timeout(grace, closed).await.is_err() {
            tracing::warn!("shutdown grace period expired: closing connections");
        }
    }
}
