//! Reading server-sent events.
//!
//! The parser is our own because no crate meets all requirements. `sse-stream` 0.2.6 rejects unknown fields, lines
//! without a colon and repeated fields. `eventsource-stream` 0.2.3 panics on a byte order mark, withholds an event that
//! ends with CR until more data arrives, and takes quadratic time for long lines (1.3 s for 4 MiB). `sseer` 0.3.1 takes
//! linear time, but does not limit the size of an event. The last two also accept `retry: +5`, reject invalid UTF-8,
//! and drop `retry` fields without data, which a proxy must relay.

use std::{fmt, mem};

use axum::body::{Body, BodyDataStream, HttpBody};
use bytes::{Buf as _, Bytes};
use futures_util::StreamExt as _;

/// The maximum size of an event in bytes. A stream with a larger event ends with an error.
const MAX_EVENT_BYTES: usize = 64 << 20;

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The fields of an event.
///
/// Browsers ignore an event without `data`, but a proxy must relay its other fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    pub(crate) event: Option<String>,
    pub(crate) data: Option<String>,
    pub(crate) id: Option<String>,
    /// The reconnection time in milliseconds.
    pub(crate) retry: Option<u64>,
}

impl SseEvent {
    fn byte_length(&self) -> usize {
        [&self.event, &self.data, &self.id].into_iter().flatten().map(String::len).sum()
    }
}

/// Why a stream cannot be read any further.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The connection failed.
    Body(axum::Error),
    /// An event exceeds the maximum size in bytes.
    EventTooLarge(usize),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(error) => write!(f, "cannot read the event stream: {error}"),
            Self::EventTooLarge(limit) => write!(f, "an event of the stream is larger than {limit} bytes"),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Body(error) => Some(error),
            Self::EventTooLarge(_) => None,
        }
    }
}

/// Reads the events of a response body.
pub(crate) struct EventReader {
    /// The rest of the body, or `None` after its end or an error.
    body: Option<BodyDataStream>,
    /// The received bytes that have not been parsed yet.
    chunk: Bytes,
    parser: Parser,
}

impl EventReader {
    pub(crate) fn new<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        Self::with_limit(Body::new(body), MAX_EVENT_BYTES)
    }

    fn with_limit(body: Body, max_event_bytes: usize) -> Self {
        Self { body: Some(body.into_data_stream()), chunk: Bytes::new(), parser: Parser::new(max_event_bytes) }
    }

    /// Returns the next event, or `None` at the end of the stream or after an error. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Result<SseEvent, ReadError>> {
        let event = self.read().await.transpose();
        if !matches!(event, Some(Ok(_))) {
            self.body = None;
            self.chunk.clear();
        }
        event
    }

    async fn read(&mut self) -> Result<Option<SseEvent>, ReadError> {
        loop {
            if let Some(event) = self.parser.parse(&mut self.chunk)? {
                return Ok(Some(event));
            }
            let Some(body) = &mut self.body else { return Ok(None) };
            let Some(chunk) = body.next().await else { return Ok(None) };
            self.chunk = chunk.map_err(ReadError::Body)?;
        }
    }
}

/// A parser for [event streams].
///
/// [event streams]: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
struct Parser {
    /// The start of a line whose end has not been received yet.
    line: Vec<u8>,
    /// The fields since the last blank line.
    event: SseEvent,
    is_first_line: bool,
    /// Whether the last line ended with CR. If LF follows, it is part of the same line end.
    follows_cr: bool,
    /// The maximum size in bytes of `event` and `line` together.
    max_event_bytes: usize,
}

impl Parser {
    fn new(max_event_bytes: usize) -> Self {
        Self { line: Vec::new(), event: SseEvent::default(), is_first_line: true, follows_cr: false, max_event_bytes }
    }

    /// Consumes the start of a chunk: up to the end of an event, which is returned, or the whole chunk.
    fn parse(&mut self, chunk: &mut Bytes) -> Result<Option<SseEvent>, ReadError> {
        while let Some(&first) = chunk.first() {
            if mem::take(&mut self.follows_cr) && first == b'\n' {
                chunk.advance(1);
                continue;
            }
            let line_end = chunk.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = chunk.split_to(line_end.unwrap_or(chunk.len()));
            if self.event.byte_length() + self.line.len() + part.len() > self.max_event_bytes {
                return Err(ReadError::EventTooLarge(self.max_event_bytes));
            }
            self.line.extend_from_slice(&part);
            if line_end.is_none() {
                break;
            }
            self.follows_cr = chunk.get_u8() == b'\r';
            if let Some(event) = self.end_line() {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Handles a complete line. Returns the event that it ends.
    fn end_line(&mut self) -> Option<SseEvent> {
        let line = mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let is_first_line = mem::take(&mut self.is_first_line);
        let line = if is_first_line { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line) } else { &line };
        if line.is_empty() {
            return Some(mem::take(&mut self.event)).filter(|event| *event != SseEvent::default());
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => match &mut self.event.data {
                Some(data) => data.extend(["\n", value]),
                None => self.event.data = Some(value.to_owned()),
            },
            "event" => self.event.event = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.event.retry = value.parse().ok().or(self.event.retry);
            }
            // The standard ignores other fields. A comment is a field without a name.
            _ => {}
        }
        None
    }
}

// With a path, because `fuzz/` includes this file from another directory.
#[cfg(test)]
#[path = "sse/tests.rs"]
mod tests;
