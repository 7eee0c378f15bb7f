//! Two listeners on the loopback interface: the host, and the sandbox, whose origin must be another one.

use std::{
    future::IntoFuture as _,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
};

use super::csp::policy;

/// A request of the host's page.
pub(super) struct HostRequest {
    /// The message to pass on to the server, or `None` to return the view.
    pub(super) message: Option<Message>,
    pub(super) answer: oneshot::Sender<Value>,
}

/// The part of a JSON-RPC request that is passed on.
#[derive(Deserialize)]
pub(super) struct Message {
    pub(super) method: String,
    #[serde(default)]
    pub(super) params: Value,
}

/// The two listeners. Only a browser that knows their secrets gets a page.
pub(super) struct Listeners {
    /// The URL of the host.
    pub(super) url: String,
    policy: Arc<Mutex<String>>,
}

/// An address on this machine, with a secret as its first path segment.
#[derive(Clone)]
struct Address {
    authority: String,
    secret: String,
}

#[derive(Clone)]
struct Host {
    sandbox: Address,
    requests: mpsc::Sender<HostRequest>,
}

#[derive(Clone)]
struct Sandbox {
    host: Address,
    policy: Arc<Mutex<String>>,
}

impl Listeners {
    /// Listens on two free ports. Returns the receiver of the requests, of which `limit` may wait.
    ///
    /// # Errors
    ///
    /// Fails if no port is free.
    pub(super) async fn listen(limit: usize) -> io::Result<(Self, mpsc::Receiver<HostRequest>)> {
        let (requests, receiver) = mpsc::channel(limit);
        let (host_listener, host) = Address::listen().await?;
        let (sandbox_listener, sandbox) = Address::listen().await?;
        let policy = Arc::new(Mutex::new(policy(&Value::Null).0));
        let url = host.url();
        let path = |address: &Address, page: &str| format!("/{}/{page}", address.secret);
        let app = Router::new()
            .route(&path(&host, ""), get(show_host))
            .route(&path(&host, "view"), post(view))
            .route(&path(&host, "request"), post(forward))
            .with_state(Host { sandbox: sandbox.clone(), requests })
            .layer(from_fn_with_state(host.clone(), guard));
        let sandbox_app = Router::new()
            .route(&path(&sandbox, ""), get(show_sandbox))
            .with_state(Sandbox { host, policy: policy.clone() })
            .layer(from_fn_with_state(sandbox, guard));
        tokio::spawn(axum::serve(host_listener, app).into_future());
        tokio::spawn(axum::serve(sandbox_listener, sandbox_app).into_future());
        Ok((Self { url, policy }, receiver))
    }

    /// Sets the policy of the page that is shown next. Returns the declared domains that are not origins.
    pub(super) fn set_policy(&self, declared: &Value) -> Vec<String> {
        let (policy, rejected) = policy(declared);
        *self.policy.lock().unwrap_or_else(PoisonError::into_inner) = policy;
        rejected
    }
}

impl Address {
    async fn listen() -> io::Result<(TcpListener, Self)> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let authority = listener.local_addr()?.to_string();
        let mut secret = [0; 16];
        let random = rustls::crypto::ring::default_provider().secure_random;
        random.fill(&mut secret).map_err(|_| io::Error::other("there are no random numbers"))?;
        let secret = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((listener, Self { authority, secret }))
    }

    fn origin(&self) -> String {
        format!("http://{}", self.authority)
    }

    fn url(&self) -> String {
        format!("http://{}/{}/", self.authority, self.secret)
    }

    /// Returns whether a request was sent to this address by its own pages or by the user. A name of another site that
    /// resolves to this machine is refused.
    fn accepts(&self, headers: &HeaderMap) -> bool {
        let is = |name, expected: &str| headers.get(name).is_none_or(|value| value == expected);
        headers.contains_key(header::HOST) && is(header::HOST, &self.authority) && is(header::ORIGIN, &self.origin())
    }
}

/// Refuses requests of other websites.
async fn guard(State(own): State<Address>, request: Request, next: Next) -> Response<Body> {
    if own.accepts(request.headers()) { next.run(request).await } else { StatusCode::FORBIDDEN.into_response() }
}

async fn show_host(State(host): State<Host>) -> Response<Body> {
    let html = include_str!("host.html")
        .replace("{sandbox}", &host.sandbox.url())
        .replace("{version}", env!("CARGO_PKG_VERSION"));
    let policy = format!(
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; frame-src {}; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        host.sandbox.origin()
    );
    page(html, policy)
}

async fn show_sandbox(State(sandbox): State<Sandbox>) -> Response<Body> {
    let html = include_str!("sandbox.html").replace("{host}", &sandbox.host.origin());
    let policy = sandbox.policy.lock().unwrap_or_else(PoisonError::into_inner).clone();
    page(html, format!("{policy}; frame-ancestors {}", sandbox.host.origin()))
}

fn page(html: String, policy: String) -> Response<Body> {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    (headers, Html(html)).into_response()
}

async fn view(State(host): State<Host>) -> Response<Body> {
    respond(&host, None).await
}

async fn forward(State(host): State<Host>, body: Bytes) -> Response<Body> {
    match serde_json::from_slice(&body) {
        Ok(message) => respond(&host, Some(message)).await,
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

async fn respond(host: &Host, message: Option<Message>) -> Response<Body> {
    let (answer, receiver) = oneshot::channel();
    // If the command is ending, the request is dropped with the sender.
    let _ = host.requests.send(HostRequest { message, answer }).await;
    match receiver.await {
        Ok(value) => {
            let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
            (headers, value.to_string()).into_response()
        }
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
