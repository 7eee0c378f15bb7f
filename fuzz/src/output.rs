//! Invariants of everything that a server writes.

use std::collections::HashMap;

use crate::json::{self, Members};

/// The responses in the output of a server.
#[derive(Debug, Default)]
pub struct Output {
    /// The number of responses by id. The id of a message that could not be read is `null`.
    pub responses: HashMap<String, usize>,
}

impl Output {
    /// Adds the lines of a stream.
    ///
    /// # Panics
    ///
    /// Panics if the stream does not end with a line break, or if a line is not exactly one message or batch.
    pub fn add_lines(&mut self, lines: &[u8]) {
        assert!(lines.is_empty() || lines.ends_with(b"\n"), "the last line is incomplete: {}", text(lines));
        lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).for_each(|line| self.add(line));
    }

    /// Adds a message or a batch.
    ///
    /// # Panics
    ///
    /// Panics if the message is invalid.
    pub fn add(&mut self, message: &[u8]) {
        let text = std::str::from_utf8(message).unwrap_or_else(|error| panic!("{error}: {}", self::text(message)));
        assert!(!text.contains(['\n', '\r']), "a message contains a line break: {text}");
        match serde_json::from_str::<Vec<&serde_json::value::RawValue>>(text) {
            Ok(batch) => {
                assert!(!batch.is_empty(), "the batch is empty");
                batch.iter().for_each(|message| self.add_one(message.get()));
            }
            Err(_) => self.add_one(text),
        }
    }

    fn add_one(&mut self, text: &str) {
        let message = Members::read(text).unwrap_or_else(|| panic!("not an object: {text}"));
        assert_eq!(message.get("jsonrpc"), Some(r#""2.0""#), "{text}");
        let kinds = ["method", "result", "error"].map(|name| message.get(name).is_some());
        let id = message.get("id");
        match kinds {
            [true, false, false] => {
                assert!(message.get("method").and_then(json::string).is_some(), "{text}");
                assert!(id.is_none_or(|id| json::id(id).is_some()), "{text}");
            }
            [false, true, false] => {
                let id = id.and_then(json::id).unwrap_or_else(|| panic!("a result without an id: {text}"));
                *self.responses.entry(id).or_default() += 1;
            }
            [false, false, true] => {
                let error = message.get("error").and_then(Members::read);
                let error = error.unwrap_or_else(|| panic!("the error is not an object: {text}"));
                assert!(error.get("message").and_then(json::string).is_some(), "{text}");
                assert!(error.get("code").is_some_and(|code| code.parse::<i64>().is_ok()), "{text}");
                let id = match id {
                    None | Some("null") => "null".to_owned(),
                    Some(id) => json::id(id).unwrap_or_else(|| panic!("invalid id: {text}")),
                };
                *self.responses.entry(id).or_default() += 1;
            }
            _ => panic!("expected one of `method`, `result` and `error`: {text}"),
        }
    }
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
