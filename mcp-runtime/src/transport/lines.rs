//! Messages as lines over a pair of byte streams.
//!
//! See [stdio](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio).

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use memchr::memchr;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    time::Sleep,
};

use crate::{
    engine::{Connection, RequestIds},
    error::Fault,
    stdx::race,
};

/// The number of iterations of the loop after which the stop signal is polled again.
const ITERATIONS_PER_STOP_POLL: usize = 16;
/// The time after which responses are written even if more messages are available.
const MAX_RESPONSE_DELAY: Duration = Duration::from_millis(1);

/// Serves one connection until its input ends, its client no longer responds or `stop` completes, then waits for the
/// calls in flight.
///
/// # Errors
///
/// Returns the errors of the streams. A peer that disconnects is not an error.
pub(crate) async fn serve<R, W>(
    connection: Connection,
    reader: R,
    writer: W,
    stop: impl Future<Output = ()>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let unresponsive = connection.until_unresponsive();
    let stop = async {
        let (Ok(()) | Err(())) = race(stop, unresponsive).await;
    };
    let (mut stop, mut runtime_turn) = (pin!(stop), pin!(tokio::task::yield_now()));
    let mut transport = LineTransport {
        input: LineReader::default(),
        output: WriteBuffer::default(),
        connection,
        reader,
        writer,
        polls_stop: false,
        is_stopped: false,
        deadline: None,
    };
    let result = poll_fn(|cx| transport.poll(cx, stop.as_mut(), runtime_turn.as_mut())).await;
    transport.connection.end();
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// A connection with its byte streams and their buffers.
struct LineTransport<R, W> {
    connection: Connection,
    reader: R,
    writer: W,
    input: LineReader,
    output: WriteBuffer,
    /// Whether the stop signal is being polled yet.
    ///
    /// Registering signal handlers takes a considerable part of the startup time. If the client's first request has
    /// already arrived and calls no function, it is answered before the handlers are registered.
    polls_stop: bool,
    /// Whether the stop signal has been received.
    is_stopped: bool,
    /// The end of the grace period for calls in flight. Set when reading has ended.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> LineTransport<R, W> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        mut runtime_turn: Pin<&mut impl Future<Output = ()>>,
    ) -> Poll<io::Result<()>> {
        let mut iterations = 0_usize;
        loop {
            if self.polls_stop {
                // `stop` wakes this task, but streams that are always ready would keep this loop running.
                if !self.is_stopped
                    && iterations.is_multiple_of(ITERATIONS_PER_STOP_POLL)
                    && stop.as_mut().poll(cx).is_ready()
                {
                    self.is_stopped = true;
                    match &mut self.deadline {
                        None => self.start_grace(),
                        // The client has closed stdin and waits no longer for calls.
                        Some(deadline) if self.connection.outbox().call_count() > 0 => {
                            deadline.as_mut().reset(tokio::time::Instant::now());
                        }
                        Some(_) => {}
                    }
                }
                iterations += 1;
            }
            if self.deadline.is_some() {
                self.connection.in_flight().end_listeners();
            }
            let was_open = self.connection.session().is_some();
            let has_room = self.output.pending() < self.connection.engine().profile.limits.unread_bytes;
            let mut progress = has_room && self.process_input(cx)?;
            if self.output.write(&mut self.writer, cx)? {
                progress = true;
                self.extend_grace();
                if std::mem::take(&mut self.output.was_read) {
                    self.connection.record_sign_of_life();
                }
            }
            if self.connection.session().is_some() != was_open {
                self.output.flush(&mut self.writer, cx)?;
            }
            if progress {
                self.polls_stop = true;
                continue;
            }
            if !self.polls_stop {
                // Input that has already arrived is noticed only after the runtime has polled for events.
                if runtime_turn.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.polls_stop = true;
                continue;
            }
            self.output.flush(&mut self.writer, cx)?;
            if let Some(end) = self.poll_end(cx) {
                return end;
            }
            if !has_room || self.connection.outbox().poll_output(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Processes buffered lines, or reads more if there are none, and collects all output. Returns whether it made
    /// progress.
    fn process_input(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let start = self.output.buffer.len();
        // Lines buffered before the end of reading are still processed.
        let mut progress = self.process_lines(start);
        if !progress && self.deadline.is_none() {
            progress = self.read(cx)?;
            self.process_lines(start);
        }
        progress |= self.drain(start);
        if self.output.buffer.len() > start {
            self.output.compact();
        }
        Ok(progress)
    }

    /// Collects the output that has become available. Notifications of a function precede its response, so they are
    /// inserted before the responses, which begin at `start`.
    fn drain(&mut self, start: usize) -> bool {
        let output = &mut self.output.buffer;
        if output.len() == start {
            return self.connection.outbox().drain(output);
        }
        let mut earlier = Vec::new();
        if !self.connection.outbox().drain(&mut earlier) {
            return false;
        }
        earlier.extend_from_slice(&output[start..]);
        output.truncate(start);
        output.append(&mut earlier);
        true
    }

    /// Ends the connection when every response is written, or when the grace period expires. Returns `None` until then.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Option<Poll<io::Result<()>>> {
        let deadline = self.deadline.as_mut()?;
        let (calls, unread) = (self.connection.outbox().call_count(), self.output.pending());
        if calls == 0 && unread == 0 {
            return Some(Pin::new(&mut self.writer).poll_flush(cx));
        }
        if deadline.as_mut().poll(cx).is_pending() {
            return None;
        }
        if calls > 0 {
            tracing::warn!(calls, "shutdown grace period expired: cancelling calls in flight");
            self.connection.in_flight().fail_all(&Fault::shutting_down());
            self.start_grace();
            cx.waker().wake_by_ref();
            return None;
        }
        let why = format!("the client did not read {unread} bytes of responses in time");
        Some(Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why))))
    }

    /// Ends reading and starts the grace period of the calls in flight.
    fn start_grace(&mut self) {
        let grace = self.connection.engine().profile.limits.grace_period;
        self.deadline = Some(Box::pin(tokio::time::sleep(grace)));
    }

    /// Restarts the grace period after a successful write once no call is in flight, so that a slow reader receives
    /// every response.
    fn extend_grace(&mut self) {
        if self.deadline.is_some() && self.connection.outbox().call_count() == 0 {
            self.start_grace();
        }
    }

    /// Processes buffered lines until their responses, which begin at `start`, should be written. Returns whether there
    /// were any lines.
    ///
    /// An `initialize` request is processed alone: no function delays its response, and no output of a function
    /// precedes it.
    fn process_lines(&mut self, start: usize) -> bool {
        let limit = self.connection.engine().profile.limits.message_bytes;
        if !self.polls_stop && self.input.peek().is_some_and(|line| !self.connection.is_handshake_request(line)) {
            self.polls_stop = true;
            return true;
        }
        let was_open = self.connection.session().is_some();
        let mut first = None;
        while let Some(line) = self.input.next(limit) {
            let (began, now) = match first {
                Some(began) => (began, self.connection.time().max(began)),
                None => {
                    let now = Instant::now();
                    (*first.insert(now), now)
                }
            };
            receive(&mut self.connection, line, now, &mut self.output.buffer);
            // Only calls take long, and the connection reads the clock after each.
            let elapsed = || self.connection.time().saturating_duration_since(began);
            if self.input.is_empty()
                || self.output.buffer.len() - start > CHUNK
                || !self.polls_stop
                || self.connection.session().is_some() != was_open
                || elapsed() > MAX_RESPONSE_DELAY
            {
                break;
            }
        }
        first.is_some()
    }

    /// Reads available input. Returns whether there was any, or whether the input ended.
    fn read(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let limit = self.connection.engine().profile.limits.message_bytes;
        match self.input.poll_read(&mut self.reader, limit, cx) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(0)) => {
                if let Some(line) = self.input.last(limit) {
                    receive(&mut self.connection, line, Instant::now(), &mut self.output.buffer);
                }
                self.connection.end_questions();
                self.start_grace();
                Ok(true)
            }
            Poll::Ready(Ok(_)) => Ok(true),
        }
    }
}

fn receive(connection: &mut Connection, line: Line<'_>, now: Instant, out: &mut Vec<u8>) {
    match line {
        Line::Complete(line) => {
            let line = line.trim_ascii();
            if !line.is_empty() {
                connection.receive(line, now, &mut RequestIds::default(), out);
            }
        }
        Line::TooLong => connection.reject_oversized(out),
    }
}

/// The number of bytes read at a time.
const CHUNK: usize = 64 << 10;
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
struct LineReader {
    buffer: Vec<u8>,
    start: usize,
    /// `buffer[start..scanned]` contains no newline.
    scanned: usize,
    /// Whether the current line is too long, so that the rest of it is discarded.
    skipping: bool,
    shrink: ShrinkPolicy,
}

/// A line of input, without its newline.
enum Line<'a> {
    Complete(&'a [u8]),
    TooLong,
}

impl LineReader {
    /// Returns whether all input has been processed.
    fn is_empty(&self) -> bool {
        self.start == self.buffer.len()
    }

    /// Returns the next line without consuming it.
    fn peek(&self) -> Option<&[u8]> {
        let length = memchr(b'\n', &self.buffer[self.scanned..])?;
        Some(&self.buffer[self.start..self.scanned + length])
    }

    /// Consumes the next line. A line of more than `limit` bytes is too long.
    fn next(&mut self, limit: usize) -> Option<Line<'_>> {
        let Some(length) = memchr(b'\n', &self.buffer[self.scanned..]) else {
            self.scanned = self.buffer.len();
            return None;
        };
        let (from, to) = (self.start, self.scanned + length);
        self.start = to + 1;
        self.scanned = self.start;
        Some(self.line(from, to, limit))
    }

    /// Consumes the unterminated line at the end of the input.
    fn last(&mut self, limit: usize) -> Option<Line<'_>> {
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
    fn poll_read(
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
struct WriteBuffer {
    buffer: Vec<u8>,
    written: usize,
    /// Whether written bytes may still be in the writer's own buffer.
    unflushed: bool,
    /// Whether the writer accepts nothing until its peer reads.
    is_blocked: bool,
    /// Whether the peer has made room for output that was waiting. The user resets it.
    was_read: bool,
    shrink: ShrinkPolicy,
}

impl WriteBuffer {
    /// Returns the number of bytes not written yet.
    fn pending(&self) -> usize {
        self.buffer.len() - self.written
    }

    /// Discards written output if that is cheap. Must be called when output has been appended: a client that always has a
    /// request in flight may never let the buffer run empty.
    fn compact(&mut self) {
        // The unwritten rest is moved only if it is shorter than the written part. It is not moved while nothing is
        // appended, so a long response is not moved at all.
        if self.written > self.pending() {
            self.buffer.drain(..self.written);
            self.written = 0;
        }
    }

    /// Writes as much as the writer accepts without waiting. Returns whether it accepted anything.
    fn write(&mut self, writer: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> io::Result<bool> {
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

    /// Flushes the writer once everything is written.
    fn flush(&mut self, writer: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> io::Result<()> {
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
    use std::{sync::Arc, task::Waker};

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

    /// Wait for ever.
    #[crate::tool]
    async fn waits() {
        std::future::pending().await
    }

    /// A client closes stdin, waits for a while, and then sends a signal.
    #[tokio::test(start_paused = true)]
    async fn a_signal_after_the_end_of_the_input_ends_the_calls() {
        let server = crate::Server::empty("waiting", "1.0.0").with::<waits>().build().unwrap();
        let call = call("waits");
        for (signal_after, expected) in [(2, 2), (60, 5)] {
            let (started, mut output) = (tokio::time::Instant::now(), Vec::new());
            let stop = tokio::time::sleep(Duration::from_secs(signal_after));
            let connection = Connection::new(Arc::clone(server.engine()));
            serve(connection, call.as_bytes(), &mut output, stop).await.unwrap();
            assert_eq!(started.elapsed().as_secs(), expected);
            assert!(String::from_utf8(output).unwrap().contains(r#""error""#));
        }
    }

    /// Say something long.
    #[crate::tool]
    fn speaks() -> String {
        "x".repeat(10_000)
    }

    /// The client reads slowly, and still reads after its signal.
    #[tokio::test(start_paused = true)]
    async fn a_signal_after_the_end_of_the_input_loses_no_response() {
        let server = crate::Server::empty("speaking", "1.0.0").with::<speaks>().build().unwrap();
        let call = call("speaks");
        let (writer, mut reader) = tokio::io::duplex(100);
        let connection = Connection::new(Arc::clone(server.engine()));
        let stop = tokio::time::sleep(Duration::from_secs(1));
        let read = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let mut text = String::new();
            reader.read_to_string(&mut text).await.map(|_| text)
        };
        let (served, read) = tokio::join!(serve(connection, call.as_bytes(), writer, stop), read);
        served.unwrap();
        assert!(read.unwrap().len() > 10_000);
    }

    fn call(tool: &str) -> String {
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","_meta":{meta}}}}}"#)
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
