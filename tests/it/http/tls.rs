//! HTTPS: certificates, handshakes, and the limits of connections that carry many requests.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use h2::{RecvStream, client::SendRequest};
use mcp_runtime::{
    HttpOptions, Server,
    auth::ProtectedResource,
    http::{HttpAddress, Listener, ListenerOptions},
};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, HandshakeKind, RootCertStore, crypto::ring, pki_types::CertificateDer},
};

use super::{
    Gate,
    authorization::Tokens,
    client::{Endpoint, Options, soon, until},
    refusals,
    request::{Request, call, initialize, stateless},
    server,
};
use crate::layers::log::Log;

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// The files of a certificate for `localhost`.
struct Certificate {
    directory: TempDir,
    der: CertificateDer<'static>,
}

impl Certificate {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let der = write_certificate(directory.path());
        Self { directory, der }
    }

    fn files(&self) -> [PathBuf; 2] {
        ["cert.pem", "key.pem"].map(|name| self.directory.path().join(name))
    }
}

/// Writes a new certificate and its key.
fn write_certificate(directory: &Path) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    write_unnoticed(&directory.join("cert.pem"), &cert.pem());
    write_unnoticed(&directory.join("key.pem"), &signing_key.serialize_pem());
    cert.into()
}

/// Writes a file whose length and modification time are always the same.
fn write_unnoticed(path: &Path, text: &str) {
    fs::write(path, format!("{text:\n<4096}")).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
}

/// A server, and a client that trusts it.
struct TlsServer {
    gate: Arc<Gate>,
    endpoint: Endpoint,
    certificate: Certificate,
}

impl TlsServer {
    async fn start(options: impl Into<Options>) -> Self {
        Self::start_with(|server| server, options).await
    }

    async fn start_with(change: impl FnOnce(Server) -> Server, options: impl Into<Options>) -> Self {
        let (certificate, (gate, server)) = (Certificate::new(), server());
        let [chain, key] = certificate.files();
        let listener = Listener::bind(HttpAddress::from(([127, 0, 0, 1], 0))).await.unwrap().tls(chain, key).unwrap();
        let endpoint = Endpoint::serve_on(listener, change(server).build().unwrap(), options);
        Self { gate, endpoint, certificate }
    }

    async fn tcp(&self) -> TcpStream {
        soon(TcpStream::connect(self.endpoint.address)).await.unwrap()
    }

    /// Connects a client that offers these protocols.
    async fn connect(&self, protocols: &[&[u8]]) -> std::io::Result<TlsStream<TcpStream>> {
        self.connect_trusting(&self.certificate.der, protocols).await
    }

    async fn connect_trusting(
        &self,
        certificate: &CertificateDer<'static>,
        protocols: &[&[u8]],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        self.connect_with(&connector(certificate, protocols)).await
    }

    async fn connect_with(&self, connector: &TlsConnector) -> std::io::Result<TlsStream<TcpStream>> {
        soon(connector.connect("localhost".try_into().unwrap(), self.tcp().await)).await
    }

    /// Opens a connection of HTTP/2.
    async fn http2(&self) -> Http2 {
        self.http2_with(&h2::client::Builder::new()).await
    }

    async fn http2_with(&self, builder: &h2::client::Builder) -> Http2 {
        let stream = self.connect(&[HTTP2]).await.unwrap();
        let (requests, connection) = soon(builder.handshake(stream)).await.unwrap();
        Http2::new(requests, connection)
    }
}

/// Returns a client that trusts a certificate, and remembers its TLS sessions.
fn connector(certificate: &CertificateDer<'static>, protocols: &[&[u8]]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// A connection of HTTP/2.
#[derive(Clone)]
struct Http2 {
    requests: SendRequest<Bytes>,
    /// Whether the connection has ended without an error, once it has ended.
    ended: watch::Receiver<Option<bool>>,
}

/// A response whose body may not be complete yet.
struct Response {
    status: u16,
    headers: http::HeaderMap,
    body: RecvStream,
    unread: Vec<u8>,
}

impl Http2 {
    fn new(
        requests: SendRequest<Bytes>,
        connection: impl Future<Output = Result<(), h2::Error>> + Send + 'static,
    ) -> Self {
        let (sender, ended) = watch::channel(None);
        tokio::spawn(async move { sender.send_replace(Some(connection.await.is_ok())) });
        Self { requests, ended }
    }

    /// Sends a request. Fails if the server resets it.
    async fn try_open(&self, request: &Request) -> Result<Response, h2::Error> {
        let (head, body) = into_http2(request);
        let mut requests = soon(self.requests.clone().ready()).await?;
        let (response, mut stream) = requests.send_request(head, body.is_empty())?;
        if !body.is_empty() {
            stream.send_data(body, true)?;
        }
        let (head, body) = soon(response).await?.into_parts();
        Ok(Response { status: head.status.as_u16(), headers: head.headers, body, unread: Vec::new() })
    }

    async fn open(&self, request: &Request) -> Response {
        self.try_open(request).await.unwrap()
    }

    async fn send(&self, request: &Request) -> (u16, Value) {
        let mut response = self.open(request).await;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await {
            body.extend(chunk);
        }
        (response.status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn text(&self, request: &Request) -> String {
        let (status, response) = self.send(request).await;
        let text = response["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{status} {response}")).to_owned()
    }

    /// Opens a session, and its stream for messages that belong to no request.
    async fn session(&self) -> (impl Fn(Request) -> Request + use<>, Response) {
        let opened = self.open(&initialize("2025-11-25")).await;
        let id = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let wrap =
            move |request: Request| request.with("mcp-session-id", &id).with("mcp-protocol-version", "2025-11-25");
        let initialized = Request::post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(self.send(&wrap(initialized)).await.0, 202);
        let stream = self.open(&wrap(Request::new("GET").with("accept", "text/event-stream"))).await;
        (wrap, stream)
    }

    /// Waits until the connection has ended. Returns whether the server has announced it.
    async fn ended(mut self) -> bool {
        drop(self.requests);
        soon(self.ended.wait_for(Option::is_some)).await.unwrap().unwrap()
    }
}

impl Response {
    async fn chunk(&mut self) -> Option<Bytes> {
        let chunk = soon(self.body.data()).await?.unwrap();
        self.body.flow_control().release_capacity(chunk.len()).unwrap();
        Some(chunk)
    }

    /// Returns the next message of an event stream.
    async fn message(&mut self) -> Option<Value> {
        loop {
            let text = String::from_utf8(self.unread.clone()).unwrap();
            if let Some((event, rest)) = text.split_once("\n\n") {
                self.unread = rest.as_bytes().to_vec();
                match event.lines().find_map(|line| line.strip_prefix("data: ").filter(|data| !data.is_empty())) {
                    Some(data) => return Some(serde_json::from_str(data).unwrap()),
                    None => continue,
                }
            }
            let chunk = self.chunk().await?;
            self.unread.extend(chunk);
        }
    }
}

fn into_http2(request: &Request) -> (http::Request<()>, Bytes) {
    let (method, path, headers, body) = request.clone().into_parts();
    let host = headers.iter().find(|(name, _)| name == "host").map(|(_, host)| host.clone()).unwrap();
    let mut head = http::Request::builder().method(&*method).uri(format!("https://{host}{path}"));
    for (name, value) in headers.iter().filter(|(name, _)| name != "host") {
        head = head.header(name, value);
    }
    (head.version(http::Version::HTTP_2).body(()).unwrap(), body.into())
}

/// Sends a request of HTTP/1.1, and returns the response.
async fn http1(mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin, request: &Request) -> String {
    stream.write_all(&request.clone().with("connection", "close").bytes()).await.unwrap();
    let mut response = Vec::new();
    let _ = soon(stream.read_to_end(&mut response)).await;
    String::from_utf8(response).unwrap()
}

#[tokio::test]
async fn the_client_chooses_the_protocol() {
    let server = TlsServer::start(HttpOptions::default()).await;
    for (offered, chosen) in
        [(&[HTTP2, HTTP1][..], Some(HTTP2)), (&[HTTP1, HTTP2], Some(HTTP2)), (&[HTTP1], Some(HTTP1)), (&[], None)]
    {
        let stream = server.connect(offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), chosen, "{offered:?}");
        if chosen == Some(HTTP2) {
            let (requests, connection) = h2::client::handshake(stream).await.unwrap();
            let client = Http2::new(requests, connection);
            assert_eq!(client.text(&call("quick")).await, "quick");
        } else {
            let response = http1(stream, &call("quick")).await;
            assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.contains("quick"), "{response}");
        }
    }
    let error = server.connect(&[b"spdy/3"]).await.unwrap_err();
    assert!(error.to_string().contains("NoApplicationProtocol"), "{error}");
}

/// Clients that do not speak TLS receive a response, and none holds a connection for long.
#[tokio::test]
async fn failed_handshakes_end() {
    let options = ListenerOptions::default().header_timeout(Duration::from_millis(300)).max_connections(4);
    let server = TlsServer::start(options).await;
    let silent = server.tcp().await;
    let began = Instant::now();
    let _ = soon({ silent }.read_to_end(&mut Vec::new())).await;
    assert!(began.elapsed() < Duration::from_secs(8), "the limit of all handshakes has ended it, not the option");
    for plain in [call("quick"), Request::new("GET").path("/healthz")] {
        let response = http1(server.tcp().await, &plain).await;
        assert!(response.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{response}");
        assert!(response.contains("this port serves HTTPS"), "{response}");
    }
    for sent in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"] {
        // The second connection of a kind occupies the rest of the peer's share.
        let mut silent = [server.tcp().await, server.tcp().await];
        for stream in &mut silent {
            stream.write_all(sent).await.unwrap();
        }
        for mut stream in silent {
            let _ = soon(stream.read_to_end(&mut Vec::new())).await;
        }
        assert_eq!(server.http2().await.text(&call("quick")).await, "quick", "{sent:?}");
    }
    let mut garbage = server.tcp().await;
    garbage.write_all(&[&b"\x16\x03\x01\x00\x10"[..], &[0xff; 16]].concat()).await.unwrap();
    let _ = soon(garbage.read_to_end(&mut Vec::new())).await;
    assert_eq!(server.http2().await.text(&call("quick")).await, "quick");
}

#[tokio::test]
async fn hosts_and_origins_are_checked_in_both_protocols() {
    let server = TlsServer::start(HttpOptions::default()).await;
    let client = server.http2().await;
    for (host, origin, expected) in [
        ("localhost", None, 200),
        ("localhost:8443", Some("https://localhost:8443"), 200),
        ("localhost", Some("http://localhost"), 200),
        ("evil.example", None, 403),
        ("localhost", Some("https://evil.example"), 403),
    ] {
        let mut request = call("quick").with("host", host);
        if let Some(origin) = origin {
            request = request.with("origin", origin);
        }
        assert_eq!(client.send(&request).await.0, expected, "{host} {origin:?}");
        let response = http1(server.connect(&[HTTP1]).await.unwrap(), &request).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {expected} ")), "{host} {origin:?} {response}");
    }
}

/// Sessions, event streams and many calls share a connection.
#[tokio::test]
async fn a_connection_carries_many_streams() {
    const CALLS: usize = 60;
    let server = TlsServer::start(HttpOptions::default()).await;
    let client = server.http2().await;
    let (_, listening) = client.session().await;
    assert_eq!((listening.status, &listening.headers["content-type"]), (200, &"text/event-stream".parse().unwrap()));

    let mut reports = client.open(&call("reports")).await;
    assert_eq!(reports.message().await.unwrap()["method"], "notifications/progress");
    let calls: Vec<_> = (0..CALLS)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.text(&call("waits")).await })
        })
        .collect();
    server.gate.has_begun(CALLS + 1).await;
    assert_eq!(client.text(&call("quick")).await, "quick");
    let text = client.text(&stateless("tools/call", &json!({"name": "long", "arguments": {"length": 1 << 20}}))).await;
    assert_eq!(text.len(), 1 << 20);
    for _ in 0..=CALLS {
        server.gate.open();
    }
    for call in calls {
        assert_eq!(soon(call).await.unwrap(), "waited");
    }
    assert_eq!(reports.message().await.unwrap()["params"]["progress"], 2);
    assert!(reports.message().await.unwrap()["result"].is_object());
    assert!(reports.message().await.is_none());

    // A request that its client resets is cancelled.
    let (head, body) = into_http2(&call("waits"));
    let (response, mut stream) = client.requests.clone().send_request(head, false).unwrap();
    stream.send_data(body, true).unwrap();
    server.gate.has_begun(CALLS + 2).await;
    stream.send_reset(h2::Reason::CANCEL);
    drop(response);
    server.gate.has_dropped(CALLS + 2).await;
}

#[tokio::test]
async fn requests_are_limited() {
    let listener = ListenerOptions::default().max_connections(2).max_head_bytes(8 << 10);
    let server = TlsServer::start((HttpOptions::default().max_body_bytes(64 << 10), listener)).await;
    let client = server.http2().await;
    let large = call("quick").with("x-large", &"x".repeat(9 << 10));
    let mut many = call("quick");
    for number in 0..120 {
        many = many.with(&format!("x-{number}"), "");
    }
    let long = call("long").change(|message| message["params"]["arguments"] = json!({"x": "x".repeat(70 << 10)}));
    for (request, expected) in [(large, 431), (many, 431), (long, 413), (call("quick"), 200)] {
        assert_eq!(client.send(&request).await.0, expected);
    }
    // The connection itself counts as well.
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move { client.text(&call("waits")).await })
    };
    server.gate.has_begun(1).await;
    let (before, mut refused) = (refusals("connections"), Vec::new());
    for _ in 0..4 {
        let response = client.open(&call("quick")).await;
        refused.push((response.status, response.headers.contains_key("retry-after")));
    }
    assert_eq!(refused, [(503, true); 4]);
    assert!(refusals("connections") >= before + 4);
    server.gate.open();
    assert_eq!(soon(waiting).await.unwrap(), "waited");
    assert_eq!(client.send(&call("quick")).await.0, 200);
}

/// Neither idle connections nor clients that grant no room for responses stay.
#[tokio::test]
async fn idle_and_stalled_connections_end() {
    let short = Duration::from_millis(300);
    let server = TlsServer::start(ListenerOptions::default().header_timeout(short).write_timeout(short)).await;
    let idle = server.http2().await;
    assert_eq!(idle.text(&call("quick")).await, "quick");
    assert!(idle.ended().await);
    // Connections that never complete the handshake of HTTP/2.
    let mut silent = server.connect(&[HTTP2]).await.unwrap();
    let _ = soon(silent.read_to_end(&mut Vec::new())).await;

    // A connection that waits for a response is not idle.
    let waiting = server.http2().await;
    let text = tokio::spawn(async move { waiting.text(&call("waits")).await });
    server.gate.has_begun(1).await;
    tokio::time::sleep(5 * short).await;
    server.gate.open();
    assert_eq!(soon(text).await.unwrap(), "waited");

    let long = stateless("tools/call", &json!({"name": "long", "arguments": {"length": 1 << 20}}));
    for window in [0, 10_000] {
        let stalled = server.http2_with(h2::client::Builder::new().initial_window_size(window)).await;
        let response = stalled.open(&long).await;
        assert_eq!(response.status, 200);
        // The other requests of a connection keep it from being idle, and do not count as reading.
        let _waiting = stalled.open(&call("reports_at_once")).await;
        stalled.ended().await;
    }
}

/// Output for a stream that was reset does not count towards the write timeout.
#[tokio::test]
async fn a_response_that_is_reset_does_not_stall_its_connection() {
    let short = Duration::from_millis(700);
    let complete = HttpOptions::default().stream_after(Duration::from_secs(3600));
    let server = TlsServer::start((complete, ListenerOptions::default().write_timeout(short))).await;
    let client = server.http2_with(h2::client::Builder::new().initial_window_size(10_000)).await;
    let long = stateless("tools/call", &json!({"name": "long", "arguments": {"length": 1 << 20}}));
    drop(client.open(&long).await);
    let text = tokio::spawn(async move { client.text(&call("waits")).await });
    server.gate.has_begun(1).await;
    // In each period, the output that is pending at its beginning counts.
    tokio::time::sleep(short * 5 / 2).await;
    server.gate.open();
    assert_eq!(soon(text).await.unwrap(), "waited");
}

/// The client of two sessions answers no pings. It reads a response of the first session, and only receives what keeps
/// the stream of the second one alive.
#[tokio::test]
async fn a_session_lives_while_the_client_reads_its_own_responses() {
    let limit = Duration::from_millis(500);
    let mut handle = None;
    let pinging = |server: Server| {
        let server = server.ping_interval(Duration::from_millis(1)).ping_timeout(limit);
        handle = Some(server.handle());
        server
    };
    let server = TlsServer::start_with(pinging, HttpOptions::default().keep_alive(Duration::from_millis(20))).await;
    let handle = handle.unwrap();
    let client = server.http2_with(h2::client::Builder::new().initial_connection_window_size(1 << 24)).await;
    let ((reading, _first), (silent, _second)) = (client.session().await, client.session().await);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "long", "arguments": {"length": 1 << 25}}});
    let ping = Request::post(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    assert_eq!(client.send(&silent(ping.clone())).await.0, 200);
    let mut response = client.open(&reading(Request::post(&call))).await;
    let start = Instant::now();
    while start.elapsed() < 4 * limit {
        assert!(response.chunk().await.is_some());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(handle.sessions().len(), 1);
    assert_eq!(client.send(&silent(ping.clone())).await.0, 404);
    assert_eq!(client.send(&reading(ping)).await.0, 200);
    // Once the client no longer reads, the session ends.
    until(|| handle.sessions().is_empty()).await;
    drop(response);
}

/// Clients on the same machine find the authorization server without a configured identifier of the resource.
#[tokio::test]
async fn metadata_names_the_scheme_of_the_listener() {
    let resource = || ProtectedResource::new().with_authorization_server("https://id.example.com");
    let server =
        TlsServer::start_with(|server| server.authenticate(Tokens::of(resource())), HttpOptions::default()).await;
    let metadata = Request::new("GET").path("/.well-known/oauth-protected-resource/mcp");
    let client = server.http2().await;
    assert_eq!(client.send(&metadata).await.1["resource"], "https://localhost/mcp");
    let challenge = &client.open(&call("quick")).await.headers["www-authenticate"];
    let expected = r#"resource_metadata="https://localhost/.well-known/oauth-protected-resource/mcp""#;
    assert!(challenge.to_str().unwrap().contains(expected), "{challenge:?}");
    let response = http1(server.connect(&[HTTP1]).await.unwrap(), &metadata).await;
    assert!(response.contains(r#""resource":"https://localhost/mcp""#), "{response}");
    let response = http1(server.connect(&[HTTP1]).await.unwrap(), &call("quick")).await;
    assert!(response.contains(expected), "{response}");
}

#[tokio::test]
async fn floods_of_resets_end() {
    let server = TlsServer::start(HttpOptions::default()).await;
    let client = server.http2().await;
    let flood = async {
        for _ in 0..20_000 {
            let (head, body) = into_http2(&call("waits"));
            let mut requests = client.requests.clone().ready().await?;
            let (_, mut stream) = requests.send_request(head, false)?;
            let _ = stream.send_data(body, true);
            stream.send_reset(h2::Reason::CANCEL);
            tokio::task::yield_now().await;
        }
        Ok::<_, h2::Error>(())
    };
    let _ = soon(flood).await;
    assert_eq!(server.http2().await.text(&call("quick")).await, "quick");
    let begun = server.gate.begun.load(std::sync::atomic::Ordering::SeqCst);
    server.gate.has_dropped(begun).await;
}

#[tokio::test]
async fn shutdown_completes_the_responses() {
    let mut server = TlsServer::start(HttpOptions::default()).await;
    let (client, idle, silent) = (server.http2().await, server.http2().await, server.tcp().await);
    let mut reports = client.open(&call("reports")).await;
    assert!(reports.message().await.is_some());
    server.endpoint.stop();
    // The server announces that it takes no more requests.
    assert!(idle.ended().await);
    drop(silent);
    server.gate.open();
    assert!(reports.message().await.is_some());
    assert!(reports.message().await.unwrap()["result"].is_object());
    assert!(reports.message().await.is_none());
    assert!(client.ended().await);
    soon(server.endpoint.stopped()).await;
}

async fn pass_a_minute() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
}

/// Files that have not changed are not loaded again, so that clients can resume their TLS sessions.
#[tokio::test]
async fn sessions_are_resumed_while_the_certificate_is_the_same() {
    let server = TlsServer::start(HttpOptions::default()).await;
    let client = connector(&server.certificate.der, &[HTTP1]);
    for expected in [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed] {
        let stream = server.connect_with(&client).await.unwrap();
        assert_eq!(stream.get_ref().1.handshake_kind(), Some(expected));
        assert!(http1(stream, &call("quick")).await.starts_with("HTTP/1.1 200 "));
        pass_a_minute().await;
    }
}

#[tokio::test]
async fn renewed_certificates_are_used() {
    let server = TlsServer::start(HttpOptions::default()).await;
    let directory = server.certificate.directory.path();
    let key_path = directory.join("key.pem");
    let key = fs::read_to_string(&key_path).unwrap();
    let renewed = write_certificate(directory);
    // Until the key is replaced as well, the earlier certificate is used.
    let new_key = fs::read_to_string(&key_path).unwrap();
    write_unnoticed(&key_path, &key);
    assert!(server.connect(&[HTTP2]).await.is_ok());
    pass_a_minute().await;
    assert!(server.connect(&[HTTP2]).await.is_ok());
    write_unnoticed(&key_path, &new_key);
    assert!(server.connect(&[HTTP2]).await.is_ok());
    pass_a_minute().await;
    assert!(server.connect_trusting(&renewed, &[HTTP2]).await.is_ok());
    assert!(server.connect(&[HTTP2]).await.is_err());
}

#[tokio::test]
async fn invalid_files_are_explained() {
    const ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIF\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let certificate = Certificate::new();
    let [chain, key] = certificate.files();
    let (other, encrypted, garbled, missing) = {
        let path = |name| certificate.directory.path().join(name);
        fs::write(path("other.pem"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
        fs::write(path("encrypted.pem"), ENCRYPTED).unwrap();
        fs::write(path("garbled.pem"), "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n").unwrap();
        (path("other.pem"), path("encrypted.pem"), path("garbled.pem"), path("missing.pem"))
    };
    let directory = certificate.directory.path().to_owned();
    let large = directory.join("large.pem");
    fs::write(&large, vec![b'\n'; (1 << 20) + 1]).unwrap();
    for (chain, key, expected) in [
        (&chain, &missing, "cannot read the private key `"),
        (&missing, &key, "cannot read the certificate `"),
        (&directory, &key, "cannot read the certificate `"),
        (&large, &key, "it is larger than 1 MiB"),
        (&key, &key, "contains no certificate\nhelp: "),
        (&chain, &chain, "contains no private key\nhelp: "),
        (&chain, &encrypted, "is encrypted\nhelp: "),
        (&chain, &garbled, "is not valid PEM: "),
        (&chain, &other, "does not belong to the first certificate in `"),
    ] {
        let listener = Listener::bind(HttpAddress::from(([127, 0, 0, 1], 0))).await.unwrap();
        let error = listener.tls(chain, key).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    #[cfg(unix)]
    {
        let listener = Listener::bind(certificate.directory.path().join("x.sock")).await.unwrap();
        let error = listener.tls(&chain, &key).unwrap_err().to_string();
        assert!(error.starts_with("TLS is not supported on a Unix socket"), "{error}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn programs_serve_https() {
    use super::process::{fixture_at, listening};

    let certificate = Certificate::new();
    let [chain, key] = certificate.files().map(|path| path.display().to_string());
    let (mut child, url, _stderr) =
        listening(fixture_at("127.0.0.1:0", "off").args(["--tls-cert", &chain, "--tls-key", &key]));
    assert!(url.starts_with("https://127.0.0.1:") && url.ends_with("/mcp"), "{url}");
    let url = url.replace("127.0.0.1", "localhost");
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "curl", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    for (protocol, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let curl = std::process::Command::new("curl")
            .args(["-sS", protocol, "--cacert", &chain, "-w", "\n%{http_version} %{http_code}", "-d", &body])
            .args(["-H", "content-type: application/json", "-H", "accept: application/json, text/event-stream", &url])
            .output();
        // `skipped` reports that curl is missing.
        let Ok(curl) = curl else { break };
        let output = String::from_utf8_lossy(&curl.stdout);
        assert!(output.contains("serverInfo") && output.ends_with(&format!("\n{version} 200")), "{curl:?}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let failed = fixture_at("127.0.0.1:0", "off").args(["--tls-cert", &chain, "--tls-key", &chain]).output().unwrap();
    let message = String::from_utf8(failed.stderr).unwrap();
    assert!(!failed.status.success() && message.contains("contains no private key"), "{message}");
}

/// A client that begins a handshake could not read the response of HTTP that others receive.
#[tokio::test]
async fn refused_connections_receive_nothing() {
    let server = TlsServer::start(ListenerOptions::default().max_connections(1)).await;
    let _open = server.connect(&[HTTP1]).await.unwrap();
    let before = refusals("connections");
    let (mut refused, mut received) = (server.tcp().await, Vec::new());
    soon(refused.read_to_end(&mut received)).await.unwrap();
    assert!(refusals("connections") > before);
    assert_eq!(String::from_utf8_lossy(&received), "");
}

#[tokio::test]
async fn handshakes_in_progress_are_limited() {
    let (log, _guard) = Log::listen();
    // 1 of 1,024 handshakes, and 6 of 10,240 connections.
    let server = TlsServer::start(HttpOptions::default().max_peer_share(0.0005)).await;
    let before = refusals("connections");
    let (_silent, mut refused) = (server.tcp().await, server.tcp().await);
    assert_eq!(soon(refused.read_to_end(&mut Vec::new())).await.unwrap(), 0);
    assert!(refusals("connections") > before);
    assert_eq!(log.take("too many connections").len(), 1);
}

/// A handshake ends before its connection does.
#[tokio::test]
async fn open_connections_are_no_handshakes_in_progress() {
    // 21 of 1,024 handshakes, and 205 of 10,240 connections.
    let server = TlsServer::start(HttpOptions::default().max_peer_share(0.02)).await;
    let mut open = Vec::new();
    for number in 0..60 {
        open.push(server.connect(&[HTTP1]).await.unwrap_or_else(|error| panic!("connection {number}: {error}")));
    }
}
