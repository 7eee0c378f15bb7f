//! Reads event streams with the parser of `cargo mcp`.

use std::convert::Infallible;

use axum::body::Body;
use futures_util::stream;

use crate::sse_parser::{EventReader, SseEvent};

/// The fields of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub event: Option<String>,
    pub data: Option<String>,
    pub id: Option<String>,
    pub retry: Option<u64>,
}

impl From<SseEvent> for Event {
    fn from(SseEvent { event, data, id, retry }: SseEvent) -> Self {
        Self { event, data, id, retry }
    }
}

/// Reads a stream that arrives in chunks of these sizes, repeatedly.
///
/// # Panics
///
/// Panics if the stream cannot be read to its end.
pub async fn read(text: &[u8], sizes: &[usize]) -> Vec<Event> {
    let mut chunks = Vec::new();
    let mut rest = text;
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, more) = rest.split_at((*size).clamp(1, rest.len()));
        chunks.push(Ok::<_, Infallible>(chunk.to_vec()));
        rest = more;
    }
    let mut reader = EventReader::new(Body::from_stream(stream::iter(chunks)));
    let mut events = Vec::new();
    while let Some(event) = reader.next().await {
        events.push(event.unwrap_or_else(|error| panic!("{error}")).into());
    }
    events
}
