//! Buffers for lines, whose memory shrinks after a peak.

use std::{
    io,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

/// The number of bytes read at a time.
pub(super) const CHUNK: usize = 64 << 10;
/// The capacity up to which an empty buffer keeps its memory.
const KEPT_CAPACITY: usize = 1 << 20;
/// The number of consecutive small fills after which a buffer releases its memory.
const SMALL_FILLS: u8 = 16;

/// The policy that decides whether an emptied buffer keeps its memory: it does if it has recently held a lot of data.
#[derive(Debug, Default)]
struct ShrinkPolicy {
    /// How many times in a row the buffer held no more than [`KEPT_CAPACITY`] when it was emptied.
    small_fills: u8,
}

impl ShrinkPolicy {
    fn clear(&mut self, buffer: &mut Vec<u8>) {
        if buffer.is_empty() {
            return;
        }
        self.small_fills = if buffer.len() > KEPT_CAPACITY { 0 } else { self.small_fills.saturating_add(1) };
        buffer.clear();
        if self.small_fills >= SMALL_FILLS && buffer.capacity() > KEPT_CAPACITY {
            *buffer = Vec::new();
        }
    }
}

/// A buffer that splits input into lines. The unprocessed input is `buffer[start..]`.
#[derive(Debug, Default)]
pub(super) struct LineReader {
    buffer: Vec<u8>,
    start: usize,
    /// `buffer[start..scanned]` contains no newline.
    scanned: usize,
    /// Whether the current line is too long, so that the rest of it is discarded.
    skipping: bool,
    shrink: ShrinkPolicy,
}

/// A line of input, without its newline.
pub(super) enum Line<'a> {
    Complete(&'a [u8]),
    TooLong,
}

impl LineReader {
    /// Returns the next line without consuming it.
    pub(super) fn peek(&self) -> Option<&[u8]> {
        let length = memchr(b'\n', &self.buffer[self.scanned..])?;
        Some(&self.buffer[self.start..self.scanned + length])
    }

    /// Consumes the next line. A line of more than `limit` bytes is too long.
    pub(super) fn next(&mut self, limit: usize) -> Option<Line<'_>> {
        let newline = memchr(b'\n', &self.buffer[self.scanned..]);
        let Some(length) = newline else {
            self.scanned = self.buffer.len();
            return None;
        };
        let (from, to) = (self.start, self.scanned + length);
        self.start = to + 1;
        self.scanned = self.start;
        Some(self.line(from, to, limit))
    }

    /// Consumes the unterminated line at the end of the input.
    pub(super) fn last(&mut self, limit: usize) -> Option<Line<'_>> {
        let (from, to) = (self.start, self.buffer.len());
        self.start = to;
        (self.skipping || from < to).then(|| self.line(from, to, limit))
    }

    fn line(&mut self, from: usize, to: usize, limit: usize) -> Line<'_> {
        if std::mem::take(&mut self.skipping) || to - from > limit {
            Line::TooLong
        } else {
            Line::Complete(&self.buffer[from..to])
        }
    }

    /// Reads available input and returns its length, which is 0 at the end of the input.
    pub(super) fn poll_read(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let unprocessed = self.buffer.len() - self.start;
        if unprocessed > limit {
            self.skipping = true;
        }
        if self.skipping || unprocessed == 0 {
            (self.start, self.scanned) = (0, 0);
            self.shrink.clear(&mut self.buffer);
        }
        if self.buffer.capacity() - self.buffer.len() < CHUNK {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
            // Growing by half instead of doubling bounds the unused part of the buffer of a long line.
            let length = self.buffer.len();
            self.buffer.reserve_exact(if length == 0 { CHUNK } else { (2 * CHUNK).max(length / 2) });
        }
        pin!(reader.read_buf(&mut self.buffer)).poll(cx)
    }
}

/// Output that the peer has not accepted yet: `buffer[written..]`.
#[derive(Debug, Default)]
pub(super) struct WriteBuffer {
    pub(super) buffer: Vec<u8>,
    written: usize,
    /// Whether written bytes may still be in the writer's own buffer.
    unflushed: bool,
    /// Whether the writer accepts nothing until its peer reads.
    is_blocked: bool,
    /// Whether the peer has read since the last call of `take_read`.
    was_read: bool,
    shrink: ShrinkPolicy,
}

impl WriteBuffer {
    /// Returns the number of bytes not written yet.
    pub(super) fn pending(&self) -> usize {
        self.buffer.len() - self.written
    }

    /// Discards written output if that is cheap. Must be called when output has been appended: a client that always has a
    /// request in flight may never let the buffer run empty.
    pub(super) fn compact(&mut self) {
        // The unwritten rest is moved only if it is shorter than the written part. It is not moved while nothing is
        // appended, so a long response is not moved at all.
        if self.written > self.pending() {
            self.buffer.drain(..self.written);
            self.written = 0;
        }
    }

    /// Writes as much as the writer accepts without waiting. Returns whether it accepted anything.
    pub(super) fn write(&mut self, writer: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> io::Result<bool> {
        if self.pending() == 0 {
            return Ok(false);
        }
        match Pin::new(writer).poll_write(cx, &self.buffer[self.written..]) {
            Poll::Pending => {
                self.is_blocked = true;
                return Ok(false);
            }
            Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(Ok(written)) => {
                self.written += written;
                self.unflushed = true;
                self.was_read |= std::mem::take(&mut self.is_blocked);
            }
            Poll::Ready(Err(error)) => return Err(error),
        }
        if self.pending() == 0 {
            self.written = 0;
            self.shrink.clear(&mut self.buffer);
        }
        Ok(true)
    }

    /// Returns whether the peer has made room for output that was waiting since the previous call.
    pub(super) fn take_read(&mut self) -> bool {
        std::mem::take(&mut self.was_read)
    }

    /// Flushes the writer once everything is written.
    pub(super) fn flush(&mut self, writer: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> io::Result<()> {
        if self.unflushed
            && self.pending() == 0
            && let Poll::Ready(flushed) = Pin::new(writer).poll_flush(cx)
        {
            flushed?;
            self.unflushed = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A writer that accepts at most this many bytes at a time.
    struct Throttled(usize);

    impl AsyncWrite for Throttled {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len().min(self.0)))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_peeked_line_is_the_next_line() {
        let (mut input, cx) = (LineReader::default(), &mut Context::from_waker(Waker::noop()));
        for piece in ["fir", "st\nsecond\n\nthi", "rd\n"] {
            assert!(input.poll_read(&mut piece.as_bytes(), 100, cx).is_ready());
            loop {
                let peeked = input.peek().map(<[u8]>::to_vec);
                let next = input.next(100).map(|line| match line {
                    Line::Complete(line) => line.to_vec(),
                    Line::TooLong => panic!("no line is longer than the limit"),
                });
                assert_eq!(peeked, next);
                if next.is_none() {
                    break;
                }
            }
        }
        assert_eq!(input.start, "first\nsecond\n\nthird\n".len());
    }

    /// However the input is split, each line is returned once, or reported once if it is longer than the limit.
    #[test]
    fn lines_do_not_depend_on_how_they_arrive() {
        const LIMIT: usize = 4;
        let mut random = 1_u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((random >> 33) % end).unwrap()
        };
        let shown = |line: Line<'_>| match line {
            Line::Complete(line) => Some(line.to_vec()),
            Line::TooLong => None,
        };
        for _ in 0..2000 {
            let text: Vec<u8> = (0..below(30)).map(|_| if below(5) == 0 { b'\n' } else { b'x' }).collect();
            let (mut input, mut rest, mut found) = (LineReader::default(), text.as_slice(), Vec::new());
            let cx = &mut Context::from_waker(Waker::noop());
            while !rest.is_empty() {
                let (mut piece, after) = rest.split_at((1 + below(9)).min(rest.len()));
                assert!(input.poll_read(&mut piece, LIMIT, cx).is_ready());
                rest = after;
                while let Some(line) = input.next(LIMIT) {
                    found.push(shown(line));
                }
            }
            assert!(input.poll_read(&mut &[][..], LIMIT, cx).is_ready());
            found.extend(input.last(LIMIT).map(shown));
            let mut lines: Vec<_> = text.split(|byte| *byte == b'\n').collect();
            lines.pop_if(|last| last.is_empty());
            let expected: Vec<_> = lines.iter().map(|line| (line.len() <= LIMIT).then(|| line.to_vec())).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn memory_is_released_after_enough_small_fills() {
        let (mut policy, mut buffer) = (ShrinkPolicy::default(), Vec::new());
        let mut fill = |buffer: &mut Vec<u8>, length: usize| {
            buffer.resize(length, b'x');
            policy.clear(buffer);
            assert!(buffer.is_empty());
        };
        for _ in 0..2 * SMALL_FILLS {
            fill(&mut buffer, KEPT_CAPACITY + 1);
            assert!(buffer.capacity() > KEPT_CAPACITY);
        }
        for _ in 1..SMALL_FILLS {
            fill(&mut buffer, KEPT_CAPACITY);
            assert!(buffer.capacity() > KEPT_CAPACITY);
        }
        // Clearing an empty buffer does not count.
        fill(&mut buffer, 0);
        assert!(buffer.capacity() > KEPT_CAPACITY);
        fill(&mut buffer, KEPT_CAPACITY);
        assert_eq!(buffer.capacity(), 0);
    }

    #[test]
    fn a_buffer_that_never_runs_empty_stays_small() {
        const RESPONSE: usize = 45_000;
        let (mut output, cx) = (WriteBuffer::default(), &mut Context::from_waker(Waker::noop()));
        output.buffer.resize(4 * RESPONSE, b'x');
        for _ in 0..1_000 {
            assert!(output.write(&mut Throttled(RESPONSE), cx).unwrap());
            output.buffer.extend_from_slice(&[b'x'; RESPONSE]);
            output.compact();
            assert_eq!(output.pending(), 4 * RESPONSE);
        }
        assert!(
            output.buffer.capacity() < 20 * RESPONSE,
            "{} bytes for {} pending",
            output.buffer.capacity(),
            output.pending()
        );
    }

    /// The beginning of a line that is too long is not kept.
    #[test]
    fn a_line_that_is_too_long_needs_little_memory() {
        let (mut input, cx) = (LineReader::default(), &mut Context::from_waker(Waker::noop()));
        for _ in 0..100 {
            assert!(input.poll_read(&mut &[b'x'; CHUNK][..], 100, cx).is_ready());
            assert!(input.next(100).is_none());
            assert!(input.buffer.capacity() <= 8 * CHUNK);
        }
        assert!(input.poll_read(&mut &b"\n"[..], 100, cx).is_ready());
        assert!(matches!(input.next(100), Some(Line::TooLong)));
    }
}
