//! Streams whose owner and readers are different replicas in one process.

use std::{
    collections::VecDeque,
    future::{pending, poll_fn},
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use tokio::{runtime::Runtime, time::sleep};

use super::{
    calls::StreamCalls,
    kept::MAX_SESSION_LOGS,
    log::StreamLog,
    streams::{Resumption, SharedEvents, SharedStreams, StreamItem},
};
use crate::{
    backend::{
        Backend, BackendError, BackendFuture, LogBounds, LogEntry, LogPosition, Logs, MemoryBackend, Record,
        RecordCondition, RecordVersion, Records, TopicSubscription, Topics,
    },
    engine::{Outbox, Replica},
    revision,
    transport::http::sse::stream::{MAX_LOGGED_MESSAGES, StreamMemory},
};

const LEASE: Duration = Duration::from_secs(10);
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#;

/// What an operation on a log does beside what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// Fails without an effect.
    Before,
    /// Fails although it takes effect.
    After,
    /// Never resolves, and has no effect.
    Hang,
    /// The backend is full.
    Full,
}

/// A backend whose next appends fail.
#[derive(Debug, Default)]
struct Flaky {
    memory: MemoryBackend,
    failures: Mutex<VecDeque<Failure>>,
}

impl Flaky {
    fn fail(&self, failures: &[Failure]) {
        self.failures.lock().unwrap().extend(failures);
    }

    fn failures(&self) -> usize {
        self.failures.lock().unwrap().len()
    }
}

impl Logs for Flaky {
    fn append<'a>(&'a self, key: &'a str, entries: Vec<Vec<u8>>, bounds: LogBounds) -> BackendFuture<'a, LogPosition> {
        let failure = self.failures.lock().unwrap().pop_front();
        Box::pin(async move {
            if failure == Some(Failure::Hang) {
                pending::<()>().await;
            }
            if failure == Some(Failure::Full) {
                return Err(BackendError::Full);
            }
            let position = match failure {
                Some(Failure::Before) => LogPosition::START,
                _ => self.memory.append(key, entries, bounds).await?,
            };
            if failure.is_some() { Err(BackendError::Unavailable("test".to_owned())) } else { Ok(position) }
        })
    }

    fn read<'a>(&'a self, key: &'a str, after: LogPosition, limit: usize) -> BackendFuture<'a, Option<Vec<LogEntry>>> {
        self.memory.read(key, after, limit)
    }

    fn appended<'a>(&'a self, key: &'a str, after: LogPosition) -> BackendFuture<'a, ()> {
        self.memory.appended(key, after)
    }

    fn remove<'a>(&'a self, key: &'a str) -> BackendFuture<'a, ()> {
        self.memory.remove(key)
    }
}

impl Records for Flaky {
    fn get<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Option<Record>> {
        self.memory.get(key)
    }

    fn set<'a>(
        &'a self,
        key: &'a str,
        condition: RecordCondition,
        value: Vec<u8>,
        ttl: Duration,
    ) -> BackendFuture<'a, Option<RecordVersion>> {
        self.memory.set(key, condition, value, ttl)
    }

    fn delete<'a>(&'a self, key: &'a str, condition: RecordCondition) -> BackendFuture<'a, bool> {
        self.memory.delete(key, condition)
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BackendFuture<'a, Vec<(String, Record)>> {
        self.memory.list(group, after, limit)
    }

    fn count<'a>(&'a self, group: &'a str) -> BackendFuture<'a, usize> {
        self.memory.count(group)
    }
}

impl Topics for Flaky {
    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> BackendFuture<'a, ()> {
        self.memory.publish(topic, message)
    }

    fn subscribe<'a>(&'a self, topic: &'a str) -> BackendFuture<'a, TopicSubscription> {
        self.memory.subscribe(topic)
    }
}

fn replica(backend: &Arc<Flaky>, lease: Duration) -> Arc<SharedStreams> {
    let replica = Arc::new(Replica::new(Arc::clone(backend) as Arc<dyn Backend>, lease));
    Arc::new(SharedStreams::new(&replica))
}

/// A call of a session, and the response that carries its stream.
struct Call {
    outbox: Arc<Outbox>,
    response: SharedEvents,
}

impl Call {
    fn begin(streams: &Arc<SharedStreams>, message: &str) -> Self {
        let outbox = Outbox::for_test();
        outbox.begin_call();
        let calls = StreamCalls::read(message.as_bytes());
        let memory = StreamMemory::default();
        let response = streams.open("session".into(), Weak::new(), calls, Arc::clone(&outbox), Vec::new(), memory);
        Self { outbox, response }
    }

    /// Waits until the client could resume the stream, and returns the stream's id.
    async fn opened(&mut self) -> u64 {
        match next(&mut self.response).await {
            Some(StreamItem::Opened { stream }) => stream,
            other => panic!("{other:?}"),
        }
    }
}

fn notify(outbox: &Outbox, text: &str) {
    outbox.push(format!("{text}\n").as_bytes());
}

async fn next(events: &mut SharedEvents) -> Option<StreamItem> {
    tokio::time::timeout(Duration::from_secs(300), poll_fn(|cx| events.poll_next(cx))).await.expect("timed out")
}

/// Returns the next event: its position and message.
async fn event(events: &mut SharedEvents) -> (u64, String) {
    match next(events).await {
        Some(StreamItem::Event { position, line }) => (position, String::from_utf8(line.to_vec()).unwrap()),
        other => panic!("{other:?}"),
    }
}

/// Returns the events up to the end of a stream.
async fn rest(events: &mut SharedEvents) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    loop {
        match next(events).await {
            Some(StreamItem::Event { position, line }) => {
                found.push((position, String::from_utf8(line.to_vec()).unwrap()));
            }
            Some(StreamItem::End) => return found,
            other => panic!("{other:?} after {found:?}"),
        }
    }
}

fn texts(events: &[(u64, String)]) -> Vec<&str> {
    events.iter().map(|(_, text)| text.as_str()).collect()
}

async fn resume(streams: &SharedStreams, stream: u64, position: u64) -> Resumption {
    streams.resume(&"session".into(), stream, position, revision::newest_handshake()).await.unwrap()
}

async fn resumed(streams: &SharedStreams, stream: u64, position: u64) -> SharedEvents {
    match resume(streams, stream, position).await {
        Resumption::Events(events) => events,
        other => panic!("{other:?}"),
    }
}

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
    // Of two resumptions at the same time, one is left.
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
    crate::handler::Peer::close_sse_stream(&*call.outbox, Duration::from_millis(7));
    let Some(StreamItem::Close { position, retry }) = next(&mut response).await else { panic!("not closed") };
    assert_eq!(retry, Duration::from_millis(7));
    let mut response = resumed(&replicas[1], stream, position).await;
    call.outbox.finish_call("response");
    assert_eq!(texts(&rest(&mut response).await), ["response"]);
}

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
            // Others arrive while the backend fails.
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

/// Reads the messages of a response up to its end: the positions of those from which the stream can be resumed.
async fn messages(events: &mut SharedEvents) -> Vec<(Option<u64>, String)> {
    let mut messages = Vec::new();
    loop {
        let (position, line) = match next(events).await {
            Some(StreamItem::Event { position, line }) => (Some(position), line),
            Some(StreamItem::Message { line }) => (None, line),
            Some(StreamItem::Opened { .. }) => continue,
            Some(StreamItem::End) => return messages,
            other => panic!("{other:?}"),
        };
        messages.push((position, String::from_utf8(line.to_vec()).unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_answered_without_ids_while_no_log_can_be_written() {
    use Failure::{Before, Full, Hang};
    for failures in [&[Full][..], &[Hang], &[Before; 20]] {
        for is_opened in [false, true] {
            if is_opened && failures != [Full] {
                // The pump waits for the backend, as other tests show.
                continue;
            }
            let backend = Arc::new(Flaky::default());
            let streams = replica(&backend, LEASE);
            if !is_opened {
                backend.fail(failures);
            }
            let mut call = Call::begin(&streams, CALL);
            if is_opened {
                call.opened().await;
                backend.fail(failures);
            }
            notify(&call.outbox, "one");
            let outbox = Arc::clone(&call.outbox);
            tokio::spawn(async move {
                sleep(Duration::from_secs(30)).await;
                notify(&outbox, "two");
                outbox.finish_call("response");
            });
            let began = tokio::time::Instant::now();
            let found = messages(&mut call.response).await;
            let expected = ["one", "two", "response"].map(|text| (None, text.to_owned()));
            assert_eq!(found, expected, "{failures:?} {is_opened}");
            assert!(began.elapsed() < Duration::from_secs(31), "{failures:?} {is_opened}");
        }
    }
}

/// The requests of a stream are known as long as it runs, so that they are answered if its replica is killed.
#[tokio::test(start_paused = true)]
async fn a_long_call_whose_replica_is_gone_is_answered() {
    for is_flushed in [false, true] {
        let backend = Arc::new(Flaky::default());
        let (owner, reader) = (replica(&backend, LEASE), replica(&backend, LEASE));
        let mut call = Call::begin(&owner, CALL);
        let stream = call.opened().await;
        let slot = owner.replica().slot().unwrap();
        let log = StreamLog::new(reader.replica().backend(), "session", stream);
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
    streams: Arc<SharedStreams>,
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
            let log = StreamLog::new(readers[0].replica().backend(), "session", stream);
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

/// The lease of a replica can be gone although the replica runs.
#[tokio::test(start_paused = true)]
async fn an_owner_that_others_consider_gone_says_what_they_say() {
    let backend = Arc::new(Flaky::default());
    let (owner, reader) = (replica(&backend, LEASE), replica(&backend, LEASE));
    let mut call = Call::begin(&owner, CALL);
    let stream = call.opened().await;
    let slot = owner.replica().slot().unwrap();
    assert!(backend.delete(&format!("mcp/1/replica/{slot}"), RecordCondition::Always).await.unwrap());
    let log = StreamLog::new(reader.replica().backend(), "session", stream);
    log.complete(vec![super::entry::Entry::Lost(b"lost").encode()]).await.unwrap();
    notify(&call.outbox, "too late");
    call.outbox.finish_call("response");
    assert_eq!(texts(&rest(&mut call.response).await), ["lost"]);
    assert_eq!(texts(&rest(&mut resumed(&reader, stream, 0).await).await), ["lost"]);
}
