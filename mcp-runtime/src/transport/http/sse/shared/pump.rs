use std::{future::poll_fn, sync::Arc, task::Poll};

use tokio::time::{Instant, timeout, timeout_at};

use super::{
    calls::StreamCalls,
    context::StreamContext,
    entry::Entry,
    feed::{Closed, Feed},
    item::StreamItem,
    log::StreamLog,
    retry::persist_unless_full,
    writer::{Progress, Unwritable, Writer},
};
use crate::{
    backend::BACKEND_TIMEOUT, engine::Outbox, race::race, revision::Dialect, transport::http::sse::stream::StreamMemory,
};

/// Moves the messages of a stream from its outbox to its log, and then to the response of the call as long as that
/// exists.
///
/// While the backend fails, no event is sent, and messages wait in the outbox, which drops notifications beyond its
/// limit. An event that a client has received can therefore be resumed from.
///
/// If the log cannot be created in time, or cannot be continued, the messages are sent without it, as events that
/// nobody can resume from.
pub(super) struct Pump {
    pub(super) context: Arc<StreamContext>,
    pub(super) session_id: Arc<str>,
    pub(super) dialect: &'static Dialect,
    pub(super) outbox: Arc<Outbox>,
    pub(super) calls: StreamCalls,
    /// The messages that the outbox no longer contains.
    pub(super) lines: Vec<u8>,
    pub(super) feed: Feed,
    pub(super) memory: StreamMemory,
}

impl Pump {
    /// Creates the log. Returns the id of the stream, its log, and the position of the last entry.
    async fn open(&self) -> Option<(u64, StreamLog, u64)> {
        let replica = &self.context.replica;
        let slot = persist_unless_full(|| replica.join()).await?;
        let stream = slot.id(self.context.next_number());
        let log = StreamLog::new(replica.backend(), &self.session_id, stream);
        let at = persist_unless_full(|| log.keep(&self.calls)).await?;
        Some((stream, log, at))
    }

    /// Runs until the stream is complete.
    pub(super) async fn run(self) {
        let opened = timeout(BACKEND_TIMEOUT, self.open()).await.ok().flatten();
        let mut lines = self.lines;
        let Some((stream, log, at)) = opened else {
            tracing::warn!("an event stream cannot be resumed: the backend is full or has failed");
            let _ = send_without_log(&self.outbox, &mut lines, &self.feed).await;
            return;
        };
        let mut writer = Writer::new(log, self.calls, at, self.feed);
        writer.feed(StreamItem::Opened { stream }).await;
        let written = loop {
            match writer.write(&self.outbox, &mut lines).await {
                Ok(Progress::Running) => {}
                result => break result,
            }
            // Output that never pauses must not prevent this.
            let waited = timeout_at(writer.keep_at, writer.output(&self.outbox)).await;
            if waited.is_err() || Instant::now() >= writer.keep_at {
                match writer.keep_alive().await {
                    Ok(Progress::Running) => {}
                    result => break result,
                }
            }
        };
        if let Err(Unwritable) = written {
            let sent = match &writer.feed {
                Some(feed) => send_without_log(&self.outbox, &mut lines, feed).await,
                None => Err(Closed),
            };
            if let Err(Closed) = sent {
                // Otherwise, clients that resume the stream at other replicas would wait until its log expires.
                let lost = writer.calls.lost(self.dialect);
                let _ = writer.log.complete(vec![Entry::Lost(&lost).encode()]).await;
            }
        }
        let bytes = writer.kept_bytes();
        self.context.retire((self.session_id, stream), bytes, &self.memory).await;
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
