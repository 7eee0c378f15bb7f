use bytes::Bytes;

use super::log::{Entry, EventHeader};
use crate::{backend::EventLogEntry, transport::http::sse::events::StreamItem};

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
            Entry::Lost(message) => {
                self.has_ended = true;
                let line = Bytes::copy_from_slice(message);
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
    use crate::backend::LogPosition;

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
            let lost = cursor.accept(&entry(1, Entry::Lost(b"lost").encode()));
            assert_eq!(lost.is_none(), is_answered);
        }
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
            // A message that was written again, after the answers that its stream owes.
            (vec![message(1), message_with(EventHeader { number: 1, is_answered: true }), lost()], vec!["1 message 1"]),
            // Messages that follow the last answer.
            (
                vec![message(1), answered, message_with(EventHeader { number: 2, is_answered: true }), lost()],
                vec!["1 message 1", "3 message 2"],
            ),
            (vec![message(1), b"?".to_vec(), Entry::Lost(b"").encode(), message(2)], vec!["1 message 1"]),
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
