use std::{
    future::poll_fn,
    sync::{Arc, Weak},
    task::Poll,
};

use tokio::time::Instant;

use super::{
    collector::Collector,
    context::StreamContext,
    entry::{Entry, Mark},
    events::{Resumption, SharedEvents},
    feed::Feed,
    general_response::GeneralResponse,
    item::GENERAL,
    local_entries::LocalEntries,
    log::StreamLog,
    log_use::LogUse,
    reader::{Reader, ReaderRecord},
    retry::persist,
};
use crate::{
    backend::{BackendError, respond},
    engine::Session,
    transport::http::sse::stream::StreamMemory,
};

/// The stream of a session for messages that belong to no request, as one replica sees it.
///
/// All replicas write their messages to one log. The response follows this log, whichever replica it is open on. The
/// [`Collector`] decides who writes notifications of changes.
#[derive(Debug)]
pub(in crate::transport::http) struct GeneralStream {
    context: Arc<StreamContext>,
    session: Weak<Session>,
    collector: Arc<Collector>,
    log: StreamLog,
    local: Arc<LocalEntries>,
    /// The budget that the log counts towards.
    memory: StreamMemory,
}

impl GeneralStream {
    /// Creates the stream, and starts to write its log until the session ends. `is_collector` is whether this replica
    /// has opened the session.
    pub(super) fn start(
        context: &Arc<StreamContext>,
        session_id: Arc<str>,
        session: &Arc<Session>,
        is_collector: bool,
        memory: StreamMemory,
    ) -> Arc<Self> {
        let log = StreamLog::new(context.replica.backend(), &session_id, GENERAL);
        let collector = Collector::new(session_id, &session.outbox, is_collector);
        let session = Arc::downgrade(session);
        let general =
            Arc::new(Self { context: Arc::clone(context), session, collector, log, local: Arc::default(), memory });
        tokio::spawn(Arc::clone(&general).write());
        general
    }

    /// Removes the logs of complete streams of the session, which has ended, as far as this replica has written them.
    pub(in crate::transport::http) fn remove_logs(&self) {
        self.context.remove_logs(self.collector.session_id());
    }

    /// Handles that a response at another replica carries the stream.
    pub(in crate::transport::http) fn moved_to(&self, response: u64) {
        self.collector.moved_to(response);
    }

    /// Opens the stream for a response, which begins after the event with a position. Without a position, it begins
    /// after the last event that an earlier response has carried. Any other response that carries the stream ends.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails, or takes too long for all operations together.
    pub(in crate::transport::http) async fn open(&self, position: Option<u64>) -> Result<Resumption, BackendError> {
        respond(self.try_open(position)).await
    }

    async fn try_open(&self, position: Option<u64>) -> Result<Resumption, BackendError> {
        let (replica, session_id) = (&self.context.replica, self.collector.session_id());
        let slot = replica.join().await?;
        let at = match position {
            Some(0) => 0,
            Some(at) => match self.log.read(at - 1).await? {
                Some(entries) if !entries.is_empty() => at,
                _ => return Ok(Resumption::Unknown),
            },
            None => Reader::load(replica, session_id).await?.map_or(0, |known| known.position),
        };
        let number = slot.id(self.context.next_number());
        let carriers = &self.context.carriers;
        // Registered before this replica becomes the collector: a late announcement of an earlier response would end that.
        let carrier = carriers.resume(session_id, GENERAL, number);
        let is_incomplete = self.collector.begin();
        let record = ReaderRecord { slot, position: at, is_open: true };
        let reader = Reader::open(replica, session_id, record).await?;
        carrier.announce().await?;
        let (feed, items) = Feed::new(at);
        let response = GeneralResponse {
            collector: Arc::clone(&self.collector),
            log: self.log.clone(),
            local: self.local.follow(),
            session: Weak::clone(&self.session),
            number,
            at,
            reader,
            complete_at: is_incomplete.then(|| Instant::now() + replica.lease()),
        };
        // From now on, messages are for this response. Its task may run later.
        self.collector.outbox().open_reader();
        tokio::spawn(response.run(feed));
        Ok(Resumption::Events(SharedEvents::resumed(carriers, session_id, GENERAL, items, carrier)))
    }

    /// Writes the messages that originate at this replica to the log.
    async fn write(self: Arc<Self>) {
        let (replica, collector, outbox) = (&self.context.replica, &self.collector, self.collector.outbox());
        let (mut lines, mut log_use) = (Vec::new(), LogUse::new(self.memory.clone()));
        loop {
            let is_closed = outbox.is_closed();
            let (flush_for, with_changes) = collector.take_flush();
            if with_changes {
                outbox.drain(&mut lines);
            } else {
                outbox.drain_lines(&mut lines);
            }
            let messages = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let mut entries = Vec::new();
            for line in messages {
                // If the replica gets no slot for too long, the messages are lost, as they are if the append below
                // fails.
                let Some(slot) = persist(|| replica.join()).await else { break };
                let number = slot.id(self.context.next_number());
                let mark = Mark { number, is_answered: false };
                entries.push(Entry::Message { mark, line }.encode());
            }
            lines.clear();
            entries.extend(flush_for.map(|number| Entry::Flushed(number).encode()));
            if !entries.is_empty() {
                collector.suspend_changes();
                // The messages are lost if the backend fails for too long, as they are if the client does not read.
                let max_bytes = log_use.max_bytes(entries.iter().map(Vec::len).sum(), None);
                if let Some(last) = persist(|| self.local.append(&self.log, &entries, max_bytes)).await {
                    log_use.append(last, entries.iter().map(Vec::len), max_bytes);
                }
                self.context.evict(&self.memory).await;
            }
            if is_closed {
                return;
            }
            poll_fn(|cx| {
                let output = if collector.writes_changes() { outbox.poll_output(cx) } else { outbox.poll_lines(cx) };
                // The waker is registered, so that no change is missed.
                if collector.must_flush() || outbox.is_closed() { Poll::Ready(()) } else { output }
            })
            .await;
        }
    }
}
