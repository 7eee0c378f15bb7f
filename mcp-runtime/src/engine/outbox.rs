//! The output of a connection, or of an HTTP response stream, until the transport takes it.

use std::{
    sync::{
        Arc, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    counters::Counter,
    engine::{
        limits::FlowControl,
        sync::{Mutex, MutexGuard},
    },
    error::FaultClass,
    handler::{CallConnection, CallLifetime},
    model::Level,
    stdx::{debug, wait_until},
};

/// Encoded messages that are waiting for the transport.
///
/// Responses are always accepted: their number is bounded by the limit on calls in flight, and the transport stops
/// reading requests while too much output is unread. Notifications are dropped beyond [`MAX_UNREAD_BYTES`].
pub(crate) struct Outbox {
    contents: Mutex<Contents>,
    /// The signal that a subscription was queued, that the transport has taken the contents or begins to read, or that the
    /// output is closed. Created by
    /// the first future that waits for it, and used only after the contents were locked, so that no change is missed.
    changed: OnceLock<Arc<Notify>>,
    /// The log level and the budgets of the session or, without one, of the connection.
    pub(crate) flow: Arc<FlowControl>,
}

impl Outbox {
    pub(crate) fn new(flow: Arc<FlowControl>) -> Self {
        Self { contents: Mutex::default(), changed: OnceLock::new(), flow }
    }

    /// Returns the number of calls whose responses will arrive here.
    pub(crate) fn call_count(&self) -> usize {
        self.contents().calls as usize
    }

    /// Becomes ready when there is something to [`drain`](Self::drain).
    pub(crate) fn poll_output(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.poll_contents(cx, false)
    }

    fn poll_contents(&self, cx: &mut TaskContext<'_>, waits_for_lines: bool) -> Poll<()> {
        let mut contents = self.contents();
        let is_empty = if waits_for_lines { contents.lines.is_empty() } else { contents.is_empty() };
        if !is_empty {
            return Poll::Ready(());
        }
        contents.waits_for_lines = waits_for_lines;
        match &mut contents.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => contents.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Counts a stream that carries the output to the client.
    pub(crate) fn open_reader(&self) {
        self.contents().readers += 1;
        self.notify_waiters();
    }

    /// Returns whether a stream carries the output to the client.
    pub(super) fn has_reader(&self) -> bool {
        self.contents().readers > 0
    }

    /// Waits until a stream carries the output to the client.
    pub(super) async fn until_read(&self) {
        self.until(|contents| contents.readers > 0).await;
    }

    async fn until(&self, is_due: impl Fn(&Contents) -> bool) {
        wait_until(self.changed(), || is_due(&self.contents()).then_some(())).await;
    }

    fn changed(&self) -> &Arc<Notify> {
        self.changed.get_or_init(Arc::default)
    }

    fn notify_waiters(&self) {
        if let Some(changed) = self.changed.get() {
            changed.notify_waiters();
        }
    }

    /// Closes the output: its session has ended, so its streams end once all of it is written. Drops later notifications.
    pub(crate) fn close(&self) {
        let mut contents = self.contents();
        contents.is_closed = true;
        contents.wake();
        drop(contents);
        self.notify_waiters();
    }

    /// Waits until the output is closed.
    pub(crate) async fn until_closed(&self) {
        self.until(|contents| contents.is_closed).await;
    }

    /// Counts a request to the client, which may outlive its call because its cancellation must still be sent.
    pub(super) fn open_question(&self) {
        self.contents().questions += 1;
    }

    /// Removes a request to the client from the count.
    pub(super) fn close_question(&self) {
        let mut contents = self.contents();
        contents.questions -= 1;
        contents.wake();
    }

    /// Counts a call.
    pub(super) fn open_call(&self) {
        self.contents().calls += 1;
    }

    /// Removes a call from the count, and adds the lines that `write` writes.
    pub(super) fn close_call(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut contents = self.contents();
        contents.calls -= 1;
        write(&mut contents.lines);
        contents.wake();
    }

    /// Records the class of the fault with which a call ends. Must precede the response.
    pub(super) fn set_fault(&self, fault: FaultClass) {
        self.contents().fault = Some(fault);
    }

    /// Counts a listener, and adds its acknowledgement.
    pub(super) fn open_listener(&self, acknowledgement: &[u8]) {
        let mut contents = self.contents();
        contents.listeners += 1;
        contents.lines.extend_from_slice(acknowledgement);
        contents.wake();
    }

    /// Removes a listener from the count, and adds the lines that `write` writes after the pending notifications.
    pub(super) fn close_listener(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut contents = self.contents();
        contents.listeners -= 1;
        contents.write_pending();
        write(&mut contents.lines);
        contents.wake();
    }

    /// Queues a subscription with pending notifications.
    pub(super) fn enqueue(&self, pending: Arc<dyn PendingNotifications>) {
        let mut contents = self.contents();
        // The subscription may have ended in the meantime.
        if pending.is_ended() {
            return;
        }
        contents.pending.push(pending);
        if !contents.waits_for_lines {
            contents.wake();
        }
        drop(contents);
        self.notify_waiters();
    }

    /// Removes subscriptions that have ended from the queue.
    pub(super) fn remove_ended(&self) {
        self.contents().pending.retain(|pending| !pending.is_ended());
    }

    /// Adds a notification. Returns `false` if it was dropped because the output is closed, or the client reads too slowly.
    pub(super) fn notify(&self, message: &[u8]) -> bool {
        self.notify_unless(|| false, message)
    }

    /// Adds a notification unless its call has ended. This is checked under the lock: a call is marked as ended before its
    /// response is added.
    fn notify_unless(&self, has_ended: impl FnOnce() -> bool, message: &[u8]) -> bool {
        let mut contents = self.contents();
        if contents.is_closed || has_ended() {
            return false;
        }
        if contents.lines.len() + message.len() > MAX_UNREAD_BYTES {
            let is_first = !std::mem::replace(&mut contents.has_dropped, true);
            drop(contents);
            Counter::DroppedNotifications.count();
            if is_first {
                tracing::warn!("dropping notifications: the client reads too slowly");
            }
            return false;
        }
        contents.push_line(message);
        true
    }

    /// Adds a message that must not be dropped. An empty outbox accepts a message of any size.
    ///
    /// # Errors
    ///
    /// If the outbox is full, returns a future that completes when the message can be offered again.
    pub(super) fn offer(&self, message: &[u8]) -> Result<(), tokio::sync::futures::OwnedNotified> {
        let mut contents = self.contents();
        if !contents.lines.is_empty() && contents.lines.len() + message.len() > MAX_UNREAD_BYTES {
            return Err(Arc::clone(self.changed()).notified_owned());
        }
        contents.push_line(message);
        Ok(())
    }

    /// Moves the contents into a buffer. Returns whether there were any.
    pub(crate) fn drain(&self, into: &mut Vec<u8>) -> bool {
        let mut contents = self.contents();
        if contents.is_empty() {
            return false;
        }
        contents.write_pending();
        self.take_lines(contents, into)
    }

    fn take_lines(&self, mut contents: MutexGuard<'_, Contents>, into: &mut Vec<u8>) -> bool {
        if contents.lines.is_empty() {
            return false;
        }
        contents.has_dropped = false;
        if into.is_empty() {
            std::mem::swap(into, &mut contents.lines);
        } else {
            into.append(&mut contents.lines);
        }
        contents.measure();
        self.notify_waiters();
        true
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the outbox is empty and, apart from pending notifications, will stay empty.
    pub(crate) fn is_finished(&self) -> bool {
        let contents = self.contents();
        // The end of a session has already cancelled its requests, even if nothing polls the code that waits for them.
        let has_questions = contents.questions > 0 && !contents.is_closed;
        contents.calls == 0 && contents.listeners == 0 && !has_questions && contents.lines.is_empty()
    }

    /// Returns whether every call and every listener has finished.
    pub(crate) fn is_complete(&self) -> bool {
        let contents = self.contents();
        contents.calls == 0 && contents.listeners == 0
    }

    /// Returns whether there is a listener, so that notifications may arrive at any time.
    pub(crate) fn is_listening(&self) -> bool {
        self.contents().listeners > 0
    }

    /// Returns whether a function has asked to close the SSE stream.
    pub(crate) fn is_close_requested(&self) -> bool {
        self.contents().close_after.is_some()
    }

    /// Takes the request of a function to close the SSE stream. Returns the time after which the client should
    /// reconnect.
    pub(crate) fn take_close_request(&self) -> Option<Duration> {
        self.contents().close_after.take()
    }

    /// Adds encoded lines.
    pub(crate) fn push(&self, lines: &[u8]) {
        let mut contents = self.contents();
        contents.lines.extend_from_slice(lines);
        contents.wake();
    }

    /// Becomes ready when there is something to [`drain`](Self::drain), or when every call has finished.
    pub(crate) fn poll_output_or_end(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let output = self.poll_output_or_close_request(cx);
        if self.call_count() == 0 { Poll::Ready(()) } else { output }
    }

    /// Becomes ready when there is something to [`drain`](Self::drain), or when a function asks to close the SSE
    /// stream.
    pub(crate) fn poll_output_or_close_request(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let output = self.poll_output(cx);
        if self.is_close_requested() { Poll::Ready(()) } else { output }
    }

    /// Returns the number of unread bytes.
    pub(crate) fn unread(&self) -> usize {
        self.contents().lines.len()
    }

    /// Adds the number of unread bytes to a meter, and keeps the meter up to date.
    pub(crate) fn set_meter(&self, meter: Meter) {
        let mut contents = self.contents();
        contents.metered = Some(meter.count(contents.lines.len()));
    }

    /// Wakes the task that waits for output.
    pub(crate) fn wake(&self) {
        self.contents().wake();
    }

    /// Removes a stream from the count.
    pub(crate) fn close_reader(&self) {
        self.contents().readers -= 1;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.contents().is_closed
    }

    /// Returns the class of the fault with which a call ended.
    pub(crate) fn fault(&self) -> Option<FaultClass> {
        self.contents().fault
    }

    /// Becomes ready when there are encoded lines.
    pub(crate) fn poll_lines(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.poll_contents(cx, true)
    }

    /// Waits until there are pending notifications, or the output is closed.
    pub(crate) async fn until_pending(&self) {
        self.until(|contents| contents.is_closed || !contents.pending.is_empty()).await;
    }

    /// Encodes the pending notifications at the end of a buffer. Leaves the lines.
    pub(crate) fn drain_pending(&self, into: &mut Vec<u8>) {
        // Written without the lock, under which a subscription queues itself.
        let pending = std::mem::take(&mut self.contents().pending);
        pending.iter().for_each(|pending| pending.write(into));
    }

    /// Moves the encoded lines into a buffer. Leaves pending notifications. Returns whether there were any lines.
    pub(crate) fn drain_lines(&self, into: &mut Vec<u8>) -> bool {
        self.take_lines(self.contents(), into)
    }
}

impl CallConnection for Outbox {
    fn notify(&self, message: &[u8], call: &CallLifetime) {
        self.notify_unless(|| call.has_ended(), message);
    }

    fn session_level(&self) -> Level {
        self.flow.level()
    }

    fn admits_log_message(&self) -> bool {
        self.flow.admits_log_message()
    }

    fn close_sse_stream(&self, retry: Duration) {
        let mut contents = self.contents();
        contents.close_after = Some(retry);
        contents.wake();
    }
}

debug!(Outbox, self, calls: self.call_count());

/// The maximum number of unread bytes in an outbox. Notifications beyond it are dropped; responses are not.
pub(super) const MAX_UNREAD_BYTES: usize = 1 << 20;

/// A source of notifications that are encoded only when the transport is ready for them.
pub(super) trait PendingNotifications: Send + Sync {
    /// Writes the pending notifications as lines, and clears them.
    fn write(&self, out: &mut Vec<u8>);

    /// Returns whether the subscription has ended, so that nothing more may be written.
    fn is_ended(&self) -> bool;
}

/// Counters of the unread bytes in several outboxes: a total, and optionally a part of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    total: Arc<AtomicUsize>,
    part: Option<Arc<AtomicUsize>>,
}

impl Meter {
    /// Returns a meter that also counts towards `part`.
    pub(crate) fn with_part(&self, part: &Arc<AtomicUsize>) -> Self {
        Self { total: Arc::clone(&self.total), part: Some(Arc::clone(part)) }
    }

    pub(crate) fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts bytes until the returned value is dropped.
    pub(crate) fn count(&self, bytes: usize) -> MeteredBytes {
        self.add(bytes);
        MeteredBytes { meter: self.clone(), bytes }
    }

    /// Adds a difference. A negative one wraps around.
    fn add(&self, bytes: usize) {
        for counter in [Some(&*self.total), self.part.as_deref()].into_iter().flatten() {
            counter.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// Bytes that count towards a [`Meter`].
#[derive(Debug)]
pub(crate) struct MeteredBytes {
    meter: Meter,
    bytes: usize,
}

impl MeteredBytes {
    /// Returns the number of bytes.
    pub(crate) fn get(&self) -> usize {
        self.bytes
    }

    /// Changes the number of bytes.
    pub(crate) fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes != before {
            self.meter.add(bytes.wrapping_sub(before));
        }
    }
}

impl Drop for MeteredBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The contents of an outbox, with its writers and its reader.
#[derive(Default)]
struct Contents {
    /// Encoded lines.
    lines: Vec<u8>,
    /// Subscriptions with pending notifications, each at most once. They are encoded when the transport drains the
    /// outbox.
    pending: Vec<Arc<dyn PendingNotifications>>,
    /// The number of calls whose responses will arrive here.
    calls: u32,
    /// The number of requests to the client that are neither answered nor withdrawn.
    questions: u32,
    /// The number of listeners whose responses will arrive here.
    listeners: u32,
    /// The number of streams that carry the output to the client.
    readers: u32,
    waker: Option<Waker>,
    /// Whether the waker waits for lines only.
    waits_for_lines: bool,
    /// The time after which the client should reconnect, if a function has asked to close the SSE stream.
    close_after: Option<Duration>,
    /// The class of the fault with which a call ended.
    fault: Option<FaultClass>,
    /// The unread bytes, if they count towards a meter.
    metered: Option<MeteredBytes>,
    /// Whether a notification was dropped since the transport last drained the outbox.
    has_dropped: bool,
    /// Whether the session that the output belongs to has ended.
    is_closed: bool,
}

impl Contents {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.pending.is_empty()
    }

    /// Encodes the pending notifications.
    fn write_pending(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            pending.write(&mut self.lines);
        }
    }

    fn push_line(&mut self, line: &[u8]) {
        self.lines.extend_from_slice(line);
        self.lines.push(b'\n');
        self.wake();
    }

    /// Counts the unread bytes. Every change of `lines` ends with this.
    fn measure(&mut self) {
        if let Some(metered) = &mut self.metered {
            metered.set(self.lines.len());
        }
    }

    fn wake(&mut self) {
        self.measure();
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::limits::SessionRates;

    impl Outbox {
        /// Creates the outbox of a session with the default rates.
        pub(crate) fn for_test() -> Arc<Self> {
            Arc::new(Self::new(Arc::new(FlowControl::new(&SessionRates::default()))))
        }

        /// Counts a call.
        pub(crate) fn begin_call(&self) {
            self.open_call();
        }

        /// Counts a request to the client.
        pub(crate) fn begin_question(&self) {
            self.open_question();
        }

        /// Finishes a call with its response.
        pub(crate) fn finish_call(&self, response: &str) {
            self.close_call(|out| out.extend_from_slice(format!("{response}\n").as_bytes()));
        }

        /// Returns the number of queued subscriptions.
        pub(in crate::engine) fn pending(&self) -> usize {
            self.contents().pending.len()
        }

        pub(in crate::engine) fn is_empty(&self) -> bool {
            self.contents().is_empty()
        }
    }

    struct Changed;

    impl PendingNotifications for Changed {
        fn write(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(b"changed\n");
        }

        fn is_ended(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_closed_outbox_buffers_no_notifications() {
        let outbox = Outbox::for_test();
        outbox.close();
        assert!(!outbox.notify(b"{}"));
        assert!(outbox.is_empty());
    }

    /// A function on another thread may have begun to send the notification before.
    #[test]
    fn no_notification_of_a_call_follows_its_end() {
        for end in [CallLifetime::cancel, CallLifetime::complete] {
            let (outbox, call) = (Outbox::for_test(), CallLifetime::default());
            CallConnection::notify(&*outbox, b"{}", &call);
            assert!(outbox.drain(&mut Vec::new()));
            end(&call);
            CallConnection::notify(&*outbox, b"{}", &call);
            assert!(outbox.is_empty());
        }
    }

    /// The first message may have any size.
    #[test]
    fn a_full_outbox_takes_no_offers() {
        let large = vec![b'x'; MAX_UNREAD_BYTES];
        for (first, second, is_taken) in [
            (&large[..], &b""[..], false),
            (&large[..8], &large[..MAX_UNREAD_BYTES - 9], true),
            (&large[..8], &large[..MAX_UNREAD_BYTES - 8], false),
        ] {
            let outbox = Outbox::for_test();
            assert!(outbox.offer(first).is_ok());
            assert_eq!(outbox.offer(second).is_ok(), is_taken, "{} and {} bytes", first.len(), second.len());
            outbox.drain(&mut Vec::new());
            assert!(outbox.offer(second).is_ok());
        }
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A stream ends once nothing more can arrive, which its reader must learn.
    #[test]
    fn a_reader_is_woken_when_the_last_question_ends() {
        let (outbox, woken) = (Outbox::for_test(), Arc::<Woken>::default());
        outbox.open_question();
        let waker = Waker::from(Arc::clone(&woken));
        assert!(outbox.poll_output(&mut TaskContext::from_waker(&waker)).is_pending());
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
        outbox.close_question();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn the_response_of_a_listener_follows_its_pending_notifications() {
        let outbox = Outbox::for_test();
        outbox.open_listener(b"acknowledged\n");
        outbox.enqueue(Arc::new(Changed));
        outbox.close_listener(|out| out.extend_from_slice(b"response\n"));
        let mut written = Vec::new();
        assert!(outbox.drain(&mut written));
        assert_eq!(String::from_utf8(written).unwrap(), "acknowledged\nchanged\nresponse\n");
    }
}
