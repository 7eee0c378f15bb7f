//! Messages as lines over a pair of byte streams.
//!
//! See [stdio](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio).

mod buffer;

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use buffer::{CHUNK, Line, LineReader, WriteBuffer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Sleep,
};

use crate::{
    engine::{Connection, RequestIds},
    error::Fault,
    race::race,
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
                if self.deadline.is_none()
                    && iterations.is_multiple_of(ITERATIONS_PER_STOP_POLL)
                    && stop.as_mut().poll(cx).is_ready()
                {
                    self.start_grace();
                }
                iterations += 1;
            }
            if self.deadline.is_some() {
                self.connection.end_listeners();
            }
            let was_open = self.connection.is_open();
            let has_room = self.output.pending() < self.connection.engine().profile.limits.unread_bytes;
            let mut progress = has_room && self.process_input(cx)?;
            if self.output.write(&mut self.writer, cx)? {
                progress = true;
                self.extend_grace();
                if self.output.take_read() {
                    self.connection.record_read();
                }
            }
            if self.connection.is_open() != was_open {
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
            if !has_room || self.connection.poll_output(cx).is_pending() {
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
            return self.connection.drain(output);
        }
        let mut earlier = Vec::new();
        if !self.connection.drain(&mut earlier) {
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
        let (calls, unread) = (self.connection.in_flight(), self.output.pending());
        if calls == 0 && unread == 0 {
            return Some(Pin::new(&mut self.writer).poll_flush(cx));
        }
        if deadline.as_mut().poll(cx).is_pending() {
            return None;
        }
        if calls > 0 {
            tracing::warn!(calls, "shutdown grace period expired: cancelling calls in flight");
            self.connection.fail_all(&Fault::shutting_down());
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
        if self.deadline.is_some() && self.connection.in_flight() == 0 {
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
        let was_open = self.connection.is_open();
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
            let elapsed = self.connection.time().saturating_duration_since(began);
            if self.output.buffer.len() - start > CHUNK
                || elapsed > MAX_RESPONSE_DELAY
                || !self.polls_stop
                || self.connection.is_open() != was_open
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
