//! Event streams of sessions at several replicas: those of calls, and those for messages outside of calls.

use std::{cell::RefCell, time::Duration};

use mcp_runtime::{
    Context, Fault, Handle, HttpOptions, Level, Server,
    backend::{EventLogs as _, LogPosition, Topics as _},
    resource, tool,
};
use mcp_tests::backend::Health;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Cluster, LEASE};
use crate::http::client::{Event, Response, Session, soon};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
const UPDATED: &str = "notifications/resources/updated";

/// Return one of many items.
#[resource("test://item/{id}")]
fn item(id: u32) -> String {
    id.to_string()
}

#[derive(Debug, Clone)]
struct Outcomes(mpsc::UnboundedSender<Result<String, String>>);

/// Ask for the roots after the call has ended.
#[tool]
fn asks_later(ctx: &Context, outcomes: &Outcomes) -> Result<&'static str, Fault> {
    let (session, Outcomes(outcomes)) = (ctx.session()?, outcomes.clone());
    tokio::spawn(async move {
        let outcome = session.roots().await.map(|roots| roots[0].uri.clone());
        let _ = outcomes.send(outcome.map_err(|fault| fault.to_string()));
    });
    Ok("later")
}

/// Starts replicas of a server whose resources change, and returns their handles.
async fn changing(replicas: usize, configure: impl Fn(Server) -> Server) -> (Cluster, Vec<Handle>) {
    let handles = RefCell::new(Vec::new());
    let configure = |server: Server| {
        handles.borrow_mut().push(server.handle());
        configure(server.with::<item>())
    };
    let cluster = Cluster::start_with(replicas, HttpOptions::default, configure).await;
    (cluster, handles.into_inner())
}

/// Reads up to the first message of a stream.
async fn first(response: &mut Response) -> Event {
    loop {
        let event = response.event().await.expect("the stream ended");
        if !event.data.is_empty() {
            return event;
        }
    }
}

/// Returns the next message that is no notification of changed lists. A replica that may have missed changes says that the
/// lists have changed.
async fn first_message(response: &mut Response) -> Value {
    loop {
        let message = first(response).await.json();
        if !message["method"].as_str().is_some_and(|method| method.ends_with("/list_changed")) {
            return message;
        }
    }
}

async fn first_id(response: &mut Response) -> String {
    first(response).await.id.unwrap()
}

/// Reads the events with messages up to the end of a stream.
async fn rest(response: &mut Response) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    while let Some(event) = response.event().await {
        if !event.data.is_empty() {
            events.push((event.id.clone().unwrap(), event.json()));
        }
    }
    events
}

fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

/// Asserts that these are the messages of a call of `reports` after its first one.
fn assert_rest_of_report(events: &[(String, Value)]) {
    let [(_, progress), (_, response)] = events else { panic!("{events:#?}") };
    assert_eq!((&progress["params"]["progress"], text(response)), (&json!(2), "reported"), "{events:#?}");
}

#[tokio::test]
async fn a_stream_is_resumed_from_every_event_at_every_replica() {
    let cluster = Cluster::start(3).await;
    for version in VERSIONS {
        for resuming in 0..3 {
            let session = cluster.at(0).session(version).await;
            let mut lost = cluster.at(0).open(&session.call(1, "reports")).await;
            let id = first_id(&mut lost).await;
            let mut stream = cluster.at(resuming).open(&session.resume(&id)).await;
            assert_eq!((stream.status, rest(&mut lost).await), (200, Vec::new()), "the earlier response ends");
            cluster.gate(0).open();
            let events = rest(&mut stream).await;
            assert_rest_of_report(&events);
            let ids: Vec<_> = std::iter::once(&id).chain(events.iter().map(|(id, _)| id)).collect();
            for replica in 0..3 {
                for (index, id) in ids.iter().enumerate() {
                    let mut resumed = cluster.at(replica).open(&session.resume(id)).await;
                    let expected = if index + 1 == ids.len() { 204 } else { 200 };
                    assert_eq!(resumed.status, expected, "{version} {resuming} {replica} {id}");
                    if expected == 200 {
                        assert_eq!(rest(&mut resumed).await, events[index..]);
                    }
                }
            }
        }
    }
}

/// A client could otherwise fill the backend with the streams of sessions, also of those that it ends.
#[tokio::test]
async fn a_process_keeps_the_logs_of_few_calls_of_a_session() {
    let cluster = Cluster::start(2).await;
    let session = cluster.at(0).session("2025-11-25").await;
    let mut keys = Vec::new();
    for id in 0..40 {
        let mut stream = cluster.at(0).open(&session.call(id, "reports_at_once")).await;
        let id = first_id(&mut stream).await;
        keys.push(format!("mcp/1/stream/{}/{}", session.id, id.split_once('-').unwrap().0));
        rest(&mut stream).await;
    }
    let kept = async || {
        let mut kept = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            if cluster.backend().read(key, LogPosition::START, 1).await.unwrap().is_some() {
                kept.push(index);
            }
        }
        kept
    };
    let until_kept = async |expected: Vec<usize>| {
        while kept().await != expected {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon(until_kept((8..40).collect())).await;
    let mut running = cluster.at(0).open(&session.call(40, "reports")).await;
    first(&mut running).await;
    assert_eq!(cluster.at(1).send(&session.delete()).await.status, 204);
    soon(until_kept(Vec::new())).await;
    let response = &rest(&mut running).await[0].1;
    assert_eq!(response["error"]["message"], "the session has ended", "{response}");
}

/// Logs are deleted whichever replica ends the session.
#[tokio::test]
async fn the_logs_of_a_session_end_with_it() {
    let cluster = Cluster::start(2).await;
    for round in 0..20 {
        let session = cluster.at(0).session("2025-11-25").await;
        let mut stream = cluster.at(0).open(&session.call(1, "reports_at_once")).await;
        let id = first_id(&mut stream).await;
        rest(&mut stream).await;
        let key = format!("mcp/1/stream/{}/{}", session.id, id.split_once('-').unwrap().0);
        assert_eq!(cluster.at(round % 2).send(&session.delete()).await.status, 204);
        let removed = async || {
            while cluster.backend().read(&key, LogPosition::START, 1).await.unwrap().is_some() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        soon(removed()).await;
    }
}

/// Whatever its length, and wherever its connection was cut: before the first event, while the call runs, or after it.
#[tokio::test]
async fn a_response_outlives_its_connection() {
    // Long responses may keep a replica from renewing its lease.
    let configure = |server: Server| server.lease(Duration::from_secs(600));
    let cluster = Cluster::start_with(2, HttpOptions::default, configure).await;
    for length in [900_000, 1_100_000, 4_000_000] {
        for (resuming, ends_first) in [(0, true), (0, false), (1, true), (1, false)] {
            let session = cluster.at(0).session("2025-11-25").await;
            let params =
                json!({"name": "reports_long", "arguments": {"length": length}, "_meta": {"progressToken": 1}});
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            let mut lost = cluster.at(0).open(&session.post(&call)).await;
            let primer = lost.event().await.unwrap().id.unwrap();
            let progress = first_id(&mut lost).await;
            drop(lost);
            let mut early =
                if ends_first { None } else { Some(cluster.at(resuming).open(&session.resume(&primer)).await) };
            cluster.gate(0).open();
            if let Some(early) = &mut early {
                let events = rest(early).await;
                assert_eq!(events.len(), 2, "{length} {resuming}");
                assert_eq!(text(&events[1].1).len(), length);
            }
            for (event, expected) in [(&primer, 2), (&progress, 1)] {
                let response = cluster.at(resuming).open(&session.resume(event)).await;
                assert_eq!(response.status, 200, "{length} {resuming} {ends_first}");
                let events = rest(&mut { response }).await;
                let last = &events.last().unwrap().1;
                let case = format!("{length} {resuming} {ends_first}: {}", &last.to_string()[..100]);
                assert_eq!((events.len(), text(last).len()), (expected, length), "{case}");
            }
        }
    }
}

#[tokio::test]
async fn events_belong_to_their_session_at_every_replica() {
    let cluster = Cluster::start(2).await;
    let session = cluster.at(0).session("2025-11-25").await;
    let other = cluster.at(1).session("2025-11-25").await;
    let mut response = cluster.at(0).open(&session.call(1, "reports_at_once")).await;
    let id = first_id(&mut response).await;
    let stream = id.split('-').next().unwrap().to_owned();
    for replica in 0..2 {
        for wrong in ["", "x", "1-1", "0-1", "18446744073709551616-1", &format!("{stream}-99")] {
            let answered = cluster.at(replica).send(&session.resume(wrong)).await;
            assert_eq!(answered.outcome(), (400, -32600), "{replica} {wrong:?}");
        }
        assert_eq!(cluster.at(replica).send(&session.resume(&format!("{stream}-{}", u64::MAX))).await.status, 400);
        assert_eq!(cluster.at(replica).send(&other.resume(&id)).await.outcome(), (400, -32600));
        let unknown = session.resume(&id).with("mcp-session-id", &"x".repeat(32));
        assert_eq!(cluster.at(replica).send(&unknown).await.status, 404);
    }
}

#[tokio::test]
async fn of_two_resumptions_one_carries_the_stream() {
    let cluster = Cluster::start(3).await;
    for _ in 0..5 {
        let session = cluster.at(0).session("2025-11-25").await;
        let mut lost = cluster.at(0).open(&session.call(1, "reports")).await;
        let resume = session.resume(&first_id(&mut lost).await);
        let (mut one, mut two) = tokio::join!(cluster.at(1).open(&resume), cluster.at(2).open(&resume));
        assert_eq!((one.status, two.status), (200, 200));
        // One of them ends, and the other one goes on.
        let carries = async {
            tokio::select! {
                events = rest(&mut one) => (events, &mut two),
                events = rest(&mut two) => (events, &mut one),
            }
        };
        let (events, stream) = soon(carries).await;
        assert_eq!(events, []);
        cluster.gate(0).open();
        assert_rest_of_report(&rest(stream).await);
    }
}

/// A client opens two streams for messages outside of calls, and a client that loses such a stream opens it again: if the
/// second one ended the first, both would be opened again for ever.
#[tokio::test]
async fn two_streams_of_a_client_do_not_replace_each_other_in_turn() {
    let options = || HttpOptions::default().keep_alive(Duration::from_millis(10));
    let handles = RefCell::new(Vec::new());
    let configure = |server: Server| {
        handles.borrow_mut().push(server.handle());
        server
    };
    let cluster = Cluster::start_with(2, options, configure).await;
    for (first, second) in [(0, 0), (0, 1), (1, 0)] {
        let session = cluster.at(0).session("2025-06-18").await;
        assert_eq!(cluster.at(1).send(&session.ping()).await.status, 200);
        let mut replaced = cluster.at(first).open(&session.get()).await;
        // A replica that may have missed changes begins with these.
        while !replaced.event().await.unwrap().is_comment {}
        let mut stream = cluster.at(second).open(&session.get()).await;
        for number in 0..3 {
            handles.borrow()[0].log(Level::Error, number);
            // A replica that has yet to learn of the second stream repeats the first message.
            while stream.message().await.expect("the second stream ended")["params"]["data"] != number {}
            // The comments between the messages show that the first stream is still open.
            for _ in 0..3 {
                assert!(replaced.event().await.expect("the first stream ended").is_comment, "{first} {second}");
            }
        }
        // The client opens another stream when no stream is left that receives messages.
        drop(stream);
        while replaced.message().await.is_some() {}
        let mut again = cluster.at(first).open(&session.get()).await;
        handles.borrow()[1].log(Level::Error, "again");
        assert_eq!(first_message(&mut again).await["params"]["data"], "again", "{first} {second}");
    }
}

#[tokio::test]
async fn the_client_of_a_replica_that_was_killed_is_told_that_its_call_is_lost() {
    for version in VERSIONS {
        let mut cluster = Cluster::start(3).await;
        let (resume, later) = {
            let session = cluster.at(0).session(version).await;
            let mut lost = cluster.at(0).open(&session.call(1, "reports")).await;
            let id = first_id(&mut lost).await;
            (session.resume(&id), Session { endpoint: cluster.at(2), version, id: session.id.clone() }.ping())
        };
        let mut waiting = cluster.at(1).open(&resume).await;
        assert_eq!(waiting.status, 200);
        cluster.kill(0);
        let events = rest(&mut waiting).await;
        let [(id, error)] = events.as_slice() else { panic!("{events:#?}") };
        let message = error["error"]["message"].as_str().unwrap_or_default();
        assert_eq!((&error["id"], &error["error"]["code"]), (&json!(1), &json!(-32603)), "{error}");
        assert!(message.contains("the call was lost") && message.contains("may have run"), "{message}");
        // A client that resumes the stream later receives the same events, and the session still exists.
        assert_eq!(rest(&mut cluster.at(2).open(&resume).await).await, events);
        assert_eq!(cluster.at(1).send(&resume.with("last-event-id", id)).await.status, 204);
        assert_eq!(cluster.at(2).send(&later).await.status, 200);
    }
}

/// Nothing is sent that could not be resumed from.
#[tokio::test]
async fn a_stream_continues_when_its_backend_is_back() {
    let cluster = Cluster::start(2).await;
    for health in [Health::Failing, Health::Hanging] {
        for failing in 0..2 {
            let session = cluster.at(0).session("2025-11-25").await;
            let mut lost = cluster.at(0).open(&session.call(1, "reports")).await;
            let id = first_id(&mut lost).await;
            // One client stays, and one resumes its stream elsewhere.
            let mut stream = if failing == 0 { lost } else { cluster.at(1).open(&session.resume(&id)).await };
            cluster.set_backend(failing, health);
            cluster.gate(0).open();
            if failing == 1 {
                assert_eq!(cluster.at(1).send(&session.resume(&id)).await.status, 503, "{health:?}");
            }
            cluster.set_backend(failing, Health::Up);
            let events = rest(&mut stream).await;
            assert_rest_of_report(&events);
            assert_eq!(rest(&mut cluster.at(1).open(&session.resume(&id)).await).await, events, "{health:?}");
        }
    }
}

/// Subscribes to items, and returns once every replica knows the session.
async fn subscribed<'a>(cluster: &'a Cluster, replicas: usize, items: u32) -> Session<'a> {
    let session = cluster.at(0).session("2025-11-25").await;
    for number in 0..items {
        let params = json!({"uri": format!("test://item/{number}")});
        let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": params});
        assert_eq!(cluster.at(0).send(&session.post(&subscribe)).await.outcome(), (200, 0));
    }
    for replica in 0..replicas {
        assert_eq!(cluster.at(replica).send(&session.ping()).await.status, 200);
    }
    session
}

/// Reads the next notification about a resource: the id of its event and the URI. A replica that may have missed changes
/// says that the lists have changed, too.
async fn updated(stream: &mut Response) -> (String, String) {
    loop {
        let event = first(stream).await;
        let message = event.json();
        if !message["method"].as_str().unwrap().ends_with("/list_changed") {
            assert_eq!(message["method"], UPDATED, "{message}");
            return (event.id.unwrap(), message["params"]["uri"].as_str().unwrap().to_owned());
        }
    }
}

/// Reads until an item has changed, and returns the id of that event. Replicas that may have missed changes repeat
/// others, for example because they have just begun to listen.
async fn until_updated(stream: &mut Response, number: usize) -> String {
    soon(async {
        loop {
            let (id, uri) = updated(stream).await;
            if uri == format!("test://item/{number}") {
                return id;
            }
        }
    })
    .await
}

/// The client reads at one replica, and resources change at all of them.
#[tokio::test]
async fn changes_reach_the_replica_at_which_the_client_reads() {
    let (cluster, handles) = changing(3, |server| server).await;
    for reading in 0..3 {
        let session = subscribed(&cluster, 3, 6).await;
        let mut stream = cluster.at(reading).open(&session.get()).await;
        for number in 0..6 {
            let uri = format!("test://item/{number}");
            handles[number % 3].resource_updated(&uri);
            until_updated(&mut stream, number).await;
        }
        assert_eq!(cluster.at(0).send(&session.delete()).await.status, 204);
    }
}

/// A newer release may announce changes in a format that this one does not know. The client is told of everything that it
/// may have missed, and of no list that the server does not have.
#[tokio::test]
async fn an_announcement_of_unknown_changes_counts_as_a_change_of_everything() {
    let (cluster, _) = changing(1, |server| server).await;
    let session = subscribed(&cluster, 1, 1).await;
    let mut stream = cluster.at(0).open(&session.get()).await;
    for announcement in ["", "{}", "{\"lists\":7}"] {
        let message = format!("changes {announcement}").into_bytes();
        cluster.backend().publish("mcp/1/replicas", message).await.unwrap();
        let mut method = String::new();
        while method != UPDATED {
            method = first(&mut stream).await.json()["method"].as_str().unwrap().to_owned();
            assert_ne!(method, "notifications/prompts/list_changed", "the server has no prompts");
        }
    }
}

/// It may have missed changes since the session was opened.
#[tokio::test]
async fn a_replica_that_begins_to_use_a_session_notifies_its_client_of_everything() {
    let (cluster, _) = changing(2, |server| server).await;
    // The replica has heard of everything that was announced since.
    let _other = subscribed(&cluster, 2, 0).await;
    let session = subscribed(&cluster, 1, 1).await;
    let mut stream = cluster.at(1).open(&session.get()).await;
    until_updated(&mut stream, 0).await;
}

/// Two operations on the log of the stream: to append the notification, and to wait for what other replicas append.
#[tokio::test]
async fn a_change_costs_few_operations_of_the_backend() {
    const CHANGES: usize = 100;
    let (cluster, handles) = changing(1, |server| server).await;
    let session = subscribed(&cluster, 1, 1).await;
    let mut stream = cluster.at(0).open(&session.get()).await;
    handles[0].resource_updated("test://item/0");
    until_updated(&mut stream, 0).await;
    let before = cluster.operations(0);
    for _ in 0..CHANGES {
        handles[0].resource_updated("test://item/0");
        until_updated(&mut stream, 0).await;
    }
    let operations = cluster.operations(0) - before;
    // The lease is renewed, too.
    assert!(operations <= 2 * CHANGES + CHANGES / 2, "{operations} operations for {CHANGES} changes");
}

/// Nothing is lost while the client reads at one replica after the other. A change that a replica hears of only after
/// the client has come may be repeated.
#[tokio::test]
async fn a_stream_for_messages_outside_of_calls_moves() {
    let (cluster, handles) = changing(3, |server| server).await;
    for resumes in [true, false] {
        let session = subscribed(&cluster, 3, 9).await;
        let mut stream = cluster.at(0).open(&session.get()).await;
        for number in 0..8 {
            handles[number % 2].resource_updated(format!("test://item/{number}"));
            let id = until_updated(&mut stream, number).await;
            drop(stream);
            let next = if resumes { session.resume(&id) } else { session.get() };
            stream = cluster.at((number + 1) % 3).open(&next).await;
            assert_eq!(stream.status, 200);
        }
        // There is no reader while this changes. What the server sends before it notices that, a client without the id of the
        // last event does not get again.
        drop(stream);
        let copy = handles[2].sessions().pop().unwrap();
        soon(async {
            while copy.is_reachable().await {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        handles[2].resource_updated("test://item/8");
        until_updated(&mut cluster.at(1).open(&session.get()).await, 8).await;
    }
}

/// The messages that a killed replica had yet to deliver are unknown.
#[tokio::test]
async fn a_client_whose_reader_was_killed_is_notified_of_everything() {
    // Whether the replica at which the client then reads knew the session when the resources changed.
    for knows_session in [true, false] {
        let (mut cluster, handles) = changing(3, |server| server).await;
        let (get, mut stream) = {
            let session = subscribed(&cluster, if knows_session { 3 } else { 1 }, 2).await;
            (session.get(), cluster.at(0).open(&session.get()).await)
        };
        handles[0].resource_updated("test://item/0");
        until_updated(&mut stream, 0).await;
        cluster.kill(0);
        handles[1].resource_updated("test://item/1");
        let mut stream = cluster.at(2).open(&get).await;
        let mut missing = vec!["test://item/0".to_owned(), "test://item/1".to_owned()];
        soon(async {
            while !missing.is_empty() {
                let event = first(&mut stream).await.json();
                missing.retain(|uri| event["params"]["uri"] != **uri);
            }
        })
        .await;
    }
}

#[tokio::test]
async fn questions_outside_of_calls_reach_the_replica_at_which_the_client_reads() {
    let (sender, mut outcomes) = mpsc::unbounded_channel();
    let configure = |server: Server| server.with::<asks_later>().with_state(Outcomes(sender.clone()));
    let (cluster, _) = changing(3, configure).await;
    for (asking, reading, answering) in [(0, 1, 2), (1, 0, 1), (2, 1, 1), (1, 1, 0)] {
        for reads_first in [true, false] {
            let opening = crate::http::request::initialize("2025-11-25")
                .change(|message| message["params"]["capabilities"] = json!({"roots": {}}));
            let opened = cluster.at(0).send(&opening).await;
            let id = opened.header("mcp-session-id").unwrap().to_owned();
            let session = Session { endpoint: cluster.at(0), version: "2025-11-25", id };
            session.initialized().await;
            let early = if reads_first { Some(cluster.at(reading).open(&session.get()).await) } else { None };
            let called = cluster.at(asking).send(&session.call(1, "asks_later")).await;
            assert_eq!(called.text(), "later");
            let mut stream = match early {
                Some(stream) => stream,
                None => cluster.at(reading).open(&session.get()).await,
            };
            let question = first_message(&mut stream).await;
            assert_eq!(question["method"], "roots/list", "{asking} {reading} {answering} {reads_first}");
            let result = json!({"roots": [{"uri": "file:///a"}]});
            let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
            assert_eq!(cluster.at(answering).send(&session.post(&answer)).await.status, 202);
            assert_eq!(soon(outcomes.recv()).await, Some(Ok("file:///a".to_owned())));
        }
    }
}

#[tokio::test]
async fn a_client_is_reachable_from_every_replica_wherever_it_reads() {
    let (cluster, handles) = changing(2, |server| server).await;
    let session = cluster.at(0).session("2025-11-25").await;
    assert_eq!(cluster.at(1).send(&session.ping()).await.status, 200);
    let sessions = handles.iter().map(|handle| handle.sessions().remove(0)).collect::<Vec<_>>();
    for reading in 0..2 {
        for session in &sessions {
            soon(async {
                while session.is_reachable().await {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            })
            .await;
        }
        let _stream = cluster.at(reading).open(&session.get()).await;
        for (replica, session) in sessions.iter().enumerate() {
            assert!(session.is_reachable().await, "{replica}, {reading}");
        }
    }
}

#[tokio::test]
async fn log_messages_outside_of_calls_reach_the_replica_at_which_the_client_reads() {
    let (cluster, handles) = changing(3, |server| server).await;
    for reading in 0..3 {
        let session = cluster.at(0).session("2025-11-25").await;
        let mut stream = cluster.at(reading).open(&session.get()).await;
        for (number, handle) in handles.iter().enumerate() {
            handle.log(Level::Error, number);
            let message = first_message(&mut stream).await;
            assert_eq!(
                (&message["method"], &message["params"]["data"]),
                (&json!("notifications/message"), &json!(number))
            );
        }
        assert_eq!(cluster.at(1).send(&session.delete()).await.status, 204);
        assert_eq!(rest(&mut stream).await, [], "each message is sent once");
    }
}

/// The client of a call has lost its connection, and resumes the stream after the replica of the call has shut down.
#[tokio::test]
async fn a_replica_that_shuts_down_leaves_the_results_of_its_calls_to_others() {
    let grace = |server: Server| server.shutdown_grace(Duration::from_secs(3600));
    let mut cluster = Cluster::start_with(2, HttpOptions::default, grace).await;
    let session = cluster.at(0).session("2025-11-25").await;
    let mut lost = cluster.at(0).open(&session.call(1, "reports")).await;
    let event = first_id(&mut lost).await;
    let id = session.id.clone();
    cluster.gate(0).has_begun(1).await;
    drop(lost);
    cluster.set_backend(0, Health::Slow(Duration::from_millis(100)));
    cluster.stop(0);
    // The shutdown waits for the call, although no connection is left.
    tokio::time::sleep(Duration::from_millis(100)).await;
    cluster.gate(0).open();
    cluster.stopped(0).await;
    cluster.kill(0);
    let session = Session { endpoint: cluster.at(1), version: "2025-11-25", id };
    assert_rest_of_report(&rest(&mut cluster.at(1).open(&session.resume(&event)).await).await);
}

/// The same if the call does not end within the grace period: its client reads why it has failed.
#[tokio::test]
async fn a_replica_that_shuts_down_leaves_the_errors_of_its_calls_to_others() {
    let grace = |server: Server| server.shutdown_grace(LEASE);
    let mut cluster = Cluster::start_with(2, HttpOptions::default, grace).await;
    let session = cluster.at(0).session("2025-11-25").await;
    let mut lost = cluster.at(0).open(&session.call(1, "reports")).await;
    let event = first_id(&mut lost).await;
    let id = session.id.clone();
    drop(lost);
    cluster.set_backend(0, Health::Slow(Duration::from_millis(100)));
    cluster.stop(0);
    cluster.stopped(0).await;
    cluster.kill(0);
    let session = Session { endpoint: cluster.at(1), version: "2025-11-25", id };
    let messages = rest(&mut cluster.at(1).open(&session.resume(&event)).await).await;
    let failed: Vec<_> = messages.iter().map(|(_, message)| (&message["id"], &message["error"]["message"])).collect();
    assert_eq!(failed, [(&json!(1), &json!("the server is shutting down"))]);
}
