use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::sleep;

use super::{
    super::{events::Resumption, kept::MAX_SESSION_LOGS},
    CALL, Call, Flaky, LEASE, event, notify, replica, rest, resume, resumed, texts,
};
use crate::transport::http::sse::stream::{MAX_LOGGED_MESSAGES, StreamMemory};

/// A slow response receives everything that the outbox of the call and the log have kept for it.
#[tokio::test(start_paused = true)]
async fn slow_readers_miss_only_notifications_and_get_the_response() {
    let backend = Arc::new(Flaky::default());
    let replicas = [(); 2].map(|()| replica(&backend, LEASE));
    for (count, length) in [(3 * MAX_LOGGED_MESSAGES, 10), (40, 100_000)] {
        let mut call = Call::begin(&replicas[0], CALL);
        let stream = call.opened().await;
        notify(&call.outbox, "first");
        let (position, _) = event(&mut call.response).await;
        // Nobody reads.
        drop(call.response);
        let padding = "x".repeat(length);
        for number in 0..count {
            notify(&call.outbox, &format!("{number} {padding}"));
            tokio::task::yield_now().await;
        }
        call.outbox.finish_call("response");
        assert_eq!(rest(&mut resumed(&replicas[1], stream, position).await).await.last().unwrap().1, "response");
        // The log is complete now.
        let events = rest(&mut resumed(&replicas[1], stream, position).await).await;
        let last = events.len() - 1;
        assert_eq!(events[last].1, "response");
        assert!(events.len() > 2 && events.len() <= MAX_LOGGED_MESSAGES, "{}", events.len());
        let first = count - last;
        for (number, (_, text)) in (first..).zip(&events[..last]) {
            assert!(text.starts_with(&format!("{number} ")), "{number} {}", &text[..10]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_logs_of_a_session_that_has_ended_are_removed() {
    let backend = Arc::new(Flaky::default());
    let replicas = [(); 2].map(|()| replica(&backend, LEASE));
    let mut streams = Vec::new();
    for _ in 0..=MAX_SESSION_LOGS {
        let mut call = Call::begin(&replicas[0], CALL);
        streams.push(call.opened().await);
        call.outbox.finish_call("response");
        assert_eq!(texts(&rest(&mut call.response).await), ["response"]);
        // The stream is counted after the end of its response.
        sleep(Duration::from_secs(1)).await;
    }
    assert!(matches!(resume(&replicas[1], streams[0], 0).await, Resumption::Unknown));
    for stream in &streams[1..] {
        assert_eq!(texts(&rest(&mut resumed(&replicas[1], *stream, 0).await).await), ["response"]);
    }
    replicas[0].remove_logs("session");
    sleep(Duration::from_secs(1)).await;
    for stream in streams {
        assert!(matches!(resume(&replicas[1], stream, 0).await, Resumption::Unknown));
    }
}

#[tokio::test(start_paused = true)]
async fn the_logs_of_running_streams_count_towards_the_memory_of_their_peer() {
    const LENGTH: usize = 100_000;
    let backend = Arc::new(Flaky::default());
    let streams = replica(&backend, LEASE);
    let (all, peer) = (StreamMemory::default(), Arc::default());
    let memory = all.of_part(&peer);
    let mut call = Call::begin_in(&memory, &streams, CALL);
    let stream = call.opened().await;
    let line = "x".repeat(LENGTH);
    let mut first = None;
    for _ in 0..4 {
        notify(&call.outbox, &line);
        first.get_or_insert(event(&mut call.response).await.0);
    }
    assert!((4 * LENGTH..5 * LENGTH).contains(&peer.load(Ordering::Relaxed)));
    // The other streams of the server keep too much.
    let others = all.count(all.max());
    notify(&call.outbox, &line);
    let (last, _) = event(&mut call.response).await;
    assert!((2 * LENGTH..3 * LENGTH).contains(&peer.load(Ordering::Relaxed)));
    let mut resumed = resumed(&streams, stream, first.unwrap()).await;
    let (kept, _) = event(&mut resumed).await;
    assert_eq!((kept, event(&mut resumed).await.0), (last - 1, last), "only what the client had received is dropped");
    drop(others);
    call.outbox.finish_call("response");
    assert_eq!(texts(&rest(&mut resumed).await), ["response"]);
    sleep(Duration::from_secs(1)).await;
    assert!((2 * LENGTH..3 * LENGTH).contains(&peer.load(Ordering::Relaxed)));
    streams.remove_logs("session");
    assert_eq!(peer.load(Ordering::Relaxed), 0);
}
