//! The proxy over HTTP: one stable address in front of the newest build.
//!
//! Requests keep their `Host` and `Origin` headers, so the server decides which to accept. The HTTP+SSE transport of
//! 2024-11-05 is forwarded without support for restarts: its streams end with their server.

mod backend;
mod filter;
mod get_stream;
mod handshake;
mod listen;
mod relay;
mod respond;
mod routes;
mod session;
mod state;
mod supervisor;
mod sync;

use std::{path::Path, sync::Arc, time::Duration};

use axum::Router;
use tokio::{net::TcpListener, sync::mpsc, time::timeout};

use self::{backend::Backends, state::HttpProxy, supervisor::Supervisor};
use super::{
    builder::BuildEvent,
    process::{LaunchConfig, ShutdownSignals},
    proxy::ProxyConfig,
    reporter::Reporter,
};

/// The time to write the last responses.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves clients until a signal arrives. Servers report their addresses in files in `directory`.
pub(super) async fn serve(
    listener: TcpListener,
    config: ProxyConfig,
    launch: LaunchConfig,
    directory: &Path,
    reporter: Reporter,
    builds: mpsc::UnboundedReceiver<BuildEvent>,
    signals: ShutdownSignals,
) {
    let (backends, requests) = Backends::new();
    let proxy = Arc::new(HttpProxy::new(backends, reporter.clone()));
    if let Ok(address) = listener.local_addr() {
        reporter.info(format_args!("listening on http://{address}/mcp"));
    }
    let app = Router::new().fallback(routes::handle).with_state(Arc::clone(&proxy));
    let shutdown = proxy.backends.shutdown();
    let serving = tokio::spawn(async move { axum::serve(listener, app).with_graceful_shutdown(shutdown).await });
    Supervisor::new(proxy, config, launch, directory.to_owned()).run(requests, builds, signals).await;
    let _ = timeout(SHUTDOWN_TIMEOUT, serving).await;
}
