//! Pings of the server, which end the sessions of clients that no longer respond.

use mcp_runtime::BuiltServer;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::*;

const INTERVAL: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(60);

/// Counts the calls in flight: each holds a clone of the sender.
#[derive(Debug, Clone)]
pub(crate) struct CallCounter(mpsc::Sender<()>);

/// Never return.
#[tool]
async fn hangs(counter: &CallCounter) {
    let _held = counter.0.clone();
    std::future::pending::<()>().await;
}

/// Returns a server that pings, and a sender whose clones are held by the server and by each call of `hangs`.
pub(crate) fn pinging_server(interval: Duration, limit: Duration) -> (Server, mpsc::Sender<()>) {
    let (sender, _) = mpsc::channel(1);
    (
        server().with::<hangs>().with_state(CallCounter(sender.clone())).ping_interval(interval).ping_timeout(limit),
        sender,
    )
}

/// A client on a pair of byte streams.
#[derive(Debug)]
struct StreamClient {
    input: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
    served: JoinHandle<std::io::Result<()>>,
}

impl StreamClient {
    fn connect(server: BuiltServer) -> Self {
        let (near, far) = duplex(1 << 16);
        let served = tokio::spawn(async move {
            let (reader, writer) = split(far);
            server.serve(reader, writer).await
        });
        let (input, output) = split(near);
        Self { input: BufReader::new(input).lines(), output, served }
    }

    /// Opens a session.
    async fn open(server: BuiltServer, revision: Revision) -> Self {
        let mut client = Self::connect(server);
        let params = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        client.send(&json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": params})).await;
        assert_eq!(client.next().await.unwrap()["id"], "open");
        client
    }

    async fn send(&mut self, message: &Value) {
        self.output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Returns the next message of the server, or `None` if it has closed the connection.
    async fn next(&mut self) -> Option<Value> {
        let line = self.input.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    async fn respond(&mut self, ping: &Value) {
        assert_eq!(ping["method"], "ping", "{ping}");
        self.send(&json!({"jsonrpc": "2.0", "id": ping["id"], "result": {}})).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_pinged_and_its_session_ends() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let (server, calls) = pinging_server(INTERVAL, LIMIT);
        let before = calls.strong_count();
        let handle = server.handle();
        let mut client = StreamClient::open(server.build().unwrap(), revision).await;
        let params = json!({"name": "hangs", "arguments": {}});
        client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
        let ping = client.next().await.unwrap();
        assert_eq!(ping["method"], "ping", "{revision}");
        assert_eq!((handle.sessions().len(), calls.strong_count()), (1, before + 1), "{revision}");
        // The ping is withdrawn, and the call fails.
        assert_eq!(client.next().await.unwrap()["method"], "notifications/cancelled", "{revision}");
        let failed = client.next().await.unwrap();
        assert_eq!((&failed["id"], &failed["error"]["code"]), (&json!(1), &json!(-32603)), "{revision}");
        assert_eq!(client.next().await, None, "{revision}");
        client.served.await.unwrap().unwrap();
        assert_eq!(handle.sessions().len(), 0, "{revision}");
        // Only the test itself holds a sender.
        let cancelled = async {
            while calls.strong_count() > 1 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LIMIT, cancelled).await.unwrap();
    }
}

/// The two options may be set in any order.
#[tokio::test(start_paused = true)]
async fn the_time_to_answer_may_be_set_before_the_interval() {
    let limit = LIMIT / 10;
    let server = server().ping_timeout(limit).ping_interval(INTERVAL).build().unwrap();
    let start = Instant::now();
    let mut client = StreamClient::open(server, Revision::V2025_11_25).await;
    while client.next().await.is_some() {}
    assert!(start.elapsed() < INTERVAL + 2 * limit, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_client_may_have_any_time_to_answer() {
    let (server, _) = pinging_server(INTERVAL, Duration::MAX);
    let mut client = StreamClient::open(server.build().unwrap(), Revision::V2025_11_25).await;
    for _ in 0..2 {
        let ping = tokio::time::timeout(2 * INTERVAL, client.next()).await.unwrap().unwrap();
        client.respond(&ping).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_either_is_disconnected() {
    let (server, _) = pinging_server(INTERVAL, LIMIT);
    let mut client = StreamClient::open(server.build().unwrap(), Revision::V2025_11_25).await;
    // More output than the streams and the server buffer.
    let request = format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).repeat(100);
    while tokio::time::timeout(Duration::from_secs(1), client.output.write_all(request.as_bytes())).await.is_ok() {}
    assert_eq!(client.served.await.unwrap().unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}

/// It leaves the question of a call unanswered, and no further request may be sent to it.
#[tokio::test(start_paused = true)]
async fn a_client_that_cannot_be_pinged_must_show_a_sign_of_life() {
    for is_silent in [true, false] {
        let server = server().ping_interval(INTERVAL).ping_timeout(LIMIT).max_in_flight(1);
        let handle = server.handle();
        let mut client = Client::open(server, Revision::V2025_11_25, &json!({"roots": {}}));
        client.notify("notifications/initialized");
        client.call(1, "roots");
        client.request("roots/list").await;
        for _ in 0..10 {
            sleep(LIMIT / 2).await;
            if !is_silent {
                client.notify("notifications/initialized");
            }
        }
        assert_eq!(handle.sessions().is_empty(), is_silent);
    }
}

/// Return a long text.
#[tool]
fn long() -> String {
    "x".repeat(LONG)
}

const LONG: usize = 4 << 20;

/// Its ping waits behind the response.
#[tokio::test(start_paused = true)]
async fn a_client_that_only_reads_lives_while_it_reads() {
    let (server, _) = pinging_server(INTERVAL, LIMIT);
    let handle = server.handle();
    let mut client = StreamClient::open(server.with::<long>().build().unwrap(), Revision::V2025_11_25).await;
    let params = json!({"name": "long", "arguments": {}});
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
    let start = Instant::now();
    let mut read = 0;
    while read < LONG {
        sleep(LIMIT).await;
        read += client.input.get_mut().read(&mut vec![0; 1 << 16]).await.unwrap();
        assert_eq!(handle.sessions().len(), 1, "after {read} bytes");
    }
    assert!(start.elapsed() > 10 * (INTERVAL + LIMIT), "{:?}", start.elapsed());
    // Once it neither reads nor sends anything, its session ends.
    sleep(4 * (INTERVAL + LIMIT)).await;
    assert_eq!(handle.sessions().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_lives() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let (server, _) = pinging_server(INTERVAL, LIMIT);
        let mut client = StreamClient::open(server.build().unwrap(), revision).await;
        for id in 1..=10 {
            let ping = client.next().await.unwrap();
            assert_eq!(ping["id"], id, "{revision}");
            client.respond(&ping).await;
        }
        client.send(&json!({"jsonrpc": "2.0", "id": "last", "method": "ping"})).await;
        assert_eq!(client.next().await.unwrap()["id"], "last", "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_messages_show_that_a_client_is_alive() {
    let (server, _) = pinging_server(INTERVAL, LIMIT);
    let mut client = StreamClient::open(server.build().unwrap(), Revision::V2025_11_25).await;
    // A client that sends messages is not pinged.
    for id in 1..=20 {
        sleep(INTERVAL / 2).await;
        client.send(&json!({"jsonrpc": "2.0", "id": format!("n{id}"), "method": "ping"})).await;
        assert_eq!(client.next().await.unwrap()["id"], format!("n{id}"));
    }
    // A client that sends another message instead of an answer lives, and the ping is withdrawn.
    let ping = client.next().await.unwrap();
    assert_eq!(ping["method"], "ping");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    let cancelled = client.next().await.unwrap();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &ping["id"])
    );
    let ping = client.next().await.unwrap();
    client.respond(&ping).await;
}

#[tokio::test(start_paused = true)]
async fn pings_are_sent_only_if_asked_for_and_never_without_a_session() {
    for (revision, pings) in
        Revision::ALL.into_iter().map(|revision| (revision, !mcp_tests::expected(revision).sessions))
    {
        let server = if pings { pinging_server(INTERVAL, LIMIT).0 } else { server() };
        let server = server.build().unwrap();
        let is_stateless = revision.is_stateless();
        let mut client =
            if is_stateless { StreamClient::connect(server) } else { StreamClient::open(server, revision).await };
        let start = Instant::now();
        for id in 1..=2 {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": revision.as_str(),
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            });
            let params = if is_stateless { json!({"_meta": meta}) } else { json!({}) };
            client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params})).await;
            let response = client.next().await.unwrap();
            assert!(response["id"] == id && response["result"].is_object(), "{revision}: {response}");
            sleep((INTERVAL + LIMIT) * 10).await;
        }
        assert!(start.elapsed() >= (INTERVAL + LIMIT) * 10, "the clock is paused");
    }
}
