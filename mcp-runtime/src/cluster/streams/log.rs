//! The log of a stream, its entries, and a cursor in it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use memchr::memchr;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

pub(super) use crate::cluster::replica::MAX_PAUSE;
use crate::{
    backend::{
        Append, Backend, BackendError, Backoff, EventLogEntry, LogBounds, LogPosition, RecordCondition, with_timeout,
    },
    counters::Warnings,
    engine::write_error,
    error::Fault,
    jsonrpc::Id,
    revision::Dialect,
    transport::http::{
        session::StreamCalls,
        sse::{
            events::StreamItem,
            stream::{MAX_LOGGED_BYTES, MAX_LOGGED_MESSAGES},
        },
    },
};

/// The time after its last entry at which the log of a running stream expires.
pub(super) const RUNNING_TTL: Duration = Duration::from_secs(10 * 60);

/// The time for which the log of a complete stream is kept for clients that may resume it.
pub(super) const ENDED_TTL: Duration = Duration::from_secs(5 * 60);

/// The maximum number of entries that are read at once.
pub(super) const PAGE: usize = 64;

/// The log of one stream.
#[derive(Debug, Clone)]
pub(super) struct StreamLog {
    backend: Arc<dyn Backend>,
    /// The key of the log, and of the record with the requests of the stream.
    key: Arc<str>,
}

impl StreamLog {
    pub(super) fn new(backend: &Arc<dyn Backend>, session: &str, stream: u64) -> Self {
        Self { backend: Arc::clone(backend), key: format!("mcp/1/stream/{session}/{stream}").into() }
    }

    /// Records the requests of a running stream, or postpones the time at which the record expires.
    pub(super) async fn record(&self, calls: &StreamCalls) -> Result<(), BackendError> {
        // Text can always be encoded.
        let value = serde_json::to_vec(calls).unwrap_or_default();
        with_timeout(self.backend.set(&self.key, RecordCondition::Always, value, RUNNING_TTL)).await.map(drop)
    }

    /// Appends entries to a log that ends at a position, and sets the time after which the log expires. The log then keeps
    /// at most `max_bytes`, or its newest entry if that is longer.
    pub(super) async fn append(
        &self,
        after: u64,
        entries: Vec<Vec<u8>>,
        max_bytes: usize,
        ttl: Duration,
    ) -> Result<Append, BackendError> {
        let bounds = LogBounds::new(MAX_LOGGED_MESSAGES, max_bytes, ttl);
        with_timeout(self.backend.append(&self.key, LogPosition::new(after), entries, bounds)).await
    }

    /// Postpones the time at which the log of a running stream expires, unless it has entries after a position.
    pub(super) async fn keep_alive(&self, after: u64) -> Result<Append, BackendError> {
        self.append(after, vec![Entry::Alive.encode()], MAX_LOGGED_BYTES, RUNNING_TTL).await
    }

    /// Appends the entries that complete a stream, like [`append`](Self::append).
    pub(super) async fn complete(
        &self,
        after: u64,
        entries: Vec<Vec<u8>>,
        max_bytes: usize,
    ) -> Result<Append, BackendError> {
        let append = self.append(after, entries, max_bytes, ENDED_TTL).await?;
        if matches!(append, Append::Appended(_)) {
            // Only a running stream can be lost. If this fails, the record expires.
            let _ = with_timeout(self.backend.delete(&self.key, RecordCondition::Always)).await;
        }
        Ok(append)
    }

    /// Completes a stream whose owner is gone, unless it has entries after a position. Drops no entries to limit their
    /// bytes, since the log may contain a long response.
    pub(super) async fn lose(&self, after: u64, line: &[u8]) -> Result<Append, BackendError> {
        self.complete(after, vec![Entry::Lost { line }.encode()], usize::MAX).await
    }

    /// Returns the next entries after a position. If some of them have been dropped, starts with the first one that is
    /// left. Returns `None` if there is no log.
    pub(super) async fn read(&self, after: u64) -> Result<Option<Vec<EventLogEntry>>, BackendError> {
        with_timeout(self.backend.read(&self.key, LogPosition::new(after), PAGE)).await
    }

    /// Waits until there is an entry after a position.
    pub(super) async fn appended(&self, after: u64) -> Result<(), BackendError> {
        self.backend.appended(&self.key, LogPosition::new(after)).await
    }

    /// Returns the requests of the stream. Returns `None` if the stream is complete, or if the backend has lost them.
    pub(super) async fn calls(&self) -> Result<Option<StreamCalls>, BackendError> {
        let record = with_timeout(self.backend.get(&self.key)).await?;
        Ok(record.and_then(|record| serde_json::from_slice(&record.value).ok()))
    }

    /// Deletes the log.
    pub(super) async fn remove(&self) -> Result<(), BackendError> {
        with_timeout(self.backend.remove(&self.key)).await
    }
}

/// Repeats an operation until it succeeds. Returns `None` if it fails for so long that the log expires, or with an error that
/// is not transient.
pub(super) async fn persist<T, F: Future<Output = Result<T, BackendError>>>(
    operation: impl Fn() -> F,
    is_transient: fn(&BackendError) -> bool,
) -> Option<T> {
    let give_up = Instant::now() + RUNNING_TTL;
    let mut backoff = Backoff::up_to(MAX_PAUSE);
    loop {
        match operation().await {
            Ok(value) => return Some(value),
            Err(error) if !is_transient(&error) || Instant::now() > give_up => {
                static WARNINGS: Warnings = Warnings::new();
                if WARNINGS.is_due() {
                    tracing::error!(%error, "event streams cannot be written to the backend");
                }
                return None;
            }
            Err(error) => tracing::debug!(%error, "cannot write an event stream to the backend"),
        }
        backoff.wait().await;
    }
}

/// An entry of the log of a stream: a line of JSON, which the message follows as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry<'a> {
    /// Nothing has happened, but the log must not expire.
    Alive,
    /// A message.
    Message {
        header: EventHeader,
        #[serde(skip)]
        line: &'a [u8],
    },
    /// Every request of the stream has been answered or cancelled. Other messages may follow.
    Answered,
    /// The client should reconnect after this time.
    Close { header: EventHeader, retry: Duration },
    /// The stream is complete. Later entries do not count.
    End,
    /// The owner is gone. Completes the stream, with this message unless every request has been answered.
    Lost {
        #[serde(skip)]
        line: &'a [u8],
    },
}

/// The start of an entry that is an event: what a reader needs to continue after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EventHeader {
    /// The number of the event, by which the owner recognizes an entry that was written by an append that seemed to
    /// fail. The id of the event contains the position of the entry instead.
    pub(super) number: u64,
    /// Whether every request of the stream was answered or cancelled before the event.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_answered: bool,
}

impl<'a> Entry<'a> {
    pub(super) fn encode(self) -> Vec<u8> {
        let line: &[u8] = match self {
            Self::Message { line, .. } | Self::Lost { line } => line,
            _ => b"",
        };
        // Numbers can always be encoded.
        [&serde_json::to_vec(&self).unwrap_or_default()[..], b"\n", line].concat()
    }

    /// Returns `None` for an entry that only a newer release understands.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let end = memchr(b'\n', bytes)?;
        let mut entry: Self = serde_json::from_slice(&bytes[..end]).ok()?;
        if let Self::Message { line, .. } | Self::Lost { line } = &mut entry {
            *line = &bytes[end + 1..];
        }
        Some(entry)
    }
}

/// The error of calls whose results are lost.
pub(super) const CALL_LOST: &str = "the call was lost, because the process that ran it is gone or could not store the \
                                    result: the function may have run, completely or in part";

/// The error of calls whose results the backend has no room for.
pub(super) const RESULT_TOO_LONG: &str = "the function has run, but its result is too long to be stored for a client \
                                          that has lost its connection";

impl StreamCalls {
    /// Encodes the responses of calls that have failed.
    pub(super) fn fail(&self, dialect: &'static Dialect, message: &'static str) -> Vec<u8> {
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

/// A position in the log of a stream, and what is known about the entries up to it. Every reader of a log sees the same
/// events.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    at: u64,
    /// The header of the last event.
    header: EventHeader,
    /// Whether every request was answered in entries that the log has lost.
    was_answered: bool,
    has_ended: bool,
}

impl Cursor {
    /// Creates a cursor that continues after a position.
    pub(super) fn new(at: u64) -> Self {
        Self { at, ..Self::default() }
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Returns the number of the last event.
    pub(super) fn number(&self) -> u64 {
        self.header.number
    }

    /// Returns whether the stream is complete.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Moves back to the end of a log that has lost its last entries, or all of them. Events that this cursor has seen
    /// are not repeated if they are found again.
    pub(super) fn rewind(&mut self, at: u64) {
        self.at = at;
        self.was_answered |= self.header.is_answered;
        self.header.is_answered = false;
    }

    /// Moves to the next entry, and returns its event if there is one that was not seen before.
    pub(super) fn accept(&mut self, entry: &EventLogEntry) -> Option<StreamItem> {
        let position = entry.position.number();
        if self.has_ended || position <= self.at {
            return None;
        }
        self.at = position;
        match Entry::decode(&entry.value)? {
            Entry::Message { header, .. } | Entry::Close { header, .. } if header.number <= self.header.number => {
                self.header.is_answered |= header.is_answered;
                None
            }
            Entry::Message { header, line } => {
                self.advance(header);
                Some(StreamItem::Event { position, line: Bytes::copy_from_slice(line) })
            }
            Entry::Close { header, retry } => {
                self.advance(header);
                Some(StreamItem::Close { position, retry })
            }
            Entry::Alive => None,
            Entry::Answered => {
                self.header.is_answered = true;
                None
            }
            Entry::End => {
                self.has_ended = true;
                None
            }
            Entry::Lost { line } => {
                self.has_ended = true;
                let line = Bytes::copy_from_slice(line);
                let is_answered = self.header.is_answered || self.was_answered;
                (!is_answered && !line.is_empty()).then_some(StreamItem::Event { position, line })
            }
        }
    }

    /// Returns whether an entry of the owner, or what it says, precedes the cursor.
    pub(super) fn contains(&self, entry: &[u8]) -> bool {
        match Entry::decode(entry) {
            Some(Entry::Message { header, .. } | Entry::Close { header, .. }) => header.number <= self.header.number,
            Some(Entry::Answered) => self.header.is_answered,
            Some(Entry::End) => self.has_ended,
            _ => true,
        }
    }

    fn advance(&mut self, header: EventHeader) {
        self.header = EventHeader { number: header.number, is_answered: self.header.is_answered | header.is_answered };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::{LogPosition, MemoryBackend},
        revision,
    };

    #[tokio::test]
    async fn a_reader_that_is_too_slow_continues_with_what_is_left() {
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::default());
        for written in [1, MAX_LOGGED_MESSAGES, MAX_LOGGED_MESSAGES + 1, 40 * MAX_LOGGED_MESSAGES + 7] {
            let log = StreamLog::new(&backend, "session", written as u64);
            assert!(log.read(0).await.unwrap().is_none(), "there is no log");
            for after in 0..written {
                log.keep_alive(after as u64).await.unwrap();
            }
            let first = written.saturating_sub(MAX_LOGGED_MESSAGES) as u64 + 1;
            for after in [0, first / 2, first, written as u64 - 1] {
                let entries = log.read(after).await.unwrap().unwrap();
                let expected = first.max(after + 1);
                let found = entries.first().map(|entry| entry.position.number());
                assert_eq!(found, (expected <= written as u64).then_some(expected), "{written} {after}");
            }
            for after in [written as u64, u64::from(u32::MAX), u64::MAX] {
                assert_eq!(log.read(after).await.unwrap(), Some(Vec::new()), "{written} {after}");
            }
        }
    }

    #[test]
    fn entries_survive_encoding() {
        for entry in [
            Entry::Alive,
            Entry::Message { header: EventHeader::default(), line: b"" },
            Entry::Message { header: EventHeader { number: u64::MAX, is_answered: true }, line: b"{}" },
            Entry::Answered,
            Entry::Close { header: EventHeader { number: 1, is_answered: true }, retry: Duration::from_millis(7) },
            Entry::End,
            Entry::Lost { line: b"" },
            Entry::Lost { line: b"[]\n" },
        ] {
            assert_eq!(Entry::decode(&entry.encode()), Some(entry));
        }
    }

    #[test]
    fn unknown_and_truncated_entries_are_ignored() {
        for bytes in [&b""[..], b"\"alive\"", b"{\"message\":{}}\n[]", b"{\"close\"\n", b"?\n", b"\"newer\"\n", b"\0"] {
            assert_eq!(Entry::decode(bytes), None, "{bytes:?}");
        }
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
            let calls = StreamCalls { ids: ids.iter().map(|id| (*id).to_owned()).collect(), is_batch };
            let calls: StreamCalls = serde_json::from_slice(&serde_json::to_vec(&calls).unwrap()).unwrap();
            let lost = calls.fail(revision::newest_handshake(), CALL_LOST);
            assert_eq!(String::from_utf8(lost).unwrap(), expected, "{ids:?}");
        }
    }

    fn message(number: u64) -> Vec<u8> {
        message_with(EventHeader { number, is_answered: false })
    }

    fn message_with(header: EventHeader) -> Vec<u8> {
        let number = header.number;
        Entry::Message { header, line: format!("message {number}").as_bytes() }.encode()
    }

    /// An append that seemed to fail may have taken effect.
    #[test]
    fn a_writer_recognizes_what_the_log_contains() {
        let mut cursor = Cursor::new(0);
        for number in 1..=2 {
            assert!(cursor.accept(&EventLogEntry::new(LogPosition::new(number), message(number).as_slice())).is_some());
        }
        assert_eq!([1, 2, 3].map(|number| cursor.contains(&message(number))), [true, true, false]);
    }

    /// The owner may be gone before it writes the answers again.
    #[test]
    fn a_log_that_has_lost_an_answer_is_not_answered_again() {
        let entry = |position, entry: Vec<u8>| EventLogEntry::new(LogPosition::new(position), entry);
        for is_answered in [false, true] {
            let mut cursor = Cursor::new(0);
            assert!(cursor.accept(&entry(1, message(1))).is_some());
            if is_answered {
                assert!(cursor.accept(&entry(2, Entry::Answered.encode())).is_none());
            }
            cursor.rewind(0);
            assert!(!cursor.contains(&Entry::Answered.encode()));
            let lost = cursor.accept(&entry(1, Entry::Lost { line: b"lost" }.encode()));
            assert_eq!(lost.is_none(), is_answered);
        }
    }

    #[test]
    fn every_reader_sees_each_event_once() {
        let lost = || Entry::Lost { line: b"lost" }.encode();
        let (alive, answered, end) = (Entry::Alive.encode(), Entry::Answered.encode(), Entry::End.encode());
        for (entries, expected) in [
            (
                vec![alive.clone(), message(1), alive.clone(), message(2), end.clone()],
                vec!["2 message 1", "4 message 2"],
            ),
            // Two readers that notice that the owner is gone, which is not gone yet.
            (vec![message(1), lost(), message(2), lost(), end.clone()], vec!["1 message 1", "2 lost"]),
            (vec![message(1), end.clone(), lost()], vec!["1 message 1"]),
            // A log that was written again.
            (
                vec![message(1), message(2), message(1), message(2), message(3)],
                vec!["1 message 1", "2 message 2", "5 message 3"],
            ),
            (vec![message(1), answered.clone(), lost(), message(2)], vec!["1 message 1"]),
            // A message that was written again, after the answers that its stream owes.
            (vec![message(1), message_with(EventHeader { number: 1, is_answered: true }), lost()], vec!["1 message 1"]),
            // Messages that follow the last answer.
            (
                vec![message(1), answered, message_with(EventHeader { number: 2, is_answered: true }), lost()],
                vec!["1 message 1", "3 message 2"],
            ),
            (vec![message(1), b"?".to_vec(), Entry::Lost { line: b"" }.encode(), message(2)], vec!["1 message 1"]),
        ] {
            let entries: Vec<_> = (1..)
                .zip(&entries)
                .map(|(position, entry)| EventLogEntry::new(LogPosition::new(position), entry.as_slice()))
                .collect();
            let read = |mut cursor: Cursor| {
                let mut seen = Vec::new();
                for entry in &entries {
                    if let Some(StreamItem::Event { position, line }) = cursor.accept(entry) {
                        seen.push((position, format!("{position} {}", String::from_utf8_lossy(&line))));
                    }
                    assert!(cursor.accept(entry).is_none(), "an entry counts once");
                }
                seen
            };
            let all = read(Cursor::new(0));
            assert_eq!(all.iter().map(|(_, text)| text).collect::<Vec<_>>(), expected);
            // A reader that continues after any event sees all later events.
            for (index, (position, _)) in all.iter().enumerate() {
                assert_eq!(read(Cursor::new(position - 1)), all[index..], "{expected:?}");
            }
        }
    }
}
