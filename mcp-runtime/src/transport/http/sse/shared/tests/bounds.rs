use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{
    super::{events::Resumption, kept::MAX_SESSION_LOGS},
    CALL, Call, Flaky, LEASE, event, notify, replica, rest, resume, resumed, texts,
};
use crate::transport::http::sse::stream::MAX_LOGGED_MESSAGES;

/// A response that is slow gets everything that waits for it, at most what the outbox of the call and the log keep.
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
