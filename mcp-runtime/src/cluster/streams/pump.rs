use std::{future::poll_fn, sync::Arc, task::Poll};

use tokio::{sync::watch, time::timeout};

use super::{
    calls::StreamCalls,
    feed::{Closed, Feed},
    log::{StreamLog, persist_unless_full},
    streams::SharedStreams,
    writer::Writer,
};
use crate::transport::http::sse::events::StreamItem;
use crate::{
    backend::BACKEND_TIMEOUT, engine::Outbox, race::race, revision::Dialect, transport::http::sse::stream::StreamMemory,
};

/// Moves the messages of a stream from its outbox to its log, and then to the response of the call as long as that
/// exists.
///
/// While the backend fails for a few seconds, no event is sent, and messages wait in the outbox, which drops
/// notifications beyond its limit. A client can therefore resume the stream after any event that it has received.
///
/// If the backend fails for longer, or is full, messages are sent without ids, and clients cannot resume the stream
/// after these messages. The log receives them when the backend responds again, unless the log could not be created in
/// time.
pub(super) struct Pump {
    pub(super) context: Arc<SharedStreams>,
    pub(super) session_id: Arc<str>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) calls: StreamCalls,
    pub(super) dialect: &'static Dialect,
    /// The messages that the outbox no longer contains.
    pub(super) lines: Vec<u8>,
    pub(super) feed: Feed,
    pub(super) memory: StreamMemory,
    /// Delays the shutdown until the answers are written.
    pub(super) unwritten: watch::Receiver<()>,
}

impl Pump {
    /// Creates the log. Returns the id of the stream, its log, and the position of the last entry.
    async fn open(&self) -> Option<(u64, StreamLog, u64)> {
        let replica = &self.context.replica;
        let slot = persist_unless_full(|| replica.join()).await?;
        let stream = slot.id(self.context.next_number());
        let log = StreamLog::new(replica.backend(), &self.session_id, stream);
        persist_unless_full(|| log.record(&self.calls)).await?;
        let at = persist_unless_full(|| log.keep_alive(0)).await?.last().number();
        Some((stream, log, at))
    }

    /// Runs until the stream is complete.
    pub(super) async fn run(self) {
        let opened = timeout(BACKEND_TIMEOUT, self.open()).await.ok().flatten();
        let Self { outbox, calls, dialect, mut lines, feed, memory, unwritten, .. } = self;
        let Some((stream, log, at)) = opened else {
            tracing::warn!("an event stream cannot be resumed: the backend is full or has failed");
            let _ = send_without_log(&outbox, &mut lines, &feed).await;
            return;
        };
        let mut writer = Writer::new(log, calls, dialect, at, &memory, feed);
        writer.feed(StreamItem::Opened { stream }).await;
        let mut unwritten = Some(unwritten);
        while !writer.is_over() {
            writer.advance(&outbox, &mut lines).await;
            if writer.has_written_answers() {
                unwritten.take();
            }
        }
    }
}

/// Sends messages to a response as long as it exists, until every request has been answered.
async fn send_without_log(outbox: &Outbox, lines: &mut Vec<u8>, feed: &Feed) -> Result<(), Closed> {
    loop {
        let is_finished = outbox.is_finished();
        outbox.drain(lines);
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            feed.send(StreamItem::Message { line: line.to_vec().into() }).await?;
        }
        lines.clear();
        if is_finished {
            return feed.send(StreamItem::End).await;
        }
        let output = poll_fn(|cx| {
            let output = outbox.poll_output(cx);
            // Registered before the check, so that the end is not missed.
            if outbox.is_finished() { Poll::Ready(()) } else { output }
        });
        race(output, feed.closed()).await.map_err(|()| Closed)?;
    }
}
