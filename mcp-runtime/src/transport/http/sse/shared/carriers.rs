use std::{
    collections::HashMap,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
};

use tokio::{sync::oneshot, time::sleep};

use super::{item::GENERAL, reader::ReaderRecord};
use crate::{
    backend::BackendError,
    engine::{Replica, ReplicaHandler, Slot},
};

/// How often a response that was replaced looks for the one that carries its stream, in the time of a lease.
const CHECKS: u32 = 5;

/// The kind of the messages that announce that a response carries a stream.
pub(super) const KIND: &str = "carried";

/// The streams of the sessions that this replica uses for messages that belong to no request.
pub(in crate::transport::http) trait GeneralStreams: Send + Sync {
    /// Handles that a response at another replica carries the stream of a session.
    fn moved_to(&self, session: &str, response: u64);
}

/// The responses of this replica that carry streams, at most one for each stream. When a response begins to carry a
/// stream at any replica, the earlier one ends.
///
/// The number of connections limits the responses.
#[derive(Debug)]
pub(super) struct Carriers {
    replica: Arc<Replica>,
    responses: Mutex<HashMap<Stream, Response>>,
    general_streams: Weak<dyn GeneralStreams>,
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

/// Ends the registration of a response when dropped.
#[derive(Debug)]
pub(in crate::transport::http) struct Carrier {
    carriers: Arc<Carriers>,
    stream: Stream,
    number: u64,
    ended: oneshot::Receiver<Infallible>,
}

impl Carriers {
    pub(super) fn new(replica: Arc<Replica>, general_streams: Weak<dyn GeneralStreams>) -> Self {
        Self { replica, responses: Mutex::default(), general_streams }
    }

    /// Registers the first response that carries a stream of this replica.
    pub(super) fn begin(self: &Arc<Self>, session: &Arc<str>, stream: u64) -> Carrier {
        self.add((Arc::clone(session), stream), stream, true)
    }

    /// Registers a response that resumes a stream. The number must be unique among all replicas. From now on,
    /// announcements of earlier responses are ignored.
    pub(super) fn resume(self: &Arc<Self>, session: &Arc<str>, stream: u64, number: u64) -> Carrier {
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

    fn add(self: &Arc<Self>, stream: Stream, number: u64, is_announced: bool) -> Carrier {
        let (end, ended) = oneshot::channel();
        self.lock().insert(stream.clone(), Response { number, is_announced, _end: end });
        Carrier { carriers: Arc::clone(self), stream, number, ended }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Stream, Response>> {
        self.responses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplicaHandler for Carriers {
    fn message(&self, payload: &[u8]) {
        let mut words = std::str::from_utf8(payload).unwrap_or_default().split(' ');
        let (Some(session), Some(Ok(stream)), Some(Ok(number))) =
            (words.next(), words.next().map(str::parse), words.next().map(str::parse::<u64>))
        else {
            return;
        };
        let is_own = self.replica.slot().is_some_and(|slot| Slot::of_id(number) == Some(slot));
        let stream = (session.into(), stream);
        let mut carriers = self.lock();
        let ends = match carriers.get_mut(&stream) {
            Some(response) if response.number == number => {
                response.is_announced = true;
                false
            }
            Some(response) => response.is_announced,
            None => true,
        };
        if ends && !is_own {
            carriers.remove(&stream);
            drop(carriers);
            if let Some(general_streams) = self.general_streams.upgrade().filter(|_| stream.1 == GENERAL) {
                general_streams.moved_to(session, number);
            }
        }
    }

    /// Announcements of this replica's responses may be lost.
    fn missed(&self) {
        self.lock().values_mut().for_each(|response| response.is_announced = true);
    }
}

impl Carrier {
    /// Announces the response to all replicas, so that the earlier one ends.
    pub(super) async fn announce(&self) -> Result<(), BackendError> {
        let (session, stream) = &self.stream;
        self.carriers.replica.announce(KIND, format!("{session} {stream} {}", self.number).as_bytes()).await
    }

    /// Becomes ready when another response carries the stream.
    pub(super) fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.ended).poll(cx).map(drop)
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        let mut carriers = self.carriers.lock();
        if carriers.get(&self.stream).is_some_and(|response| response.number == self.number) {
            carriers.remove(&self.stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::MemoryBackend;

    impl GeneralStreams for () {
        fn moved_to(&self, _: &str, _: u64) {}
    }

    /// The responses to which a stream has moved.
    #[derive(Debug, Default)]
    struct Moves(Mutex<Vec<u64>>);

    impl GeneralStreams for Moves {
        fn moved_to(&self, _: &str, response: u64) {
            self.0.lock().unwrap().push(response);
        }
    }

    fn carriers() -> Arc<Carriers> {
        let backend = Arc::new(MemoryBackend::default());
        let replica = Arc::new(Replica::new(backend, std::time::Duration::from_secs(10)));
        Arc::new(Carriers::new(replica, Weak::<()>::new()))
    }

    fn has_ended(carrier: &mut Carrier) -> bool {
        carrier.poll_ended(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    /// Two replicas receive the announcements of two responses in the same order.
    #[test]
    fn the_response_that_was_announced_last_carries_the_stream() {
        let session: Arc<str> = "session".into();
        for (order, expected) in [([1, 2], [true, false]), ([2, 1], [false, true])] {
            let replicas = [carriers(), carriers()];
            let mut first = replicas[0].add((Arc::clone(&session), 7), 1, false);
            let mut second = replicas[1].add((Arc::clone(&session), 7), 2, false);
            for number in order {
                replicas.iter().for_each(|replica| replica.message(format!("session 7 {number}").as_bytes()));
            }
            assert_eq!([has_ended(&mut first), has_ended(&mut second)], expected, "{order:?}");
        }
    }

    /// Announcements arrive late. Those of earlier responses must not make a replica give up the stream that its client
    /// has just opened.
    #[test]
    fn a_stream_that_is_opened_again_does_not_move_to_an_earlier_response() {
        let (session, moves) = (Arc::<str>::from("session"), Arc::new(Moves::default()));
        let replica = carriers();
        let general = Arc::downgrade(&moves);
        let carriers = Arc::new(Carriers::new(Arc::clone(&replica.replica), general as Weak<dyn GeneralStreams>));
        let announce = |number: u64| carriers.message(format!("session {GENERAL} {number}").as_bytes());
        announce(1);
        let response = carriers.resume(&session, GENERAL, 3);
        announce(2);
        announce(3);
        assert_eq!(*moves.0.lock().unwrap(), [1]);
        announce(4);
        drop(response);
        announce(5);
        assert_eq!(*moves.0.lock().unwrap(), [1, 4, 5]);
    }

    #[test]
    fn a_response_ends_when_another_one_resumes_its_stream() {
        let (carriers, session) = (carriers(), Arc::<str>::from("session"));
        let mut first = carriers.begin(&session, 7);
        for other in ["session 8 9", "other 7 9", "session 7", "session 7 x", "session 7 7"] {
            carriers.message(other.as_bytes());
            assert!(!has_ended(&mut first), "{other}");
        }
        let mut second = carriers.add((Arc::clone(&session), 7), 9, false);
        assert!(has_ended(&mut first));
        drop(first);
        carriers.missed();
        assert!(!has_ended(&mut second));
        carriers.message(b"session 7 10");
        assert!(has_ended(&mut second));
        drop(second);
        assert!(carriers.lock().is_empty());
    }
}
