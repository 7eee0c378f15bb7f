//! Pings while other peers send arguments that are expensive to check.

use std::{
    borrow::Cow,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use mcp_runtime::{HttpOptions, Server, tool};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpSocket,
};

use super::{
    client::{Connection, Endpoint},
    request::stateless,
};

/// Declares a type that accepts the values of a schema.
macro_rules! checked {
    ($($name:ident => $schema:expr;)*) => {$(
        #[derive(Debug, Deserialize)]
        struct $name(#[expect(dead_code, reason = "only checked")] Value);

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema.try_into().unwrap()
            }
        }
    )*};
}

checked! {
    Matched => json!({"type": "string", "pattern": "^(a|b|ab)*c$"});
    Unique => json!({"type": "array", "uniqueItems": true});
    Listed => json!({"type": "array", "items": {"enum": (0..5_000).map(|n| format!("w{n}")).collect::<Vec<_>>()}});
    Containing => json!({"type": "array", "contains": {"type": "string", "pattern": "^(a|b|ab)*c$"}});
}

/// A tree.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only checked")]
enum Tree {
    Left { left: Box<Tree> },
    Right { right: Box<Tree> },
    Many(#[schemars(length(max = 100_000))] Vec<Tree>),
    Leaf(#[schemars(range(max = 9))] u8),
}

/// Take values that are expensive to check.
#[tool]
fn checks(
    _matched: Option<Matched>,
    _unique: Option<Unique>,
    _listed: Option<Listed>,
    _containing: Option<Containing>,
    _tree: Option<Tree>,
) {
}

/// Returns arguments of about a megabyte.
fn expensive() -> [Value; 5] {
    let nested = |inside: Value| (0..30).fold(inside, |inside, _| json!({"left": inside}));
    [
        json!({"_matched": "ab".repeat(1 << 19)}),
        json!({"_unique": (0..100_000).map(|n| json!([n, {"n": n}])).collect::<Vec<_>>()}),
        json!({"_listed": vec!["w4999"; 100_000]}),
        json!({"_containing": vec!["abababab"; 80_000]}),
        json!({"_tree": vec![nested(json!(10)); 2_000]}),
    ]
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Reports the latencies, and checks them with a generous limit.
#[expect(clippy::print_stdout, reason = "the result of the measurement")]
fn report(transport: &str, mut latencies: Vec<Duration>, checks: usize) {
    latencies.sort_unstable();
    let percentile = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    let (median, p99) = (percentile(50), percentile(99));
    println!("{transport}: pings take {median:?} (median) and {p99:?} (p99) beside {checks} checks");
    assert!(checks > 0 && p99 < Duration::from_millis(200), "{p99:?} with {checks} checks");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures time, see CONTRIBUTING.md"]
async fn pings_over_http_beside_expensive_checks() {
    let options = HttpOptions::default();
    let endpoint = Arc::new(Endpoint::start(Server::empty("checks", "1.0.0").with::<checks>(), options).await);
    let (is_over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let attackers = (0..cores()).map(|number| {
        let (endpoint, is_over, count) = (Arc::clone(&endpoint), Arc::clone(&is_over), Arc::clone(&count));
        let calls =
            expensive().map(|arguments| stateless("tools/call", &json!({"name": "checks", "arguments": arguments})));
        tokio::spawn(async move {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(format!("127.0.0.{}:0", number + 2).parse().unwrap()).unwrap();
            let mut connection = Connection(BufReader::new(socket.connect(endpoint.address).await.unwrap()));
            for call in calls.iter().cycle().skip(number) {
                let (response, kept) = connection.send(call).await;
                assert_eq!(response.status, 200);
                connection = kept;
                count.fetch_add(1, Ordering::Relaxed);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        })
    });
    let attackers: Vec<_> = attackers.collect();
    let session = endpoint.session("2025-11-25").await;
    let (ping, mut connection) = (session.ping(), endpoint.connect().await);
    let mut latencies = Vec::new();
    for _ in 0..1_000 {
        let start = Instant::now();
        let (response, kept) = connection.send(&ping).await;
        assert_eq!(response.status, 200);
        latencies.push(start.elapsed());
        connection = kept;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for attacker in attackers {
        attacker.await.unwrap();
    }
    report("HTTP", latencies, count.load(Ordering::Relaxed));
}

/// One connection sends the pings and, on as many as there are cores, the expensive calls.
#[tokio::test]
#[ignore = "measures time, see CONTRIBUTING.md"]
async fn pings_over_stdio_beside_expensive_checks() {
    let (near, far) = tokio::io::duplex(1 << 20);
    let server = Server::empty("checks", "1.0.0").with::<checks>().build().unwrap();
    let serving = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (reader, writer) = tokio::io::split(far);
        runtime.block_on(server.serve(reader, writer)).unwrap();
    });
    let (input, mut output) = tokio::io::split(near);
    let mut input = BufReader::new(input).lines();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let calls = expensive().map(|arguments| {
        let params = json!({"name": "checks", "arguments": arguments, "_meta": meta});
        move |id: &str| format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
    });
    let list =
        format!("{}\n", json!({"jsonrpc": "2.0", "id": "ping", "method": "tools/list", "params": {"_meta": meta}}));
    let (mut latencies, mut sent, mut answered) = (Vec::new(), 0, 0);
    while latencies.len() < 1_000 {
        while sent < answered + cores() {
            output.write_all(calls[sent % calls.len()](&format!("call {sent}")).as_bytes()).await.unwrap();
            sent += 1;
        }
        let start = Instant::now();
        output.write_all(list.as_bytes()).await.unwrap();
        loop {
            let message: Value = serde_json::from_str(&input.next_line().await.unwrap().unwrap()).unwrap();
            if message["id"] == "ping" {
                break;
            }
            answered += 1;
        }
        latencies.push(start.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop((input, output));
    serving.join().unwrap();
    report("stdio", latencies, answered);
}
