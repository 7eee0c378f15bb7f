//! Requests to issuers, bounded in time and size.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Builder, Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{ClientConfig, crypto::ring::default_provider};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::{resolver::Resolver, url::SecureUrl};

/// The maximum time for a request with its response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum size of a response of an issuer in bytes.
const MAX_RESPONSE: usize = 1024 * 1024;

/// The maximum number of unused connections to a host of an issuer.
const MAX_IDLE: usize = 8;

/// The time for which an unused connection is kept. Node.js, uvicorn and Apache close theirs after 5 s: a request that is
/// sent at that moment is lost, and a code or a refresh token cannot be sent twice.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

type TlsClient = Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>;

/// A client for the endpoints of an issuer. It follows no redirects.
pub(crate) struct Fetcher {
    /// For the loopback interface.
    plain: Client<HttpConnector, Full<Bytes>>,
    /// Or why TLS is not available.
    tls: Result<TlsClient, String>,
    pub(crate) timeout: Duration,
    max_response: usize,
}

/// The content of a response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) body: Bytes,
    /// The time for which `Cache-Control` allows to reuse the response.
    pub(crate) max_age: Option<Duration>,
}

/// Why there is no usable response, for the operator.
#[derive(Debug)]
pub(crate) struct FetchError {
    pub(crate) reason: String,
    /// Whether the host does not respond, or only for now.
    #[cfg_attr(not(feature = "server"), expect(dead_code, reason = "metadata documents need it"))]
    pub(crate) is_outage: bool,
}

impl Response {
    /// # Errors
    ///
    /// Returns an error if the status is not 200.
    pub(crate) fn expect_ok(self, status: StatusCode) -> Result<Self, FetchError> {
        let is_outage = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        match status {
            StatusCode::OK => Ok(self),
            _ => Err(FetchError { reason: format!("the response has the status {status}"), is_outage }),
        }
    }
}

impl FetchError {
    fn outage(reason: String) -> Self {
        Self { reason, is_outage: true }
    }

    pub(crate) fn unusable(reason: String) -> Self {
        Self { reason, is_outage: false }
    }
}

impl From<FetchError> for String {
    fn from(error: FetchError) -> Self {
        error.reason
    }
}

impl Fetcher {
    pub(crate) fn new() -> Self {
        Self::with(Resolver { only_public: false }, MAX_RESPONSE)
    }

    /// Creates a client for URLs that a stranger has chosen, which connects by name only to public addresses. The caller
    /// rejects URLs with addresses.
    #[cfg(feature = "server")]
    pub(crate) fn public(max_response: usize) -> Self {
        Self::with(Resolver { only_public: true }, max_response)
    }

    fn with(resolver: Resolver, max_response: usize) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        // Strangers name any number of hosts, and their connections would remain open.
        let max_idle = if resolver.only_public { 0 } else { MAX_IDLE };
        builder.pool_timer(TokioTimer::new()).pool_max_idle_per_host(max_idle).pool_idle_timeout(IDLE_TIMEOUT);
        let plain = builder.build_http();
        let tls = tls_config().map(|config| tls_client(&builder, config, resolver));
        let tls = tls.map_err(|error| error.to_string());
        Self { plain, tls, timeout: TIMEOUT, max_response }
    }

    /// # Errors
    ///
    /// Returns what is wrong with the response.
    pub(crate) async fn get(&self, url: &SecureUrl) -> Result<Response, FetchError> {
        let (status, response) = self.exchange(Method::GET, url, HeaderMap::new(), Bytes::new()).await?;
        response.expect_ok(status)
    }

    /// Sends a form, and returns the response with any status that is not a redirect.
    ///
    /// # Errors
    ///
    /// Returns why there is no response.
    pub(crate) async fn post(
        &self,
        url: &SecureUrl,
        mut headers: HeaderMap,
        form: String,
    ) -> Result<(StatusCode, Response), FetchError> {
        let form_type = header::HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, form_type);
        self.exchange(Method::POST, url, headers, form.into()).await
    }

    /// Sends a request, and returns the response with any status that is not a redirect.
    pub(crate) async fn exchange(
        &self,
        method: Method,
        url: &SecureUrl,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(StatusCode, Response), FetchError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = url.uri().clone();
        *request.headers_mut() = headers;
        request.headers_mut().insert(header::ACCEPT, header::HeaderValue::from_static("application/json"));
        let response = tokio::time::timeout(self.timeout, self.receive(url, request)).await;
        let late = |_| FetchError::outage(format!("no response within {} ms", self.timeout.as_millis()));
        response.map_err(late)?
    }

    async fn receive(
        &self,
        url: &SecureUrl,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Response), FetchError> {
        let response = if url.is_https() {
            let unavailable = |error| FetchError::outage(format!("TLS is not available: {error}"));
            let client = self.tls.as_ref().map_err(unavailable)?;
            client.request(request).await
        } else {
            self.plain.request(request).await
        };
        let response = response.map_err(|error| FetchError::outage(with_causes(&error)))?;
        let (status, max_age) = (response.status(), max_age(response.headers()));
        if status.is_redirection() {
            return Err(FetchError::unusable(format!("the response is a redirect ({status}), which is not followed")));
        }
        let body = Limited::new(response.into_body(), self.max_response).collect().await;
        let body = body.map_err(|error| match error.downcast_ref::<http_body_util::LengthLimitError>() {
            Some(_) => FetchError::unusable(format!("the response is larger than {}", size(self.max_response))),
            None => FetchError::outage(with_causes(&*error)),
        })?;
        Ok((status, Response { body: body.to_bytes(), max_age }))
    }
}

fn tls_config() -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_platform_verifier()?;
    Ok(builder.with_no_client_auth())
}

fn size(bytes: usize) -> String {
    if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

fn tls_client(builder: &Builder, config: ClientConfig, resolver: Resolver) -> TlsClient {
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    tcp.enforce_http(false);
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1().wrap_connector(tcp);
    builder.build(connector)
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let directives = values.flat_map(|value| value.split(',')).map(str::trim);
    let ages = directives.filter_map(|directive| match directive.to_ascii_lowercase().as_str() {
        "no-store" | "no-cache" => Some(Duration::ZERO),
        directive => Some(Duration::from_secs(directive.strip_prefix("max-age=")?.trim_matches('"').parse().ok()?)),
    });
    ages.min()
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// Opens a port, and returns the URL at which a host listens.
    async fn listen() -> (TcpListener, SecureUrl) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = SecureUrl::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        (listener, url)
    }

    /// Accepts a connection, and reads a request from it.
    async fn accept(listener: &TcpListener) -> TcpStream {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert_ne!(stream.read(&mut [0; 1024]).await.unwrap(), 0);
        stream
    }

    #[tokio::test]
    async fn connections_to_hosts_of_strangers_are_not_kept() {
        for (fetcher, is_kept) in [(Fetcher::public(1 << 10), false), (Fetcher::new(), true)] {
            let (listener, url) = listen().await;
            let serve = async {
                let mut stream = accept(&listener).await;
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
                tokio::time::timeout(Duration::from_millis(300), stream.read_u8()).await
            };
            let (fetched, read) = tokio::join!(fetcher.get(&url), serve);
            assert_eq!(&*fetched.unwrap().body, b"{}");
            assert_eq!(read.is_err(), is_kept, "{read:?}");
        }
    }

    #[tokio::test]
    async fn connections_that_the_host_may_close_at_any_moment_are_not_used() {
        let (fetcher, (listener, url)) = (Fetcher::new(), listen().await);
        let serve = async {
            let mut streams = Vec::new();
            for _ in 0..2 {
                let mut stream = accept(&listener).await;
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
                streams.push(stream);
            }
            std::future::pending().await
        };
        let fetch = async {
            fetcher.get(&url).await.unwrap();
            // The connection returns to the pool after the response.
            tokio::time::sleep(Duration::from_millis(50)).await;
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(5)).await;
            tokio::time::resume();
            fetcher.get(&url).await.expect("a new connection");
        };
        tokio::select! {
            () = fetch => {}
            () = serve => {}
        }
    }

    #[tokio::test]
    async fn hosts_that_do_not_respond_are_told_from_those_that_refuse() {
        for (response, is_outage) in [
            (None, true),
            (Some(""), true),
            (Some("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"), true),
            (Some("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"), false),
            (Some("HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n"), false),
        ] {
            let mut fetcher = Fetcher::public(1 << 10);
            if response.is_none() {
                fetcher.timeout = Duration::from_millis(200);
            }
            let (listener, url) = listen().await;
            let serve = async {
                let mut stream = accept(&listener).await;
                stream.write_all(response.unwrap_or_default().as_bytes()).await.unwrap();
                // The connection stays open only without a response.
                response.is_none().then_some(stream)
            };
            let (fetched, _stream) = tokio::join!(fetcher.get(&url), serve);
            assert_eq!(fetched.unwrap_err().is_outage, is_outage, "{response:?}");
        }
    }
}
