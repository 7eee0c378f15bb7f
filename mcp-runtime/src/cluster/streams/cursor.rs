use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::log::{Entry, EventHeader, RUNNING_TTL};
use crate::{
    backend::{BackendError, LogEntry, RecordCondition, RecordVersion, with_timeout},
    cluster::{Replica, Slot},
    transport::http::sse::events::StreamItem,
};

/// A position in the log of a stream, and what is known about the entries up to it. Every reader of a log sees the same
/// events.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    at: u64,
    /// The header of the last event.
    header: EventHeader,
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
        self.header.is_answered = false;
        self.has_ended = false;
    }

    /// Moves to the next entry, and returns its event if there is one that was not seen before.
    pub(super) fn accept(&mut self, entry: &LogEntry) -> Option<StreamItem> {
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
            Entry::Lost(message) => {
                self.has_ended = true;
                let line = Bytes::copy_from_slice(message);
                (!self.header.is_answered && !line.is_empty()).then_some(StreamItem::Event { position, line })
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

/// Where a client reads the messages of its session that belong to no request, as the backend keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReaderRecord {
    /// The replica that has opened the stream.
    pub(crate) slot: Slot,
    /// The position of the last message that the client was sent.
    pub(crate) position: u64,
    /// Whether the stream was open when its replica was last heard of.
    pub(crate) is_open: bool,
}

impl ReaderRecord {
    /// Returns the key of the record of a session.
    pub(crate) fn key(session: &str) -> String {
        format!("mcp/1/reader/{session}")
    }

    /// Reads the record of a session.
    pub(crate) async fn load(replica: &Replica, session: &str) -> Result<Option<Self>, BackendError> {
        let record = with_timeout(replica.backend().get(&Self::key(session))).await?;
        Ok(record.and_then(|record| serde_json::from_slice(&record.value).ok()))
    }

    /// Returns whether a replica that is alive has opened the stream of a session.
    pub(crate) async fn is_read(replica: &Replica, session: &str) -> Result<bool, BackendError> {
        match Self::load(replica, session).await? {
            Some(record) if record.is_open => replica.is_alive(record.slot).await,
            _ => Ok(false),
        }
    }

    pub(crate) fn encode(self) -> Vec<u8> {
        // Fails only for maps with keys that are not strings.
        serde_json::to_vec(&self).unwrap_or_default()
    }
}

/// The record of the response that carries the stream of a session for messages that belong to no request.
#[derive(Debug)]
pub(super) struct Reader {
    replica: Arc<Replica>,
    key: String,
    record: ReaderRecord,
    version: Option<RecordVersion>,
}

/// A reader is known for as long as its stream is.
const TTL: Duration = RUNNING_TTL;

impl Reader {
    /// Records a response, which replaces any other.
    pub(super) async fn open(
        replica: &Arc<Replica>,
        session: &str,
        record: ReaderRecord,
    ) -> Result<Self, BackendError> {
        let mut reader = Self { replica: Arc::clone(replica), key: ReaderRecord::key(session), record, version: None };
        reader.version = reader.write(RecordCondition::Always).await?;
        Ok(reader)
    }

    /// Postpones the time at which the record expires, unless another response has replaced this one.
    pub(super) async fn renew(&mut self, position: u64) {
        let Some(version) = self.version else { return };
        self.record.position = position;
        match self.write(RecordCondition::Version(version)).await {
            Ok(version) => self.version = version,
            Err(error) => tracing::debug!(%error, "cannot renew the record of an event stream"),
        }
    }

    /// Records that the response has ended, unless another one has replaced it.
    pub(super) async fn close(mut self, position: u64) {
        self.record.is_open = false;
        self.renew(position).await;
    }

    async fn write(&self, condition: RecordCondition) -> Result<Option<RecordVersion>, BackendError> {
        with_timeout(self.replica.backend().set(&self.key, condition, self.record.encode(), TTL)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::LogPosition;

    fn message(number: u64) -> Vec<u8> {
        message_with(EventHeader { number, is_answered: false })
    }

    fn message_with(header: EventHeader) -> Vec<u8> {
        let number = header.number;
        Entry::Message { header, line: format!("message {number}").as_bytes() }.encode()
    }

    #[test]
    fn every_reader_sees_each_event_once() {
        let lost = || Entry::Lost(b"lost").encode();
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
            // Messages that follow the last answer.
            (
                vec![message(1), answered, message_with(EventHeader { number: 2, is_answered: true }), lost()],
                vec!["1 message 1", "3 message 2"],
            ),
            (vec![message(1), b"?".to_vec(), Entry::Lost(b"").encode(), message(2)], vec!["1 message 1"]),
        ] {
            let entries: Vec<_> = (1..)
                .zip(&entries)
                .map(|(position, entry)| LogEntry::new(LogPosition::new(position), entry.as_slice()))
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
            // A reader that continues after any event sees all later ones.
            for (index, (position, _)) in all.iter().enumerate() {
                assert_eq!(read(Cursor::new(position - 1)), all[index..], "{expected:?}");
            }
        }
    }
}
