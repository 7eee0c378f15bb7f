//! The cache of roots, and the function that runs when they change.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use mcp_runtime::Session;
use tokio::sync::{Notify, mpsc};

use super::*;
use crate::layers::log::Log;

fn announcing() -> Value {
    json!({"roots": {"listChanged": true}})
}

fn root(uri: &str) -> Value {
    json!({"roots": [{"uri": uri}]})
}

#[tokio::test]
async fn roots_are_cached_if_the_client_announces_changes() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        for (capabilities, is_cached) in [
            (announcing(), true),
            (json!({"roots": {"listChanged": false}}), false),
            (json!({"roots": {}}), false),
            (json!({"roots": {"listChanged": "true"}}), false),
        ] {
            let mut client = Client::open(server(), revision, &capabilities);
            client.notify("notifications/initialized");
            client.call(1, "roots");
            let question = client.request("roots/list").await;
            client.respond(&question, &root("file:///a"));
            assert_eq!(client.text(1).await, "file:///a", "{revision} {capabilities}");
            client.call(2, "roots");
            let next = client.next().await;
            let expected = if is_cached { &next["id"] == 2 } else { next["method"] == "roots/list" };
            assert!(expected, "{revision} {capabilities}: {next}");
        }
    }
}

#[tokio::test]
async fn the_tasks_of_a_session_know_its_cached_roots() {
    /// Look at the roots, as a task.
    #[tool(task)]
    async fn roots_later(ctx: &Context) -> Result<String, Fault> {
        Ok(ctx.roots().await?[0].uri.clone())
    }

    // An unusable answer is not known.
    for (answer, asks_again) in [(root("file:///a"), false), (json!({"roots": 1}), true)] {
        let mut client = Client::open(server().with::<roots_later>(), Revision::V2025_11_25, &announcing());
        client.notify("notifications/initialized");
        client.call(1, "roots");
        let question = client.request("roots/list").await;
        client.respond(&question, &answer);
        assert_eq!(client.next().await["id"], 1);
        let params = json!({"name": "roots_later", "task": {}});
        client.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}));
        let task = client.next().await["result"]["task"]["taskId"].take();
        client.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "tasks/result", "params": {"taskId": task}}));
        let mut is_asked = false;
        let result = loop {
            let next = client.next().await;
            match next["method"].as_str() {
                Some("roots/list") => {
                    is_asked = true;
                    client.respond(&next, &root("file:///a"));
                }
                Some(_) => {}
                None => break next,
            }
        };
        assert_eq!((is_asked, &result["result"]["content"][0]["text"]), (asks_again, &json!("file:///a")), "{result}");
    }
}

#[tokio::test]
async fn a_change_of_roots_invalidates_the_cache() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let mut client = Client::open(server(), revision, &announcing());
        client.notify("notifications/initialized");
        for (id, uri) in [(1, "file:///a"), (2, "file:///b")] {
            client.call(id, "roots");
            let question = client.request("roots/list").await;
            client.respond(&question, &root(uri));
            assert_eq!(client.text(id).await, uri, "{revision}");
            client.call(id + 10, "roots");
            assert_eq!(client.text(id + 10).await, uri, "{revision}");
            client.notify("notifications/roots/list_changed");
        }
    }
}

#[tokio::test]
async fn an_answer_that_a_change_overtakes_is_not_cached() {
    let mut client = Client::open(server(), Revision::V2025_11_25, &announcing());
    client.notify("notifications/initialized");
    client.call(1, "roots");
    let question = client.request("roots/list").await;
    client.notify("notifications/roots/list_changed");
    client.respond(&question, &root("file:///old"));
    assert_eq!(client.text(1).await, "file:///old");
    client.call(2, "roots");
    client.request("roots/list").await;
}

#[tokio::test]
async fn unusable_answers_are_not_cached() {
    let long = format!("file:///{}", "x".repeat(16 << 10));
    let unavailable = json!({"code": -32601, "message": "Roots not supported"});
    for (member, answer, is_error) in
        [("result", root(&long), false), ("result", json!({"roots": 1}), true), ("error", unavailable, true)]
    {
        let mut client = Client::open(server(), Revision::V2025_11_25, &announcing());
        client.notify("notifications/initialized");
        client.call(1, "roots");
        let question = client.request("roots/list").await;
        client.send(&json!({"jsonrpc": "2.0", "id": question["id"], member: answer}));
        let response = client.next().await;
        assert_eq!((&response["id"], response["result"]["isError"] == true), (&json!(1), is_error), "{response}");
        client.call(2, "roots");
        client.request("roots/list").await;
    }
}

#[tokio::test]
async fn roots_are_not_cached_without_a_session() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let mut client = server().test_client(Revision::V2026_07_28).answering(move |request| {
        assert_eq!(request.method, "roots/list");
        count.fetch_add(1, Ordering::SeqCst);
        root("file:///a")
    });
    for _ in 0..2 {
        assert_eq!(client.call("roots", ()).await.unwrap().text(), "file:///a");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_function_runs_when_the_roots_change() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let (changed, mut changes) = mpsc::unbounded_channel();
        let server = server().on_roots_changed(move |session: Session| {
            let changed = changed.clone();
            async move {
                let roots = session.roots().await.unwrap();
                changed.send((session.revision(), roots[0].uri.clone())).unwrap();
            }
        });
        let mut client = Client::open(server, revision, &announcing());
        client.notify("notifications/initialized");
        client.notify("notifications/roots/list_changed");
        let question = client.request("roots/list").await;
        client.respond(&question, &root("file:///a"));
        assert_eq!(changes.recv().await, Some((revision, "file:///a".to_owned())));
        // The function has filled the cache.
        client.call(1, "roots");
        assert_eq!(client.text(1).await, "file:///a");
    }
}

#[tokio::test]
async fn changes_during_a_run_cause_one_more_run() {
    let (started, resume) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (begun, mut runs) = mpsc::unbounded_channel();
    let (count, wait) = (Arc::clone(&started), Arc::clone(&resume));
    let server = server().on_roots_changed(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        begun.send(number).unwrap();
        let wait = Arc::clone(&wait);
        async move { wait.notified().await }
    });
    let mut client = Client::open(server, Revision::V2025_11_25, &announcing());
    for _ in 0..1000 {
        client.notify("notifications/roots/list_changed");
    }
    assert_eq!(runs.recv().await, Some(1));
    resume.notify_one();
    assert_eq!(runs.recv().await, Some(2));
    resume.notify_one();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    // The channel closes when the server is dropped, and no run has begun in the meantime.
    drop(client);
    assert_eq!(runs.recv().await, None);
    assert_eq!(started.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_panic_does_not_prevent_the_next_run() {
    let (log, _guard) = Log::listen();
    let (begun, mut runs) = mpsc::unbounded_channel();
    let server = server().on_roots_changed(move |_| {
        begun.send(()).unwrap();
        async { panic!("on purpose") }
    });
    let mut client = Client::open(server, Revision::V2025_11_25, &announcing());
    for _ in 0..2 {
        client.notify("notifications/roots/list_changed");
        assert_eq!(runs.recv().await, Some(()));
    }
    assert!(!log.take("the function passed to `on_roots_changed` panicked").is_empty());
}

#[tokio::test]
async fn a_run_ends_with_its_session() {
    struct SendOnDrop(mpsc::UnboundedSender<&'static str>);
    impl Drop for SendOnDrop {
        fn drop(&mut self) {
            self.0.send("dropped").unwrap();
        }
    }

    let (sender, mut events) = mpsc::unbounded_channel();
    let server = server().on_roots_changed(move |_| {
        let sender = sender.clone();
        async move {
            sender.send("begun").unwrap();
            let _guard = SendOnDrop(sender);
            std::future::pending::<()>().await;
        }
    });
    let mut client = Client::open(server, Revision::V2025_11_25, &announcing());
    client.notify("notifications/roots/list_changed");
    assert_eq!(events.recv().await, Some("begun"));
    drop(client);
    assert_eq!(events.recv().await, Some("dropped"));
}

#[tokio::test]
async fn a_client_without_roots_cannot_start_the_function() {
    let runs = Arc::new(Mutex::new(0));
    let count = Arc::clone(&runs);
    let server = server().on_roots_changed(move |_| {
        *count.lock().unwrap() += 1;
        async {}
    });
    let mut client = Client::open(server, Revision::V2025_11_25, &json!({}));
    client.notify("notifications/roots/list_changed");
    // The runtime runs tasks in the order in which they were spawned, so a run would precede the pong of this task.
    tokio::spawn(async {}).await.unwrap();
    assert_eq!(*runs.lock().unwrap(), 0);
}
