//! The output of a connection, or of an HTTP response stream, until the transport takes it.

mod contents;
#[cfg(test)]
mod tests;

pub(super) use self::contents::{MAX_UNREAD_BYTES, PendingNotifications};

use std::{
    sync::{Arc, PoisonError},
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use contents::{Contents, LockedContents};
use tokio::sync::{Notify, SetOnce, futures::OwnedNotified};

#[cfg(feature = "http")]
use crate::engine::limits::Meter;
use crate::{
    engine::{rates::FlowControl, sync::Mutex},
    error::FaultClass,
    handler::CallConnection,
    model::Level,
};

/// Encoded messages that are waiting for the transport.
///
/// Responses are always accepted: their number is bounded by the limit on calls in flight, and the transport stops
/// reading requests while too much output is unread. Notifications are dropped beyond [`MAX_UNREAD_BYTES`].
pub(crate) struct Outbox {
    contents: Mutex<Contents>,
    /// The signal that the transport has taken the contents, or that it begins to read.
    drained: Arc<Notify>,
    /// Set when the session that the output belongs to has ended.
    closed: SetOnce<()>,
    flow: Arc<FlowControl>,
}

impl Outbox {
    pub(crate) fn new(flow: Arc<FlowControl>) -> Self {
        Self { contents: Mutex::default(), drained: Arc::default(), closed: SetOnce::new(), flow }
    }

    /// Returns the number of calls whose responses will arrive here.
    pub(crate) fn call_count(&self) -> usize {
        self.contents().calls
    }

    /// Returns whether the outbox is empty and, apart from pending notifications, will stay empty.
    #[cfg(feature = "http")]
    pub(crate) fn is_finished(&self) -> bool {
        let contents = self.contents();
        // The end of a session has already cancelled its requests, even if nothing polls the code that waits for them.
        let has_questions = contents.questions > 0 && !self.is_closed();
        contents.calls == 0 && contents.listeners == 0 && !has_questions && contents.lines.is_empty()
    }

    /// Returns whether every call and every listener has finished.
    #[cfg(feature = "http")]
    pub(crate) fn is_complete(&self) -> bool {
        let contents = self.contents();
        contents.calls == 0 && contents.listeners == 0
    }

    /// Returns whether there is a listener, so that notifications may arrive at any time.
    #[cfg(feature = "http")]
    pub(crate) fn is_listening(&self) -> bool {
        self.contents().listeners > 0
    }

    /// Returns whether a function has asked to close the SSE stream.
    #[cfg(feature = "http")]
    pub(crate) fn is_close_requested(&self) -> bool {
        self.contents().close_after.is_some()
    }

    /// Takes the request of a function to close the SSE stream. Returns the time after which the client should
    /// reconnect.
    #[cfg(feature = "http")]
    pub(crate) fn take_close_request(&self) -> Option<Duration> {
        self.contents().close_after.take()
    }

    /// Adds encoded lines.
    #[cfg(feature = "http")]
    pub(crate) fn push(&self, lines: &[u8]) {
        let mut contents = self.contents();
        contents.lines.extend_from_slice(lines);
        contents.wake();
    }

    /// Becomes ready when there is something to [`drain`](Self::drain).
    pub(crate) fn poll_output(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.poll_contents(cx, |contents| !contents.is_empty())
    }

    /// Becomes ready when there are encoded lines.
    #[cfg(all(feature = "cluster", feature = "http"))]
    pub(crate) fn poll_lines(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.poll_contents(cx, |contents| !contents.lines.is_empty())
    }

    fn poll_contents(&self, cx: &mut TaskContext<'_>, is_ready: impl FnOnce(&Contents) -> bool) -> Poll<()> {
        let mut contents = self.contents();
        if is_ready(&contents) {
            return Poll::Ready(());
        }
        match &mut contents.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => contents.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Becomes ready when there is something to [`drain`](Self::drain), or when every call has finished.
    #[cfg(feature = "http")]
    pub(crate) fn poll_output_or_end(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let output = self.poll_output_or_close_request(cx);
        if self.call_count() == 0 { Poll::Ready(()) } else { output }
    }

    /// Becomes ready when there is something to [`drain`](Self::drain), or when a function asks to close the SSE
    /// stream.
    #[cfg(feature = "http")]
    pub(crate) fn poll_output_or_close_request(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let output = self.poll_output(cx);
        if self.is_close_requested() { Poll::Ready(()) } else { output }
    }

    /// Returns the number of unread bytes.
    #[cfg(feature = "http")]
    pub(crate) fn unread(&self) -> usize {
        self.contents().lines.len()
    }

    /// Adds the number of unread bytes to a meter, and keeps the meter up to date.
    #[cfg(feature = "http")]
    pub(crate) fn set_meter(&self, meter: Meter) {
        self.contents().meter = Some(meter);
    }

    /// Wakes the task that waits for output.
    #[cfg(feature = "http")]
    pub(crate) fn wake(&self) {
        self.contents().wake();
    }

    /// Counts a stream that carries the output to the client.
    pub(crate) fn open_reader(&self) {
        self.contents().readers += 1;
        self.drained.notify_waiters();
    }

    /// Removes a stream from the count.
    #[cfg(feature = "http")]
    pub(crate) fn close_reader(&self) {
        self.contents().readers -= 1;
    }

    /// Returns whether a stream carries the output to the client.
    pub(in crate::engine) fn has_reader(&self) -> bool {
        self.contents().readers > 0
    }

    /// Waits until a stream carries the output to the client.
    pub(in crate::engine) async fn until_read(&self) {
        loop {
            // Registered before the check, so that no change is missed.
            let changed = self.drained.notified();
            if self.has_reader() {
                return;
            }
            changed.await;
        }
    }

    /// Closes the output: its session has ended, so its streams end once all of it is written.
    pub(crate) fn close(&self) {
        // Only the first time matters.
        let _ = self.closed.set(());
        self.contents().wake();
    }

    #[cfg(feature = "http")]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.initialized()
    }

    /// Waits until the output is closed.
    pub(crate) async fn until_closed(&self) {
        self.closed.wait().await;
    }

    /// Counts a request to the client, which may outlive its call because its cancellation must still be sent.
    pub(in crate::engine) fn open_question(&self) {
        self.contents().questions += 1;
    }

    /// Removes a request to the client from the count.
    pub(in crate::engine) fn close_question(&self) {
        let mut contents = self.contents();
        contents.questions -= 1;
        contents.wake();
    }

    /// Counts a call.
    pub(in crate::engine) fn open_call(&self) {
        self.contents().calls += 1;
    }

    /// Removes a call from the count, and adds the lines that `write` writes.
    pub(in crate::engine) fn close_call(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut contents = self.contents();
        contents.calls -= 1;
        write(&mut contents.lines);
        contents.wake();
    }

    /// Records the class of the fault with which a call ends. Must precede the response.
    pub(in crate::engine) fn set_fault(&self, fault: FaultClass) {
        self.contents().fault = Some(fault);
    }

    /// Returns the class of the fault with which a call ended.
    #[cfg(feature = "http")]
    pub(crate) fn fault(&self) -> Option<FaultClass> {
        self.contents().fault
    }

    /// Counts a listener, and adds its acknowledgement.
    pub(in crate::engine) fn open_listener(&self, acknowledgement: &[u8]) {
        let mut contents = self.contents();
        contents.listeners += 1;
        contents.lines.extend_from_slice(acknowledgement);
        contents.wake();
    }

    /// Removes a listener from the count, and adds the lines that `write` writes after the pending notifications.
    pub(in crate::engine) fn close_listener(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut contents = self.contents();
        contents.listeners -= 1;
        contents.write_pending();
        write(&mut contents.lines);
        contents.wake();
    }

    /// Queues a subscription with pending notifications.
    pub(in crate::engine) fn enqueue(&self, pending: Arc<dyn PendingNotifications>) {
        let mut contents = self.contents();
        // The subscription may have ended in the meantime.
        if !pending.is_ended() {
            contents.pending.push(pending);
            contents.wake();
        }
    }

    /// Removes subscriptions that have ended from the queue.
    pub(in crate::engine) fn remove_ended(&self) {
        self.contents().pending.retain(|pending| !pending.is_ended());
    }

    /// Adds a message that must not be dropped. An empty outbox accepts a message of any size.
    ///
    /// # Errors
    ///
    /// If the outbox is full, returns a future that completes when the message can be offered again.
    pub(in crate::engine) fn offer(&self, message: &[u8]) -> Result<(), OwnedNotified> {
        let mut contents = self.contents();
        if !contents.lines.is_empty() && contents.lines.len() + message.len() > MAX_UNREAD_BYTES {
            return Err(Arc::clone(&self.drained).notified_owned());
        }
        contents.push_line(message);
        Ok(())
    }

    /// Moves the contents into a buffer. Returns whether there were any.
    pub(crate) fn drain(&self, into: &mut Vec<u8>) -> bool {
        let mut contents = self.contents();
        contents.write_pending();
        self.take_lines(contents, into)
    }

    /// Moves the encoded lines into a buffer. Leaves pending notifications. Returns whether there were any lines.
    #[cfg(all(feature = "cluster", feature = "http"))]
    pub(crate) fn drain_lines(&self, into: &mut Vec<u8>) -> bool {
        self.take_lines(self.contents(), into)
    }

    fn take_lines(&self, mut contents: LockedContents<'_>, into: &mut Vec<u8>) -> bool {
        if contents.lines.is_empty() {
            return false;
        }
        contents.has_dropped = false;
        if into.is_empty() {
            std::mem::swap(into, &mut contents.lines);
        } else {
            into.append(&mut contents.lines);
        }
        self.drained.notify_waiters();
        true
    }

    fn contents(&self) -> LockedContents<'_> {
        LockedContents(self.contents.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CallConnection for Outbox {
    fn notify(&self, message: &[u8]) -> bool {
        let mut contents = self.contents();
        if contents.lines.len() + message.len() > MAX_UNREAD_BYTES {
            let is_first = !std::mem::replace(&mut contents.has_dropped, true);
            drop(contents);
            if is_first {
                tracing::warn!("dropping notifications: the client reads too slowly");
            }
            return false;
        }
        contents.push_line(message);
        true
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

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("calls", &self.call_count()).finish_non_exhaustive()
    }
}
