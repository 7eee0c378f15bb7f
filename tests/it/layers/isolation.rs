//! Layers that panic, wait or are dropped: only their own call is affected.

use std::{sync::Arc, time::Duration};

use mcp_runtime::{
    Revision,
    layers::{Call, Layer, LayerFuture, Next, Outcome, from_fn},
};
use serde_json::{Value, json};

use super::{Events, Runs, Watch, instead, server, text};

#[tokio::test]
async fn a_panic_in_a_layer_fails_only_its_call() {
    for revision in Revision::ALL {
        for when in ["at once", "polled", "after"] {
            let (events, (_, server)) = (Events::default(), server());
            let panics = from_fn(move |call: Call, next: Next| {
                assert!(call.name() != "double" || when != "at once", "boom");
                async move {
                    let name = call.name().to_owned();
                    assert!(name != "double" || when != "polled", "boom");
                    let outcome = next.run(call).await;
                    assert!(name != "double" || when != "after", "boom");
                    outcome
                }
            });
            let mut client = server.layer(Watch("a", events.clone())).layer(panics).test_client(revision);
            let answer = text(&mut client, "double", json!({"number": 2})).await;
            assert_eq!(answer, "-32603 `double` failed: internal error", "{when}");
            assert_eq!(events.take()[1], "a < double fault", "{when}");
            assert_eq!(text(&mut client, "aside", json!({"number": 2})).await, "4");
        }
    }
}

#[tokio::test]
async fn a_panic_in_a_filter_keeps_the_layer() {
    let (_, server) = server();
    let server = server.layer_for(|entry| panic!("{}", entry.name), instead(|call| Outcome::error(call, "closed")));
    let mut client = server.test_client(Revision::V2026_07_28);
    assert_eq!(text(&mut client, "double", json!({"number": 2})).await, "error: closed");
}

/// Counts futures that are dropped before completion.
struct Guard(Arc<Runs>);

impl Layer for Guard {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        struct Unfinished<'a>(Option<&'a Runs>);
        impl Drop for Unfinished<'_> {
            fn drop(&mut self) {
                self.0.into_iter().for_each(Runs::count);
            }
        }
        Box::pin(async move {
            let mut unfinished = Unfinished(Some(&self.0));
            let outcome = next.run(call).await;
            unfinished.0 = None;
            outcome
        })
    }
}

#[tokio::test]
async fn calls_are_dropped_with_their_layers() {
    for revision in Revision::ALL {
        let (runs, server) = server();
        let dropped = Arc::new(Runs::default());
        let mut client = server.layer(Guard(Arc::clone(&dropped))).test_client(revision);
        let answer = text(&mut client, "not_long", json!({})).await;
        assert_eq!(answer, "error: `not_long` did not finish within 20ms");
        assert_eq!((runs.total(), dropped.total()), (1, 1));

        let id = client.send_request("tools/call", json!({"name": "not_long"}));
        client.notify("notifications/cancelled", json!({"requestId": id}));
        assert_eq!(client.in_flight(), 0);
        let until = async {
            while (runs.total(), dropped.total()) != (2, 2) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), until).await.expect("the call is dropped in time");
        assert_eq!(client.settle().await, Vec::<Value>::new());
    }
}

/// Time spent in a layer counts towards the timeout of the call. A layer can also apply a shorter timeout itself.
#[tokio::test]
async fn layers_share_the_timeout_of_the_call() {
    let (runs, server) = server();
    let waits = from_fn(|call: Call, next: Next| async move {
        if call.argument("number") == Some(json!(0)) {
            std::future::pending::<()>().await;
        }
        match tokio::time::timeout(Duration::from_millis(1), next.run(call.clone())).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::error(&call, "too slow for this layer"),
        }
    });
    let mut client = server.layer(waits).timeout(Duration::from_millis(20)).test_client(Revision::V2026_07_28);
    let answer = text(&mut client, "double", json!({"number": 0})).await;
    assert_eq!(answer, "error: `double` did not finish within 20ms");
    assert_eq!(text(&mut client, "not_long", json!({})).await, "error: too slow for this layer");
    assert_eq!(runs.total(), 1);
}
