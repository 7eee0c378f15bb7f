//! The proxy over HTTP: one stable address in front of the newest build.
//!
//! Requests keep their `Host` and `Origin` headers, so the server decides which to accept. The HTTP+SSE transport of
//! 2024-11-05 is forwarded without support for restarts: its streams end with their server.

mod backend;
mod get_stream;
mod listen;
mod relay;
mod respond;
mod routes;
mod session;
mod supervisor;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::Router;
use tokio::{net::TcpListener, sync::mpsc, time::timeout};

use self::{backend::Backends, session::HttpSession, supervisor::Supervisor};
use super::{Reporter, builder::BuildEvent, process::LaunchConfig, proxy::ProxyConfig};
use crate::signals::ShutdownSignals;

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
    let proxy = Arc::new(HttpProxy { backends, sessions: Mutex::default(), reporter: reporter.clone() });
    if let Ok(address) = listener.local_addr() {
        reporter.info(format_args!("listening on http://{address}/mcp"));
    }
    let app = Router::new().fallback(routes::handle).with_state(Arc::clone(&proxy));
    let shutdown = proxy.backends.shutdown();
    let serving = tokio::spawn(async move { axum::serve(listener, app).with_graceful_shutdown(shutdown).await });
    Supervisor::new(proxy, config, launch, directory.to_owned()).run(requests, builds, signals).await;
    let _ = timeout(SHUTDOWN_TIMEOUT, serving).await;
}

/// The proxy between HTTP clients and the servers of successive builds.
#[derive(Debug)]
struct HttpProxy {
    backends: Backends,
    sessions: Mutex<HashMap<String, Arc<SharedSession>>>,
    reporter: Reporter,
}

/// A session that concurrent requests use.
#[derive(Debug)]
struct SharedSession {
    /// The session id that the client received.
    id: String,
    state: Mutex<HttpSession>,
    /// Held while the session is opened on a new server.
    opening: tokio::sync::Mutex<()>,
}

impl HttpProxy {
    fn session(&self, id: &str) -> Option<Arc<SharedSession>> {
        lock(&self.sessions).get(id).cloned()
    }

    fn sessions(&self) -> Vec<Arc<SharedSession>> {
        lock(&self.sessions).values().cloned().collect()
    }

    fn add_session(&self, id: String, state: HttpSession) {
        let session = SharedSession { id: id.clone(), state: state.into(), opening: tokio::sync::Mutex::default() };
        lock(&self.sessions).insert(id, Arc::new(session));
    }

    fn remove_session(&self, id: &str) {
        lock(&self.sessions).remove(id);
    }
}

/// Locks a mutex. Ignores poisoning: no critical section here leaves inconsistent data when it panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
