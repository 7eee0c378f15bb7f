//! Processes that listen on several addresses: all of their listeners know the same sessions.

use std::sync::Arc;

use mcp_runtime::{HttpOptions, MemoryBackend};
use serde_json::json;

use super::options;
use crate::http::{
    Gate,
    client::Endpoint,
    legacy::{call, next, session},
    server,
};

/// A process with a listener that allows only one call in flight, and another one.
struct Process {
    gate: Arc<Gate>,
    strict: Endpoint,
    lenient: Endpoint,
}

impl Process {
    async fn start(backend: Option<&Arc<MemoryBackend>>) -> Self {
        let (gate, server) = server();
        let server = match backend {
            Some(backend) => server.backend(Arc::clone(backend)),
            None => server,
        };
        let built = server.build().unwrap();
        let serve = |options: HttpOptions| Endpoint::serve(built.clone(), options);
        Self { gate, strict: serve(options().max_in_flight(1)).await, lenient: serve(options()).await }
    }

    fn listeners(&self) -> [&Endpoint; 2] {
        [&self.strict, &self.lenient]
    }
}

#[tokio::test]
async fn every_listener_takes_every_message() {
    let backend = Arc::default();
    let [holder, other] = [Process::start(Some(&backend)).await, Process::start(Some(&backend)).await];
    let alone = Process::start(None).await;
    let replicas = [holder.listeners(), other.listeners()].concat();
    for (holder, listeners) in [(&holder, &*replicas), (&alone, &alone.listeners())] {
        for opened_at in holder.listeners() {
            let (mut stream, path) = session(opened_at, "2024-11-05").await;
            for (id, listener) in (1..).zip(listeners) {
                assert_eq!(listener.send(&call(id, "quick").path(&path)).await.status, 202, "{id}");
                assert_eq!(next(&mut stream).await["id"], id);
            }
        }
    }
}

/// The limits are those of the listener at which the stream was opened.
#[tokio::test]
async fn messages_count_where_their_stream_was_opened() {
    let backend = Arc::default();
    let [holder, other] = [Process::start(Some(&backend)).await, Process::start(Some(&backend)).await];
    let (mut strict, strict_path) = session(&holder.strict, "2024-11-05").await;
    let (mut lenient, lenient_path) = session(&holder.lenient, "2024-11-05").await;
    assert_eq!(holder.lenient.send(&call(1, "waits").path(&strict_path)).await.status, 202);
    holder.gate.has_begun(1).await;
    for listener in [holder.listeners(), other.listeners()].concat() {
        let refused = listener.send(&call(2, "quick").path(&strict_path)).await;
        assert_eq!((refused.status, &refused.json()["id"]), (503, &json!(2)));
        assert_eq!(listener.send(&call(2, "quick").path(&lenient_path)).await.status, 202);
        assert_eq!(next(&mut lenient).await["id"], 2);
    }
    holder.gate.open();
    assert_eq!(next(&mut strict).await["id"], 1);
}
