//! Messages of a session that arrive at any replica.

use serde_json::json;

use super::{accepted, authenticated, call_with, cluster, post, until_status};
use crate::http::{
    authorization::{OWN_HEADER, with_token},
    client::FullResponse,
    legacy::{call, next, open, session, sse},
    replicas::sessions::{notification, request, until_method},
    request::{Request, initialize},
};

#[tokio::test]
async fn every_replica_takes_every_message() {
    let cluster = cluster(3).await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        for (holder, receiver) in [(0, 1), (1, 2), (2, 2), (2, 0)] {
            let (mut stream, path) = open(cluster.at(holder)).await;
            accepted(&cluster, receiver, &initialize(version).path(&path)).await;
            assert_eq!(next(&mut stream).await["result"]["protocolVersion"], version);
            for replica in 0..3 {
                let quick = "/result/content/0/text";
                for (message, expected) in [
                    (notification("notifications/initialized", &json!({})), None),
                    (request(1, "ping", &json!({})), Some(("/id", json!(1)))),
                    (call_with(2, "quick", &json!({})), Some((quick, json!("quick")))),
                    (request(3, "tools/list", &json!({})), Some(("/id", json!(3)))),
                    (request(4, "unknown", &json!({})), Some(("/error/code", json!(-32601)))),
                    (json!({"jsonrpc": "1.0"}), Some(("/error/code", json!(-32600)))),
                    (notification("notifications/cancelled", &json!({"requestId": 99})), None),
                    (notification("notifications/progress", &json!({"progressToken": 99, "progress": 1})), None),
                    (notification("notifications/roots/list_changed", &json!({})), None),
                    (json!({"jsonrpc": "2.0", "id": 99, "result": {}}), None),
                ] {
                    accepted(&cluster, replica, &post(&path, &message)).await;
                    if let Some((pointer, value)) = expected {
                        let received = next(&mut stream).await;
                        assert_eq!(received.pointer(pointer), Some(&value), "{version} {replica} {message} {received}");
                    }
                }
                accepted(&cluster, replica, &post(&path, &json!(null)).body("{")).await;
                assert_eq!(next(&mut stream).await["error"]["code"], -32700);
            }
        }
    }
}

/// The function sees the request that the other replica has received.
#[tokio::test]
async fn functions_see_the_request_wherever_it_arrives() {
    let cluster = cluster(2).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    for replica in [0, 1] {
        let asked = call(1, "whoami").path(&path).with("x-asked-by", "ada").with("authorization", "Bearer secret");
        accepted(&cluster, replica, &asked).await;
        let text = r#"Some("ada") Some("127.0.0.1") Some("test")"#;
        assert_eq!(next(&mut stream).await["result"]["content"][0]["text"], text, "{replica}");
    }
}

#[tokio::test]
async fn requests_are_checked_wherever_they_arrive() {
    let cluster = cluster(2).await;
    let (_stream, path) = session(cluster.at(0), "2024-11-05").await;
    let good = || call(1, "quick").path(&path);
    let unknown = |id: &str| good().path(&format!("/message?sessionId={id}"));
    let slot = path.split(['=', '.']).nth(1).unwrap();
    let random = "x".repeat(32);
    for (name, request, status) in [
        ("no session", good().path("/message"), 404),
        ("an unknown session", unknown("AAAA"), 404),
        ("an unknown session of the replica", unknown(&format!("{slot}.{random}")), 404),
        ("a session of a replica that does not exist", unknown(&format!("4000000000.{random}")), 404),
        ("a key of the backend", unknown(&format!("{slot}.{}:*", &random[2..])), 404),
        ("another content type", good().with("content-type", "text/plain"), 415),
        ("another method", Request::new("GET").path(&path), 405),
        ("another host", good().with("host", "evil.example"), 403),
        ("a long body", good().body(vec![b' '; (4 << 20) + 1]), 413),
    ] {
        for replica in [0, 1] {
            assert_eq!(cluster.at(replica).send(&request).await.status, status, "{name} at {replica}");
        }
    }
}

/// Questions, their answers, progress and cancellations may each take another path.
#[tokio::test]
async fn questions_are_answered_at_any_replica() {
    let cluster = cluster(3).await;
    for (calling, answering) in [(1, 2), (2, 0), (0, 1)] {
        let (mut stream, path) = open(cluster.at(0)).await;
        let opening = initialize("2024-11-05")
            .change(|message| message["params"]["capabilities"] = json!({"roots": {}, "sampling": {}}));
        accepted(&cluster, calling, &opening.path(&path)).await;
        next(&mut stream).await;
        accepted(&cluster, answering, &post(&path, &notification("notifications/initialized", &json!({})))).await;
        accepted(&cluster, calling, &post(&path, &call_with(1, "consults", &json!({})))).await;
        for (method, result) in [
            ("roots/list", json!({"roots": [{"uri": "file:///home"}]})),
            (
                "sampling/createMessage",
                json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": ""}}),
            ),
        ] {
            let question = until_method(&mut stream, method).await;
            let progress = json!({"progressToken": question["id"], "progress": 1});
            accepted(&cluster, calling, &post(&path, &notification("notifications/progress", &progress))).await;
            let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
            accepted(&cluster, answering, &post(&path, &answer)).await;
        }
        assert_eq!(next(&mut stream).await["result"]["content"][0]["text"], "1 m");
    }
}

#[tokio::test]
async fn calls_are_cancelled_at_any_replica() {
    let cluster = cluster(3).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    for (count, (calling, cancelling)) in [(1, 2), (1, 0), (0, 1)].into_iter().enumerate() {
        accepted(&cluster, calling, &call(3, "reports").path(&path)).await;
        assert_eq!(next(&mut stream).await["params"]["progressToken"], 3);
        // An id that is in use is refused, wherever it is used.
        accepted(&cluster, cancelling, &call(3, "quick").path(&path)).await;
        assert_eq!(next(&mut stream).await["error"]["code"], -32600);
        let cancel = notification("notifications/cancelled", &json!({"requestId": 3}));
        accepted(&cluster, cancelling, &post(&path, &cancel)).await;
        cluster.gate(0).has_dropped(count + 1).await;
    }
    // The end of the stream ends the calls and the session.
    accepted(&cluster, 1, &call(4, "waits").path(&path)).await;
    cluster.gate(0).has_begun(4).await;
    drop(stream);
    cluster.gate(0).has_dropped(4).await;
    for replica in 0..3 {
        until_status(&cluster, replica, &call(5, "quick").path(&path), 404).await;
    }
}

#[tokio::test]
async fn subscriptions_and_log_levels_are_changed_at_any_replica() {
    let cluster = cluster(3).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    accepted(&cluster, 1, &post(&path, &notification("notifications/initialized", &json!({})))).await;
    accepted(&cluster, 1, &post(&path, &request(1, "resources/subscribe", &json!({"uri": "memo://one"})))).await;
    assert_eq!(next(&mut stream).await["id"], 1);
    // A client of another replica causes a change.
    let (_other, other_path) = session(cluster.at(2), "2024-11-05").await;
    accepted(&cluster, 1, &post(&other_path, &call_with(1, "update", &json!({})))).await;
    let updated = until_method(&mut stream, "notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], "memo://one");
    for (level, is_logged) in [("error", false), ("debug", true)] {
        accepted(&cluster, 2, &post(&path, &request(2, "logging/setLevel", &json!({"level": level})))).await;
        assert_eq!(next(&mut stream).await["id"], 2);
        accepted(&cluster, 1, &post(&path, &call_with(3, "logs", &json!({})))).await;
        let first = next(&mut stream).await;
        assert_eq!(first["method"] == "notifications/message", is_logged, "{level} {first}");
        if is_logged {
            assert_eq!(next(&mut stream).await["id"], 3);
        }
    }
}

/// Returns everything that a client can observe about a response.
fn observed(response: &FullResponse) -> String {
    format!("{} {:?}", response.status, String::from_utf8_lossy(&response.body))
}

#[tokio::test]
async fn a_session_belongs_to_its_principal_at_every_replica() {
    let cluster = authenticated().await;
    let mut stream = cluster.at(0).open(&with_token(sse(), "ada/read")).await;
    let path = stream.event().await.unwrap().data;
    for replica in [0, 1] {
        accepted(&cluster, replica, &with_token(initialize("2024-11-05").path(&path), "ada/read")).await;
        assert_eq!(next(&mut stream).await["id"], 0, "{replica}");
        let of_ada = call(1, "user").path(&path).with(OWN_HEADER, "secret");
        accepted(&cluster, replica, &with_token(of_ada.clone(), "ada/read")).await;
        let text = r#"Some("ada") ["read"] false Some(String("ada@example.com"))"#;
        assert_eq!(next(&mut stream).await["result"]["content"][0]["text"], text, "{replica}");
        // Each request has its own scopes.
        let refused = cluster.at(replica).send(&with_token(of_ada.clone(), "ada")).await;
        assert_eq!(refused.status, 403);
        assert!(refused.header("www-authenticate").is_some_and(|challenge| challenge.contains("read")), "{refused:?}");
        assert_eq!(refused.json()["id"], 1);
        assert_eq!(cluster.at(replica).send(&of_ada).await.status, 401);
        let unknown = with_token(of_ada.clone().path("/message?sessionId=AAAA"), "eve/read");
        let unknown = observed(&cluster.at(replica).send(&unknown).await);
        for body in [
            request(2, "ping", &json!({})).to_string(),
            notification("notifications/cancelled", &json!({"requestId": 1})).to_string(),
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}).to_string(),
            "{".to_owned(),
            " ".repeat(100_000),
        ] {
            let refused = cluster.at(replica).send(&with_token(of_ada.clone().body(body), "eve/read")).await;
            assert_eq!(observed(&refused), unknown, "{replica}");
        }
    }
}

#[tokio::test]
async fn a_message_of_several_megabytes_is_forwarded() {
    let cluster = cluster(2).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    for length in [1, 3_000, 5_000, 20_000, 1 << 20, 3 << 20] {
        let measure = post(&path, &call_with(1, "measure", &json!({"text": "x".repeat(length)})));
        accepted(&cluster, 1, &measure).await;
        assert_eq!(next(&mut stream).await["result"]["content"][0]["text"], length.to_string());
    }
}
