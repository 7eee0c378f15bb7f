//! Parses HTTP responses: bodies with a length or in chunks, with JSON or events.

use crate::{
    error::{Failure, Result},
    message::excerpt,
};

/// A complete response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub session: Option<String>,
    events: bool,
    body: Vec<u8>,
}

impl Response {
    /// Parses a response. Returns it with its length, or `None` if it is incomplete.
    pub fn parse(text: &[u8]) -> Result<Option<(Self, usize)>> {
        let Some(end) = memchr::memmem::find(text, b"\r\n\r\n") else { return Ok(None) };
        let invalid = || Failure::new(format!("invalid HTTP response: {}", excerpt(text)));
        let head = std::str::from_utf8(&text[..end]).map_err(|_| invalid())?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
        let status = status.ok_or_else(invalid)?;
        let (mut length, mut chunked, mut events, mut session) = (0, false, false, None);
        for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().map_err(|_| invalid())?;
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = value == "chunked";
            } else if name.eq_ignore_ascii_case("content-type") {
                events = value.starts_with("text/event-stream");
            } else if name.eq_ignore_ascii_case("mcp-session-id") {
                session = Some(value.to_owned());
            }
        }
        let rest = &text[end + 4..];
        let body = if chunked {
            unchunk(rest).ok_or_else(invalid)?
        } else {
            rest.get(..length).map(|body| (body.to_vec(), length))
        };
        Ok(body.map(|(body, length)| (Self { status, session, events, body }, end + 4 + length)))
    }

    /// Returns the message: the body, or the last event with data.
    pub fn message(&self) -> Result<&[u8]> {
        if self.status != 200 {
            return Err(Failure::new(format!("status {}: {}", self.status, excerpt(&self.body))));
        }
        if !self.events {
            return Ok(&self.body);
        }
        let data = |line: &'_ [u8]| line.strip_prefix(b"data:").is_some_and(|data| !data.trim_ascii().is_empty());
        let line = self.body.split(|&byte| byte == b'\n').rfind(|line| data(line));
        let line = line.ok_or_else(|| Failure::new(format!("no event has data: {}", excerpt(&self.body))))?;
        Ok(line[b"data:".len()..].trim_ascii())
    }
}

/// Joins chunks and returns the body with the encoded length. Returns `None` if the chunks are invalid, and
/// `Some(None)` if the last one is missing.
fn unchunk(text: &[u8]) -> Option<Option<(Vec<u8>, usize)>> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let Some(line) = memchr::memmem::find(&text[at..], b"\r\n") else { return Some(None) };
        let size = std::str::from_utf8(&text[at..at + line]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?, 16).ok()?;
        let begin = at + line + 2;
        let Some(chunk) = text.get(begin..begin + size + 2) else { return Some(None) };
        at = begin + size + 2;
        if size == 0 {
            return Some(Some((body, at)));
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

#[cfg(test)]
mod tests {
    use super::Response;

    #[test]
    fn parses_complete_responses_only() {
        for (text, message) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "{}"),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", "{}"),
            (
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 27\r\n\r\nid: 1\ndata:\n\ndata: {\"a\":1}\n",
                "{\"a\":1}",
            ),
        ] {
            let (response, length) = Response::parse(text.as_bytes()).unwrap().unwrap();
            assert_eq!(response.message().unwrap(), message.as_bytes(), "{text}");
            assert_eq!(length, text.len(), "{text}");
            for shorter in 0..text.len() {
                assert!(Response::parse(&text.as_bytes()[..shorter]).unwrap().is_none(), "{shorter} bytes of {text}");
            }
        }
    }
}
