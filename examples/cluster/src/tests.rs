use std::sync::Arc;

use mcp_runtime::{Revision, Server, StateKey, backend::MemoryBackend};
use serde_json::json;

/// Tests need no Redis: servers of one process can share a backend in its memory.
#[tokio::test]
async fn a_question_is_answered_by_the_user_of_each_replica() {
    let backend = Arc::new(MemoryBackend::default());
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        // A new server reads the shared keys in the background. A server with a key of its own is ready at once.
        let server =
            Server::new("pizzeria", "1.0.0").backend(Arc::clone(&backend)).state_keys([StateKey::new([1; 32])]);
        let mut client = server.test_client(revision).answering(|asked| {
            assert_eq!(asked.message(), "Order a pizza with basil?");
            json!({"action": "accept", "content": {"sure": true}})
        });
        let ordered = client.call("order", json!({"topping": "basil"})).await.unwrap();
        assert!(ordered.text().starts_with("a guest ordered a pizza with basil from process "), "{}", ordered.text());
    }
}
