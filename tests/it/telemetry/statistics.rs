//! Measurements beside those of requests: sessions, streams, backends, gauges and counters.

use std::sync::{Mutex, OnceLock};

use mcp_tests::backend::{Health, UnreliableBackend};
use tokio::sync::Notify;

use super::*;

#[tokio::test]
async fn notifications_sessions_and_subscriptions_are_measured() {
    for transport in TRANSPORTS {
        let recorder = Arc::new(Recorder::default());
        let mut client = client(server(&recorder), transport, Revision::V2025_11_25);
        client.tools().await.unwrap();
        client.notify("notifications/roots/list_changed", json!({}));
        client.notify("notifications/invented", json!({}));
        client.request("ping", json!({})).await.unwrap();
        let recorded = recorder.take();
        for method in ["initialize", "notifications/initialized", "notifications/roots/list_changed", "_OTHER"] {
            let expected = format!("server {method} - 2025-11-25 {transport} - -");
            assert_eq!(recorded.iter().filter(|line| **line == expected).count(), 1, "{method}: {recorded:?}");
        }
        drop(client);
        assert_eq!(recorder.take(), [format!("session 2025-11-25 {transport} -")]);

        let recorder = Arc::new(Recorder::default());
        let mut client = self::client(server(&recorder), transport, Revision::V2026_07_28);
        client.send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        tokio::time::timeout(Duration::from_millis(50), client.next_lines()).await.ok();
        assert_eq!(recorder.take(), [""; 0]);
        drop(client);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(recorder.take(), [format!("server subscriptions/listen - 2026-07-28 {transport} - -")]);
    }
}

/// The test client has a stream for messages outside of calls while it has a session.
#[tokio::test]
async fn event_streams_are_counted_while_they_are_open_and_measured_when_they_end() {
    let waits = || ("tools/call", json!({"name": "waits", "arguments": {}}));
    let listens = || ("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    for (revision, (method, params), kind) in [
        (Revision::V2025_11_25, waits(), "call"),
        (Revision::V2025_11_25, waits(), "session"),
        (Revision::V2026_07_28, waits(), "call"),
        (Revision::V2026_07_28, listens(), "subscription"),
    ] {
        let recorder = Arc::new(Recorder::default());
        let server = server(&recorder).build().unwrap();
        let stats = server.stats();
        let open = || {
            let stats = stats.read();
            let mut found = stats.iter().filter(|stat| stat.name == "mcp.server.streams.active");
            found.find(|stat| stat.attribute == Some(("mcp.stream.kind", kind))).unwrap().value
        };
        let service = server.into_http_service(HttpOptions::default().stream_after(Duration::ZERO)).unwrap();
        let mut client = TestClient::over_http(service, "/", revision);
        client.tools().await.unwrap();
        client.send_request(method, params);
        let mut seen = open();
        for _ in 0..20 {
            seen = seen.max(open());
            tokio::time::timeout(Duration::from_millis(1), client.next_lines()).await.ok();
        }
        // The streams of other tests of the process are counted as well.
        assert!(seen >= 1, "{revision} {kind}");
        drop(client);
        for _ in 0..1000 {
            if recorder.streams.lock().unwrap().contains(&kind) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let ended = recorder.streams.lock().unwrap().clone();
        assert!(ended.contains(&kind), "{revision} {kind}: {ended:?}");
    }
}

#[tokio::test]
async fn the_user_is_named_only_by_an_option() {
    let spans = Spans::default();
    let _guard = set_default(tracing_subscriber::registry().with(spans.clone()));
    for (names_users, expected) in [(false, None), (true, Some("ada"))] {
        let recorder = Arc::new(Recorder { names_users, ..Recorder::default() });
        let client = server(&recorder).test_client(Revision::V2026_07_28);
        let mut client = client.with_extension(Identity::new(Principal::new("ada")));
        client.tools().await.unwrap();
        let span = spans.take("mcp.request", "tools/list").await;
        assert_eq!(span.get("enduser.id").map(String::as_str), expected, "{span:?}");
    }
}

#[tokio::test]
async fn operations_of_a_shared_backend_are_measured() {
    let recorder = Arc::new(Recorder::default());
    let server = server(&recorder).backend(MemoryBackend::default());
    let mut client = client(server, TRANSPORTS[1], Revision::V2025_11_25);
    client.tools().await.unwrap();
    let recorded = recorder.take();
    assert!(recorded.contains(&"backend insert -".to_owned()), "{recorded:?}");
}

/// An operation that takes too long is an error as well.
#[tokio::test(start_paused = true)]
async fn failures_of_a_shared_backend_are_measured() {
    for (health, error) in [(Health::Failing, "unavailable"), (Health::Full, "full"), (Health::Hanging, "cancelled")] {
        let (recorder, backend) = (Arc::new(Recorder::default()), Arc::new(UnreliableBackend::default()));
        backend.set_health(health);
        let mut client = client(server(&recorder).backend(backend), TRANSPORTS[1], Revision::V2025_11_25);
        client.tools().await.unwrap_err();
        // The request does not wait for the end of the operation.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let recorded = recorder.take();
        let mut failed = recorded.iter().filter(|line| line.starts_with("backend ") && !line.ends_with(" -"));
        assert!(failed.next().is_some_and(|line| line.ends_with(error)), "{error}: {recorded:?}");
    }
}

/// A program that reads the measurements shares the telemetry with the server.
#[tokio::test]
async fn shared_telemetry_is_connected_to_the_statistics_of_its_server() {
    #[derive(Default)]
    struct Connected(Mutex<Vec<Stats>>);

    impl Telemetry for Connected {
        fn connect(&self, stats: Stats) {
            self.0.lock().unwrap().push(stats);
        }
    }

    let connected = Arc::new(Connected::default());
    let server = Server::empty("connected", "1.0.0").with::<add>().telemetry(Arc::clone(&connected)).build().unwrap();
    let service = server.into_http_service(HttpOptions::default()).unwrap();
    let mut client = TestClient::over_http(service, "/", Revision::V2025_11_25);
    client.tools().await.unwrap();
    let received = connected.0.lock().unwrap();
    assert_eq!(received.len(), 1);
    let sessions = received[0].read().into_iter().find(|stat| stat.name == "mcp.server.sessions").unwrap();
    assert_eq!(sessions.value, 1);
}

/// A call that completes in place is in flight while it runs.
#[tokio::test]
async fn calls_that_complete_in_place_are_counted_while_they_run() {
    static STATS: OnceLock<Stats> = OnceLock::new();

    /// Count the calls in flight.
    #[tool]
    fn counts() -> u64 {
        let stats = STATS.get().unwrap().read();
        stats.iter().find(|stat| stat.name == "mcp.server.calls.active").unwrap().value
    }

    let server = Server::empty("counting", "1.0.0").with::<counts>().build().unwrap();
    STATS.set(server.stats()).unwrap();
    let count = server.test_client(Revision::V2026_07_28).call("counts", ()).await.unwrap().text().parse::<u64>();
    assert!(count.unwrap() > 0);
}

#[tokio::test]
async fn tasks_are_counted_by_how_they_ended() {
    /// Fail as a task.
    #[tool(task)]
    async fn breaks() -> Result<(), Fault> {
        Err(Fault::custom(7, "boo"))
    }

    let server = server(&Arc::default()).with::<breaks>().build().unwrap();
    let stats = server.stats();
    let ended = |status: &str| {
        let stats = stats.read();
        let mut found = stats.iter().filter(|stat| stat.name == "mcp.server.tasks.ended" && stat.is_counter);
        found.find(|stat| stat.attribute == Some(("mcp.task.status", status))).map_or(0, |stat| stat.value)
    };
    for (tool, ttl, request, status) in [
        ("runs", 60_000, "tasks/result", "completed"),
        ("breaks", 60_000, "tasks/get", "failed"),
        ("waits_as_task", 60_000, "tasks/cancel", "cancelled"),
        ("waits_as_task", 200, "tasks/get", "expired"),
    ] {
        let before = ended(status);
        let mut client = server.test_client(Revision::V2025_11_25);
        let arguments = if tool == "runs" { json!({"fails": true}) } else { json!({}) };
        let params = json!({"name": tool, "arguments": arguments, "task": {"ttl": ttl}});
        let task = client.request("tools/call", params).await.unwrap()["task"]["taskId"].take();
        let answer = client.request(request, json!({"taskId": task})).await;
        assert!(answer.is_ok() || status == "expired", "{status}: {answer:?}");
        for _ in 0..1000 {
            if ended(status) > before {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(ended(status) > before, "{status}");
    }
}

/// The tasks of other tests of the process are counted as well.
#[tokio::test]
async fn tasks_that_wait_for_their_client_are_counted_apart() {
    /// Ask as a task.
    #[tool(task)]
    async fn asks_as_task(ctx: &Context) -> Result<bool, Fault> {
        Ok(ctx.elicit::<Sure>("sure", "Sure?").await?.is_accepted())
    }

    let server = server(&Arc::default()).with::<asks_as_task>().build().unwrap();
    let stats = server.stats();
    let mut client = server.test_client(Revision::V2025_11_25).answering(|_| panic!("nothing waits for the result"));
    let params = json!({"name": "asks_as_task", "arguments": {}, "task": {}});
    client.request("tools/call", params).await.unwrap();
    let are_waiting = || {
        let waiting = Some(("mcp.task.status", "input_required"));
        stats.read().iter().any(|stat| stat.name == "mcp.server.tasks" && stat.attribute == waiting && stat.value > 0)
    };
    for _ in 0..1000 {
        if are_waiting() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("no task waits");
}

#[tokio::test]
async fn the_arguments_and_the_results_of_tasks_are_measured_apart() {
    /// Return the text as a task, once it is told to.
    #[tool(task)]
    async fn echoes_as_task(text: String, told: &Notify) -> String {
        told.notified().await;
        text
    }

    const LENGTH: u64 = 100_000;
    let told = Arc::new(Notify::new());
    let server = server(&Arc::default()).with::<echoes_as_task>().with_shared(Arc::clone(&told)).build().unwrap();
    let stats = server.stats();
    let buffered = |name: &str| {
        let stats = stats.read();
        let mut found = stats.iter().filter(|stat| stat.name == "mcp.server.buffer.usage");
        found.find(|stat| stat.attribute == Some(("mcp.buffer.name", name))).unwrap().value
    };
    let used = || (buffered("task_arguments") >= LENGTH, buffered("task_results") >= LENGTH);
    let mut client = server.test_client(Revision::V2025_11_25);
    let text = "x".repeat(LENGTH as usize);
    let params = json!({"name": "echoes_as_task", "arguments": {"text": text}, "task": {}});
    let task = client.request("tools/call", params).await.unwrap()["task"]["taskId"].take();
    assert_eq!(used(), (true, false), "while the task runs");
    told.notify_one();
    client.request("tasks/result", json!({"taskId": task})).await.unwrap();
    assert_eq!(used(), (false, true), "once it has ended");
}

/// Other tests of the process count as well, so what is counted here is compared with a lower bound.
#[tokio::test]
async fn statistics_have_the_same_order_and_count_what_happens() {
    let recorder = Arc::new(Recorder::default());
    let server = server(&recorder).max_in_flight(1).build().unwrap();
    let stats = server.stats();
    let value = |name: &str, label: Option<&str>| {
        let stats = stats.read();
        let mut found = stats.iter().filter(|stat| stat.name == name);
        found.find(|stat| stat.attribute.map(|(_, value)| value) == label).unwrap().value
    };
    let keys = |stats: &[Stat]| stats.iter().map(|stat| (stat.name, stat.attribute)).collect::<Vec<_>>();
    let before = stats.read();
    let distinct: std::collections::HashSet<_> = keys(&before).into_iter().collect();
    assert_eq!(distinct.len(), before.len());
    let refused = value("mcp.server.refusals", Some("calls"));
    let service = server.into_http_service(HttpOptions::default()).unwrap();
    let mut client = TestClient::over_http(service, "/", Revision::V2025_11_25);
    client.tools().await.unwrap();
    client.send_request("tools/call", json!({"name": "waits", "arguments": {}}));
    let second = client.send_request("tools/call", json!({"name": "waits", "arguments": {}}));
    assert!(client.response(second).await.is_err());
    assert!(value("mcp.server.refusals", Some("calls")) > refused);
    assert!(value("mcp.server.calls.active", None) >= 1);
    assert_eq!(value("mcp.server.sessions", None), 1);
    assert!(value("mcp.server.buffer.limit", Some("responses")) > 0);
    assert!(value("mcp.server.blocking.limit", None) > value("mcp.server.blocking.active", None));
    assert_eq!(keys(&stats.read()), keys(&before));
}
