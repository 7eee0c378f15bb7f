use std::time::Duration;

/// An entry of the log of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    /// Nothing has happened, but the log must not expire.
    Alive,
    /// A message.
    Message { header: EventHeader, line: &'a [u8] },
    /// Every request of the stream has been answered or cancelled. Other messages may follow.
    Answered,
    /// The client should reconnect after this time.
    Close { header: EventHeader, retry: Duration },
    /// The stream is complete. Whatever follows does not count.
    End,
    /// The owner is gone. Completes the stream, with this message unless every request has been answered.
    Lost(&'a [u8]),
}

/// The start of an entry that is an event: what a reader needs to continue after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct EventHeader {
    /// The number of the event, by which the owner recognizes what an append that seemed to fail has written.
    pub(super) number: u64,
    /// Whether every request of the stream was answered or cancelled before the event.
    pub(super) is_answered: bool,
}

impl EventHeader {
    const LEN: usize = 9;

    fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [u8::from(self.is_answered); Self::LEN];
        bytes[1..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let ([is_answered], rest) = bytes.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        Some((Self { number: u64::from_be_bytes(*number), is_answered: *is_answered != 0 }, rest))
    }
}

const ALIVE: u8 = b'a';
const MESSAGE: u8 = b'm';
const ANSWERED: u8 = b'r';
const CLOSE: u8 = b'c';
const END: u8 = b'e';
const LOST: u8 = b'l';

impl<'a> Entry<'a> {
    pub(super) fn encode(self) -> Vec<u8> {
        match self {
            Self::Alive => vec![ALIVE],
            Self::Message { header, line } => [&[MESSAGE], &header.encode()[..], line].concat(),
            Self::Answered => vec![ANSWERED],
            Self::Close { header, retry } => {
                let millis = u64::try_from(retry.as_millis()).unwrap_or(u64::MAX);
                [&[CLOSE], &header.encode()[..], &millis.to_be_bytes()[..]].concat()
            }
            Self::End => vec![END],
            Self::Lost(message) => [&[LOST], message].concat(),
        }
    }

    /// Returns `None` for an entry that only a newer release understands.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        Some(match *kind {
            ALIVE => Self::Alive,
            MESSAGE => {
                let (header, line) = EventHeader::decode(rest)?;
                Self::Message { header, line }
            }
            ANSWERED => Self::Answered,
            CLOSE => {
                let (header, millis) = EventHeader::decode(rest)?;
                Self::Close { header, retry: Duration::from_millis(u64::from_be_bytes(*millis.first_chunk()?)) }
            }
            END => Self::End,
            LOST => Self::Lost(rest),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_encoding() {
        for entry in [
            Entry::Alive,
            Entry::Message { header: EventHeader::default(), line: b"" },
            Entry::Message { header: EventHeader { number: u64::MAX, is_answered: true }, line: b"{}" },
            Entry::Answered,
            Entry::Close { header: EventHeader { number: 1, is_answered: true }, retry: Duration::from_millis(7) },
            Entry::End,
            Entry::Lost(b""),
            Entry::Lost(b"[]"),
        ] {
            assert_eq!(Entry::decode(&entry.encode()), Some(entry));
        }
    }

    #[test]
    fn unknown_and_truncated_entries_are_ignored() {
        for bytes in [&b""[..], b"m12345678", b"c", b"c1234567812345678", b"?", b"\0"] {
            assert_eq!(Entry::decode(bytes), None, "{bytes:?}");
        }
    }
}
