use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{CALL, Call, Flaky, LEASE, backend::Failure, event, next, notify, replica, rest, resume, resumed, texts};
use crate::revision;
use crate::transport::http::sse::events::{Resumption, StreamItem};

#[tokio::test(start_paused = true)]
async fn a_stream_is_resumed_from_every_event_at_every_replica() {
    let backend = Arc::new(Flaky::default());
    let replicas = [(); 3].map(|()| replica(&backend, LEASE));
    let mut call = Call::begin(&replicas[0], CALL);
    let stream = call.opened().await;
    for text in ["one", "two", "three"] {
        notify(&call.outbox, text);
    }
    call.outbox.finish_call("response");
    let all = rest(&mut call.response).await;
    assert_eq!(texts(&all), ["one", "two", "three", "response"]);
    for streams in &replicas {
        assert_eq!(rest(&mut resumed(streams, stream, 0).await).await, all);
        for (index, (position, _)) in all.iter().enumerate() {
            match resume(streams, stream, *position).await {
                Resumption::Events(mut events) => assert_eq!(rest(&mut events).await, all[index + 1..]),
                Resumption::Complete => assert_eq!(index, all.len() - 1),
                Resumption::Unknown => panic!("{position}"),
            }
        }
        for (stream, position) in [(stream, 99), (stream + 1, 0), (stream + 1, 1), (1, 1), (u64::MAX, 1)] {
            assert!(matches!(resume(streams, stream, position).await, Resumption::Unknown), "{stream} {position}");
        }
        let other = streams.resume(&"other".into(), stream, 1, revision::newest_handshake()).await;
        assert!(matches!(other, Ok(Resumption::Unknown)), "streams belong to their session");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resumption_ends_the_earlier_response_at_every_replica() {
    let backend = Arc::new(Flaky::default());
    let replicas = [(); 3].map(|()| replica(&backend, LEASE));
    let mut call = Call::begin(&replicas[0], CALL);
    let stream = call.opened().await;
    notify(&call.outbox, "one");
    let (position, _) = event(&mut call.response).await;
    let mut earlier = call.response;
    for by in [1, 2, 1, 0, 0, 2] {
        let response = resumed(&replicas[by], stream, position).await;
        assert!(next(&mut earlier).await.is_none());
        earlier = response;
    }
    // Of two concurrent resumptions, only one continues.
    let (first, second) = tokio::join!(resumed(&replicas[0], stream, 0), resumed(&replicas[1], stream, 0));
    assert!(next(&mut earlier).await.is_none());
    call.outbox.finish_call("response");
    let mut complete = 0;
    for mut response in [first, second] {
        loop {
            match next(&mut response).await {
                Some(StreamItem::Event { .. }) => {}
                Some(StreamItem::End) => break complete += 1,
                None => break,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(complete, 1);
}

#[tokio::test(start_paused = true)]
async fn functions_close_responses_at_other_replicas() {
    let backend = Arc::new(Flaky::default());
    let replicas = [(); 2].map(|()| replica(&backend, LEASE));
    let mut call = Call::begin(&replicas[0], CALL);
    let stream = call.opened().await;
    let mut response = resumed(&replicas[1], stream, 0).await;
    crate::handler::CallConnection::close_sse_stream(&*call.outbox, Duration::from_millis(7));
    let Some(StreamItem::Close { position, retry }) = next(&mut response).await else { panic!("not closed") };
    assert_eq!(retry, Duration::from_millis(7));
    let mut response = resumed(&replicas[1], stream, position).await;
    call.outbox.finish_call("response");
    assert_eq!(texts(&rest(&mut response).await), ["response"]);
}

#[tokio::test(start_paused = true)]
async fn a_long_call_without_output_keeps_its_stream() {
    let backend = Arc::new(Flaky::default());
    let replicas = [(); 2].map(|()| replica(&backend, LEASE));
    let mut call = Call::begin(&replicas[0], CALL);
    let stream = call.opened().await;
    sleep(Duration::from_secs(6 * 60 * 60)).await;
    let mut response = resumed(&replicas[1], stream, 0).await;
    call.outbox.finish_call("response");
    assert_eq!(texts(&rest(&mut response).await), ["response"]);
}

/// The append seems to fail although it takes effect, and is repeated.
#[tokio::test(start_paused = true)]
async fn what_was_written_twice_is_resumed_once() {
    let backend = Arc::new(Flaky::default());
    let replicas = [(); 2].map(|()| replica(&backend, LEASE));
    let mut call = Call::begin(&replicas[0], CALL);
    let stream = call.opened().await;
    backend.fail(&[Failure::After]);
    notify(&call.outbox, "one");
    crate::handler::CallConnection::close_sse_stream(&*call.outbox, Duration::from_millis(7));
    assert_eq!(event(&mut call.response).await.1, "one");
    let Some(StreamItem::Close { position, .. }) = next(&mut call.response).await else { panic!("not closed") };
    call.outbox.finish_call("response");
    assert_eq!(texts(&rest(&mut resumed(&replicas[1], stream, position).await).await), ["response"]);
}

/// The reader finds them when it checks whether the owner is alive.
#[tokio::test(start_paused = true)]
async fn entries_whose_announcements_are_lost_arrive_nevertheless() {
    let backend = Arc::new(Flaky::default());
    let (owner, reader) = (replica(&backend, LEASE), replica(&backend, LEASE));
    let mut call = Call::begin(&owner, CALL);
    let stream = call.opened().await;
    backend.set_deaf(true);
    let mut events = resumed(&reader, stream, 0).await;
    sleep(LEASE).await;
    notify(&call.outbox, "progress");
    assert_eq!(event(&mut events).await.1, "progress");
    call.outbox.finish_call("response");
    assert_eq!(texts(&rest(&mut events).await), ["response"]);
}
