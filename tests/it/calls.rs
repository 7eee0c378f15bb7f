//! Calls that are cancelled or time out: their work stops, and every request gets at most one response.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_runtime::{
    Context, Fault, ResourceLink, Revision, Server, layers::from_fn, resource, testing::TestClient, tool,
};
use serde_json::{Value, json};

/// Events that the functions record for assertions.
#[derive(Debug, Default)]
struct Observed {
    dropped: AtomicUsize,
    started: AtomicUsize,
    noticed: AtomicBool,
    waited: AtomicBool,
}

struct CountDrop<'a>(&'a Observed);

impl Drop for CountDrop<'_> {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Never completes.
#[tool]
async fn forever(observed: &Observed) {
    let _count = CountDrop(observed);
    std::future::pending::<()>().await;
}

/// Never completes, and has a short timeout.
#[tool(timeout = "20ms")]
async fn not_long(observed: &Observed) {
    let _count = CountDrop(observed);
    std::future::pending::<()>().await;
}

/// Closes its SSE stream and continues.
#[tool]
async fn closes_stream(ctx: &Context) -> &'static str {
    ctx.close_sse_stream(Duration::from_millis(1));
    tokio::time::sleep(Duration::from_millis(1)).await;
    "still running"
}

/// Blocks until it is cancelled.
#[tool(blocking)]
fn blocks(observed: &Observed, ctx: &Context) {
    observed.started.fetch_add(1, Ordering::SeqCst);
    while !ctx.is_cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    ctx.info("not delivered");
    observed.noticed.store(true, Ordering::SeqCst);
}

/// Spawns a task that outlives the call and waits for its cancellation.
#[tool]
async fn spawns_a_task(observed: &Arc<Observed>, ctx: &Context) {
    let (observed, ctx) = (Arc::clone(observed), ctx.clone());
    tokio::spawn(async move {
        ctx.ended().await;
        observed.waited.store(true, Ordering::SeqCst);
    });
    std::future::pending::<()>().await;
}

/// Spawns a task that reports progress and logs after the call has ended.
#[tool]
async fn reports_too_late(observed: &Arc<Observed>, ctx: &Context) {
    ctx.progress(1, 3, "");
    let (observed, ctx) = (Arc::clone(observed), ctx.clone());
    tokio::spawn(async move {
        ctx.ended().await;
        ctx.progress(2, 3, "too late");
        ctx.progress(3, 3, "too late");
        ctx.error("too late");
        ctx.notify("com.example/late", json!({}));
        observed.waited.store(true, Ordering::SeqCst);
    });
}

/// Like `reports_too_late`, without a future.
#[tool]
fn reports_too_late_in_place(observed: &Arc<Observed>, ctx: &Context, fails: bool) -> Result<(), &'static str> {
    ctx.progress(1, 3, "");
    let (observed, ctx) = (Arc::clone(observed), ctx.clone());
    tokio::spawn(async move {
        ctx.ended().await;
        ctx.progress(2, 3, "too late");
        ctx.error("too late");
        ctx.notify("com.example/late", json!({}));
        observed.waited.store(true, Ordering::SeqCst);
    });
    if fails { Err("failed") } else { Ok(()) }
}

/// Returns at once, on another thread.
#[tool(blocking)]
fn returns_on_a_thread() {}

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

/// Blocks its thread briefly, so that the cancellation arrives while it runs.
#[tool]
async fn busy() {
    tokio::task::yield_now().await;
    std::thread::sleep(Duration::from_millis(3));
}

/// Occupies a thread until it is cancelled, and counts how many calls started.
#[tool(blocking)]
fn occupies(observed: &Observed, ctx: &Context) {
    observed.started.fetch_add(1, Ordering::SeqCst);
    while !ctx.is_cancelled() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Describes the caller and the request.
#[tool]
fn whoami(ctx: &Context) -> String {
    let client = ctx.client().map(|client| format!("{} {}", client.name, client.version));
    format!("{:?} {} {} {} {:?}", client, ctx.request_id(), ctx.name(), ctx.revision(), ctx.meta("com.example/trace"))
}

/// Returns the context of the trace.
#[tool]
fn trace(ctx: &Context) -> String {
    json!(["traceparent", "tracestate", "baggage"].map(|key| ctx.meta(key))).to_string()
}

/// Reports progress with numbers that JSON does not have.
#[tool]
fn reports_infinity(ctx: &Context) {
    ctx.progress(f64::NAN, 1, "");
    ctx.progress(1, f64::INFINITY, "");
}

/// Sends far more notifications than the outbox holds.
#[tool]
async fn floods(ctx: &Context) {
    for number in 0..100_000 {
        ctx.progress(number, (), "");
        ctx.error(format!("{number:0>1000}"));
    }
    tokio::task::yield_now().await;
}

fn client(revision: Revision) -> (Arc<Observed>, TestClient) {
    let observed = Arc::new(Observed::default());
    let server = Server::empty("calls", "1.0.0")
        .with::<forever>()
        .with::<not_long>()
        .with::<blocks>()
        .with::<spawns_a_task>()
        .with::<reports_too_late>()
        .with::<reports_too_late_in_place>()
        .with::<reports_infinity>()
        .with::<returns_on_a_thread>()
        .with::<bomb>()
        .with::<busy>()
        .with::<occupies>()
        .with::<whoami>()
        .with::<trace>()
        .with::<floods>()
        .with_shared(Arc::clone(&observed))
        .with_state(Arc::clone(&observed));
    (observed, server.test_client(revision))
}

async fn until(condition: impl Fn() -> bool) {
    let polling = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), polling).await.expect("the condition was not met in time");
}

#[tokio::test]
async fn a_cancelled_call_is_dropped_without_a_response() {
    for revision in Revision::ALL {
        let (observed, mut client) = client(revision);
        let id = client.send_request("tools/call", json!({"name": "forever"}));
        let blocking = client.send_request("tools/call", json!({"name": "blocks"}));
        let task = client.send_request("tools/call", json!({"name": "spawns_a_task"}));
        assert_eq!(client.in_flight(), 3);
        until(|| observed.started.load(Ordering::SeqCst) == 1).await;
        for id in [id, blocking, task, 99] {
            client.notify("notifications/cancelled", json!({"requestId": id, "reason": "test"}));
        }
        assert_eq!(client.in_flight(), 0);
        until(|| observed.dropped.load(Ordering::SeqCst) == 1).await;
        until(|| observed.noticed.load(Ordering::SeqCst)).await;
        until(|| observed.waited.load(Ordering::SeqCst)).await;
        // The cancelled functions have returned by the time that another one has.
        for name in ["returns_on_a_thread", "busy"] {
            assert!(client.call(name, ()).await.is_ok());
        }
        assert_eq!(client.settle().await, Vec::<serde_json::Value>::new());
        assert_eq!(client.notifications(), Vec::<serde_json::Value>::new());
    }
}

/// The protocol forbids it, but a client that does so is served.
#[tokio::test]
async fn an_id_can_be_used_again_after_its_response() {
    for revision in Revision::ALL {
        let (_, mut client) = client(revision);
        for name in ["whoami", "busy", "returns_on_a_thread", "busy", "whoami"] {
            let mut params = json!({"name": name});
            if revision.is_stateless() {
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": revision.as_str(),
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
            }
            let call = json!({"jsonrpc": "2.0", "id": "again", "method": "tools/call", "params": params});
            let mut lines = client.send_raw(call.to_string().as_bytes());
            lines.append(&mut client.settle().await);
            assert_eq!(lines.len(), 1, "{revision} {name}: {lines:?}");
            assert!(lines[0]["id"] == "again" && lines[0]["result"]["isError"] != true, "{revision} {name}: {lines:?}");
        }
    }
}

#[tokio::test]
async fn no_notifications_follow_the_end_of_a_call() {
    let calls = [
        ("reports_too_late", json!({})),
        ("reports_too_late_in_place", json!({"fails": false})),
        ("reports_too_late_in_place", json!({"fails": true})),
    ];
    for (revision, (name, arguments)) in
        Revision::ALL.iter().flat_map(|revision| calls.iter().map(move |call| (*revision, call)))
    {
        let (observed, mut client) = client(revision);
        let meta = json!({"progressToken": "token", "io.modelcontextprotocol/logLevel": "debug"});
        client.request("tools/call", json!({"name": name, "arguments": arguments, "_meta": meta})).await.unwrap();
        until(|| observed.waited.load(Ordering::SeqCst)).await;
        let mut received = client.notifications();
        received.append(&mut client.settle().await);
        let progress: Vec<_> = received.iter().map(|message| &message["params"]["progress"]).collect();
        assert_eq!(progress, [1], "{revision}");
    }
}

#[tokio::test]
async fn progress_is_reported_in_finite_numbers() {
    for revision in Revision::ALL {
        let (_, mut client) = client(revision);
        let meta = json!({"progressToken": "token"});
        client.request("tools/call", json!({"name": "reports_infinity", "_meta": meta})).await.unwrap();
        let sent: Vec<_> = client.notifications().into_iter().map(|message| message["params"].clone()).collect();
        assert_eq!(sent, [json!({"progressToken": "token", "progress": 1})], "{revision}");
    }
}

#[tokio::test]
async fn a_call_that_times_out_is_dropped_and_answered() {
    for revision in Revision::ALL {
        let (observed, mut client) = client(revision);
        let answer = client.call("not_long", ()).await.unwrap();
        assert!(answer.is_error());
        assert_eq!(answer.text(), "`not_long` did not finish within 20ms");
        assert_eq!(observed.dropped.load(Ordering::SeqCst), 1);
    }
}

/// A function on a thread cannot be dropped, so it is told.
#[tokio::test]
async fn a_blocking_function_learns_that_its_call_has_timed_out() {
    /// Block until the call has been cancelled.
    #[tool(blocking, timeout = "20ms")]
    fn blocks_too_long(observed: &Observed, ctx: &Context) {
        observed.started.fetch_add(1, Ordering::SeqCst);
        for _ in 0..5000 {
            if ctx.is_cancelled() {
                return observed.noticed.store(true, Ordering::SeqCst);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    let observed = Arc::new(Observed::default());
    let server = Server::empty("calls", "1.0.0").with::<blocks_too_long>().with_shared(Arc::clone(&observed));
    let mut client = server.test_client(Revision::V2025_11_25);
    // If the machine is busy, a call may time out before a thread runs its function.
    while observed.started.load(Ordering::SeqCst) == 0 {
        let answer = client.call("blocks_too_long", ()).await.unwrap();
        assert_eq!(answer.text(), "`blocks_too_long` did not finish within 20ms");
    }
    until(|| observed.noticed.load(Ordering::SeqCst)).await;
}

#[tokio::test]
async fn the_server_timeout_is_the_default_for_functions() {
    let server = Server::empty("calls", "1.0.0").with::<forever>().with_shared(Arc::new(Observed::default()));
    let mut client = server.timeout(Duration::from_millis(20)).test_client(Revision::V2026_07_28);
    assert_eq!(client.call("forever", ()).await.unwrap().text(), "`forever` did not finish within 20ms");
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_function_takes_precedence_over_that_of_the_server() {
    /// Take ten seconds.
    #[tool(timeout = "20s")]
    async fn slow() -> &'static str {
        tokio::time::sleep(Duration::from_secs(10)).await;
        "done"
    }

    for timeout in [1, 60] {
        let server = Server::empty("calls", "1.0.0").with::<slow>().timeout(Duration::from_secs(timeout));
        let mut client = server.test_client(Revision::V2026_07_28);
        assert_eq!(client.call("slow", ()).await.unwrap().text(), "done", "{timeout}");
    }
}

/// The options of a template hold for the functions that complete its variables and list its resources.
#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_template_holds_for_completions_and_lists() {
    async fn never_completes(_: &str) -> Vec<String> {
        std::future::pending().await
    }
    async fn never_lists() -> Vec<ResourceLink> {
        std::future::pending().await
    }
    /// A template.
    #[resource("test://{id}", list = never_lists, complete(id = never_completes), timeout = "20ms")]
    async fn item(id: String) -> String {
        id
    }

    for revision in Revision::ALL {
        let mut client = Server::empty("calls", "1.0.0").with::<item>().test_client(revision);
        let reference = json!({"type": "ref/resource", "uri": "test://{id}"});
        for error in [
            client.complete(reference, "id", "").await.unwrap_err(),
            client.request("resources/list", json!({})).await.unwrap_err(),
        ] {
            assert_eq!(error.message, "`item` did not finish within 20ms", "{revision}");
        }
    }
}

/// Functions that block would otherwise delay everything else.
#[tokio::test]
async fn completions_and_lists_of_blocking_templates_run_on_other_threads() {
    fn thread(_: &str) -> Vec<String> {
        vec![format!("{:?}", std::thread::current().id())]
    }
    fn threads() -> Vec<ResourceLink> {
        vec![ResourceLink::new("test://thread", thread("").remove(0))]
    }
    /// A template.
    #[resource("test://slow/{id}", list = threads, complete(id = thread), blocking)]
    fn slow(id: String) -> String {
        id
    }
    /// Another template.
    #[resource("test://quick/{id}", list = threads, complete(id = thread))]
    fn quick(id: String) -> String {
        id
    }

    for (server, name, is_blocking) in [
        (Server::empty("calls", "1.0.0").with::<slow>(), "slow", true),
        (Server::empty("calls", "1.0.0").with::<quick>(), "quick", false),
    ] {
        let mut client = server.test_client(Revision::V2025_11_25);
        let reference = json!({"type": "ref/resource", "uri": format!("test://{name}/{{id}}")});
        let completed = client.complete(reference, "id", "").await.unwrap();
        let listed = client.request("resources/list", json!({})).await.unwrap();
        for found in [&json!(completed[0]), &listed["resources"][0]["name"]] {
            assert_eq!(*found != json!(thread("")[0]), is_blocking, "{name}");
        }
    }
}

#[tokio::test]
async fn closing_the_stream_has_no_effect_without_resumption() {
    for revision in Revision::ALL {
        let mut client = Server::empty("calls", "1.0.0").with::<closes_stream>().test_client(revision);
        assert_eq!(client.call("closes_stream", ()).await.unwrap().text(), "still running", "{revision}");
    }
}

#[tokio::test]
async fn a_function_can_identify_its_caller() {
    for (revision, id) in [(Revision::V2025_03_26, 1), (Revision::V2026_07_28, 1)] {
        let (_, mut client) = client(revision);
        let params = json!({"name": "whoami", "_meta": {"com.example/trace": "00-1"}});
        let answer = client.request("tools/call", params).await.unwrap();
        let expected = format!("Some(\"test-client 1.0.0\") {id} whoami {revision} Some(String(\"00-1\"))");
        assert_eq!(answer["content"][0]["text"], expected);
    }
}

/// The unit tests of `trace_context` have all formats.
#[tokio::test]
async fn an_invalid_trace_context_is_ignored() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (meta, expected) in [
        (json!({"traceparent": parent, "tracestate": "a=1", "baggage": "b=2"}), json!([parent, "a=1", "b=2"])),
        (json!({"traceparent": "00-1", "tracestate": "a=1", "baggage": "b=2"}), json!([null, null, "b=2"])),
        (json!({"tracestate": "a=1", "baggage": "b"}), json!([null, null, null])),
        (json!({"traceparent": parent, "tracestate": "a"}), json!([parent, null, null])),
        (json!({"traceparent": parent, "tracestate": 1}), json!([parent, null, null])),
        (json!({"traceparent": 1, "tracestate": [], "baggage": {}}), json!([null, null, null])),
    ] {
        for revision in Revision::ALL {
            let (_, mut client) = client(revision);
            let answer = client.request("tools/call", json!({"name": "trace", "_meta": meta})).await.unwrap();
            let text = answer["content"][0]["text"].as_str().unwrap();
            assert_eq!(serde_json::from_str::<serde_json::Value>(text).unwrap(), expected, "{revision}: {meta}");
        }
    }
}

/// Of duplicate members, the last one counts, as in the rest of the message.
#[tokio::test]
async fn the_last_of_duplicate_values_in_meta_is_returned() {
    for (meta, expected) in [
        (r#"{"com.example/trace":"one"}"#, "one"),
        (r#"{"com.example/trace":"one","com.example/trace":"two"}"#, "two"),
        (r#"{"com.example/trace":"one","other":1,"c\u006fm.example/trace":"two"}"#, "two"),
    ] {
        for (params, expected) in [
            (format!(r#""_meta":{meta}"#), expected),
            (format!(r#""_meta":{{"com.example/trace":"zero"}},"_meta":{meta}"#), expected),
            (format!(r#""_meta":{meta},"_meta":{{"com.example/trace":"three"}}"#), "three"),
        ] {
            let (_, mut client) = client(Revision::V2025_11_25);
            let message =
                format!(r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{{"name":"whoami",{params}}}}}"#);
            let response = client.send_raw(message.as_bytes()).remove(0);
            let text = response["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.ends_with(&format!("Some(String({expected:?}))")), "{params}: {text}");
        }
    }
}

/// Unread notifications are dropped beyond the limit; the response is kept.
#[tokio::test]
async fn a_flood_of_notifications_is_bounded() {
    let (_, mut client) = client(Revision::V2025_06_18);
    let flood = json!({"name": "floods", "_meta": {"progressToken": 1}});
    let id = client.send_request("tools/call", flood);
    assert!(client.response(id).await.is_ok());
    let bytes: usize = client.notifications().iter().map(|line| line.to_string().len()).sum();
    assert!((1 << 16..2 << 20).contains(&bytes), "{bytes} bytes of notifications were kept");
}

#[tokio::test]
async fn invalid_utf8_is_rejected() {
    for (revision, id) in [(Revision::V2024_11_05, Some(json!(null))), (Revision::V2025_11_25, None)] {
        let (_, mut client) = client(revision);
        let refused = client.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}");
        assert_eq!(refused[0]["error"], json!({"code": -32700, "message": "parse error: invalid UTF-8 at byte 35"}));
        assert_eq!(refused[0].get("id").cloned(), id);
        assert!(client.call("whoami", ()).await.is_ok());
    }
}

#[tokio::test]
async fn a_panic_while_a_call_is_dropped_does_not_lose_the_response() {
    let (_, mut client) = client(Revision::V2025_11_25);
    let answer = client.call("bomb", ()).await.unwrap();
    assert_eq!(answer.text(), "`bomb` did not finish within 20ms");
    assert_eq!(client.in_flight(), 0);

    let id = client.send_request("tools/call", json!({"name": "bomb"}));
    client.notify("notifications/cancelled", json!({"requestId": id}));
    // This timeout expires after the one of the cancelled call would.
    assert!(client.call("not_long", ()).await.unwrap().is_error());
    assert_eq!(client.settle().await, Vec::<serde_json::Value>::new());
}

/// An id may be reused after a cancellation: the only response is that of the second call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reused_id_is_answered_by_the_second_call() {
    let (_, mut client) = client(Revision::V2025_11_25);
    let call = |name: &str| {
        json!({"jsonrpc": "2.0", "id": "again", "method": "tools/call", "params": {"name": name}}).to_string()
    };
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "again"}}).to_string();
    let mut cancelled = 0;
    for _ in 0..50 {
        // On a busy machine the call may complete before it is cancelled.
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

#[tokio::test]
async fn a_call_with_the_longest_id_can_be_cancelled() {
    let (_, mut client) = client(Revision::V2025_11_25);
    let id = "i".repeat(1024 - 2);
    let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "forever"}});
    assert_eq!(client.send_raw(call.to_string().as_bytes()), [] as [Value; 0]);
    assert_eq!(client.in_flight(), 1);
    client.notify("notifications/cancelled", json!({"requestId": id}));
    assert_eq!(client.in_flight(), 0);
}

/// Blocking functions queue for a thread. Calls cancelled while queued never start.
#[tokio::test]
async fn calls_cancelled_while_queued_never_start() {
    let (observed, mut client) = client(Revision::V2026_07_28);
    let ids: Vec<_> = (0..600).map(|_| client.send_request("tools/call", json!({"name": "occupies"}))).collect();
    until(|| observed.started.load(Ordering::SeqCst) >= 200).await;
    for id in ids.iter().rev() {
        client.notify("notifications/cancelled", json!({"requestId": id}));
    }
    assert_eq!(client.in_flight(), 0);
    // Queued after all of them.
    assert!(client.call("returns_on_a_thread", ()).await.is_ok());
    assert!(observed.started.load(Ordering::SeqCst) <= 256, "{:?} started", observed.started);
}

#[tokio::test]
async fn a_batch_is_bounded() {
    let (_, mut client) = client(Revision::V2025_03_26);
    let ping = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let batch = |size: u32| serde_json::Value::Array((0..size).map(ping).collect()).to_string();
    assert_eq!(client.send_raw(batch(100).as_bytes())[0].as_array().unwrap().len(), 100);
    let refused = client.send_raw(batch(101).as_bytes());
    assert_eq!(refused[0]["error"]["message"], "invalid request: the batch is too large: the limit is 100 messages");
}

#[tokio::test]
async fn a_batch_is_answered_without_its_cancelled_calls() {
    let (_, mut client) = client(Revision::V2025_03_26);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "forever"}});
    let batch = json!([call, {"jsonrpc": "2.0", "id": 2, "method": "ping"}]);
    assert_eq!(client.send_raw(batch.to_string().as_bytes()), [] as [serde_json::Value; 0]);
    client.notify("notifications/cancelled", json!({"requestId": 1}));
    assert_eq!(client.settle().await, [json!([{"jsonrpc": "2.0", "id": 2, "result": {}}])]);
}

mod failing {
    use super::*;

    /// Fails with an error that contains a secret.
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

    /// Fails with an error that contains a secret.
    #[mcp_runtime::prompt]
    pub(super) fn fails_secretly() -> Result<String, String> {
        Err("password=hunter2".to_owned())
    }

    /// Fails with an error meant for the client.
    #[mcp_runtime::prompt]
    pub(super) fn fails_openly() -> Result<String, Fault> {
        Err(Fault::custom(7, "out of paper"))
    }
}

/// Errors of resources and prompts go to the log. Only a `Fault` reaches the client.
#[tokio::test]
async fn error_details_stay_in_the_log() {
    let server = Server::empty("calls", "1.0.0")
        .with::<failing::failing>()
        .with::<failing::fails_secretly>()
        .with::<failing::fails_openly>();
    let mut client = server.test_client(Revision::V2025_11_25);
    let reference = json!({"type": "ref/resource", "uri": "failing://{id}"});
    let answers = [
        client.read("failing://x").await.unwrap_err(),
        client.request("resources/list", json!({})).await.unwrap_err(),
        client.complete(reference, "id", "").await.unwrap_err(),
        client.prompt("fails_secretly", ()).await.unwrap_err(),
        client.prompt("fails_openly", ()).await.unwrap_err(),
    ];
    let answers: Vec<_> = answers.iter().map(|error| (error.code, error.message.as_str())).collect();
    let failed = (-32603, "`failing` failed");
    assert_eq!(answers, [failed, failed, failed, (-32603, "`fails_secretly` failed"), (7, "out of paper")]);
}

/// Take a text that matches a pattern.
#[tool]
fn matched(#[arg(pattern = "^(a|b|ab)*$")] text: &str) -> String {
    text.len().to_string()
}

/// Like `matched`, with a future.
#[tool]
async fn matched_later(#[arg(pattern = "^(a|b|ab)*$")] text: String) -> String {
    tokio::task::yield_now().await;
    text.len().to_string()
}

/// Arguments that take long to check are checked on another thread.
#[tokio::test]
async fn slow_checks_delay_no_other_request() {
    let server = || Server::empty("checks", "1.0.0").with::<matched>().with::<matched_later>();
    let layered = || server().layer(from_fn(|call, next| async move { next.run(call).await }));
    let valid = "ab".repeat(1 << 14);
    let invalid = format!("{valid}!");
    for server in [server(), layered()] {
        let mut client = server.test_client(Revision::V2025_11_25);
        for name in ["matched", "matched_later"] {
            for (text, expected) in [(&valid, "32768"), (&invalid, "must match the pattern")] {
                let params = json!({"name": name, "arguments": {"text": text}});
                let call = json!({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": params});
                assert_eq!(client.send_raw(call.to_string().as_bytes()), [] as [Value; 0], "{name}");
                let pong = client.send_raw(br#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#);
                assert!(pong.len() == 1 && pong[0]["id"] == "ping", "{name}: {pong:?}");
                let result = &client.next_lines().await[0]["result"]["content"][0]["text"];
                assert!(result.as_str().unwrap().contains(expected), "{name}: {result}");
            }
        }
        // Short arguments are checked in place.
        let call =
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"matched","arguments":{"text":"a"}}}"#;
        assert_eq!(client.send_raw(call.as_bytes())[0]["result"]["content"][0]["text"], "1");
    }
}

/// Return the name of the client, once the test has opened the gate.
#[tool]
async fn who(gate: &tokio::sync::Semaphore, ctx: &Context) -> Option<String> {
    gate.acquire().await.unwrap().forget();
    Some(ctx.client()?.name.clone())
}

/// Requests of several conversations overlap on one connection. Each is answered as if it were the only one.
#[tokio::test]
async fn conversations_share_a_connection() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let server = Server::empty("conversations", "1.0.0").with::<who>().with_shared(Arc::clone(&gate));
    let mut client = server.test_client(Revision::V2026_07_28);
    let send = |client: &mut TestClient, name: &str| {
        let info = json!({"io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}});
        client.send_request("tools/call", json!({"name": "who", "_meta": info}))
    };
    let ids = ["ada", "eve", "bob"].map(|name| (name, send(&mut client, name)));
    assert_eq!(client.in_flight(), 3);
    gate.add_permits(3);
    for (name, id) in ids.into_iter().rev() {
        let result = client.response(id).await.unwrap();
        assert_eq!(result["content"][0]["text"], name);
    }
}

#[tokio::test]
async fn null_arguments_are_no_arguments() {
    let server = || Server::empty("calls", "1.0.0").with::<closes_stream>();
    for revision in Revision::ALL {
        let params = json!({"name": "closes_stream", "arguments": null});
        let answer = server().test_client(revision).request("tools/call", params).await.unwrap();
        assert_eq!(answer["content"][0]["text"], "still running", "{revision}");
    }
}
