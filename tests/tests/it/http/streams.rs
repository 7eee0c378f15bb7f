//! Streams of sessions: listening, losing one, taking it up again.
//!
//! See [Resumability](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery).

use std::time::Duration;

use mcp_runtime::HttpOptions;
use serde_json::{Value, json};

use super::{
    client::{Answer, Site},
    request::Request,
    site, site_with,
};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

/// Reads up to the first message, and gives the id of its event.
async fn first_id(answer: &mut Answer) -> String {
    loop {
        let event = answer.event().await.unwrap();
        if !event.data.is_empty() {
            return event.id.unwrap();
        }
    }
}

async fn resumed(site: &Site, request: Request) -> Vec<Value> {
    let mut answer = site.open(&request).await;
    assert_eq!(answer.status, 200);
    answer.messages().await
}

#[tokio::test]
async fn streams_have_ids_and_2025_11_25_begins_with_one() {
    let (stage, site) = site().await;
    for version in VERSIONS {
        let session = site.session(version).await;
        let mut answer = site.open(&session.call(1, "tells")).await;
        assert_eq!(answer.header("x-accel-buffering"), Some("no"));
        let mut ids = Vec::new();
        if version == "2025-11-25" {
            let primer = answer.event().await.unwrap();
            assert_eq!((primer.data.as_str(), primer.retry), ("", None));
            ids.push(primer.id.unwrap());
        }
        stage.open();
        while let Some(event) = answer.event().await {
            assert!(!event.data.is_empty());
            ids.push(event.id.unwrap());
        }
        assert_eq!(ids.len(), if version == "2025-11-25" { 4 } else { 3 }, "{ids:?}");
        // Another stream has other ids.
        let mut second = site.open(&session.call(1, "tells_at_once")).await;
        while let Some(event) = second.event().await {
            let id = event.id.unwrap();
            assert!(!ids.contains(&id), "{id}");
            ids.push(id);
        }
    }
}

#[tokio::test]
async fn a_result_that_came_while_the_client_was_away_is_delivered() {
    let (stage, site) = site().await;
    for (calls, version) in VERSIONS.into_iter().enumerate() {
        let session = site.session(version).await;
        let mut lost = site.open(&session.call(1, "tells")).await;
        let id = first_id(&mut lost).await;
        drop(lost);
        stage.open();
        stage.has_dropped(calls + 1).await;
        let messages = resumed(&site, session.resume(&id)).await;
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert_eq!((messages[0]["params"]["progress"].as_u64(), text(&messages[1])), (Some(2), "told"));
        // And again, as long as it is kept.
        assert_eq!(resumed(&site, session.resume(&id)).await, messages);
    }
}

#[tokio::test]
async fn a_stream_is_taken_up_while_the_call_goes_on() {
    let (stage, site) = site().await;
    let session = site.session("2025-11-25").await;
    let mut lost = site.open(&session.call(1, "tells")).await;
    let id = first_id(&mut lost).await;
    // The response that carried it ends, so that no message goes two ways.
    let mut taken_up = site.open(&session.resume(&id)).await;
    assert_eq!(lost.messages().await, Vec::<Value>::new());
    stage.open();
    assert_eq!(taken_up.messages().await.len(), 2);
}

#[tokio::test]
async fn events_are_known_in_their_own_session_only() {
    let (stage, site) = site().await;
    let (session, other) = (site.session("2025-11-25").await, site.session("2025-11-25").await);
    let mut answer = site.open(&session.call(1, "tells")).await;
    let id = first_id(&mut answer).await;
    stage.open();
    let mut last = id.clone();
    while let Some(event) = answer.event().await {
        last = event.id.unwrap();
    }
    let stream = id.split('-').next().unwrap();
    for wrong in ["", "x", "-", "1", "99-1", "18446744073709551616-1", "1-x", "ü", &format!("{stream}-99")] {
        assert_eq!(site.send(&session.resume(wrong)).await.outcome(), (400, -32600), "{wrong:?}");
    }
    assert_eq!(site.send(&other.resume(&id)).await.outcome(), (400, -32600));
    assert_eq!(site.send(&session.resume(&id).without("mcp-session-id")).await.status, 400);
    assert_eq!(site.send(&session.resume(&id).with("mcp-session-id", "gone")).await.status, 404);
    // Whoever has everything is told not to ask again.
    assert_eq!(site.send(&session.resume(&last)).await.outcome(), (204, 0));
}

/// Each message is on one stream only: its own.
#[tokio::test]
async fn streams_do_not_mix() {
    let (stage, site) = site().await;
    let session = site.session("2025-11-25").await;
    let mut standing = site.open(&session.get()).await;
    let mut first = site.open(&session.call(1, "tells")).await;
    let mut second = site.open(&session.call(2, "tells")).await;
    stage.has_begun(2).await;
    stage.open();
    stage.open();
    for (id, answer) in [(1, &mut first), (2, &mut second)] {
        let messages = answer.messages().await;
        let tokens: Vec<_> =
            messages.iter().filter_map(|message| message["params"]["progressToken"].as_u64()).collect();
        assert_eq!((tokens, messages[2]["id"].as_u64()), (vec![id, id], Some(id)));
    }
    assert_eq!(site.send(&session.delete()).await.status, 204);
    assert_eq!(standing.messages().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_second_listener_takes_the_place_of_the_first() {
    let (_, site) = site_with(HttpOptions::default().keep_alive(Duration::from_millis(10))).await;
    let session = site.session("2025-11-25").await;
    let mut first = site.open(&session.get()).await;
    assert!(first.event().await.unwrap().is_comment);
    let mut second = site.open(&session.get()).await;
    assert_eq!(first.messages().await, Vec::<Value>::new());
    assert!(second.event().await.unwrap().is_comment);
}

/// `ctx.close_sse_stream`: the response ends, the client comes back.
#[tokio::test]
async fn a_function_lets_go_of_its_connection() {
    let (stage, site) = site().await;
    let session = site.session("2025-11-25").await;
    let mut answer = site.open(&session.call(1, "lets_go")).await;
    let primer = answer.event().await.unwrap();
    assert_eq!((primer.data.as_str(), primer.retry), ("", None));
    let farewell = answer.event().await.unwrap();
    assert_eq!((farewell.data.as_str(), farewell.retry), ("", Some(7)));
    assert_eq!(answer.event().await, None);

    let mut again = site.open(&session.resume(&farewell.id.unwrap())).await;
    stage.open();
    let messages = again.messages().await;
    assert_eq!((messages.len(), text(&messages[0])), (1, "came back"));
}

/// Nobody else can come back.
#[tokio::test]
async fn a_function_cannot_let_go_of_an_older_client() {
    let (stage, site) = site().await;
    for version in ["2025-03-26", "2025-06-18"] {
        let session = site.session(version).await;
        stage.open();
        assert_eq!(site.send(&session.call(1, "lets_go")).await.text(), "came back");
    }
    stage.open();
    assert_eq!(site.send(&super::request::call("lets_go")).await.text(), "came back");
}

/// A quiet call becomes a stream, so that it can be taken up.
#[tokio::test]
async fn a_long_call_can_be_taken_up() {
    let (stage, site) = site_with(HttpOptions::default().stream_after(Duration::ZERO)).await;
    let session = site.session("2025-11-25").await;
    let mut lost = site.open(&session.call(1, "waits")).await;
    let id = lost.event().await.unwrap().id.unwrap();
    drop(lost);
    stage.open();
    stage.has_dropped(1).await;
    let messages = resumed(&site, session.resume(&id)).await;
    assert_eq!(text(&messages[0]), "waited");
}

/// However many messages come at once, a client that reads gets all of them; the log keeps the last ones.
#[tokio::test]
async fn the_log_of_events_is_bounded() {
    let (_, site) = site().await;
    let session = site.session("2025-11-25").await;
    let mut answer = site.open(&session.call(1, "floods")).await;
    let first = first_id(&mut answer).await;
    let rest = answer.messages().await;
    assert_eq!((rest.len(), text(&rest[1999])), (2000, "flooded"));
    let kept = resumed(&site, session.resume(&first)).await;
    assert!(kept.len() < 500, "{} messages are kept", kept.len());
    assert_eq!(kept.last(), rest.last());
}

/// Old streams are forgotten, those of calls that go on are not.
#[tokio::test]
async fn the_streams_of_a_session_are_bounded() {
    let (stage, site) = site().await;
    let session = site.session("2025-11-25").await;
    let mut going_on = site.open(&session.call(1, "tells")).await;
    let id = first_id(&mut going_on).await;
    drop(going_on);
    let mut forgotten = site.open(&session.call(2, "tells_at_once")).await;
    let forgotten = first_id(&mut forgotten).await;
    for _ in 0..40 {
        assert_eq!(site.open(&session.call(2, "tells_at_once")).await.messages().await.len(), 2);
    }
    assert_eq!(site.send(&session.resume(&forgotten)).await.outcome(), (400, -32600));
    stage.open();
    assert_eq!(resumed(&site, session.resume(&id)).await.len(), 2);
}

#[tokio::test]
async fn a_session_tells_its_log_level() {
    let (_, site) = site().await;
    let session = site.session("2025-06-18").await;
    let set = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "emergency"}});
    assert_eq!(site.send(&session.post(&set)).await.outcome(), (200, 0));
    assert_eq!(site.send(&session.call(2, "floods")).await.text(), "flooded");
}
