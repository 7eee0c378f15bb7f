use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};

use super::{
    super::log::{RUNNING_TTL, StreamLog},
    CALL, Call, Flaky, LEASE,
    backend::Failure,
    event, messages, next, notify, replica, rest, resumed, texts,
};
use crate::transport::http::sse::events::{Resumption, StreamItem};
use crate::{backend::BACKEND_TIMEOUT, revision, transport::http::sse::stream::MAX_LOGGED_MESSAGES};

#[tokio::test(start_paused = true)]
async fn what_a_failing_backend_delays_arrives_once_and_in_order() {
    use Failure::{After, Before, Hang};
    for failures in [&[Before][..], &[After], &[Hang], &[Before, After, Hang, After], &[After, After, After]] {
        let backend = Arc::new(Flaky::default());
        let replicas = [(); 2].map(|()| replica(&backend, LEASE));
        let mut call = Call::begin(&replicas[0], CALL);
        let stream = call.opened().await;
        let mut expected = Vec::new();
        for number in 0..3 {
            backend.fail(failures);
            // More messages arrive while the backend fails.
            for text in [format!("{number} a"), format!("{number} b")] {
                notify(&call.outbox, &text);
                expected.push(text);
                while backend.failures() == failures.len() {
                    tokio::task::yield_now().await;
                }
            }
            for text in &expected[2 * number..] {
                assert_eq!(event(&mut call.response).await.1, *text, "{failures:?}");
            }
        }
        backend.fail(failures);
        call.outbox.finish_call("response");
        assert_eq!(texts(&rest(&mut call.response).await), ["response"], "{failures:?}");
        expected.push("response".to_owned());
        for streams in &replicas {
            assert_eq!(texts(&rest(&mut resumed(streams, stream, 0).await).await), expected, "{failures:?}");
        }
    }
}

/// The output begins and ends while the log cannot be written, whether or not the log was created before.
#[tokio::test(start_paused = true)]
async fn calls_are_answered_without_ids_while_no_log_can_be_written() {
    use Failure::{Before, Full, Hang};
    for failures in [vec![Full], vec![Full; 100], vec![Hang], vec![Hang; 100], vec![Before; 20], vec![Before; 1000]] {
        for is_opened in [false, true] {
            if is_opened && failures.len() < 100 && failures[0] != Full {
                // The log is written before anybody has waited for long.
                continue;
            }
            let backend = Arc::new(Flaky::default());
            let streams = replica(&backend, LEASE);
            let mut call = Call::begin(&streams, CALL);
            if is_opened {
                call.opened().await;
            }
            backend.fail(&failures);
            let began = Instant::now();
            notify(&call.outbox, "one");
            let outbox = Arc::clone(&call.outbox);
            tokio::spawn(async move {
                sleep(Duration::from_secs(20)).await;
                notify(&outbox, "two");
                outbox.finish_call("response");
            });
            let (position, first) = loop {
                match next(&mut call.response).await {
                    Some(StreamItem::Event { position, line }) => break (Some(position), line),
                    Some(StreamItem::Message { line }) => break (None, line),
                    Some(StreamItem::Opened { .. }) => {}
                    other => panic!("{other:?}"),
                }
            };
            assert_eq!((position, &first[..]), (None, &b"one"[..]), "{failures:?} {is_opened}");
            assert!(began.elapsed() < Duration::from_secs(8), "{failures:?} {is_opened}");
            let found = messages(&mut call.response).await;
            let found: Vec<_> = found.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(found, ["two", "response"], "{failures:?} {is_opened}");
            assert!(began.elapsed() < Duration::from_secs(25), "{failures:?} {is_opened}");
        }
    }
}

/// The log contains everything once the backend responds again, and events have ids again.
#[tokio::test(start_paused = true)]
async fn a_stream_survives_a_long_failure() {
    use Failure::{After, Before, Full};
    for failures in [vec![Before; 15], vec![After; 15], vec![Full; 15]] {
        for is_finished in [false, true] {
            let backend = Arc::new(Flaky::default());
            let replicas = [(); 2].map(|()| replica(&backend, LEASE));
            let mut call = Call::begin(&replicas[0], CALL);
            let stream = call.opened().await;
            notify(&call.outbox, "zero");
            let (position, _) = event(&mut call.response).await;
            backend.fail(&failures);
            notify(&call.outbox, "one");
            let Some(StreamItem::Message { line }) = next(&mut call.response).await else { panic!("not sent") };
            assert_eq!(&line[..], b"one", "{failures:?}");
            if !is_finished {
                while backend.failures() > 0 {
                    sleep(Duration::from_secs(1)).await;
                }
                sleep(Duration::from_secs(1)).await;
                notify(&call.outbox, "two");
                assert_eq!(event(&mut call.response).await.1, "two", "{failures:?}");
            }
            call.outbox.finish_call("response");
            let last = messages(&mut call.response).await;
            let [(id, text)] = &last[..] else { panic!("{last:?}") };
            assert_eq!((id.is_some(), text.as_str()), (!is_finished, "response"), "{failures:?}");
            sleep(Duration::from_secs(20)).await;
            if is_finished {
                assert!(next(&mut call.response).await.is_none(), "the end was sent without an id");
            }
            let expected: &[&str] = if is_finished { &["one", "response"] } else { &["one", "two", "response"] };
            for streams in &replicas {
                let events = rest(&mut resumed(streams, stream, position).await).await;
                assert_eq!(texts(&events), expected, "{failures:?} {is_finished}");
            }
        }
    }
}

/// The backend loses the log while the owner reads what others have appended to it.
#[tokio::test(start_paused = true)]
async fn a_response_goes_on_although_entries_are_lost_before_they_are_read() {
    let backend = Arc::new(Flaky::default());
    let (streams, other) = (replica(&backend, LEASE), replica(&backend, LEASE));
    let mut call = Call::begin(&streams, CALL);
    let log = StreamLog::new(other.replica.backend(), "session", call.opened().await);
    log.keep_alive(1).await.unwrap();
    backend.set_delay(Duration::from_secs(1));
    notify(&call.outbox, "one");
    sleep(Duration::from_millis(500)).await;
    log.remove().await.unwrap();
    log.keep_alive(0).await.unwrap();
    assert_eq!(event(&mut call.response).await.1, "one");
}

/// A log that has dropped entries says where it begins.
#[tokio::test(start_paused = true)]
async fn a_resumption_reads_once_although_entries_were_dropped() {
    let backend = Arc::new(Flaky::default());
    let streams = replica(&backend, LEASE);
    let mut call = Call::begin(&streams, CALL);
    let stream = call.opened().await;
    for number in 0..2 * MAX_LOGGED_MESSAGES {
        notify(&call.outbox, &number.to_string());
        let _ = event(&mut call.response).await;
    }
    backend.set_delay(Duration::from_millis(500));
    let began = Instant::now();
    let resumed = streams.resume(&"session".into(), stream, 1, revision::newest_handshake()).await;
    assert!(matches!(resumed, Ok(Resumption::Events(_))), "{resumed:?}");
    assert!(began.elapsed() < BACKEND_TIMEOUT, "{:?}", began.elapsed());
}

/// A replica that shuts down does not wait for a log that has expired.
#[tokio::test(start_paused = true)]
async fn a_log_that_cannot_be_completed_is_given_up() {
    let backend = Arc::new(Flaky::default());
    let streams = replica(&backend, LEASE);
    let mut call = Call::begin(&streams, CALL);
    call.opened().await;
    backend.fail(&vec![Failure::Before; 10_000]);
    call.outbox.finish_call("response");
    assert_eq!(messages(&mut call.response).await, [(None, "response".to_owned())]);
    assert!(timeout(RUNNING_TTL / 2, streams.written()).await.is_err());
    assert!(timeout(RUNNING_TTL, streams.written()).await.is_ok());
}
