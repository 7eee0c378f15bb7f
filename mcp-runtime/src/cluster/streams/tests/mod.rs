//! Streams whose owner and readers are different replicas in one process.

mod backend;
mod bounds;
mod failures;
mod general;
mod lost_replicas;
mod resumption;

use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio::time::timeout;

use self::backend::Flaky;
use super::{ReplicaStreams, SessionStreams};
use crate::{
    backend::Backend,
    cluster::replica::Replica,
    engine::{Outbox, Session},
    jsonrpc::{Id, raw},
    revision,
    transport::http::{
        session::{SharedStreams as _, StreamCalls},
        sse::{
            events::{Resumption, StreamEvents, StreamItem},
            stream::StreamMemory,
        },
    },
};

const LEASE: Duration = Duration::from_secs(10);
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#;

fn replica(backend: &Arc<Flaky>, lease: Duration) -> Arc<ReplicaStreams> {
    let replica = Arc::new(Replica::new(Arc::clone(backend) as Arc<dyn Backend>, lease));
    ReplicaStreams::new(&replica)
}

/// A call of a session, and the response that carries its stream.
struct Call {
    outbox: Arc<Outbox>,
    response: StreamEvents,
    /// The memory of all streams.
    memory: StreamMemory,
}

impl Call {
    fn begin(streams: &Arc<ReplicaStreams>, message: &str) -> Self {
        let outbox = Outbox::for_test();
        outbox.begin_call();
        let messages = if message.starts_with('[') { message } else { &format!("[{message}]") };
        let ids: Vec<_> = raw::elements(messages).filter_map(|call| Id::from_json(raw::member(call, "id")?)).collect();
        let ids = ids.iter().map(|id: &Id| id.as_json().to_owned()).collect();
        let calls = StreamCalls { ids, is_batch: message.starts_with('[') };
        let session = SessionStreams::new(streams, &"session".into(), &Arc::new(Session::for_test()));
        let memory = StreamMemory::default();
        let response = session.open(calls, Arc::clone(&outbox), Vec::new(), memory.clone());
        Self { outbox, response, memory }
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

async fn next(events: &mut StreamEvents) -> Option<StreamItem> {
    timeout(Duration::from_secs(300), poll_fn(|cx| events.poll_next(true, cx))).await.expect("timed out")
}

/// Returns the next event: its position and message.
async fn event(events: &mut StreamEvents) -> (u64, String) {
    match next(events).await {
        Some(StreamItem::Event { position, line }) => (position, String::from_utf8(line.to_vec()).unwrap()),
        other => panic!("{other:?}"),
    }
}

/// Returns the events up to the end of a stream.
async fn rest(events: &mut StreamEvents) -> Vec<(u64, String)> {
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

async fn resume(streams: &Arc<ReplicaStreams>, stream: u64, position: u64) -> Resumption {
    streams.resume(&"session".into(), stream, position, revision::newest_handshake()).await.unwrap()
}

async fn resumed(streams: &Arc<ReplicaStreams>, stream: u64, position: u64) -> StreamEvents {
    match resume(streams, stream, position).await {
        Resumption::Events(events) => events,
        other => panic!("{other:?}"),
    }
}

/// Reads the messages of a response up to its end. The messages from which the stream can be resumed have a position.
async fn messages(events: &mut StreamEvents) -> Vec<(Option<u64>, String)> {
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
