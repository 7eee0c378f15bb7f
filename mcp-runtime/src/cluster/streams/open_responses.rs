use std::{
    collections::HashMap,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use serde::{Deserialize, Serialize};
use tokio::{sync::oneshot, time::sleep};

use super::cursor::ReaderRecord;
use crate::{
    backend::BackendError,
    cluster::{Replica, ReplicaHandler, Slot},
    engine::write_error,
    error::Fault,
    jsonrpc::Id,
    revision::Dialect,
};

/// How often a response that was replaced looks for the one that carries its stream, in the time of a lease.
const CHECKS: u32 = 5;

/// The kind of the messages that announce that a response carries a stream.
pub(super) const KIND: &str = "carried";

/// The responses of this replica that carry streams, at most one for each stream. When a response begins to carry a
/// stream at any replica, the earlier one ends.
///
/// The number of connections limits the responses.
#[derive(Debug)]
pub(super) struct OpenResponses {
    replica: Arc<Replica>,
    responses: Mutex<HashMap<Stream, Response>>,
}

/// A session and one of its streams.
type Stream = (Arc<str>, u64);

#[derive(Debug)]
struct Response {
    /// The number of the response, which is unique among all replicas.
    number: u64,
    /// Whether the announcement of the response has arrived. All replicas receive announcements in the same order, and
    /// the response that was announced last carries the stream.
    is_announced: bool,
    /// Ends the response when dropped.
    _end: oneshot::Sender<Infallible>,
}

/// The registration of a response, which ends when dropped.
#[derive(Debug)]
pub(crate) struct OpenResponse {
    responses: Arc<OpenResponses>,
    stream: Stream,
    number: u64,
    ended: oneshot::Receiver<Infallible>,
}

impl OpenResponses {
    pub(super) fn new(replica: Arc<Replica>) -> Self {
        Self { replica, responses: Mutex::default() }
    }

    /// Registers the first response that carries a stream of this replica.
    pub(super) fn begin(self: &Arc<Self>, session: &Arc<str>, stream: u64) -> OpenResponse {
        self.add((Arc::clone(session), stream), stream, true)
    }

    /// Registers a response that resumes a stream. The number must be unique among all replicas. From now on,
    /// announcements of earlier responses are ignored.
    pub(super) fn resume(self: &Arc<Self>, session: &Arc<str>, stream: u64, number: u64) -> OpenResponse {
        self.add((Arc::clone(session), stream), number, false)
    }

    /// Returns a future that completes when a response has to end that carried the stream of a session for messages that
    /// belong to no request, and was replaced.
    ///
    /// A client may read this stream on two connections. It opens each of them again when it ends, so if each replaced the
    /// other, that would never stop. Therefore, the earlier response stays open, without events, as long as another one
    /// carries the stream, at whichever replica.
    pub(super) fn replaced(&self, session: &Arc<str>) -> impl Future<Output = ()> + Send + use<> {
        let (replica, session) = (Arc::clone(&self.replica), Arc::clone(session));
        async move {
            loop {
                sleep(replica.lease() / CHECKS).await;
                match ReaderRecord::is_read(&replica, &session).await {
                    Ok(false) => return,
                    Ok(true) => {}
                    Err(error) => tracing::debug!(%error, "cannot read who carries an event stream"),
                }
            }
        }
    }

    fn add(self: &Arc<Self>, stream: Stream, number: u64, is_announced: bool) -> OpenResponse {
        let (end, ended) = oneshot::channel();
        self.lock().insert(stream.clone(), Response { number, is_announced, _end: end });
        OpenResponse { responses: Arc::clone(self), stream, number, ended }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Stream, Response>> {
        self.responses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplicaHandler for OpenResponses {
    fn message(&self, payload: &[u8]) {
        let mut words = std::str::from_utf8(payload).unwrap_or_default().split(' ');
        let (Some(session), Some(Ok(stream)), Some(Ok(number))) =
            (words.next(), words.next().map(str::parse), words.next().map(str::parse::<u64>))
        else {
            return;
        };
        let is_own = self.replica.slot().is_some_and(|slot| Slot::of_id(number) == Some(slot));
        let mut responses = self.lock();
        let Some(response) = responses.get_mut(&(session.into(), stream)) else { return };
        if response.number == number {
            response.is_announced = true;
        } else if response.is_announced && !is_own {
            responses.remove(&(session.into(), stream));
        }
    }

    /// Announcements of this replica's responses may be lost.
    fn missed(&self) {
        self.lock().values_mut().for_each(|response| response.is_announced = true);
    }
}

impl OpenResponse {
    /// Announces the response to all replicas, so that the earlier one ends.
    pub(super) async fn announce(&self) -> Result<(), BackendError> {
        let (session, stream) = &self.stream;
        self.responses.replica.announce(KIND, format!("{session} {stream} {}", self.number).as_bytes()).await
    }

    /// Becomes ready when another response carries the stream.
    pub(super) fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.ended).poll(cx).map(drop)
    }
}

impl Drop for OpenResponse {
    fn drop(&mut self) {
        let mut responses = self.responses.lock();
        if responses.get(&self.stream).is_some_and(|response| response.number == self.number) {
            responses.remove(&self.stream);
        }
    }
}

/// The requests whose responses a stream carries.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StreamCalls {
    /// The ids, as JSON. The size of a message limits them.
    ids: Vec<String>,
    /// Whether the client has sent them as a batch, so that one array carries all responses.
    is_batch: bool,
}

impl StreamCalls {
    /// Describes the requests of a message or a batch.
    pub(crate) fn new<'a>(ids: impl Iterator<Item = &'a Id<'a>>, is_batch: bool) -> Self {
        Self { ids: ids.map(|id| id.as_json().to_owned()).collect(), is_batch }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Encodes the responses of calls whose results are lost.
    pub(super) fn lost(&self, dialect: &'static Dialect) -> Vec<u8> {
        self.fail(
            dialect,
            "the call was lost, because the process that ran it is gone or could not store the result: the function may \
             have run, completely or in part",
        )
    }

    /// Encodes the responses of calls whose results the backend has no room for.
    pub(super) fn too_long(&self, dialect: &'static Dialect) -> Vec<u8> {
        self.fail(
            dialect,
            "the function has run, but its result is too long to be stored for a client that has lost its connection",
        )
    }

    fn fail(&self, dialect: &'static Dialect, message: &'static str) -> Vec<u8> {
        let fault = Fault::internal(message);
        let responses = self.ids.iter().filter_map(|id| {
            let mut response = Vec::new();
            write_error(&mut response, dialect, Some(&Id::from_json(id)?), &fault);
            Some(response)
        });
        let responses = responses.collect::<Vec<_>>().join(&b","[..]);
        if self.is_batch && !responses.is_empty() { [b"[", &responses[..], b"]"].concat() } else { responses }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{backend::MemoryBackend, revision};

    fn responses() -> Arc<OpenResponses> {
        let backend = Arc::new(MemoryBackend::default());
        let replica = Arc::new(Replica::new(backend, std::time::Duration::from_secs(10)));
        Arc::new(OpenResponses::new(replica))
    }

    fn has_ended(response: &mut OpenResponse) -> bool {
        response.poll_ended(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    /// Two replicas receive the announcements of two responses in the same order.
    #[test]
    fn the_response_that_was_announced_last_carries_the_stream() {
        let session: Arc<str> = "session".into();
        for (order, expected) in [([1, 2], [true, false]), ([2, 1], [false, true])] {
            let replicas = [responses(), responses()];
            let mut first = replicas[0].add((Arc::clone(&session), 7), 1, false);
            let mut second = replicas[1].add((Arc::clone(&session), 7), 2, false);
            for number in order {
                replicas.iter().for_each(|replica| replica.message(format!("session 7 {number}").as_bytes()));
            }
            assert_eq!([has_ended(&mut first), has_ended(&mut second)], expected, "{order:?}");
        }
    }

    #[test]
    fn a_response_ends_when_another_one_resumes_its_stream() {
        let (responses, session) = (responses(), Arc::<str>::from("session"));
        let mut first = responses.begin(&session, 7);
        for other in ["session 8 9", "other 7 9", "session 7", "session 7 x", "session 7 7"] {
            responses.message(other.as_bytes());
            assert!(!has_ended(&mut first), "{other}");
        }
        let mut second = responses.add((Arc::clone(&session), 7), 9, false);
        assert!(has_ended(&mut first));
        drop(first);
        responses.missed();
        assert!(!has_ended(&mut second));
        responses.message(b"session 7 10");
        assert!(has_ended(&mut second));
        drop(second);
        assert!(responses.lock().is_empty());
    }

    #[test]
    fn every_request_of_a_lost_stream_is_answered() {
        const REASON: &str = "the call was lost, because the process that ran it is gone or could not store the \
                              result: the function may have run, completely or in part";
        let error =
            |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"{REASON}"}}}}"#);
        for (ids, is_batch, expected) in [
            (&["1"][..], false, error("1")),
            (&[r#""a\"""#], false, error(r#""a\"""#)),
            (&[], false, String::new()),
            (&["1", "2"], true, format!("[{},{}]", error("1"), error("2"))),
            (&[], true, String::new()),
        ] {
            let calls: Vec<_> = ids.iter().filter_map(|id| Id::from_json(id)).collect();
            let calls = StreamCalls::decode(&StreamCalls::new(calls.iter(), is_batch).encode()).unwrap();
            let lost = calls.lost(revision::newest_handshake());
            assert_eq!(String::from_utf8(lost).unwrap(), expected, "{ids:?}");
        }
    }
}
