use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{
    super::responses::Feed, CALL, Call, Flaky, LEASE, backend::Failure, event, messages, notify, replica, rest, resumed,
};
use crate::{
    backend::{RecordCondition, Records as _},
    transport::http::sse::{
        events::StreamItem,
        stream::{MAX_LOGGED_BYTES, MAX_LOGGED_MESSAGES},
    },
};

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
        // No response reads the stream.
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

/// The log keeps the response beyond its limit of bytes, regardless of later messages, and although its owner seems to
/// be gone.
#[tokio::test(start_paused = true)]
async fn a_response_of_any_length_is_resumed_at_every_replica() {
    for length in [MAX_LOGGED_BYTES / 10 * 9, MAX_LOGGED_BYTES, 4 * MAX_LOGGED_BYTES] {
        for (failures, stays_open) in [(0, false), (0, true), (15, false), (15, true)] {
            let case = format!("{length} {failures} {stays_open}");
            let backend = Arc::new(Flaky::default());
            let replicas = [(); 2].map(|()| replica(&backend, LEASE));
            let mut call = Call::begin(&replicas[0], CALL);
            let stream = call.opened().await;
            notify(&call.outbox, "first");
            let (position, _) = event(&mut call.response).await;
            let mut waiting = resumed(&replicas[1], stream, position).await;
            drop(call.response);
            if stays_open {
                // An open question keeps the stream open after the response.
                call.outbox.begin_question();
            }
            let response = "x".repeat(length);
            backend.fail(&vec![Failure::Before; failures]);
            call.outbox.finish_call(&response);
            assert!(event(&mut waiting).await.1 == response, "{case}");
            if stays_open {
                sleep(Duration::from_secs(60)).await;
                notify(&call.outbox, "later");
                assert_eq!(event(&mut waiting).await.1, "later", "{case}");
                let slot = replicas[0].replica.slot().unwrap();
                assert!(backend.delete(&format!("mcp/1/replica/{slot}"), RecordCondition::Always).await.unwrap());
            }
            assert!(rest(&mut waiting).await.is_empty(), "{case}");
            for streams in &replicas {
                for (after, expected) in [(0, "first"), (position, response.as_str())] {
                    let events = rest(&mut resumed(streams, stream, after).await).await;
                    assert!(events[0].1 == expected && events.iter().any(|(_, text)| *text == response), "{case}");
                }
            }
        }
    }
}

/// A backend has no room for a response. The client of its call receives it without an id, and a client that resumes the
/// stream receives an error.
#[tokio::test(start_paused = true)]
async fn an_error_replaces_a_response_that_the_backend_refuses() {
    // Whether the client is connected, and whether an open question keeps the stream open after the response.
    for (is_connected, stays_open) in [(true, false), (false, false), (false, true)] {
        let backend = Arc::new(Flaky::default());
        let replicas = [(); 2].map(|()| replica(&backend, LEASE));
        let mut call = Call::begin(&replicas[0], CALL);
        let stream = call.opened().await;
        notify(&call.outbox, "first");
        let (position, _) = event(&mut call.response).await;
        let response = "x".repeat(2 * MAX_LOGGED_BYTES);
        let mut connected = is_connected.then_some(call.response);
        backend.fail(&[Failure::Full]);
        if stays_open {
            call.outbox.begin_question();
        }
        call.outbox.finish_call(&response);
        if let Some(connected) = &mut connected {
            assert!(messages(connected).await == [(None, response)]);
        }
        let mut resumed = resumed(&replicas[1], stream, position).await;
        let (_, error) = event(&mut resumed).await;
        assert!(error.contains(r#""id":1,"error":{"code":-32603"#) && error.contains("too long"), "{error}");
        if stays_open {
            notify(&call.outbox, "later");
            assert_eq!(event(&mut resumed).await.1, "later");
        } else {
            assert_eq!(rest(&mut resumed).await, []);
        }
    }
}

/// An open question keeps the stream open after the response.
#[tokio::test(start_paused = true)]
async fn a_response_that_was_replaced_takes_no_memory() {
    const LENGTH: usize = 100_000;
    let backend = Arc::new(Flaky::default());
    let streams = replica(&backend, LEASE);
    let mut call = Call::begin(&streams, CALL);
    call.opened().await;
    drop(call.response);
    backend.fail(&[Failure::Full]);
    backend.fail(&[Failure::Before; 30]);
    call.outbox.begin_question();
    call.outbox.finish_call(&"x".repeat(4 * MAX_LOGGED_BYTES));
    sleep(Duration::from_secs(10)).await;
    assert!((1..1000).contains(&call.memory.used()), "{}", call.memory.used());
    for _ in 0..40 {
        notify(&call.outbox, &"x".repeat(LENGTH));
        sleep(Duration::from_millis(1)).await;
        assert!(call.memory.used() <= MAX_LOGGED_BYTES + LENGTH, "{}", call.memory.used());
    }
    assert!(backend.failures() > 0);
}

/// Messages that wait for the backend are limited like the log, and count as memory until they are stored.
#[tokio::test(start_paused = true)]
async fn messages_that_wait_for_the_backend_take_bounded_memory() {
    /// The longest start of an entry with a message: the number has three digits.
    const HEADER: usize = r#"{"message":{"header":{"number":100}}}"#.len() + 1;

    for (count, length, max, kept) in [
        (3 * MAX_LOGGED_MESSAGES, 10, MAX_LOGGED_MESSAGES * (HEADER + 10), MAX_LOGGED_MESSAGES),
        (40, 100_000, MAX_LOGGED_BYTES + 100_000, 10),
        (2, MAX_LOGGED_BYTES, MAX_LOGGED_BYTES + HEADER, 1),
    ] {
        let backend = Arc::new(Flaky::default());
        let streams = replica(&backend, LEASE);
        let mut call = Call::begin(&streams, CALL);
        let stream = call.opened().await;
        drop(call.response);
        backend.fail(&[Failure::Before; 30]);
        notify(&call.outbox, "first");
        // From now on, messages do not wait in the outbox.
        sleep(Duration::from_secs(10)).await;
        let message = "x".repeat(length);
        for _ in 0..count {
            notify(&call.outbox, &message);
            sleep(Duration::from_millis(1)).await;
            let used = call.memory.used();
            assert!((length..=max).contains(&used), "{used} bytes of messages of {length} bytes");
        }
        assert!(backend.failures() > 0);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(call.memory.used(), 0, "the call still runs");
        let mut resumed = resumed(&streams, stream, 0).await;
        for _ in 0..kept {
            assert!(event(&mut resumed).await.1 == message);
        }
        notify(&call.outbox, "last");
        assert_eq!(event(&mut resumed).await.1, "last");
    }
}

/// A slow reader stalls its stream instead of using more memory.
#[tokio::test(start_paused = true)]
async fn unread_events_take_bounded_memory() {
    for (bytes, expected) in [(100 << 10, 10), (0, 4096)] {
        let (feed, mut items) = Feed::new(0);
        let item = || StreamItem::Message { line: vec![b'x'; bytes].into() };
        let has_room = async || timeout(Duration::from_secs(60), feed.send(item())).await.is_ok();
        let mut unread = 0;
        while unread < 5000 && has_room().await {
            unread += 1;
        }
        assert_eq!(unread, expected, "events of {bytes} bytes");
        assert!(poll_fn(|cx| items.poll_next(cx)).await.is_some());
        assert!(has_room().await && !has_room().await);
    }
}
