//! What waits to be taken by a transport: the finished lines of one connection, or of one HTTP response.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use tokio::sync::{Notify, futures::OwnedNotified};

use crate::{handler::Peer, model::Level};

/// The bytes of notifications that wait for a peer before more of them are dropped.
pub(super) const UNREAD_NOTIFICATIONS: usize = 1 << 20;

/// Counts the bytes that wait in several outboxes.
pub(crate) type Meter = Arc<AtomicUsize>;

/// The log level of a session, which functions ask before they send a message.
#[derive(Debug)]
pub(crate) struct SessionLevel(AtomicU8);

impl Default for SessionLevel {
    fn default() -> Self {
        Self(AtomicU8::new(Level::Info as u8))
    }
}

impl SessionLevel {
    pub(crate) fn set(&self, level: Level) {
        self.0.store(level as u8, Ordering::Release);
    }

    fn get(&self) -> Level {
        Level::ALL[usize::from(self.0.load(Ordering::Acquire)).min(Level::ALL.len() - 1)]
    }
}

/// A source of notifications that writes them when the transport is ready for them.
pub(super) trait PendingNotifications: Send + Sync {
    /// Writes the pending notifications as lines and clears them.
    fn write(&self, out: &mut Vec<u8>);

    /// Returns whether nothing will be written any more.
    fn is_ended(&self) -> bool;
}

pub(crate) struct Outbox {
    state: Mutex<State>,
    /// The transport took what waited.
    emptied: Arc<Notify>,
    level: Arc<SessionLevel>,
}

#[derive(Default)]
struct State {
    /// Finished lines.
    out: Vec<u8>,
    /// The subscriptions with pending notifications, each once. They become lines when the transport drains the outbox.
    pending: Vec<Arc<dyn PendingNotifications>>,
    /// The calls whose responses will come here.
    open: usize,
    /// The questions to the client that are not yet answered, or taken back.
    questions: usize,
    /// The requests that listen, whose responses come here when the server ends.
    listens: usize,
    waker: Option<Waker>,
    /// After which time the client is to ask again for what comes.
    pause: Option<Duration>,
    /// Where the bytes that wait are counted, and how many of them are.
    meter: Option<Meter>,
    metered: usize,
    /// Whether a notification had to be dropped since the transport last took something.
    dropped: bool,
}

impl Outbox {
    pub(crate) fn new(level: Arc<SessionLevel>) -> Self {
        Self { state: Mutex::default(), emptied: Arc::default(), level }
    }

    /// The number of calls whose responses will come here.
    pub(crate) fn awaited(&self) -> usize {
        self.state().open
    }

    /// Says whether nothing will come but what is marked.
    #[cfg(feature = "http")]
    pub(crate) fn is_settled(&self) -> bool {
        let state = self.state();
        state.open == 0 && state.listens == 0 && state.questions == 0 && state.out.is_empty()
    }

    /// Says whether a request listens, so that more may come at any time.
    #[cfg(feature = "http")]
    pub(crate) fn is_listening(&self) -> bool {
        self.state().listens > 0
    }

    /// Says whether a function wishes that the client asks again.
    #[cfg(feature = "http")]
    pub(crate) fn is_paused(&self) -> bool {
        self.state().pause.is_some()
    }

    /// Adds finished lines.
    #[cfg(feature = "http")]
    pub(crate) fn push(&self, lines: &[u8]) {
        let mut state = self.state();
        state.out.extend_from_slice(lines);
        state.wake();
    }

    /// Takes the wish of a function that the client should ask again after a time.
    #[cfg(feature = "http")]
    pub(crate) fn take_pause(&self) -> Option<Duration> {
        self.state().pause.take()
    }

    /// Waits until there is something to [`drain`](Self::drain), or every call has ended.
    #[cfg(feature = "http")]
    pub(crate) fn poll_news_or_end(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let news = self.poll_news_or_pause(cx);
        if self.awaited() == 0 { Poll::Ready(()) } else { news }
    }

    /// Waits until there is something to [`drain`](Self::drain), or a function wishes that the client asks again.
    #[cfg(feature = "http")]
    pub(crate) fn poll_news_or_pause(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let news = self.poll_output(cx);
        if self.is_paused() { Poll::Ready(()) } else { news }
    }

    /// The bytes that wait.
    #[cfg(feature = "http")]
    pub(crate) fn unread(&self) -> usize {
        self.state().out.len()
    }

    /// Counts the bytes that wait, now and from now on.
    #[cfg(feature = "http")]
    pub(crate) fn set_meter(&self, meter: Meter) {
        self.state().meter = Some(meter);
    }

    /// Says whether every call and every request that listens has written what it leaves behind.
    #[cfg(feature = "http")]
    pub(crate) fn is_complete(&self) -> bool {
        let state = self.state();
        state.open == 0 && state.listens == 0
    }

    /// Wakes whoever waits.
    #[cfg(feature = "http")]
    pub(crate) fn wake(&self) {
        self.state().wake();
    }

    /// Counts a question, which may have to be taken back when its call is gone already.
    pub(super) fn ask(&self) {
        self.state().questions += 1;
    }

    /// Ends a question.
    pub(super) fn end_question(&self) {
        let mut state = self.state();
        state.questions -= 1;
        state.wake();
    }

    /// Counts a call.
    pub(super) fn open(&self) {
        self.state().open += 1;
    }

    /// Writes what a call leaves behind at its end.
    pub(super) fn close(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        state.open -= 1;
        write(&mut state.out);
        state.wake();
    }

    /// Counts a request that listens, and writes its acknowledgement.
    pub(super) fn begin_listen(&self, acknowledged: &[u8]) {
        let mut state = self.state();
        state.listens += 1;
        state.out.extend_from_slice(acknowledged);
        state.wake();
    }

    /// Writes what a request that listened leaves behind, after everything that it was to be told.
    pub(super) fn end_listen(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        state.listens -= 1;
        state.tell();
        write(&mut state.out);
        state.wake();
    }

    /// Queues a subscription with pending notifications.
    pub(super) fn enqueue(&self, pending: Arc<dyn PendingNotifications>) {
        let mut state = self.state();
        // It may have ended in the meantime.
        if !pending.is_ended() {
            state.pending.push(pending);
            state.wake();
        }
    }

    /// Removes the subscriptions that have ended.
    pub(super) fn remove_ended(&self) {
        self.state().pending.retain(|pending| !pending.is_ended());
    }

    /// Adds a message that must not be lost: one of any size where nothing waits, or what fits. If it does not, gives a future of when
    /// to try again.
    pub(super) fn offer(&self, message: &[u8]) -> Result<(), OwnedNotified> {
        let mut state = self.state();
        if !state.out.is_empty() && state.out.len() + message.len() > UNREAD_NOTIFICATIONS {
            return Err(Arc::clone(&self.emptied).notified_owned());
        }
        state.add_line(message);
        Ok(())
    }

    /// Moves what waits into a buffer; true if there was anything.
    pub(crate) fn drain(&self, into: &mut Vec<u8>) -> bool {
        let mut state = self.state();
        state.tell();
        if state.out.is_empty() {
            return false;
        }
        state.dropped = false;
        match into.is_empty() {
            true => std::mem::swap(into, &mut state.out),
            false => into.append(&mut state.out),
        }
        self.emptied.notify_waiters();
        true
    }

    /// Waits until there is something to [`drain`](Self::drain).
    pub(crate) fn poll_output(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let mut state = self.state();
        if !state.is_empty() {
            return Poll::Ready(());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => state.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    fn state(&self) -> Counted<'_> {
        Counted(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What an outbox holds, while it may change; what changed is counted at the end.
struct Counted<'a>(MutexGuard<'a, State>);

impl Deref for Counted<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl DerefMut for Counted<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.0
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let waiting = self.out.len();
        self.count(waiting);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.count(0);
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.out.is_empty() && self.pending.is_empty()
    }

    /// Counts that so many bytes wait.
    fn count(&mut self, waiting: usize) {
        let Some(meter) = &self.meter else { return };
        let before = std::mem::replace(&mut self.metered, waiting);
        match waiting.checked_sub(before) {
            Some(0) => {}
            Some(more) => drop(meter.fetch_add(more, Ordering::Relaxed)),
            None => drop(meter.fetch_sub(before - waiting, Ordering::Relaxed)),
        }
    }

    /// Writes what the client is to be told of.
    fn tell(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        for pending in std::mem::take(&mut self.pending) {
            pending.write(&mut self.out);
        }
    }

    fn add_line(&mut self, line: &[u8]) {
        self.out.extend_from_slice(line);
        self.out.push(b'\n');
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Peer for Outbox {
    fn notify(&self, message: &[u8]) -> bool {
        let mut state = self.state();
        if state.out.len() + message.len() > UNREAD_NOTIFICATIONS {
            let first = !std::mem::replace(&mut state.dropped, true);
            drop(state);
            if first {
                tracing::warn!("notifications are dropped: the client does not take them as fast as they are made");
            }
            return false;
        }
        state.add_line(message);
        true
    }

    fn session_level(&self) -> Level {
        self.level.get()
    }

    fn close_sse_stream(&self, retry: Duration) {
        let mut state = self.state();
        state.pause = Some(retry);
        state.wake();
    }
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("awaited", &self.awaited()).finish_non_exhaustive()
    }
}

#[cfg(test)]
impl Outbox {
    /// The number of subscriptions with pending notifications.
    pub(super) fn pending(&self) -> usize {
        self.state().pending.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state().is_empty()
    }
}
