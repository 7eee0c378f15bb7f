//! HTTP over sockets: clients of every revision, and misbehaving clients.

mod authorization;
mod background;
mod changes;
mod client;
mod client_requests;
mod expensive;
mod guard;
mod legacy;
mod limits;
mod lines;
mod liveness;
#[cfg(target_os = "linux")]
mod load;
mod peers;
mod principals;
#[cfg(target_os = "linux")]
mod process;
mod races;
mod replicas;
mod request;
mod session;
mod shutdown;
mod skills;
mod stateless;
mod streams;
mod tasks;
mod tls;
#[cfg(target_os = "linux")]
mod token;
#[cfg(unix)]
mod unix;
mod urls;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use client::{Endpoint, Options, until};
use mcp_runtime::{Context, Elicit, Fault, HttpOptions, Server, ask::Answer, backend::MemoryBackend, tool};
use tokio::sync::Semaphore;

/// Blocks calls until the test lets them continue, and counts them.
#[derive(Debug)]
struct Gate {
    permits: Semaphore,
    begun: AtomicUsize,
    dropped: AtomicUsize,
    is_released: AtomicBool,
}

impl Gate {
    /// Releases one call.
    fn open(&self) {
        self.permits.add_permits(1);
    }

    async fn has_begun(&self, calls: usize) {
        until(|| self.begun.load(Ordering::SeqCst) == calls).await;
    }

    async fn has_dropped(&self, calls: usize) {
        until(|| self.dropped.load(Ordering::SeqCst) == calls).await;
    }
}

/// Counts a call when it begins and when it is dropped.
struct CallGuard<'a>(&'a Gate);

impl<'a> CallGuard<'a> {
    fn begin(gate: &'a Gate) -> Self {
        gate.begun.fetch_add(1, Ordering::SeqCst);
        Self(gate)
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Return at once.
#[tool]
fn quick() -> &'static str {
    "quick"
}

/// Wait for the test.
#[tool]
async fn waits(gate: &Gate) -> &'static str {
    let _guard = CallGuard::begin(gate);
    gate.permits.acquire().await.unwrap().forget();
    "waited"
}

/// Report progress, then wait for the test.
#[tool]
async fn reports(gate: &Gate, ctx: &Context) -> &'static str {
    let _guard = CallGuard::begin(gate);
    ctx.progress(1, 2, "half");
    gate.permits.acquire().await.unwrap().forget();
    ctx.progress(2, 2, "whole");
    "reported"
}

/// Report progress without waiting.
#[tool]
fn reports_at_once(ctx: &Context) -> &'static str {
    ctx.progress(1, 1, "whole");
    "reported at once"
}

/// Close the stream, then wait for the test.
#[tool]
async fn closes_stream(gate: &Gate, ctx: &Context) -> &'static str {
    let _guard = CallGuard::begin(gate);
    ctx.close_sse_stream(Duration::from_millis(7));
    gate.permits.acquire().await.unwrap().forget();
    "reconnected"
}

/// Take arguments that headers mirror.
#[tool]
fn routed(
    #[arg(header = "Region")] region: String,
    #[arg(header = "Count")] count: Option<i64>,
    #[arg(header = "Dry")] dry: Option<bool>,
) -> String {
    format!("{region} {count:?} {dry:?}")
}

/// Describe the caller.
#[tool]
fn whoami(ctx: &Context) -> String {
    let header = |name| ctx.headers()?.get(name)?.to_str().ok();
    let peer = ctx.peer_addr().map(|peer| peer.ip().to_string());
    format!("{:?} {peer:?} {:?}", header("x-asked-by"), ctx.client().map(|client| client.name.as_str()))
}

/// Return a long text.
#[tool]
fn long(length: usize) -> String {
    "x".repeat(length)
}

/// Report progress, wait for the test, then return a long text.
#[tool]
async fn reports_long(gate: &Gate, ctx: &Context, length: usize) -> String {
    let _guard = CallGuard::begin(gate);
    ctx.progress(1, 2, "half");
    gate.permits.acquire().await.unwrap().forget();
    "x".repeat(length)
}

/// Block the thread until the test releases it, or a timeout expires.
#[tool]
fn blocks(gate: &Gate) -> &'static str {
    let _guard = CallGuard::begin(gate);
    for _ in 0..10_000 {
        if gate.is_released.load(Ordering::SeqCst) {
            return "released";
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    "timed out"
}

/// A bare confirmation.
#[derive(Debug, Elicit)]
struct Confirm {
    /// Really do it?
    sure: bool,
}

/// Send a request to the client.
#[tool]
async fn asks(gate: &Gate, ctx: &Context) -> Result<&'static str, Fault> {
    let _guard = CallGuard::begin(gate);
    match ctx.elicit::<Confirm>("confirm", "Sure?").await? {
        Answer::Accept(Confirm { sure: true }) => Ok("sure"),
        _ => Ok("not sure"),
    }
}

/// Send many notifications before the result.
#[tool]
fn floods(ctx: &Context) -> &'static str {
    for number in 0..2000 {
        ctx.error(number);
    }
    "flooded"
}

fn server() -> (Arc<Gate>, Server) {
    let gate = Arc::new(Gate {
        permits: Semaphore::new(0),
        begun: AtomicUsize::new(0),
        dropped: AtomicUsize::new(0),
        is_released: AtomicBool::new(false),
    });
    let server = Server::empty("http", "1.0.0")
        .with::<quick>()
        .with::<waits>()
        .with::<reports>()
        .with::<reports_at_once>()
        .with::<closes_stream>()
        .with::<routed>()
        .with::<whoami>()
        .with::<long>()
        .with::<reports_long>()
        .with::<blocks>()
        .with::<asks>()
        .with::<floods>()
        .with_shared(Arc::clone(&gate));
    (gate, server)
}

/// Returns how often the servers of this process have refused something because of a limit.
pub(crate) fn refusals(what: &str) -> u64 {
    counted("mcp.server.refusals", what)
}

/// Returns the value of a statistic of this process, by the value of its attribute. Other tests of the process count as well.
fn counted(statistic: &str, value: &str) -> u64 {
    let server = Server::empty("counting", "1.0.0").build().unwrap();
    let stats = server.stats().read();
    let mut found = stats.iter().filter(|stat| stat.name == statistic);
    found.find(|stat| stat.attribute.is_some_and(|(_, found)| found == value)).unwrap().value
}

async fn serve_with(options: impl Into<Options>) -> (Arc<Gate>, Endpoint) {
    let (gate, server) = server();
    (gate, Endpoint::start(server, options).await)
}

/// Serves with the default backend, and with one that other processes may share.
async fn serve_each(options: HttpOptions) -> [(Arc<Gate>, Endpoint); 2] {
    let (gate, server) = server();
    let shared = Endpoint::start(server.backend(MemoryBackend::default()), options.clone()).await;
    [serve_with(options).await, (gate, shared)]
}

async fn serve() -> (Arc<Gate>, Endpoint) {
    serve_with(HttpOptions::default()).await
}
