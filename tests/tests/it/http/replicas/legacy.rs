//! The transport of 2024-11-05: one replica holds the stream of a session, and any of them receives its messages.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use mcp_runtime::{Context, Fault, Handle, HttpOptions, SampleRequest, Server, resource, tool};
use mcp_tests::backend::Health;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    Cluster, LEASE,
    sessions::{notification, request, until_method},
};
use crate::http::{
    authorization::{OWN_HEADER, Tokens, with_token},
    client::{Connection, FullResponse, Response, soon},
    legacy::{call, next, open, session, sse},
    request::{Request, initialize},
};

/// A resource to subscribe to.
#[resource("memo://one")]
fn memo() -> &'static str {
    "one"
}

/// Announce that the resource has changed.
#[tool]
fn update(handle: &Handle) {
    handle.resource_updated("memo://one");
}

/// Send a log message.
#[tool]
fn logs(ctx: &Context) {
    ctx.info("logged");
}

/// Ask for the roots of the client, and its model.
#[tool]
async fn consults(ctx: &Context) -> Result<String, Fault> {
    let roots = ctx.roots().await?.len();
    let sampled = ctx.sample(SampleRequest::new("Hello")).await?;
    Ok(format!("{roots} {}", sampled.model))
}

/// Return the length of a text.
#[tool]
fn measure(text: String) -> usize {
    text.len()
}

/// Describe the user.
#[tool(scopes("read"))]
fn user(ctx: &Context) -> String {
    let scopes = ctx.identity().into_iter().flat_map(|identity| identity.scopes()).collect::<Vec<_>>();
    let has = |name| ctx.headers().is_some_and(|headers| headers.contains_key(name));
    let has_token = has("authorization") || has(OWN_HEADER);
    format!("{:?} {scopes:?} {has_token} {:?}", ctx.principal(), ctx.identity().and_then(|user| user.claim("email")))
}

fn options() -> HttpOptions {
    HttpOptions::default().legacy_sse(true)
}

fn configure(server: Server) -> Server {
    server.with::<memo>().with::<update>().with::<logs>().with::<consults>().with::<measure>()
}

async fn cluster(replicas: usize) -> Cluster {
    Cluster::start_with(replicas, options, configure).await
}

async fn authenticated() -> Cluster {
    Cluster::start_with(2, options, |server| server.with::<user>().authenticate(Tokens::default())).await
}

fn post(path: &str, message: &Value) -> Request {
    Request::post(message).path(path)
}

fn call_with(id: u64, name: &str, arguments: &Value) -> Value {
    request(id, "tools/call", &json!({"name": name, "arguments": arguments}))
}

async fn accepted(cluster: &Cluster, replica: usize, request: &Request) {
    let response = cluster.at(replica).send(request).await;
    assert_eq!((response.status, response.body.len()), (202, 0), "{replica} {response:?}");
}

/// Sends a request until it has a status. Every other response before asks the client to retry.
async fn until_status(cluster: &Cluster, replica: usize, request: &Request, status: u16) -> FullResponse {
    soon(async {
        loop {
            let response = cluster.at(replica).send(request).await;
            if response.status == status {
                return response;
            }
            assert!(response.status == 202 || response.header("retry-after").is_some(), "{response:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

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
async fn the_session_ends_with_the_replica_that_holds_its_stream() {
    let mut cluster = cluster(2).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    let request = call(1, "quick").path(&path);
    accepted(&cluster, 1, &request).await;
    assert_eq!(next(&mut stream).await["id"], 1);
    cluster.kill(0);
    let killed_at = Instant::now();
    until_status(&cluster, 1, &request, 404).await;
    assert!(killed_at.elapsed() < LEASE * 5, "{:?}", killed_at.elapsed());
    // The client opens another session.
    let (mut stream, path) = session(cluster.at(1), "2024-11-05").await;
    accepted(&cluster, 1, &call(2, "quick").path(&path)).await;
    assert_eq!(next(&mut stream).await["id"], 2);
}

/// The others consider the sessions of a replica without a lease lost, so it ends them.
#[tokio::test]
async fn a_replica_that_loses_its_lease_ends_its_streams() {
    let cluster = cluster(2).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    accepted(&cluster, 1, &call(1, "waits").path(&path)).await;
    cluster.gate(0).has_begun(1).await;
    let slot: u64 = path.split(['=', '.']).nth(1).unwrap().parse().unwrap();
    cluster.expire_lease(slot << 32).await;
    let messages = stream.messages().await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!((&messages[0]["id"], &messages[0]["error"]["code"]), (&json!(1), &json!(-32603)));
    for replica in [0, 1] {
        until_status(&cluster, replica, &call(2, "quick").path(&path), 404).await;
    }
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    accepted(&cluster, 1, &call(3, "quick").path(&path)).await;
    assert_eq!(next(&mut stream).await["id"], 3);
}

#[tokio::test]
async fn messages_are_rejected_while_the_backend_fails() {
    let retry = (503, Some("1"));
    let unknown = (504, None);
    for (replica, health, expected) in [
        (1, Health::Failing, retry),
        (1, Health::Hanging, retry),
        (1, Health::Mute, unknown),
        (1, Health::Deaf, unknown),
        (0, Health::Deaf, unknown),
        (0, Health::Failing, unknown),
    ] {
        // The lease must outlive the failure.
        let cluster = Cluster::start_with(2, options, |server| configure(server).lease(Duration::from_secs(60))).await;
        let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
        accepted(&cluster, 1, &call(1, "quick").path(&path)).await;
        assert_eq!(next(&mut stream).await["id"], 1);
        cluster.set_backend(replica, health);
        let began_at = Instant::now();
        let refused = cluster.at(1).send(&call(2, "quick").path(&path)).await;
        assert_eq!((refused.status, refused.header("retry-after")), expected, "{replica} {health:?}");
        assert!(began_at.elapsed() < Duration::from_secs(30), "{:?}", began_at.elapsed());
        // What needs no other replica goes on.
        accepted(&cluster, 0, &call(3, "quick").path(&path)).await;
        until_id(&mut stream, 3).await;
        cluster.set_backend(replica, Health::Up);
        until_status(&cluster, 1, &call(4, "quick").path(&path), 202).await;
        until_id(&mut stream, 4).await;
    }
}

/// Reads responses until one has this id.
async fn until_id(stream: &mut Response, id: u64) -> Value {
    loop {
        let message = next(stream).await;
        if message["id"] == id {
            return message;
        }
    }
}

/// A message that is repeated because its reply was lost is received once.
#[tokio::test]
async fn a_message_whose_reply_is_lost_is_received_once() {
    let cluster = cluster(2).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    accepted(&cluster, 1, &call(1, "quick").path(&path)).await;
    next(&mut stream).await;
    cluster.set_backend(1, Health::Deaf);
    let request = call(2, "waits").path(&path);
    let posted = async { cluster.at(1).send(&request).await };
    let repaired = async {
        cluster.gate(0).has_begun(1).await;
        cluster.set_backend(1, Health::Up);
    };
    let (response, ()) = tokio::join!(posted, repaired);
    assert_eq!(response.status, 202, "{response:?}");
    cluster.gate(0).open();
    assert_eq!(next(&mut stream).await["result"]["content"][0]["text"], "waited");
    accepted(&cluster, 1, &call(3, "quick").path(&path)).await;
    // A second call would have responded with an error, because its id was in use.
    assert_eq!(next(&mut stream).await["id"], 3);
}

/// A client that retried the call would run the function twice.
#[tokio::test]
async fn a_message_that_may_have_been_received_is_not_to_be_sent_again() {
    for health in [Health::Failing, Health::Hanging, Health::Deaf] {
        let cluster = Cluster::start_with(2, options, |server| configure(server).lease(Duration::from_secs(60))).await;
        let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
        accepted(&cluster, 1, &call(1, "quick").path(&path)).await;
        next(&mut stream).await;
        cluster.set_backend(1, Health::Deaf);
        let request = call(2, "waits").path(&path);
        let failed = async {
            cluster.gate(0).has_begun(1).await;
            cluster.set_backend(1, health);
        };
        let (response, ()) = tokio::join!(cluster.at(1).send(&request), failed);
        assert_eq!((response.status, response.header("retry-after")), (504, None), "{health:?} {response:?}");
        let error = &response.json()["error"];
        assert_eq!(error["code"], -32603);
        assert!(error["message"].as_str().unwrap().ends_with("it may have received the message"), "{error}");
        cluster.gate(0).open();
        assert_eq!(next(&mut stream).await["id"], 2);
    }
}

/// A client without a session can occupy neither the other replica nor the messages of others.
#[tokio::test]
async fn messages_of_a_peer_that_are_being_forwarded_are_limited() {
    const LIMIT: usize = 32;
    let cluster = authenticated().await;
    let mut stream = cluster.at(0).open(&with_token(sse(), "ada/read")).await;
    let path = stream.event().await.unwrap().data;
    accepted(&cluster, 1, &with_token(initialize("2024-11-05").path(&path), "ada/read")).await;
    assert_eq!(next(&mut stream).await["id"], 0);
    let slot = path.split(['=', '.']).nth(1).unwrap();
    let unknown = call(1, "user").path(&format!("/message?sessionId={slot}.{}", "x".repeat(32)));
    let unknown = with_token(unknown, "eve/read");
    // No reply arrives.
    cluster.set_backend(1, Health::Deaf);
    let mut flood = JoinSet::new();
    for _ in 0..=LIMIT {
        let (address, unknown) = (cluster.at(1).address, unknown.clone());
        flood.spawn(async move { Connection::to(address).await.open(&unknown).await.full().await.0 });
    }
    let refused = flood.join_next().await.unwrap().unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    let of_ada = with_token(call(1, "user").path(&path), "ada/read");
    let repaired = async {
        // The message of another peer has been forwarded.
        next(&mut stream).await;
        cluster.set_backend(1, Health::Up);
    };
    let (response, ()) = tokio::join!(cluster.at(1).send(&of_ada), repaired);
    assert_eq!(response.status, 202, "{response:?}");
    let statuses: Vec<_> = flood.join_all().await.iter().map(|response| response.status).collect();
    assert_eq!(statuses, [404; LIMIT]);
}

/// Nothing is sent to a replica that is gone.
#[tokio::test]
async fn messages_for_a_replica_that_is_gone_are_refused_at_once() {
    let cluster = cluster(2).await;
    let (_stream, path) = session(cluster.at(0), "2024-11-05").await;
    accepted(&cluster, 1, &call(1, "quick").path(&path)).await;
    cluster.set_backend(1, Health::Mute);
    let slot: u32 = path.split(['=', '.']).nth(1).unwrap().parse().unwrap();
    let gone = if slot == 1 { 2 } else { slot - 1 };
    let unknown = format!("/message?sessionId={gone}.{}", "x".repeat(32));
    assert_eq!(cluster.at(1).send(&call(1, "quick").path(&unknown)).await.status, 404);
}

/// A message waits as long as its replica is alive while an earlier one of its session is being received. Others do not.
#[tokio::test]
async fn a_blocked_session_does_not_delay_others() {
    let cluster = Cluster::start_on(2, 2, options, configure).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    let (mut other, other_path) = session(cluster.at(0), "2024-11-05").await;
    let (blocking, waiting) = (call(1, "blocks").path(&path), call(2, "quick").path(&path));
    let posted = async { tokio::join!(cluster.at(1).send(&blocking), cluster.at(1).send(&waiting)) };
    let released = async {
        cluster.gate(0).has_begun(1).await;
        // A message without any reply is given up after two seconds.
        let began_at = Instant::now();
        for id in 3.. {
            accepted(&cluster, 1, &call(id, "quick").path(&other_path)).await;
            assert_eq!(next(&mut other).await["id"], id);
            if began_at.elapsed() > Duration::from_millis(2500) {
                break;
            }
        }
        cluster.gate(0).is_released.store(true, Ordering::SeqCst);
    };
    let ((blocked, waited), ()) = tokio::join!(posted, released);
    assert_eq!((blocked.status, waited.status), (202, 202));
    let mut ids = [next(&mut stream).await, next(&mut stream).await].map(|response| response["id"].as_u64());
    ids.sort_unstable();
    assert_eq!(ids, [Some(1), Some(2)]);
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

/// A slow reader loses no response. Messages of a client that does not read are rejected eventually.
#[tokio::test]
async fn unread_output_is_limited() {
    let cluster = cluster(3).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    let long = |id: u64| post(&path, &call_with(id, "long", &json!({"length": 100_000})));
    let mut count = 0;
    let refused = loop {
        let response = cluster.at(1 + usize::from(count % 2 == 0)).send(&long(count)).await;
        if response.status != 202 {
            break response;
        }
        count += 1;
        assert!(count < 1000, "no request is rejected");
    };
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    for id in 0..count {
        assert_eq!(next(&mut stream).await["id"], id);
    }
    accepted(&cluster, 1, &long(count)).await;
}

/// The limits are those of the replica with the stream, and concern the sender of the message.
#[tokio::test]
async fn calls_in_flight_are_limited() {
    let cluster = Cluster::start_with(2, || options().max_in_flight(2), configure).await;
    let (mut stream, path) = session(cluster.at(0), "2024-11-05").await;
    for id in 1..=2 {
        accepted(&cluster, 1, &call(id, "waits").path(&path)).await;
    }
    cluster.gate(0).has_begun(2).await;
    for replica in [0, 1] {
        let refused = cluster.at(replica).send(&call(3, "quick").path(&path)).await;
        assert_eq!((refused.status, refused.header("retry-after"), &refused.json()["id"]), (503, Some("1"), &json!(3)));
    }
    cluster.gate(0).open();
    next(&mut stream).await;
    accepted(&cluster, 1, &call(3, "quick").path(&path)).await;
    assert_eq!(next(&mut stream).await["id"], 3);
}
