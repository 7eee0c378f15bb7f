use std::convert::Infallible;

use axum::body::Body;
use futures_util::{StreamExt as _, stream};

use super::EventReader;

/// The event, data, id and retry fields of an event.
type Fields<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>, Option<u64>);

fn message(data: &str) -> Fields<'_> {
    (None, Some(data), None, None)
}

/// Reads a stream that arrives in chunks of a size. Formats its events, and its error if it ends with one.
async fn read(text: &[u8], chunk_size: usize) -> Vec<String> {
    let chunks: Vec<_> = text.chunks(chunk_size).map(|chunk| Ok::<_, Infallible>(chunk.to_vec())).collect();
    let mut reader = EventReader::new(Body::from_stream(stream::iter(chunks)));
    let mut events = Vec::new();
    while let Some(event) = reader.next().await {
        events.push(match event {
            Ok(event) => {
                format!("{:?}", (event.event.as_deref(), event.data.as_deref(), event.id.as_deref(), event.retry))
            }
            Err(error) => error.to_string(),
        });
    }
    events
}

#[tokio::test]
async fn streams_are_parsed_as_the_standard_requires() {
    let cases: &[(&str, &[u8], &[Fields<'_>])] = &[
        ("a byte order mark", b"\xef\xbb\xbfdata: x\n\n", &[message("x")]),
        ("a second byte order mark", b"\xef\xbb\xbf\xef\xbb\xbfdata: x\n\ndata: y\n\n", &[message("y")]),
        ("LF", b"data: x\n\ndata: y\n\n", &[message("x"), message("y")]),
        ("CR", b"data: x\r\rdata: y\r\r", &[message("x"), message("y")]),
        ("CRLF", b"data: x\r\n\r\ndata: y\r\n\r\n", &[message("x"), message("y")]),
        ("mixed line ends", b"data: x\r\ndata: y\rdata: z\n\r\n", &[message("x\ny\nz")]),
        ("multi-line data", b"data: x\ndata:\ndata: y\n\n", &[message("x\n\ny")]),
        ("no space, two spaces", b"data:x\ndata:  y\n\n", &[message("x\n y")]),
        ("a colon in a value", b"data:a:b\n\n", &[message("a:b")]),
        ("comments", b": hi\n\n:\ndata: x\n: data: y\n\n: bye\n\n", &[message("x")]),
        ("unknown fields", b"foo: 1\nData: 2\n data: 3\ndata: x\n\n", &[message("x")]),
        ("an unknown field without colon", b"foo\ndata: x\n\n", &[message("x")]),
        ("a known field without colon", b"data\ndata\n\n", &[message("\n")]),
        ("blank lines", b"\n\n\ndata: x\n\n\n\n", &[message("x")]),
        ("an unfinished event", b"data: x\n\ndata: y\n", &[message("x")]),
        ("an unfinished line", b"data: x\n\ndata: y\n\ndata: z", &[message("x"), message("y")]),
        (
            "repeated fields",
            b"event: a\nid: 1\nretry: 1\nevent: b\nid: 2\nretry: 2\ndata: x\n\n",
            &[(Some("b"), Some("x"), Some("2"), Some(2))],
        ),
        ("an id with NUL", b"id: 1\nid: a\0b\ndata: x\n\n", &[(None, Some("x"), Some("1"), None)]),
        ("an empty id", b"id: 1\nid\ndata: x\n\n", &[(None, Some("x"), Some(""), None)]),
        (
            "invalid reconnection times",
            b"retry: 7\nretry: 5x\nretry: +5\nretry: -5\nretry\nretry: 99999999999999999999\ndata: x\n\n",
            &[(None, Some("x"), None, Some(7))],
        ),
        ("an id without data", b"id: 7\n\ndata: x\n\n", &[(None, None, Some("7"), None), message("x")]),
        ("an id with empty data", b"id: 7\ndata:\n\n", &[(None, Some(""), Some("7"), None)]),
        ("a reconnection time without data", b"retry: 7\n\n", &[(None, None, None, Some(7))]),
        ("invalid UTF-8", b"data: a\xffb\n\ndata: x\n\n", &[message("a\u{fffd}b"), message("x")]),
        ("multi-byte characters", "data: ü€😀\n\n".as_bytes(), &[message("ü€😀")]),
    ];
    for (reason, text, expected) in cases {
        let expected: Vec<_> = expected.iter().map(|fields| format!("{fields:?}")).collect();
        for chunk_size in 1..=text.len() {
            assert_eq!(read(text, chunk_size).await, expected, "{reason}, chunks of {chunk_size}");
        }
    }
}

/// A server can send an event of any size, in any form, without an end.
#[tokio::test]
async fn too_large_events_end_the_stream() {
    const LIMIT: usize = 1000;
    let streams: [(&str, &'static str); 4] = [
        ("one line", "data: xxxx"),
        ("many lines", "data: x\n"),
        ("many empty lines", "data\r"),
        ("a comment", ": xxxx"),
    ];
    for (reason, repeated) in streams {
        let chunks = stream::once(async { "data: first\n\n" }).chain(stream::repeat(repeated));
        let body = Body::from_stream(chunks.map(Ok::<_, Infallible>));
        let mut reader = EventReader::with_limit(body, LIMIT);
        let first = reader.next().await.expect("an event").expect("an event");
        assert_eq!(first.data.as_deref(), Some("first"));
        let error = reader.next().await.expect("an error").expect_err(reason);
        assert_eq!(error.to_string(), "an event of the stream is larger than 1000 bytes", "{reason}");
        assert!(reader.next().await.is_none(), "{reason}");
    }
}

#[tokio::test]
async fn the_size_of_an_event_excludes_comments_and_earlier_events() {
    const LIMIT: usize = 100;
    let event = format!(": a comment\nfoo: 1\ndata: {}\n\n", "x".repeat(LIMIT - "data: ".len()));
    let body = Body::from(event.repeat(5) + &": comment\n".repeat(LIMIT) + &event);
    let mut reader = EventReader::with_limit(body, LIMIT);
    for _ in 0..6 {
        let event = reader.next().await.expect("an event").expect("an event");
        assert_eq!(event.data.map(|data| data.len()), Some(LIMIT - "data: ".len()));
    }
    assert!(reader.next().await.is_none());
}
