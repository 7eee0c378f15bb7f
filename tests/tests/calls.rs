//! Calls that do not end by themselves: cancelled, timed out, given up. Their work stops, and nothing is answered twice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_runtime::{Context, Revision, Server, TestClient, tool};
use serde_json::json;

/// What the functions left behind.
#[derive(Debug, Default)]
struct Traces {
    dropped: AtomicUsize,
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

/// Blocks until it is cancelled.
#[tool(blocking)]
fn blocks(traces: &Traces, ctx: &Context) {
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
        ctx.cancelled().await;
        traces.waited.store(true, Ordering::SeqCst);
    });
    std::future::pending::<()>().await;
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
        .with::<whoami>()
        .with::<floods>()
        .with_shared(Arc::clone(&traces))
        .with_state(Arc::clone(&traces));
    (traces, server.test_client(revision))
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_cancelled_call_is_dropped_and_not_answered() {
    for revision in Revision::ALL {
        let (traces, mut client) = client(revision);
        let id = client.send_request("tools/call", json!({"name": "forever"}));
        let blocking = client.send_request("tools/call", json!({"name": "blocks"}));
        let task = client.send_request("tools/call", json!({"name": "leaves_a_task"}));
        assert_eq!(client.in_flight(), 3);
        tokio::task::yield_now().await;
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
