use std::time::Duration;

/// An entry of the log of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    /// Nothing has happened, but the log must not expire.
    Alive,
    /// A message. The owner numbers its messages, so that one that was written twice is recognized.
    Message { number: u64, line: &'a [u8] },
    /// On the stream for messages that belong to no request: the replica that collected notifications has written all
    /// that were pending, for the response with this number.
    Flushed(u64),
    /// Every request of the stream has been answered or cancelled. Other messages may follow.
    Answered,
    /// The client should reconnect after this time.
    Close(Duration),
    /// The stream is complete. Whatever follows does not count.
    End,
    /// The owner is gone. Completes the stream, with this message unless every request has been answered.
    Lost(&'a [u8]),
}

const ALIVE: u8 = b'a';
const MESSAGE: u8 = b'm';
const ANSWERED: u8 = b'r';
const CLOSE: u8 = b'c';
const FLUSHED: u8 = b'f';
const END: u8 = b'e';
const LOST: u8 = b'l';

impl<'a> Entry<'a> {
    pub(super) fn encode(self) -> Vec<u8> {
        match self {
            Self::Alive => vec![ALIVE],
            Self::Message { number, line } => [&[MESSAGE], &number.to_be_bytes()[..], line].concat(),
            Self::Flushed(response) => [&[FLUSHED], &response.to_be_bytes()[..]].concat(),
            Self::Answered => vec![ANSWERED],
            Self::Close(retry) => {
                let millis = u64::try_from(retry.as_millis()).unwrap_or(u64::MAX);
                [&[CLOSE], &millis.to_be_bytes()[..]].concat()
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
                let (number, line) = rest.split_first_chunk()?;
                Self::Message { number: u64::from_be_bytes(*number), line }
            }
            FLUSHED => Self::Flushed(u64::from_be_bytes(*rest.first_chunk()?)),
            ANSWERED => Self::Answered,
            CLOSE => Self::Close(Duration::from_millis(u64::from_be_bytes(*rest.first_chunk()?))),
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
            Entry::Message { number: 0, line: b"" },
            Entry::Message { number: u64::MAX, line: b"{}" },
            Entry::Flushed(7),
            Entry::Answered,
            Entry::Close(Duration::from_millis(7)),
            Entry::End,
            Entry::Lost(b""),
            Entry::Lost(b"[]"),
        ] {
            assert_eq!(Entry::decode(&entry.encode()), Some(entry));
        }
    }

    #[test]
    fn unknown_and_truncated_entries_are_ignored() {
        for bytes in [&b""[..], b"m1234567", b"c", b"c1234567", b"?", b"\0"] {
            assert_eq!(Entry::decode(bytes), None, "{bytes:?}");
        }
    }
}
