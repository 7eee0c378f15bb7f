//! Response bodies that carry an event stream.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::watch,
    time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep_until},
};

use super::events::{StreamEvents, StreamItem, Wait};
use crate::{
    counters::{Counted, Counter},
    engine::{Engine, InFlight},
    error::Fault,
    stdx::setters,
    telemetry::{SharedTelemetry, StreamEnd},
    transport::http::session::ActiveSession,
};

/// The time after which a client whose credentials have expired should reconnect.
const EXPIRED_RETRY: Duration = Duration::from_secs(1);

/// The settings with which a response encodes its stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamConfig {
    /// Whether events have ids, which make the stream resumable.
    pub(crate) ids: bool,
    /// Whether events are named `message`, as revision 2024-11-05 requires.
    pub(crate) named: bool,
    /// Whether clients expect events without a message: the response starts with one, so that the client has an id from the
    /// start, and one may tell the client when to reconnect.
    pub(crate) polling: bool,
    pub(crate) keep_alive: Duration,
}

/// The progress of the server's shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShutdownPhase {
    Running,
    /// The server is not ready for more clients, but still serves all requests.
    Draining,
    /// Subscription requests have been answered, and streams of 2024-11-05 end when nothing of their clients is in
    /// flight. Calls continue.
    SubscriptionsEnded,
    /// Every stream ends.
    Closed,
}

/// A stream whose client has to reconnect elsewhere once the server shuts down.
pub(crate) trait DrainedStream: fmt::Debug + Send + Sync {
    /// Ends the stream if nothing of the client is in flight. Returns whether it has ended now.
    fn close_if_idle(&self) -> bool;
}

/// A response body that carries an event stream.
#[derive(Debug)]
pub(crate) struct SseBody {
    events: StreamEvents,
    config: StreamConfig,
    /// The number of the event written last.
    at: u64,
    primed: bool,
    over: bool,
    keep_alive: Interval,
    shutdown: watch::Receiver<ShutdownPhase>,
    /// The phase of the shutdown that ends this response.
    ends_at: ShutdownPhase,
    shutdown_wait: Option<Wait>,
    /// Whether the phase has begun. The events that the shutdown has caused are still sent.
    is_ending: bool,
    /// The time at which the credentials of the request no longer suffice for the stream.
    expiry: Option<Pin<Box<Sleep>>>,
    /// The calls that end with the response, because no other request can reach them.
    cancels: Option<CancelOnDrop>,
    /// An event that precedes the stream.
    preamble: Option<Bytes>,
    _active: Option<ActiveSession>,
    _open: Option<OpenStream>,
    /// A stream that ends when nothing of its client is in flight, from the phase `ends_at` on, which then becomes
    /// [`ShutdownPhase::Closed`]. Dropped last, since it removes the client.
    drained: Option<Box<dyn DrainedStream>>,
}

/// A guard that cancels calls when the response that carries their results is dropped.
#[derive(Debug)]
pub(crate) struct CancelOnDrop(pub(in super::super) Arc<InFlight>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel_all();
    }
}

/// A stream while it is counted among the open streams.
#[derive(Debug)]
struct OpenStream {
    telemetry: Option<(SharedTelemetry, Instant)>,
    kind: Counter,
    _count: Counted,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if let Some((telemetry, start)) = &self.telemetry {
            let kind = match self.kind {
                Counter::SubscriptionStreams => "subscription",
                Counter::SessionStreams => "session",
                _ => "call",
            };
            let end = StreamEnd { kind, duration: start.elapsed() };
            telemetry.call(|telemetry| telemetry.stream_ended(&end));
        }
    }
}

impl SseBody {
    /// Creates a body that carries the events of a stream.
    pub(crate) fn new(events: StreamEvents, config: StreamConfig, shutdown: watch::Receiver<ShutdownPhase>) -> Self {
        let mut keep_alive = interval_at(Instant::now() + config.keep_alive, config.keep_alive);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            at: events.start(),
            // The id of a stream that is about to be opened is not known yet.
            primed: !config.polling || events.stream().is_none(),
            events,
            config,
            over: false,
            keep_alive,
            shutdown,
            ends_at: ShutdownPhase::Closed,
            shutdown_wait: None,
            is_ending: false,
            expiry: None,
            cancels: None,
            preamble: None,
            _active: None,
            _open: None,
            drained: None,
        }
    }

    setters! {
        /// Cancels these calls when the response ends.
        pub(crate) fn cancelling(self, cancels: Option<CancelOnDrop>) { self.cancels = cancels }

        /// Ends the response at a time, if there is one.
        pub(crate) fn until(self, deadline: Option<Instant>) {
            self.expiry = deadline.map(|deadline| Box::pin(sleep_until(deadline)))
        }

        /// Lets the stream end when subscriptions do, or as soon as nothing of its client is in flight.
        pub(crate) fn draining(self, stream: impl DrainedStream + 'static) {
            self.ends_at = ShutdownPhase::SubscriptionsEnded;
            self.drained = Some(Box::new(stream))
        }

        /// Counts the response among the streams of a kind, and measures it, until it ends. The response to a
        /// subscription request ends in the first phase of a shutdown.
        pub(crate) fn counted(self, kind: Counter, engine: &Engine) {
            if kind == Counter::SubscriptionStreams {
                self.ends_at = ShutdownPhase::SubscriptionsEnded;
            }
            let telemetry = engine.profile.telemetry.clone().map(|telemetry| (telemetry, Instant::now()));
            self._open = Some(OpenStream { telemetry, kind, _count: Counted::new(kind) })
        }

        /// Adds an event before the events of the stream.
        pub(crate) fn preamble(self, event: Bytes) { self.preamble = Some(event) }

        /// Keeps the session from becoming idle until the response ends.
        pub(crate) fn active(self, active: Option<ActiveSession>) { self._active = active }
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(preamble) = self.preamble.take() {
            return Poll::Ready(Some(preamble));
        }
        if self.over {
            return Poll::Ready(None);
        }
        if !std::mem::replace(&mut self.primed, true) {
            return Poll::Ready(Some(self.event(Some(self.at), b"")));
        }
        // A stream that always has more to send must end as well.
        if self.has_expired(cx) {
            self.over = true;
            // The client can resume the stream with new credentials.
            let can_reconnect = self.config.polling && self.events.stream().is_some();
            return Poll::Ready(can_reconnect.then(|| self.retry_event(EXPIRED_RETRY)));
        }
        loop {
            match self.events.poll_next(self.config.ids, cx) {
                Poll::Ready(Some(StreamItem::Opened { .. })) if self.config.polling => {
                    return Poll::Ready(Some(self.event(Some(self.at), b"")));
                }
                Poll::Ready(Some(StreamItem::Opened { .. })) => continue,
                Poll::Ready(Some(StreamItem::Event { position, line })) => {
                    self.at = position;
                    return Poll::Ready(Some(self.event(Some(position), &line)));
                }
                Poll::Ready(Some(StreamItem::Message { line })) => return Poll::Ready(Some(self.event(None, &line))),
                Poll::Ready(Some(StreamItem::Close { position, retry })) => {
                    // Ends the response but not the stream.
                    self.over = true;
                    self.at = position;
                    return Poll::Ready(Some(self.retry_event(retry)));
                }
                Poll::Ready(Some(StreamItem::End) | None) => {
                    self.over = true;
                    return Poll::Ready(None);
                }
                Poll::Pending => {}
            }
            let is_draining = self.ends_at == ShutdownPhase::Closed;
            if is_draining && self.drained.as_ref().is_some_and(|stream| stream.close_if_idle()) {
                continue;
            }
            if self.poll_shutdown(cx) {
                if self.drained.is_some() && self.ends_at != ShutdownPhase::Closed {
                    self.ends_at = ShutdownPhase::Closed;
                    self.shutdown_wait = None;
                    continue;
                }
                if self.cancels.as_ref().is_some_and(|cancels| cancels.0.fail_all(&Fault::shutting_down())) {
                    continue;
                }
                if !std::mem::replace(&mut self.is_ending, true) {
                    continue;
                }
                self.over = true;
                return Poll::Ready(None);
            }
            if self.keep_alive.poll_tick(cx).is_ready() {
                return Poll::Ready(Some(Bytes::from_static(b":\n\n")));
            }
            return Poll::Pending;
        }
    }

    /// Returns whether the stream has to end because credentials have expired. Subscription requests are answered
    /// first, if the client reads the response.
    fn has_expired(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.expiry.as_mut().is_some_and(|expiry| expiry.as_mut().poll(cx).is_ready()) {
            return false;
        }
        self.expiry = None;
        !self.cancels.as_ref().is_some_and(|cancels| cancels.0.end_listeners())
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> bool {
        let ends_at = self.ends_at;
        if *self.shutdown.borrow() >= ends_at {
            return true;
        }
        let mut shutdown = self.shutdown.clone();
        let shutdown_wait = self.shutdown_wait.get_or_insert_with(|| {
            Wait::new(async move {
                let _ = shutdown.wait_for(|phase| *phase >= ends_at).await;
            })
        });
        shutdown_wait.poll(cx).is_ready()
    }

    fn event(&self, number: Option<u64>, line: &[u8]) -> Bytes {
        let mut event = Vec::with_capacity(line.len() + 32);
        if let Some(number) = number.filter(|_| self.config.ids) {
            event.extend_from_slice(format!("id: {}\n", self.event_id(number)).as_bytes());
        }
        if self.config.named {
            event.extend_from_slice(b"event: message\n");
        }
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.extend_from_slice(b"\n\n");
        event.into()
    }

    /// Returns the id of an event, which is unique within the session: the stream, which is open once there is an event,
    /// and the number of the event. [`parse_event_id`] is the inverse.
    fn event_id(&self, number: u64) -> String {
        format!("{}-{number}", self.events.stream().unwrap_or_default())
    }

    /// Encodes the last event of a response, which tells the client when to reconnect.
    fn retry_event(&self, retry: Duration) -> Bytes {
        format!("retry: {}\nid: {}\ndata: \n\n", retry.as_millis(), self.event_id(self.at)).into()
    }
}

/// Parses an event id into the id of its stream and the number of the event.
pub(crate) fn parse_event_id(text: &str) -> Option<(u64, u64)> {
    let (stream, number) = text.split_once('-')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::{
        engine::Outbox,
        transport::http::sse::{
            events::LocalEvents,
            stream::{EventStream, StreamMemory},
        },
    };

    /// Returns a response with a stream that does not end by itself, and without calls that end with it.
    fn body(shutdown: &watch::Receiver<ShutdownPhase>) -> SseBody {
        let stream = Arc::new(EventStream::new(1, Outbox::for_test(), false, &StreamMemory::default()));
        let config = StreamConfig { ids: true, named: false, polling: false, keep_alive: Duration::from_secs(60) };
        SseBody::new(Box::new(LocalEvents::new(&stream, 0)), config, shutdown.clone())
    }

    fn poll(body: &mut SseBody) -> Poll<Option<Bytes>> {
        body.poll_next(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_has_not_read_for_long_receives_one_comment() {
        let (_phase, shutdown) = watch::channel(ShutdownPhase::Running);
        let mut body = body(&shutdown);
        for _ in 0..2 {
            assert!(poll(&mut body).is_pending());
            tokio::time::advance(Duration::from_secs(600)).await;
            assert_eq!(poll(&mut body), Poll::Ready(Some(Bytes::from_static(b":\n\n"))));
        }
        assert!(poll(&mut body).is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_ends_once() {
        let (phase, shutdown) = watch::channel(ShutdownPhase::Running);
        let second = Duration::from_secs(1);
        let (mut expiring, mut closing) = (body(&shutdown).until(Some(Instant::now() + second)), body(&shutdown));
        assert!(poll(&mut expiring).is_pending());
        tokio::time::advance(second).await;
        assert_eq!([(); 2].map(|()| poll(&mut expiring)), [Poll::Ready(None), Poll::Ready(None)]);
        assert!(poll(&mut closing).is_pending());
        phase.send_replace(ShutdownPhase::Closed);
        assert_eq!([(); 2].map(|()| poll(&mut closing)), [Poll::Ready(None), Poll::Ready(None)]);
    }
}
