//! One HTTP endpoint for every client generation.
//!
//! A POST carries a message; its answer is JSON, or a stream of events where something comes before the result. Clients of
//! 2025-03-26 to 2025-11-25 have sessions, which GET listens to and DELETE ends; those of 2026-07-28 need none.
//!
//! See [Streamable HTTP](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http).

mod body;
mod context;
mod endpoint;
mod guard;
mod headers;
mod legacy;
mod listener;
mod options;
mod post;
mod reading;
mod response;
mod sessions;
mod socket;
mod stream;
mod timer;
mod work;

use std::{convert::Infallible, sync::Arc, task};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_http::cors::CorsLayer;
use tower_layer::Layer as _;
use tower_service::Service;

pub use body::HttpBody;
pub use context::Principal;
pub use options::HttpOptions;

pub(crate) use listener::Listener;

use crate::engine::Engine;
use endpoint::Endpoint;
use response::{Answer, HttpResponse};

/// An MCP endpoint as a [`tower_service::Service`], to be mounted into axum or anything else that speaks `http`.
///
/// ```no_run
/// # use mcp_runtime::{HttpOptions, Server};
/// # fn mount(server: Server) -> Result<(), mcp_runtime::BuildError> {
/// let mcp = server.build()?.into_http_service(HttpOptions::default());
/// // axum::Router::new().nest_service("/mcp", mcp)
/// # Ok(())
/// # }
/// ```
///
/// Whatever middleware puts into a request's extensions, functions find with [`Context::extension`](crate::Context::extension).
/// The service answers the preflight requests of browsers itself, so a middleware in front of it must let OPTIONS through.
#[derive(Debug, Clone)]
pub struct HttpService {
    endpoint: Endpoint,
    cors: Arc<CorsLayer>,
}

/// Waits for one of two futures, and prefers the first.
async fn first<A: Future, B: Future>(one: A, other: B) -> Result<A::Output, B::Output> {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    std::future::poll_fn(|cx| match one.as_mut().poll(cx) {
        task::Poll::Ready(output) => task::Poll::Ready(Ok(output)),
        task::Poll::Pending => other.as_mut().poll(cx).map(Err),
    })
    .await
}

impl HttpService {
    pub(crate) fn new(engine: Arc<Engine>, options: HttpOptions) -> Self {
        let endpoint = Endpoint::new(engine, options);
        let cors = Arc::new(guard::cors(endpoint.options()));
        Self { endpoint, cors }
    }

    /// Ends every session and every stream, so that the server that this is mounted into can shut down: streams stay open as long
    /// as their clients like otherwise. A clone is the same service.
    ///
    /// ```no_run
    /// # use mcp_runtime::HttpService;
    /// # async fn told_to_stop() {}
    /// # async fn shutdown(service: HttpService) {
    /// // axum::serve(listener, app).with_graceful_shutdown(async move {
    /// told_to_stop().await;
    /// service.close();
    /// // })
    /// # }
    /// ```
    pub fn close(&self) {
        self.endpoint.close();
    }

    /// Answers a request. What nearly all are, a POST of no browser, is kept small: whatever is moved here, is moved for each.
    fn answer<B>(&self, request: Request<B>) -> impl Future<Output = HttpResponse> + use<B>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let endpoint = self.endpoint.clone();
        let arrived = match guard::concerns_browsers(&request) {
            true => Err(Box::pin(self.cors.layer(endpoint.clone()).call(request))),
            false => {
                let (parts, body) = request.into_parts();
                Ok((endpoint.request_source(parts), body))
            }
        };
        async move {
            match arrived {
                Ok((source, body)) => endpoint.handle_post(source, body).await,
                Err(answer) => answer.await.unwrap_or_else(|never| match never {}),
            }
        }
    }
}

impl<B> Service<Request<B>> for HttpService
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
        let answer = self.answer(request);
        Box::pin(async move { Ok(answer.await) })
    }
}
