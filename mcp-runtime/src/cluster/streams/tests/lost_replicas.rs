use std::{sync::Arc, time::Duration};

use tokio::{
    runtime::Runtime,
    task::yield_now,
    time::{advance, sleep},
};

use super::{
    super::log::StreamLog, CALL, Call, Flaky, LEASE, backend::Failure, event, messages, next, notify, replica, rest,
    resume, resumed, texts,
};
use crate::{
    backend::{RecordCondition, Records as _},
    cluster::streams::{
        ReplicaStreams,
        log::{Entry, RUNNING_TTL},
    },
    transport::http::sse::{
        events::{Resumption, StreamItem},
        stream::MAX_LOGGED_BYTES,
    },
};

/// The requests of a running stream are recorded, so that they are answered if its replica is killed.
#[tokio::test(start_paused = true)]
async fn a_long_call_whose_replica_is_gone_is_answered() {
    for is_flushed in [false, true] {
        let backend = Arc::new(Flaky::default());
        let (owner, reader) = (replica(&backend, LEASE), replica(&backend, LEASE));
        let mut call = Call::begin(&owner, CALL);
        let stream = call.opened().await;
        let slot = owner.replica.slot().unwrap();
        let log = StreamLog::new(reader.replica.backend(), "session", stream);
        let reports = if is_flushed { 3 } else { 12 };
        for number in 0..reports {
            sleep(Duration::from_secs(60)).await;
            notify(&call.outbox, &number.to_string());
            let _ = event(&mut call.response).await;
            if is_flushed && number == 1 {
                log.remove().await.unwrap();
                backend.delete(&format!("mcp/1/stream/session/{stream}"), RecordCondition::Always).await.unwrap();
            }
        }
        // The record is written after the output.
        sleep(Duration::from_secs(1)).await;
        assert!(backend.delete(&format!("mcp/1/replica/{slot}"), RecordCondition::Always).await.unwrap());
        let events = rest(&mut resumed(&reader, stream, 0).await).await;
        let answers = events.iter().filter(|(_, text)| text.contains("-32603")).count();
        assert_eq!(answers, 1, "{is_flushed} {events:?}");
    }
}

/// A replica in a runtime of its own, so that all of its tasks can be killed.
struct Killable {
    runtime: Runtime,
    streams: Arc<ReplicaStreams>,
}

impl Killable {
    fn start(backend: &Arc<Flaky>, lease: Duration) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { runtime, streams: replica(backend, lease) }
    }

    async fn begin(&self, message: &'static str) -> Call {
        let streams = Arc::clone(&self.streams);
        self.runtime.spawn(async move { Call::begin(&streams, message) }).await.unwrap()
    }
}

#[tokio::test]
async fn the_calls_of_a_replica_that_was_killed_are_answered_within_its_lease() {
    const LEASE: Duration = Duration::from_millis(500);
    const BATCH: &str = r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":"x","method":"c"}]"#;
    // The output before the end, and whether the call has finished.
    for (message, finishes, expected) in [
        (CALL, false, Some(1)),
        (BATCH, false, Some(2)),
        // An open question keeps the stream open after the response.
        (CALL, true, None),
    ] {
        let backend = Arc::new(Flaky::default());
        let (owner, readers) = (Killable::start(&backend, LEASE), [(); 2].map(|()| replica(&backend, LEASE)));
        let mut call = owner.begin(message).await;
        let stream = call.opened().await;
        notify(&call.outbox, "progress");
        let (position, _) = event(&mut call.response).await;
        if finishes {
            call.outbox.begin_question();
            call.outbox.finish_call("response");
            assert_eq!(event(&mut call.response).await.1, "response");
            let log = StreamLog::new(readers[0].replica.backend(), "session", stream);
            while log.read(position + 1).await.unwrap().unwrap().is_empty() {
                sleep(Duration::from_millis(1)).await;
            }
        }
        // The client waits for the stream while the replica is killed, or resumes it afterwards.
        let mut waiting = resumed(&readers[0], stream, position).await;
        owner.runtime.shutdown_background();
        let waited = rest(&mut waiting).await;
        let later = rest(&mut resumed(&readers[1], stream, position).await).await;
        assert_eq!(waited, later, "{message} {finishes}");
        match expected {
            Some(errors) => {
                let [(lost, text)] = waited.as_slice() else { panic!("{waited:?}") };
                assert_eq!(text.matches("-32603").count(), errors, "{text}");
                assert_eq!(text.matches("may have run").count(), errors, "{text}");
                assert!(matches!(resume(&readers[1], stream, *lost).await, Resumption::Complete));
            }
            None => assert_eq!(texts(&waited), ["response"]),
        }
        let all = rest(&mut resumed(&readers[1], stream, 0).await).await;
        assert_eq!((all[0].1.as_str(), &all[1..]), ("progress", waited.as_slice()));
    }
}

/// Its next attempt to write shows that its call was answered.
#[tokio::test(start_paused = true)]
async fn an_owner_that_was_stopped_while_it_wrote_says_what_the_log_says() {
    let backend = Arc::new(Flaky::default());
    let (owner, reader) = (replica(&backend, LEASE), replica(&backend, LEASE));
    let mut call = Call::begin(&owner, CALL);
    let stream = call.opened().await;
    notify(&call.outbox, "one");
    let (position, _) = event(&mut call.response).await;
    backend.fail(&[Failure::Hang]);
    notify(&call.outbox, "two");
    while backend.failures() > 0 {
        yield_now().await;
    }
    let log = StreamLog::new(reader.replica.backend(), "session", stream);
    log.complete(position, vec![Entry::Lost { line: b"lost" }.encode()], MAX_LOGGED_BYTES).await.unwrap();
    advance(LEASE + Duration::from_secs(2)).await;
    call.outbox.finish_call("too late");
    assert_eq!(messages(&mut call.response).await, [(Some(position + 1), "lost".to_owned())]);
}

/// The lease of a replica can be gone although the replica runs.
#[tokio::test(start_paused = true)]
async fn an_owner_that_others_consider_gone_says_what_they_say() {
    // The number of seconds for which the log cannot be read after the owner has written to it, and whether the response
    // waits for so long. A client whose response ends resumes the stream.
    for (outage, waits) in [(0, true), (5, true), (20, false)] {
        let outage = Duration::from_secs(outage);
        let backend = Arc::new(Flaky::default());
        let (owner, reader) = (replica(&backend, LEASE), replica(&backend, LEASE));
        let mut call = Call::begin(&owner, CALL);
        let stream = call.opened().await;
        let slot = owner.replica.slot().unwrap();
        assert!(backend.delete(&format!("mcp/1/replica/{slot}"), RecordCondition::Always).await.unwrap());
        let log = StreamLog::new(reader.replica.backend(), "session", stream);
        log.complete(1, vec![Entry::Lost { line: b"lost" }.encode()], MAX_LOGGED_BYTES).await.unwrap();
        backend.set_delay(outage);
        notify(&call.outbox, "too late");
        call.outbox.finish_call("response");
        sleep(outage).await;
        backend.set_delay(Duration::ZERO);
        if waits {
            assert_eq!(texts(&rest(&mut call.response).await), ["lost"], "{outage:?}");
        } else {
            assert!(next(&mut call.response).await.is_none(), "{outage:?}");
        }
        assert_eq!(texts(&rest(&mut resumed(&reader, stream, 0).await).await), ["lost"], "{outage:?}");
    }
}

/// The announcement of what the owner has written last does not arrive.
#[tokio::test(start_paused = true)]
async fn a_reader_sees_everything_that_a_lost_owner_has_written() {
    for finishes in [true, false] {
        let backend = Arc::new(Flaky::default());
        let (owner, reader) = (replica(&backend, LEASE), replica(&backend, LEASE));
        let mut call = Call::begin(&owner, CALL);
        let stream = call.opened().await;
        let slot = owner.replica.slot().unwrap();
        backend.set_deaf(true);
        let mut waiting = resumed(&reader, stream, 0).await;
        // The reader has found the owner alive.
        sleep(Duration::from_millis(1)).await;
        notify(&call.outbox, "late");
        if finishes {
            call.outbox.finish_call("response");
        }
        // The owner writes, and then its lease ends.
        sleep(Duration::from_millis(1)).await;
        assert!(backend.delete(&format!("mcp/1/replica/{slot}"), RecordCondition::Always).await.unwrap());
        let events = rest(&mut waiting).await;
        let [(_, late), (_, last)] = events.as_slice() else { panic!("{finishes} {events:?}") };
        assert_eq!((late.as_str(), last == "response", last.contains("-32603")), ("late", finishes, !finishes));
    }
}

/// The backend has lost the last entries, which the reader has seen.
#[tokio::test(start_paused = true)]
async fn the_calls_of_a_lost_owner_are_answered_although_its_log_has_become_shorter() {
    let backend = Arc::new(Flaky::default());
    let (owner, reader) = (replica(&backend, LEASE), replica(&backend, LEASE));
    let mut call = Call::begin(&owner, CALL);
    let stream = call.opened().await;
    let slot = owner.replica.slot().unwrap();
    let mut waiting = resumed(&reader, stream, 0).await;
    for text in ["one", "two"] {
        notify(&call.outbox, text);
        assert_eq!(event(&mut waiting).await.1, text);
    }
    backend.set_delay(Duration::from_millis(10));
    let log = StreamLog::new(reader.replica.backend(), "session", stream);
    log.remove().await.unwrap();
    log.keep_alive(0).await.unwrap();
    assert!(backend.delete(&format!("mcp/1/replica/{slot}"), RecordCondition::Always).await.unwrap());
    let events = rest(&mut waiting).await;
    assert!(events.len() == 1 && events[0].1.contains("-32603"), "{events:?}");
}

/// A question can keep a stream open after the response.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_answered_is_not_lost_after_any_event() {
    let backend = Arc::new(Flaky::default());
    let (owner, reader) = (replica(&backend, LEASE), replica(&backend, LEASE));
    let mut call = Call::begin(&owner, CALL);
    let stream = call.opened().await;
    let slot = owner.replica.slot().unwrap();
    call.outbox.begin_question();
    call.outbox.finish_call("response");
    let mut positions = vec![event(&mut call.response).await.0];
    // The log shows before the next message that the call was answered.
    sleep(Duration::from_secs(1)).await;
    notify(&call.outbox, "later");
    positions.push(event(&mut call.response).await.0);
    crate::handler::CallConnection::close_sse_stream(&*call.outbox, Duration::from_millis(7));
    let Some(StreamItem::Close { position, .. }) = next(&mut call.response).await else { panic!("not closed") };
    positions.push(position);
    assert!(backend.delete(&format!("mcp/1/replica/{slot}"), RecordCondition::Always).await.unwrap());
    for (index, position) in positions.into_iter().enumerate() {
        let expected: &[&str] = if index == 0 { &["later"] } else { &[] };
        let mut events = match resume(&reader, stream, position).await {
            Resumption::Events(events) => events,
            Resumption::Complete => continue,
            Resumption::Unknown => panic!("{position}"),
        };
        let mut found = Vec::new();
        while let Some(item) = next(&mut events).await {
            match item {
                StreamItem::Event { line, .. } => found.push(String::from_utf8(line.to_vec()).unwrap()),
                StreamItem::Close { .. } => {}
                _ => break,
            }
        }
        assert_eq!(found, expected, "{index}");
    }
}

/// The backend loses the log while a question keeps the stream open after the response.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_answered_is_not_lost_with_its_log() {
    let backend = Arc::new(Flaky::default());
    let (owner, reader) = (replica(&backend, LEASE), replica(&backend, LEASE));
    let mut call = Call::begin(&owner, CALL);
    let stream = call.opened().await;
    let slot = owner.replica.slot().unwrap();
    call.outbox.begin_question();
    call.outbox.finish_call("response");
    assert_eq!(event(&mut call.response).await.1, "response");
    sleep(Duration::from_secs(1)).await;
    StreamLog::new(reader.replica.backend(), "session", stream).remove().await.unwrap();
    assert!(backend.delete(&format!("mcp/1/stream/session/{stream}"), RecordCondition::Always).await.unwrap());
    // The replica notices the loss when it extends the lifetime of the log.
    sleep(RUNNING_TTL).await;
    assert!(backend.delete(&format!("mcp/1/replica/{slot}"), RecordCondition::Always).await.unwrap());
    let later = match resume(&reader, stream, 0).await {
        Resumption::Events(mut events) => rest(&mut events).await,
        _ => Vec::new(),
    };
    assert_eq!(texts(&later), [""; 0]);
}
