//! Messages as lines over any pair of byte streams.
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

use crate::engine::Connection;

/// How much is read at once.
const CHUNK: usize = 64 << 10;
/// A buffer that grew beyond this is given back when it was not needed for a while.
const KEEP: usize = 1 << 20;
/// How often in a row a buffer held less than that when it was emptied, until it was not needed for a while.
const WHILE: u8 = 16;
/// How often something is done for the peer until it is asked again whether to stop.
const TURNS: usize = 16;
/// Answers that are ready go out after this time, even if more messages are waiting.
const PATIENCE: Duration = Duration::from_millis(1);

/// Serves one connection until its input ends or `stop` does, and what is in flight then is answered.
///
/// # Errors
///
/// Those of the streams, but for a peer that has gone: that is an end like any other.
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
    let (mut stop, mut pause) = (pin!(stop), pin!(tokio::task::yield_now()));
    let mut lines = Lines {
        inbox: Inbox { buffer: Vec::new(), start: 0, scanned: 0, skipping: false, thrift: Thrift::default() },
        outbox: Outbox { buffer: Vec::new(), written: 0, unflushed: false, thrift: Thrift::default() },
        fresh: Vec::new(),
        connection,
        reader,
        writer,
        hears_stop: false,
        ended: None,
    };
    let result = poll_fn(|cx| lines.poll(cx, stop.as_mut(), pause.as_mut())).await;
    lines.connection.cancel_all();
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

struct Lines<R, W> {
    connection: Connection,
    reader: R,
    writer: W,
    inbox: Inbox,
    outbox: Outbox,
    /// The answers to the lines that are being read.
    fresh: Vec<u8>,
    /// Whether it is asked if the connection is to stop. Making signals heard takes as long as a good part of the start does, so that a
    /// client's greeting is answered before, if it is there by now; but no function is called before.
    hears_stop: bool,
    /// Set when no more is read: until then calls in flight may go on.
    ended: Option<Pin<Box<Sleep>>>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Lines<R, W> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        mut pause: Pin<&mut impl Future<Output = ()>>,
    ) -> Poll<io::Result<()>> {
        let mut turns = 0_usize;
        loop {
            if self.hears_stop {
                // Whoever ends `stop` wakes this, so that looking once would do, if there were no streams that are always ready.
                if self.ended.is_none() && turns.is_multiple_of(TURNS) && stop.as_mut().poll(cx).is_ready() {
                    self.end();
                }
                turns += 1;
            }
            if self.ended.is_some() {
                self.connection.end_listeners();
            }
            let was_open = self.connection.is_open();
            let room = self.outbox.waiting() < self.connection.engine().limits.unread;
            let mut progress = false;
            if room {
                // What was read before the end is answered, but no more is read after it.
                progress = self.answer_lines();
                if !progress && self.ended.is_none() {
                    progress = self.read_more(cx)?;
                    self.answer_lines();
                }
                progress |= self.connection.drain(&mut self.outbox.buffer);
                self.outbox.push(&mut self.fresh);
            }
            if self.outbox.write(&mut self.writer, cx)? {
                progress = true;
                self.rest();
            }
            if self.connection.is_open() != was_open {
                self.outbox.flush(&mut self.writer, cx)?;
            }
            if progress {
                self.hears_stop = true;
                continue;
            }
            if !self.hears_stop {
                // What has come so far is seen only when the runtime has looked for it.
                if pause.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.hears_stop = true;
                continue;
            }
            self.outbox.flush(&mut self.writer, cx)?;
            if let Some(end) = self.poll_end(cx) {
                return end;
            }
            if !room || self.connection.poll_output(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Ends when everything is answered and written, or when that takes too long.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Option<Poll<io::Result<()>>> {
        let deadline = self.ended.as_mut()?;
        let (calls, unread) = (self.connection.in_flight(), self.outbox.waiting());
        if calls == 0 && unread == 0 {
            return Some(Pin::new(&mut self.writer).poll_flush(cx));
        }
        if deadline.as_mut().poll(cx).is_pending() {
            return None;
        }
        if calls > 0 {
            tracing::warn!(calls, "calls were given up at the end of the connection");
            self.connection.cancel_all();
            self.end();
            cx.waker().wake_by_ref();
            return None;
        }
        let why = format!("{unread} bytes of answers were not read by the client in time");
        Some(Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why))))
    }

    fn end(&mut self) {
        let grace = self.connection.engine().limits.grace;
        self.ended = Some(Box::pin(tokio::time::sleep(grace)));
    }

    /// Gives a peer that still reads more time, so that nothing that is finished is lost.
    fn rest(&mut self) {
        if self.ended.is_some() && self.connection.in_flight() == 0 {
            self.end();
        }
    }

    /// Answers the lines that are there, as long as it does not keep finished answers waiting. Nothing is answered beside an `initialize`
    /// that opens a session: no function can hold its answer up, and nothing that a function says comes before it.
    fn answer_lines(&mut self) -> bool {
        let limit = self.connection.engine().limits.message;
        if !self.hears_stop && self.inbox.peek_line().is_some_and(|line| !self.connection.is_introduction_request(line))
        {
            self.hears_stop = true;
            return true;
        }
        let was_open = self.connection.is_open();
        let mut first = None;
        while let Some(line) = self.inbox.next_line(limit) {
            let (began, now) = match first {
                Some(began) => (began, self.connection.time().max(began)),
                None => {
                    let now = Instant::now();
                    (*first.insert(now), now)
                }
            };
            match line {
                Line::Whole(line) => answer(&mut self.connection, line, now, &mut self.fresh),
                Line::Overlong => self.connection.reject_oversized(&mut self.fresh),
            }
            // Only a call takes long, and it has looked at the clock.
            let elapsed = self.connection.time().saturating_duration_since(began);
            if self.fresh.len() > CHUNK
                || elapsed > PATIENCE
                || !self.hears_stop
                || self.connection.is_open() != was_open
            {
                break;
            }
        }
        first.is_some()
    }

    fn read_more(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let limit = self.connection.engine().limits.message;
        match self.inbox.read(&mut self.reader, limit, cx) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(0)) if !self.hears_stop => {
                // What is left may be a call; the end will be there again.
                self.hears_stop = true;
                Ok(true)
            }
            Poll::Ready(Ok(0)) => {
                match self.inbox.last_line(limit) {
                    Some(Line::Whole(line)) => answer(&mut self.connection, line, Instant::now(), &mut self.fresh),
                    Some(Line::Overlong) => self.connection.reject_oversized(&mut self.fresh),
                    None => {}
                }
                self.end();
                Ok(true)
            }
            Poll::Ready(Ok(_)) => Ok(true),
        }
    }
}

fn answer(connection: &mut Connection, line: &[u8], now: Instant, out: &mut Vec<u8>) {
    let line = line.trim_ascii();
    if !line.is_empty() {
        connection.receive(line, now, out);
    }
}

/// Empties a buffer, and gives its memory back unless what it holds is often large.
#[derive(Default)]
struct Thrift {
    /// How often in a row the buffer held little.
    little: u8,
}

impl Thrift {
    fn empty(&mut self, buffer: &mut Vec<u8>) {
        if buffer.is_empty() {
            return;
        }
        self.little = if buffer.len() > KEEP { 0 } else { self.little.saturating_add(1) };
        buffer.clear();
        if self.little >= WHILE && buffer.capacity() > KEEP {
            *buffer = Vec::new();
        }
    }
}

/// What was read and not yet understood: `buffer[start..]`.
struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    /// Up to here there is no end of a line.
    scanned: usize,
    /// Whether the line that is being read is too long, so that its rest is thrown away.
    skipping: bool,
    thrift: Thrift,
}

enum Line<'a> {
    Whole(&'a [u8]),
    Overlong,
}

impl Inbox {
    /// The next line, if it is there, which stays there.
    fn peek_line(&self) -> Option<&[u8]> {
        let length = memchr(b'\n', &self.buffer[self.scanned..])?;
        Some(&self.buffer[self.start..self.scanned + length])
    }

    fn next_line(&mut self, limit: usize) -> Option<Line<'_>> {
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

    /// The line that the input ended in the middle of.
    fn last_line(&mut self, limit: usize) -> Option<Line<'_>> {
        let (from, to) = (self.start, self.buffer.len());
        self.start = to;
        (self.skipping || from < to).then(|| self.line(from, to, limit))
    }

    fn line(&mut self, from: usize, to: usize, limit: usize) -> Line<'_> {
        match std::mem::take(&mut self.skipping) || to - from > limit {
            true => Line::Overlong,
            false => Line::Whole(&self.buffer[from..to]),
        }
    }

    fn read(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let unread = self.buffer.len() - self.start;
        if unread > limit {
            self.skipping = true;
        }
        if self.skipping || unread == 0 {
            (self.start, self.scanned) = (0, 0);
            self.thrift.empty(&mut self.buffer);
        }
        if self.buffer.capacity() - self.buffer.len() < CHUNK {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
            self.buffer.reserve(CHUNK);
        }
        // Reads into what the buffer has room for, whatever is there.
        pin!(reader.read_buf(&mut self.buffer)).poll(cx)
    }
}

/// What the peer has not yet taken: `buffer[written..]`.
struct Outbox {
    buffer: Vec<u8>,
    written: usize,
    /// Whether the writer may keep something back.
    unflushed: bool,
    thrift: Thrift,
}

impl Outbox {
    fn waiting(&self) -> usize {
        self.buffer.len() - self.written
    }

    fn push(&mut self, fresh: &mut Vec<u8>) {
        match self.buffer.is_empty() {
            true => std::mem::swap(&mut self.buffer, fresh),
            false => self.buffer.append(fresh),
        }
    }

    fn write(&mut self, writer: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> io::Result<bool> {
        if self.waiting() == 0 {
            return Ok(false);
        }
        match Pin::new(writer).poll_write(cx, &self.buffer[self.written..]) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(Ok(written)) => {
                self.written += written;
                self.unflushed = true;
            }
            Poll::Ready(Err(error)) => return Err(error),
        }
        if self.waiting() == 0 {
            self.written = 0;
            self.thrift.empty(&mut self.buffer);
        }
        Ok(true)
    }

    fn flush(&mut self, writer: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> io::Result<()> {
        if self.unflushed && self.waiting() == 0 {
            match Pin::new(writer).poll_flush(cx) {
                Poll::Pending => {}
                Poll::Ready(flushed) => {
                    flushed?;
                    self.unflushed = false;
                }
            }
        }
        Ok(())
    }
}
