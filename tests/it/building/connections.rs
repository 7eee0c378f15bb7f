//! Byte streams that a server serves: buffered writers, blocked threads, and the limits of a connection.

use std::time::Duration;

use mcp_runtime::{Context, Json, Revision, tool};
use serde_json::json;

use super::{empty, two};

#[tokio::test]
async fn buffered_writers_are_flushed_and_size_limits_are_exact() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, BufWriter, duplex, split};

    let server = empty().with::<two::zebra>().max_message_bytes(100).build().unwrap();
    for _ in 0..2 {
        let (near, far) = duplex(1 << 16);
        let (reader, writer) = split(far);
        let serving = tokio::spawn({
            let server = server.clone();
            async move { server.serve(reader, BufWriter::new(writer)).await }
        });
        let (reader, mut writer) = split(near);
        let mut answers = BufReader::new(reader).lines();
        for (length, answer) in [(100, "\"result\":{}"), (101, "the message is too large: the limit is 100 bytes")] {
            let mut line = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"#.to_owned();
            line.push_str(&format!(r#""p":"{}"}}}}"#, "x".repeat(length - line.len() - 8)));
            assert_eq!(line.len(), length);
            writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            let answered = answers.next_line().await.unwrap().unwrap();
            assert!(answered.contains(answer), "{answered}");
        }
        drop((writer, answers));
        assert!(serving.await.unwrap().is_ok());
    }
}

/// Blocks its thread until it is released.
#[tool]
fn held(gate: &Gate) {
    let _ = gate.0.lock().unwrap().recv();
}

struct Gate(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

/// The response to `initialize` is flushed before a function requested in the same bytes is called, even by a buffered
/// writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn initialize_is_answered_while_a_function_blocks_the_thread() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, BufWriter, duplex, split};

    let (release, gate) = std::sync::mpsc::channel();
    let server = empty().with::<held>().with_state(Gate(std::sync::Mutex::new(gate))).build().unwrap();
    let (near, far) = duplex(1 << 16);
    let (reader, writer) = split(far);
    let serving = tokio::spawn(async move { server.serve(reader, BufWriter::new(writer)).await });
    let (reader, mut writer) = split(near);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let initialize = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"#,
        r#""clientInfo":{"name":"test","version":"1"}}}"#,
    );
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"held"}}"#;
    writer.write_all(format!("{initialize}\n{call}\n").as_bytes()).await.unwrap();
    let mut answers = BufReader::new(reader).lines();
    let answered = tokio::time::timeout(Duration::from_secs(10), answers.next_line()).await;
    release.send(()).unwrap();
    assert!(answered.unwrap().unwrap().unwrap().contains(r#""id":1"#));
    assert!(answers.next_line().await.unwrap().unwrap().contains(r#""id":2"#));
    drop((writer, answers));
    serving.await.unwrap().unwrap();
}

/// Never returns.
#[tool]
async fn forever() -> Json<Option<u8>> {
    std::future::pending().await
}

/// Report progress every second.
#[tool]
async fn reports_forever(ctx: &Context) {
    for step in 1_u32.. {
        ctx.progress(step, u32::MAX, "more");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Messages of a call do not extend the grace period of five seconds. A client that does not read then has another five
/// seconds to read the error.
#[tokio::test(start_paused = true)]
async fn calls_that_send_messages_fail_after_the_grace_period() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex, split};

    for pause in [0, 7] {
        let server = empty().with::<reports_forever>().build().unwrap();
        let (near, far) = duplex(64);
        let (reader, writer) = split(far);
        let serving = tokio::spawn(async move { server.serve(reader, writer).await });
        let (reader, mut writer) = split(near);
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": 1,
        });
        let params = json!({"name": "reports_forever", "_meta": meta});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        writer.write_all(format!("{call}\n").as_bytes()).await.unwrap();
        writer.shutdown().await.unwrap();
        tokio::time::sleep(Duration::from_secs(pause)).await;
        let mut lines = BufReader::new(reader).lines();
        let reading = async {
            let mut last = String::new();
            while let Some(line) = lines.next_line().await.unwrap() {
                last = line;
            }
            last
        };
        let last = tokio::time::timeout(Duration::from_secs(60), reading).await.expect("the call has not ended");
        assert!(last.contains("the server is shutting down"), "{pause}: {last}");
        serving.await.unwrap().unwrap();
    }
}

/// Report progress with a long message every second.
#[tool]
async fn reports_at_length(ctx: &Context) {
    for step in 1_u32.. {
        ctx.progress(step, u32::MAX, "x".repeat(400 << 10));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The unread output reaches its limit before the grace period of the call ends.
#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_is_given_up() {
    use tokio::io::{AsyncWriteExt, duplex, split};

    let server = empty().with::<reports_at_length>().build().unwrap();
    let (near, far) = duplex(64);
    let (reader, writer) = split(far);
    let serving = tokio::spawn(async move { server.serve(reader, writer).await });
    let (_reader, mut writer) = split(near);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 1,
    });
    let params = json!({"name": "reports_at_length", "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    writer.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    writer.shutdown().await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), serving).await.expect("the connection has not ended");
    assert_eq!(ended.unwrap().unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn the_calls_in_flight_of_a_connection_are_limited() {
    let mut client = empty().with::<forever>().with::<two::zebra>().max_in_flight(2).test_client(Revision::V2025_11_25);
    for _ in 0..2 {
        client.send_request("tools/call", json!({"name": "forever"}));
    }
    let refused = client.call("forever", ()).await.unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (-32603, "too many requests in flight: the limit is 2"));
    client.notify("notifications/cancelled", json!({"requestId": 1}));
    assert_eq!(client.in_flight(), 1);
    assert!(client.call("zebra", ()).await.is_ok());
}

/// A server that refused everything would be of no use.
#[tokio::test]
async fn a_limit_of_zero_allows_one() {
    let server = empty().with::<two::zebra>().with::<forever>().max_in_flight(0).page_size(0);
    let mut client = server.test_client(Revision::V2025_11_25);
    assert!(client.call("zebra", ()).await.is_ok());
    assert_eq!(client.tools().await.unwrap().len(), 2);
}

/// Return whether the call arrived over stdio.
#[tool(read_only)]
fn over_stdio(ctx: &Context) -> bool {
    ctx.is_stdio()
}

/// A program may serve several streams, whose clients are not the user who started it.
#[tokio::test]
async fn only_stdin_is_stdio() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex, split};

    let server = empty().with::<over_stdio>().build().unwrap();
    let mut client = server.test_client(Revision::V2025_11_25);
    assert_eq!(client.call("over_stdio", ()).await.unwrap().text(), "true");
    let mut client = server.test_client(Revision::V2025_11_25).with_header("x-a", "b");
    assert_eq!(client.call("over_stdio", ()).await.unwrap().text(), "false");

    let (near, far) = duplex(1 << 16);
    let (reader, writer) = split(far);
    let serving = tokio::spawn(async move { server.serve(reader, writer).await });
    let (reader, mut writer) = split(near);
    let initialize = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"#,
        r#""clientInfo":{"name":"test","version":"1"}}}"#,
    );
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"over_stdio"}}"#;
    writer.write_all(format!("{initialize}\n{call}\n").as_bytes()).await.unwrap();
    let mut answers = BufReader::new(reader).lines();
    answers.next_line().await.unwrap().unwrap();
    let answered = answers.next_line().await.unwrap().unwrap();
    assert!(answered.contains(r#""text":"false""#), "{answered}");
    drop((writer, answers));
    assert!(serving.await.unwrap().is_ok());
}
