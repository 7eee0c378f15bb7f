//! Calls that do not end by themselves: cancelled, timed out, given up. Their work stops, and nothing is answered twice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_runtime::{Context, Fault, Revision, Server, TestClient, tool};
use serde_json::json;

/// What the functions left behind.
#[derive(Debug, Default)]
struct Traces {
    dropped: AtomicUsize,
    begun: AtomicUsize,
    noticed: AtomicBool,
    waited: AtomicBool,
}

struct Trace<'a>(&'a Traces);

impl Drop for Trace<'_> {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Waits for ever.
#[tool]
async fn forever(traces: &Traces) {
    let _trace = Trace(traces);
    std::future::pending::<()>().await;
}

/// Waits for ever, but not long.
#[tool(timeout = "20ms")]
async fn not_long(traces: &Traces) {
    let _trace = Trace(traces);
    std::future::pending::<()>().await;
}

/// Lets go of its client, and goes on.
#[tool]
async fn lets_go(ctx: &Context) -> &'static str {
    ctx.close_sse_stream(Duration::from_millis(1));
    tokio::time::sleep(Duration::from_millis(1)).await;
    "still here"
}

/// Blocks until it is cancelled.
#[tool(blocking)]
fn blocks(traces: &Traces, ctx: &Context) {
    traces.begun.fetch_add(1, Ordering::SeqCst);
    while !ctx.is_cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    ctx.info("nobody hears this");
    traces.noticed.store(true, Ordering::SeqCst);
}

/// Leaves a task behind that waits for the cancellation.
#[tool]
async fn leaves_a_task(traces: &Arc<Traces>, ctx: &Context) {
    let (traces, ctx) = (Arc::clone(traces), ctx.clone());
    tokio::spawn(async move {
        ctx.ended().await;
        traces.waited.store(true, Ordering::SeqCst);
    });
    std::future::pending::<()>().await;
}

/// Leaves a task behind that tells more than there is to tell.
#[tool]
async fn tells_too_late(traces: &Arc<Traces>, ctx: &Context) {
    ctx.progress(1, 3, "");
    let (traces, ctx) = (Arc::clone(traces), ctx.clone());
    tokio::spawn(async move {
        ctx.ended().await;
        ctx.progress(2, 3, "too late");
        ctx.progress(3, 3, "too late");
        ctx.error("too late");
        traces.waited.store(true, Ordering::SeqCst);
    });
}

/// Panics when it is dropped.
#[tool(timeout = "20ms")]
async fn bomb() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("boom");
        }
    }
    let _bomb = Bomb;
    std::future::pending::<()>().await;
}

/// Is in the middle of something when it is cancelled.
#[tool]
async fn busy() {
    tokio::task::yield_now().await;
    std::thread::sleep(Duration::from_millis(3));
}

/// Blocks a thread for ever, until it is cancelled; counts those that began.
#[tool(blocking)]
fn occupies(traces: &Traces, ctx: &Context) {
    traces.begun.fetch_add(1, Ordering::SeqCst);
    while !ctx.is_cancelled() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Says who asks, and for what.
#[tool]
fn whoami(ctx: &Context) -> String {
    let client = ctx.client().map(|client| format!("{} {}", client.name, client.version));
    format!("{:?} {} {} {} {:?}", client, ctx.request_id(), ctx.name(), ctx.revision(), ctx.meta("traceparent"))
}

/// Tells more than anybody wants.
#[tool]
async fn floods(ctx: &Context) {
    for number in 0..100_000 {
        ctx.progress(number, (), "");
        ctx.error(format!("{number:0>1000}"));
    }
    tokio::task::yield_now().await;
}

fn client(revision: Revision) -> (Arc<Traces>, TestClient) {
    let traces = Arc::new(Traces::default());
    let server = Server::empty("calls", "1.0.0")
        .with::<forever>()
        .with::<not_long>()
        .with::<blocks>()
        .with::<leaves_a_task>()
        .with::<tells_too_late>()
        .with::<bomb>()
        .with::<busy>()
        .with::<occupies>()
        .with::<whoami>()
        .with::<floods>()
        .with_shared(Arc::clone(&traces))
        .with_state(Arc::clone(&traces));
    (traces, server.test_client(revision))
}

async fn until(condition: impl Fn() -> bool) {
    let polling = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), polling).await.expect("it never came to that");
}

#[tokio::test]
async fn a_cancelled_call_is_dropped_and_not_answered() {
    for revision in Revision::ALL {
        let (traces, mut client) = client(revision);
        let id = client.send_request("tools/call", json!({"name": "forever"}));
        let blocking = client.send_request("tools/call", json!({"name": "blocks"}));
        let task = client.send_request("tools/call", json!({"name": "leaves_a_task"}));
        assert_eq!(client.in_flight(), 3);
        until(|| traces.begun.load(Ordering::SeqCst) == 1).await;
        for id in [id, blocking, task, 99] {
            client.notify("notifications/cancelled", json!({"requestId": id, "reason": "test"}));
        }
        assert_eq!(client.in_flight(), 0);
        until(|| traces.dropped.load(Ordering::SeqCst) == 1).await;
        until(|| traces.noticed.load(Ordering::SeqCst)).await;
        until(|| traces.waited.load(Ordering::SeqCst)).await;
        assert!(client.call("whoami", ()).await.is_ok());
        assert_eq!(client.settle().await, Vec::<serde_json::Value>::new());
    }
}

#[tokio::test]
async fn nothing_is_told_of_a_call_that_is_over() {
    for revision in Revision::ALL {
        let (traces, mut client) = client(revision);
        let meta = json!({"progressToken": "token", "io.modelcontextprotocol/logLevel": "debug"});
        client.request("tools/call", json!({"name": "tells_too_late", "_meta": meta})).await.unwrap();
        until(|| traces.waited.load(Ordering::SeqCst)).await;
        let mut told = client.notifications();
        told.append(&mut client.settle().await);
        let told: Vec<_> = told.iter().map(|told| &told["params"]["progress"]).collect();
        assert_eq!(told, [1], "{revision}");
    }
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_dropped_and_answered() {
    for revision in Revision::ALL {
        let (traces, mut client) = client(revision);
        let answer = client.call("not_long", ()).await.unwrap();
        assert!(answer.is_error());
        assert_eq!(answer.text(), "`not_long` did not finish within 20ms");
        assert_eq!(traces.dropped.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn the_server_sets_the_time_that_annotations_leave_open() {
    let server = Server::empty("calls", "1.0.0").with::<forever>().with_shared(Arc::new(Traces::default()));
    let mut client = server.timeout(Duration::from_millis(20)).test_client(Revision::V2026_07_28);
    assert_eq!(client.call("forever", ()).await.unwrap().text(), "`forever` did not finish within 20ms");
}

#[tokio::test]
async fn a_client_that_cannot_come_back_is_not_let_go_of() {
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        let mut client = Server::empty("calls", "1.0.0").with::<lets_go>().test_client(revision);
        assert_eq!(client.call("lets_go", ()).await.unwrap().text(), "still here", "{revision}");
    }
}

#[tokio::test]
async fn a_function_knows_who_asks() {
    for (revision, id) in [(Revision::V2025_03_26, 1), (Revision::V2026_07_28, 1)] {
        let (_, mut client) = client(revision);
        let params = json!({"name": "whoami", "_meta": {"traceparent": "00-1"}});
        let answer = client.request("tools/call", params).await.unwrap();
        let expected = format!("Some(\"test-client 1.0.0\") {id} whoami {revision} Some(String(\"00-1\"))");
        assert_eq!(answer["content"][0]["text"], expected);
    }
}

/// What nobody reads is dropped, not kept; the answer is kept.
#[tokio::test]
async fn a_flood_of_notifications_is_bounded() {
    let (_, mut client) = client(Revision::V2025_06_18);
    let flood = json!({"name": "floods", "_meta": {"progressToken": 1}});
    let id = client.send_request("tools/call", flood);
    assert!(client.answer(id).await.is_ok());
    let bytes: usize = client.notifications().iter().map(|line| line.to_string().len()).sum();
    assert!((1 << 16..2 << 20).contains(&bytes), "{bytes} bytes of notifications were kept");
}

#[tokio::test]
async fn bytes_that_are_no_text_are_refused() {
    for (revision, id) in [(Revision::V2024_11_05, Some(json!(null))), (Revision::V2025_11_25, None)] {
        let (_, mut client) = client(revision);
        let refused = client.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}");
        assert_eq!(refused[0]["error"], json!({"code": -32700, "message": "parse error: invalid UTF-8 at byte 35"}));
        assert_eq!(refused[0].get("id").cloned(), id);
        assert!(client.call("whoami", ()).await.is_ok());
    }
}

#[tokio::test]
async fn a_panic_while_a_call_is_dropped_is_no_lost_answer() {
    let (_, mut client) = client(Revision::V2025_11_25);
    let answer = client.call("bomb", ()).await.unwrap();
    assert_eq!(answer.text(), "`bomb` did not finish within 20ms");
    assert_eq!(client.in_flight(), 0);

    let id = client.send_request("tools/call", json!({"name": "bomb"}));
    client.notify("notifications/cancelled", json!({"requestId": id}));
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(client.call("whoami", ()).await.is_ok());
    assert_eq!(client.settle().await, Vec::<serde_json::Value>::new());
}

/// An id may be used again after a cancellation: its answer is the second call's, and comes once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_is_used_again_is_answered_by_the_second_call() {
    let (_, mut client) = client(Revision::V2025_11_25);
    let call = |name: &str| {
        json!({"jsonrpc": "2.0", "id": "again", "method": "tools/call", "params": {"name": name}}).to_string()
    };
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "again"}}).to_string();
    let mut cancelled = 0;
    for _ in 0..50 {
        // On a busy machine it may be done before it is cancelled.
        let mut done = client.send_raw(call("busy").as_bytes());
        tokio::time::sleep(Duration::from_millis(1)).await;
        done.append(&mut client.send_raw(cancel.as_bytes()));
        if !done.is_empty() {
            continue;
        }
        cancelled += 1;
        let mut answers = client.send_raw(call("not_long").as_bytes());
        answers.append(&mut client.settle().await);
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0]["result"]["content"][0]["text"], "`not_long` did not finish within 20ms");
    }
    assert!(cancelled > 0);
}

/// Functions that block wait for a thread, and those that are cancelled before they have one never begin.
#[tokio::test]
async fn cancelled_functions_in_the_queue_never_begin() {
    let (traces, mut client) = client(Revision::V2026_07_28);
    let ids: Vec<_> = (0..600).map(|_| client.send_request("tools/call", json!({"name": "occupies"}))).collect();
    until(|| traces.begun.load(Ordering::SeqCst) >= 200).await;
    for id in ids.iter().rev() {
        client.notify("notifications/cancelled", json!({"requestId": id}));
    }
    assert_eq!(client.in_flight(), 0);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(traces.begun.load(Ordering::SeqCst) <= 256, "{:?} began", traces.begun);
    assert!(client.call("whoami", ()).await.is_ok());
}

#[tokio::test]
async fn a_batch_is_bounded() {
    let (_, mut client) = client(Revision::V2025_03_26);
    let ping = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let batch = |size: u32| serde_json::Value::Array((0..size).map(ping).collect()).to_string();
    assert_eq!(client.send_raw(batch(100).as_bytes())[0].as_array().unwrap().len(), 100);
    let refused = client.send_raw(batch(101).as_bytes());
    assert_eq!(refused[0]["error"]["message"], "invalid request: a batch may have at most 100 messages");
}

mod failing {
    use super::*;

    /// Fails with a secret.
    #[mcp_runtime::resource("failing://{id}", list = listed, complete(id = ids))]
    pub(super) fn failing(id: String) -> Result<String, String> {
        Err(format!("password=hunter2 {id}"))
    }

    fn listed() -> Result<Vec<mcp_runtime::ResourceLink>, String> {
        Err("password=hunter2".to_owned())
    }

    fn ids() -> Result<Vec<String>, String> {
        Err("password=hunter2".to_owned())
    }

    /// Fails with a secret.
    #[mcp_runtime::prompt]
    pub(super) fn asking() -> Result<String, String> {
        Err("password=hunter2".to_owned())
    }

    /// Fails with words for the client.
    #[mcp_runtime::prompt]
    pub(super) fn speaking() -> Result<String, Fault> {
        Err(Fault::custom(7, "out of paper"))
    }
}

/// What goes wrong in a resource or a prompt is for the log; only a `Fault` is for the client.
#[tokio::test]
async fn secrets_stay_in_the_log() {
    let server = Server::empty("calls", "1.0.0")
        .with::<failing::failing>()
        .with::<failing::asking>()
        .with::<failing::speaking>();
    let mut client = server.test_client(Revision::V2025_11_25);
    let reference = json!({"type": "ref/resource", "uri": "failing://{id}"});
    let answers = [
        client.read("failing://x").await.unwrap_err(),
        client.request("resources/list", json!({})).await.unwrap_err(),
        client.complete(reference, "id", "").await.unwrap_err(),
        client.prompt("asking", ()).await.unwrap_err(),
        client.prompt("speaking", ()).await.unwrap_err(),
    ];
    let answers: Vec<_> = answers.iter().map(|error| (error.code, error.message.as_str())).collect();
    let failed = (-32603, "`failing` failed");
    assert_eq!(answers, [failed, failed, failed, (-32603, "`asking` failed"), (7, "out of paper")]);
}
