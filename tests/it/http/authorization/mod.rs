//! Authenticated servers: challenges, scopes, metadata, and what belongs to a principal.

mod credentials;
mod expiry;
mod metadata;
mod ownership;
mod routes;
mod scopes;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use http::Response;
use http_body_util::BodyExt as _;
use mcp_runtime::{
    Context, Fault, HttpOptions, ResourceLink, Server,
    auth::{
        AuthenticateFuture, AuthenticationError, Authenticator, Challenge, Identity, PeerAddr, ProtectedResource,
        credentials,
    },
    function::MethodEntry,
    http::{HttpBody, HttpService},
    prompt, resource, tool,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower_service::Service as _;

use super::{
    client::soon,
    request::{Request, stateless},
};

const METADATA: &str = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";

/// Accepts bearer tokens of the form `user/scope/scope`, and counts how often it is asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Tokens {
    resource: ProtectedResource,
    calls: Arc<AtomicUsize>,
}

impl Tokens {
    pub(super) fn of(resource: ProtectedResource) -> Self {
        Self { resource, ..Self::default() }
    }
}

impl Authenticator for Tokens {
    fn authenticate<'a>(&'a self, request: &'a http::request::Parts) -> AuthenticateFuture<'a> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        assert_ne!(credentials(request, "Bearer").ok(), Some("panics-at-once"), "an author's mistake");
        Box::pin(async move {
            let token = credentials(request, "Bearer")?;
            let (user, scopes) = token.split_once('/').unwrap_or((token, ""));
            let identity = Identity::new(user)
                .with_scopes(scopes.split('/').filter(|scope| !scope.is_empty()))
                .with_claims(json!({"email": format!("{user}@example.com")}));
            match user {
                "old" => Err(AuthenticationError::invalid("the token has \"expired\"").with_detail("exp is 17")),
                "down" => Err(AuthenticationError::unavailable(
                    Duration::from_millis(2500),
                    "the token cannot be verified at the moment",
                )),
                "busy" => Err(AuthenticationError::unavailable(Duration::ZERO, "the issuer is busy")),
                "distant" => {
                    let peer = request.extensions.get::<PeerAddr>().map(|peer| peer.0.ip());
                    Err(AuthenticationError::invalid(format!("the token is not valid at {peer:?}")))
                }
                "hangs" => std::future::pending().await,
                "panics" => panic!("an author's mistake"),
                "unbound" => {
                    let challenge = Challenge::new("DPoP").with_parameter("error", "use_dpop_nonce");
                    let nonce = (http::HeaderName::from_static("dpop-nonce"), http::HeaderValue::from_static("n-1"));
                    let error = AuthenticationError::invalid("the proof needs a nonce").with_challenge(challenge);
                    Err(error.with_response_header(nonce.0, nonce.1))
                }
                "bound" => {
                    let nonce = (http::HeaderName::from_static("dpop-nonce"), http::HeaderValue::from_static("n-2"));
                    Ok(identity.with_response_header(nonce.0, nonce.1))
                }
                "short" => Ok(identity.with_expiry(SystemTime::now() + Duration::from_secs(2))),
                "late" => Ok(identity.with_expiry(SystemTime::now() - Duration::from_secs(3600))),
                "brief" => Ok(identity.with_expiry(SystemTime::now() + Duration::from_millis(50))),
                _ => Ok(identity),
            }
        })
    }

    fn protected_resource(&self) -> ProtectedResource {
        self.resource.clone()
    }
}

fn resource_of_example() -> ProtectedResource {
    ProtectedResource::new().resource("https://mcp.example.com/mcp").with_authorization_server("https://id.example.com")
}

/// The functions that ran, and the permits by which they end.
#[derive(Debug)]
struct Journal {
    runs: AtomicUsize,
    permits: Semaphore,
}

impl Default for Journal {
    fn default() -> Self {
        Self { runs: AtomicUsize::new(0), permits: Semaphore::new(0) }
    }
}

impl Journal {
    fn run(&self) {
        self.runs.fetch_add(1, Ordering::SeqCst);
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

/// Return the user.
#[tool(read_only)]
fn whoami(journal: &Journal, ctx: &Context) -> Option<String> {
    journal.run();
    #[derive(serde::Deserialize)]
    struct Claims {
        email: String,
    }
    let identity = ctx.identity()?;
    assert_eq!(Some(identity.principal()), ctx.principal());
    Some(format!("{} {}", identity.principal(), ctx.claims::<Claims>().ok()?.email))
}

/// Read notes.
#[tool(scopes("notes.read"))]
fn read_notes(journal: &Journal) {
    journal.run();
}

/// Delete a note.
#[tool(scopes("notes.write"))]
fn delete_note(journal: &Journal) {
    journal.run();
}

/// Audit notes.
#[tool(scopes(any("notes.read", "notes.admin"), "audit"))]
fn audit(journal: &Journal) {
    journal.run();
}

/// Share a note, after a while if told so.
#[tool(scopes("notes.read"))]
async fn share(journal: &Journal, ctx: &Context, #[arg(default)] waits: bool) -> Result<(), Fault> {
    if waits {
        journal.permits.acquire().await.unwrap().forget();
    }
    ctx.require_scopes("notes.share")?;
    journal.run();
    Ok(())
}

/// Export notes.
#[tool(task, scopes("notes.write"))]
async fn export(journal: &Journal) -> &'static str {
    journal.run();
    "exported"
}

/// Wait for the test.
#[tool]
async fn waits(journal: &Journal, ctx: &Context) {
    journal.run();
    ctx.progress(1, 2, "waiting");
    journal.permits.acquire().await.unwrap().forget();
}

/// A note.
#[resource("notes://{id}", scopes("notes.read"), list = all_notes, complete(id = ids))]
fn note(journal: &Journal, id: u32) -> String {
    journal.run();
    id.to_string()
}

fn all_notes() -> Vec<ResourceLink> {
    vec![ResourceLink::new("notes://7", "seven")]
}

fn ids(journal: &Journal, _: &str) -> Vec<String> {
    journal.run();
    vec!["7".to_owned()]
}

/// Summarize notes.
#[prompt(scopes("notes.read"))]
fn summary(journal: &Journal) -> &'static str {
    journal.run();
    "Summarize."
}

/// A server with all functions, and its parts that tests observe.
struct Protected {
    service: HttpService,
    journal: Arc<Journal>,
    authenticated: Arc<AtomicUsize>,
}

fn server() -> (Server, Arc<Journal>) {
    let journal = Arc::new(Journal::default());
    let searches = Arc::clone(&journal);
    let search = MethodEntry::new("com.example/search", json!({"type": "object"}), move |_: Value, _: Context| {
        searches.run();
        async { Ok::<_, Fault>(json!({})) }
    });
    let server = Server::empty("notes", "1.0.0")
        .title("Notes")
        .with::<whoami>()
        .with::<read_notes>()
        .with::<delete_note>()
        .with::<audit>()
        .with::<share>()
        .with::<export>()
        .with::<waits>()
        .with::<note>()
        .with::<summary>()
        .with_entry(search.scopes("notes.read"))
        .with_shared(Arc::clone(&journal));
    (server, journal)
}

impl Protected {
    fn new() -> Self {
        Self::with(|server| server, HttpOptions::default())
    }

    fn with(change: impl FnOnce(Server) -> Server, options: HttpOptions) -> Self {
        let tokens = Tokens::of(resource_of_example());
        let authenticated = Arc::clone(&tokens.calls);
        let (server, journal) = server();
        let built = change(server.authenticate(tokens)).build().unwrap();
        // Subscriptions exist only if the server can change.
        built.handle();
        Self { service: built.into_http_service(options).unwrap(), journal, authenticated }
    }

    async fn open(&self, request: Request) -> Response<HttpBody> {
        soon(self.service.clone().call(request.into_http(|_| {}))).await.unwrap()
    }

    async fn send(&self, request: Request) -> Reply {
        let (head, body) = self.open(request).await.into_parts();
        let body = soon(body.collect()).await.unwrap().to_bytes().to_vec();
        Reply { status: head.status.as_u16(), headers: head.headers, body }
    }
}

/// A complete response.
#[derive(Debug)]
struct Reply {
    status: u16,
    headers: http::HeaderMap,
    body: Vec<u8>,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&self.body)))
    }

    fn challenges(&self) -> Vec<&str> {
        self.headers.get_all("www-authenticate").iter().map(|value| value.to_str().unwrap()).collect()
    }
}

pub(super) fn with_token(request: Request, token: &str) -> Request {
    request.with("authorization", &format!("Bearer {token}"))
}

fn call(tool: &str) -> Request {
    stateless("tools/call", &json!({"name": tool}))
}
