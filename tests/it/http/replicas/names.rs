//! The name of the server that a backend belongs to.

use std::sync::Arc;

use mcp_runtime::{
    HttpOptions, Server,
    backend::MemoryBackend,
    http::{self, Listener},
};

use super::LEASE;
use crate::http::{
    client::{Endpoint, Session},
    request::Request,
};

fn server(backend: &Arc<MemoryBackend>, name: &'static str, version: &'static str) -> Server {
    Server::empty(name, version).backend(Arc::clone(backend)).lease(LEASE)
}

/// Serves until it is known whether the server starts.
async fn start(server: Server) -> Result<(), String> {
    let service = server.build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    let listener = Listener::bind(([127, 0, 0, 1], 0)).await.unwrap();
    let served = http::serve(listener, service).with_graceful_shutdown(std::future::ready(())).await;
    served.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_server_with_another_name_does_not_start() {
    let backend = Arc::new(MemoryBackend::default());
    let mut notes = Endpoint::start(server(&backend, "notes", "1.0.0"), HttpOptions::default()).await;
    let ready = Request::new("GET").path("/readyz");
    assert_eq!(notes.send(&ready).await.status, 200);
    // The name is kept for longer than its record exists without a running server.
    tokio::time::sleep(LEASE * 2).await;
    let refused = start(server(&backend, "tracker", "1.0.0")).await.unwrap_err();
    for part in ["`tracker`", "`notes`", "help: ", "renamed_from(\"notes\")"] {
        assert!(refused.contains(part), "{part} is missing: {refused}");
    }
    // It serves no stream either.
    let built = server(&backend, "tracker", "1.0.0").build().unwrap();
    let served = built.serve(tokio::io::empty(), tokio::io::sink()).await;
    assert_eq!(served.map_err(|error| error.to_string()), Err(refused));
    // Rolling updates: another version, and another name that is meant.
    assert_eq!(start(server(&backend, "notes", "2.0.0")).await, Ok(()));
    let renamed = server(&backend, "tracker", "2.0.0").renamed_from("notes");
    let renamed = Endpoint::start(renamed, HttpOptions::default()).await;
    assert_eq!(renamed.send(&ready).await.status, 200);
    assert_eq!(start(server(&backend, "notes", "1.0.1")).await, Ok(()), "the update may be undone");
    notes.stop();
    notes.stopped().await;
    // When no process with the old name runs any more, the backend belongs to the new one.
    tokio::time::sleep(LEASE * 2).await;
    let refused = start(server(&backend, "notes", "1.0.2")).await.unwrap_err();
    assert!(refused.contains("processes of `tracker` use the same keys"), "{refused}");
}

/// A service that is mounted has no startup.
#[tokio::test]
async fn a_mounted_server_with_another_name_is_not_ready() {
    let backend = Arc::new(MemoryBackend::default());
    let service =
        |name| server(&backend, name, "1.0.0").build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    let (notes, tracker) = (service("notes"), service("tracker"));
    assert!(notes.is_ready().await);
    assert!(!tracker.is_ready().await);
}

/// A session outlives the processes that have used it.
#[tokio::test]
async fn sessions_of_another_server_are_unknown() {
    let backend = Arc::new(MemoryBackend::default());
    let mut notes = Endpoint::start(server(&backend, "notes", "1.0.0"), HttpOptions::default()).await;
    let Session { version, id, .. } = notes.session("2025-11-25").await;
    notes.stop();
    notes.stopped().await;
    tokio::time::sleep(LEASE * 2).await;
    for (name, former, status) in [("tracker", "", 404), ("tracker", "notes", 200), ("notes", "", 200)] {
        let replica = server(&backend, name, "1.0.0").renamed_from(former).renamed_from("tracker");
        let mut replica = Endpoint::start(replica, HttpOptions::default()).await;
        let ping = Session { endpoint: &replica, version, id: id.clone() }.ping();
        assert_eq!(replica.send(&ping).await.status, status, "{name}, formerly {former}");
        replica.stop();
        replica.stopped().await;
    }
}
