//! Changes that a client makes to its session at one replica, as seen by the others.

use std::time::Duration;

use mcp_runtime::{Context, Fault, Handle, HttpOptions, backend::Records as _, resource, tool};
use mcp_tests::backend::Health;
use serde_json::{Value, json};

use super::{
    Cluster,
    sessions::{notification, open, request, until_method},
};
use crate::http::client::{Endpoint, Session, soon, until};

const VERSION: &str = "2025-11-25";

/// A resource to subscribe to.
#[resource("memo://{name}")]
fn memo(name: String) -> String {
    name
}

/// Announce that resources have changed.
#[tool]
async fn update(handle: &Handle, uris: Vec<String>) {
    for uri in uris {
        handle.resource_updated(uri);
    }
}

/// Send a log message.
#[tool]
fn logs(ctx: &Context) {
    ctx.info("logged");
}

/// Ask for the roots of the client.
#[tool]
async fn count_roots(ctx: &Context) -> Result<usize, Fault> {
    Ok(ctx.roots().await?.len())
}

async fn cluster() -> Cluster {
    let configure =
        |server: mcp_runtime::Server| server.with::<memo>().with::<update>().with::<logs>().with::<count_roots>();
    Cluster::start_with(3, HttpOptions::default, configure).await
}

fn call(session: &Session<'_>, name: &str, arguments: &Value) -> crate::http::request::Request {
    session.post(&request(7, "tools/call", &json!({"name": name, "arguments": arguments})))
}

/// Sends a request about the session that changes it.
async fn change(endpoint: &Endpoint, session: &Session<'_>, method: &str, params: Value) {
    let changed = endpoint.send(&session.post(&request(1, method, &params))).await;
    assert!(changed.json()["result"].is_object(), "{changed:?}");
}

/// Wherever a client subscribes, reads its stream and causes a change, it is notified.
#[tokio::test]
async fn subscriptions_made_at_any_replica_are_served_at_any_other() {
    let cluster = cluster().await;
    for (subscribing, reading, changing) in [(0, 1, 2), (1, 1, 0), (2, 0, 0), (0, 2, 2)] {
        let session = open(cluster.at(0), VERSION, json!({})).await;
        session.initialized().await;
        let mut stream = cluster.at(reading).open(&session.get()).await;
        let (one, two) = (json!({"uri": "memo://one"}), json!({"uri": "memo://two"}));
        for uri in [&one, &two] {
            change(cluster.at(subscribing), &session, "resources/subscribe", uri.clone()).await;
        }
        let update = call(&session, "update", &json!({"uris": ["memo://one", "memo://two"]}));
        // The replica with the stream learns of the subscriptions soon.
        let received = async |stream: &mut _, count: usize, is_expected: &dyn Fn(&[String]) -> bool| {
            let updates = async {
                loop {
                    assert_eq!(cluster.at(changing).send(&update).await.status, 200);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let read = async {
                let (mut uris, mut expected) = (Vec::new(), 0);
                while expected < count {
                    let updated = until_method(stream, "notifications/resources/updated").await;
                    uris.push(updated["params"]["uri"].as_str().unwrap().to_owned());
                    if uris.last().is_some_and(|uri| uri == "memo://two") {
                        expected = if is_expected(&uris) { expected + 1 } else { 0 };
                        uris.clear();
                    }
                }
            };
            tokio::select! {
                () = updates => {}
                () = soon(read) => {}
            }
        };
        received(&mut stream, 1, &|uris| uris.contains(&"memo://one".to_owned())).await;
        change(cluster.at(changing), &session, "resources/unsubscribe", one).await;
        received(&mut stream, 3, &|uris| uris == ["memo://two"]).await;
    }
}

#[tokio::test]
async fn a_log_level_applies_to_calls_at_every_replica() {
    let cluster = cluster().await;
    let session = open(cluster.at(0), VERSION, json!({})).await;
    for (setting, calling) in [(0, 1), (1, 0), (2, 2)] {
        for (level, is_logged) in [("error", false), ("debug", true)] {
            change(cluster.at(setting), &session, "logging/setLevel", json!({"level": level})).await;
            let call = call(&session, "logs", &json!({}));
            soon(async {
                while (cluster.at(calling).open(&call).await.header("content-type") == Some("text/event-stream"))
                    != is_logged
                {}
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_log_level_that_was_refused_does_not_apply() {
    // The session is read again only because the change has failed.
    let configure = |server: mcp_runtime::Server| server.with::<logs>().lease(Duration::from_secs(600));
    let cluster = Cluster::start_with(1, HttpOptions::default, configure).await;
    let session = open(cluster.at(0), VERSION, json!({})).await;
    cluster.set_backend(0, Health::Failing);
    let refused = session.post(&request(1, "logging/setLevel", &json!({"level": "error"})));
    assert_eq!(cluster.at(0).send(&refused).await.status, 503);
    cluster.set_backend(0, Health::Up);
    let answered = cluster.at(0).open(&call(&session, "logs", &json!({}))).await;
    assert_eq!(answered.header("content-type"), Some("text/event-stream"));
}

/// A replica that has heard of a change does not run a call with the old session while it reads the new one.
#[tokio::test]
async fn a_call_waits_for_the_session_that_its_replica_is_reading_again() {
    // Nothing but the change makes the replica use its backend.
    let configure = |server: mcp_runtime::Server| server.with::<logs>().lease(Duration::from_secs(60));
    let cluster = Cluster::start_with(2, HttpOptions::default, configure).await;
    let session = open(cluster.at(0), VERSION, json!({})).await;
    assert_eq!(cluster.at(1).send(&session.ping()).await.status, 200);
    let operations = cluster.operations(1);
    cluster.set_backend(1, Health::Slow(Duration::from_millis(200)));
    change(cluster.at(0), &session, "logging/setLevel", json!({"level": "error"})).await;
    until(|| cluster.operations(1) > operations).await;
    let answered = cluster.at(1).open(&call(&session, "logs", &json!({}))).await;
    assert_eq!(answered.header("content-type"), Some("application/json"), "the message of a lower level is not sent");
}

/// An update is not lost while the replica with the stream is reading the session of the new subscription.
#[tokio::test]
async fn an_update_right_after_a_subscription_reaches_the_replica_with_the_stream() {
    // A replica that misses the renewal of its lease announces that its lists may have changed.
    let configure =
        |server: mcp_runtime::Server| server.with::<memo>().with::<update>().lease(Duration::from_secs(600));
    let cluster = Cluster::start_with(2, HttpOptions::default, configure).await;
    let session = open(cluster.at(0), VERSION, json!({})).await;
    session.initialized().await;
    let mut stream = cluster.at(1).open(&session.get()).await;
    change(cluster.at(1), &session, "resources/subscribe", json!({"uri": "memo://one"})).await;
    let update = |uri| call(&session, "update", &json!({ "uris": [uri] }));
    assert_eq!(cluster.at(1).send(&update("memo://one")).await.status, 200);
    let updated = soon(until_method(&mut stream, "notifications/resources/updated")).await;
    assert_eq!(updated["params"]["uri"], "memo://one");
    cluster.set_backend(1, Health::Slow(Duration::from_millis(200)));
    change(cluster.at(0), &session, "resources/subscribe", json!({"uri": "memo://two"})).await;
    assert_eq!(cluster.at(0).send(&update("memo://two")).await.status, 200);
    // Lists have not changed meanwhile.
    let mut updated = soon(stream.message()).await.unwrap();
    assert_eq!(updated["method"], "notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "memo://two");
    cluster.set_backend(1, Health::Up);
    assert_eq!(cluster.at(1).send(&update("memo://one")).await.status, 200);
    while updated["params"]["uri"] != "memo://one" {
        updated = soon(stream.message()).await.unwrap();
        assert_eq!(updated["method"], "notifications/resources/updated");
    }
}

/// No update follows while the replica with the stream is reading the session without the subscription.
#[tokio::test]
async fn no_update_follows_the_end_of_a_subscription_at_another_replica() {
    let cluster = cluster().await;
    let session = open(cluster.at(0), VERSION, json!({})).await;
    session.initialized().await;
    let mut stream = cluster.at(1).open(&session.get()).await;
    for uri in ["memo://one", "memo://two"] {
        change(cluster.at(1), &session, "resources/subscribe", json!({"uri": uri})).await;
    }
    cluster.set_backend(1, Health::Slow(Duration::from_millis(200)));
    change(cluster.at(0), &session, "resources/unsubscribe", json!({"uri": "memo://one"})).await;
    let update = call(&session, "update", &json!({"uris": ["memo://one", "memo://two"]}));
    assert_eq!(cluster.at(0).send(&update).await.status, 200);
    let updated = soon(until_method(&mut stream, "notifications/resources/updated")).await;
    assert_eq!(updated["params"]["uri"], "memo://two");
}

/// The roots are asked for again after the client has announced a change to another replica.
#[tokio::test]
async fn changed_roots_are_asked_for_by_every_replica() {
    let cluster = cluster().await;
    let session = open(cluster.at(0), VERSION, json!({"roots": {"listChanged": true}})).await;
    session.initialized().await;
    let call = call(&session, "count_roots", &json!({}));
    for round in 0..3 {
        let mut asking = soon(async {
            loop {
                // The replica answers from its cache until it has learned of the change.
                let asking = cluster.at(1).open(&call).await;
                if asking.header("content-type") == Some("text/event-stream") {
                    return asking;
                }
            }
        })
        .await;
        let question = until_method(&mut asking, "roots/list").await;
        let roots: Vec<_> = (0..round).map(|number| json!({"uri": format!("file:///{number}")})).collect();
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": roots}});
        assert_eq!(cluster.at(2).send(&session.post(&answer)).await.status, 202);
        let found = asking.messages().await;
        assert_eq!(found.last().unwrap()["result"]["content"][0]["text"], round.to_string(), "{found:?}");
        let changed = session.post(&notification("notifications/roots/list_changed", &json!({})));
        assert_eq!(cluster.at(0).send(&changed).await.status, 202);
    }
}

/// A replica that has yet to hear of a change does not undo it.
#[tokio::test]
async fn changes_at_two_replicas_do_not_overwrite_each_other() {
    let configure = |server: mcp_runtime::Server| server.with::<memo>().with::<update>().lease(Duration::from_secs(60));
    let cluster = Cluster::start_with(2, HttpOptions::default, configure).await;
    let session = open(cluster.at(0), VERSION, json!({})).await;
    assert_eq!(cluster.at(1).send(&session.ping()).await.status, 200);
    cluster.set_backend(1, Health::Deaf);
    let uris = ["memo://one", "memo://two", "memo://three"];
    // The last change has no effect.
    for (replica, uri) in [0, 1, 0, 0].into_iter().zip(uris.into_iter().cycle()) {
        change(cluster.at(replica), &session, "resources/subscribe", json!({"uri": uri})).await;
    }
    let record = cluster.backend().get(&format!("mcp/1/session/{}", session.id)).await.unwrap().unwrap();
    let record: Value = serde_json::from_slice(&record.value).unwrap();
    assert_eq!(record["resources"], json!(uris));
}
