//! The memory of a process with many clients.

use serde_json::json;

use super::{
    client::{Connection, soon},
    process::Process,
    request::{Request, initialize, stateless},
};

fn add() -> Request {
    stateless("tools/call", &json!({"name": "add", "arguments": {"a": 1, "b": 2}}))
}

/// Opens sessions on one connection, and abandons them.
async fn abandon(mut connection: Connection, sessions: usize) -> (Vec<String>, Connection) {
    let mut ids = Vec::new();
    for _ in 0..sessions {
        let (opened, kept) = connection.send(&initialize("2025-11-25")).await;
        ids.push(opened.header("mcp-session-id").unwrap().to_owned());
        connection = kept;
    }
    (ids, connection)
}

/// A server keeps thousands of sessions, at a low cost for each.
#[tokio::test]
async fn abandoned_sessions_use_little_memory() {
    let server = Process::start("off", &[]);
    let (_, connection) = abandon(server.connect().await, 100).await;
    let before = server.memory();
    let (ids, connection) = abandon(connection, 2_400).await;
    let used = server.memory().saturating_sub(before);
    assert!(used < 2_400 * 2, "{used} kB for 2,400 sessions");
    let ping = Request::post(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).with("mcp-session-id", &ids[0]);
    let (response, _) = connection.send(&ping).await;
    assert_eq!(response.status, 200);
}

/// Unread streams do not delay other clients.
#[tokio::test]
async fn unread_streams_use_little_memory() {
    let server = Process::start("off", &[]);
    let before = server.memory();
    let (ids, mut connection) = abandon(server.connect().await, 1_000).await;
    let mut streams = Vec::new();
    for id in &ids {
        let mut stream = server.connect().await;
        let get = Request::new("GET").with("accept", "text/event-stream").with("mcp-session-id", id);
        stream.write(&get.bytes()).await;
        streams.push(stream);
    }
    for number in 0..2_000 {
        let request = match number % 2 {
            0 => add(),
            _ => Request::post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
                .with("mcp-session-id", &ids[number % ids.len()]),
        };
        let (response, kept) = connection.send(&request).await;
        assert_eq!(response.status, 200);
        connection = kept;
    }
    let used = server.memory().saturating_sub(before);
    assert!(used < 64 << 10, "{used} kB for 1,000 streams");
    // The streams stayed open.
    let response = soon(streams.swap_remove(500).response()).await;
    assert_eq!((response.status, response.header("content-type")), (200, Some("text/event-stream")));
}

/// No memory is allocated for bodies that are only announced.
#[tokio::test]
async fn announced_bodies_use_little_memory() {
    let server = Process::start("off", &[]);
    let (_, connection) = abandon(server.connect().await, 10).await;
    let before = server.memory();
    let mut stalled = Vec::new();
    for _ in 0..200 {
        let mut client = server.connect().await;
        let huge = add().with("content-length", &(100 << 20).to_string());
        client.write(huge.head().as_bytes()).await;
        stalled.push(client);
        let mut client = server.connect().await;
        let slow = add().with("content-length", "1000000");
        client.write(&[slow.head().as_bytes(), &[b' '; 1000]].concat()).await;
        stalled.push(client);
    }
    let (response, _) = connection.send(&add()).await;
    assert_eq!(response.status, 200);
    let used = server.memory().saturating_sub(before);
    assert!(used < 64 << 10, "{used} kB for 400 bodies");
}
