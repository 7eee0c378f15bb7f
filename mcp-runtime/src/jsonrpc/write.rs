//! Writes JSON to a byte buffer, without building values first.

use std::io;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mcp_schema::json::scan;
use memchr::memchr2_iter;
use serde::Serialize;
use serde_json::{Serializer, ser::Formatter};

/// Writes a string, including quotes.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    utf8(out, text.as_bytes());
}

/// Writes bytes that are known to be UTF-8, such as JSON, as a string, including quotes.
pub(crate) fn utf8(out: &mut Vec<u8>, text: &[u8]) {
    reserve(out, text.len());
    out.push(b'"');
    let mut at = scan::unescaped_end(text, 0);
    out.extend_from_slice(&text[..at]);
    while at < text.len() {
        let chunk = &text[at..text.len().min(at + CHUNK)];
        let start = make_room(out, chunk.len());
        let (read, written) = escape(chunk, &mut out[start..]);
        out.truncate(start + written);
        at += read;
        if read == written {
            let end = scan::unescaped_end(text, at);
            out.extend_from_slice(&text[at..end]);
            at = end;
        }
    }
    out.push(b'"');
}

/// Reserves space for a string, and for some escapes and the text after it, which would double the buffer otherwise.
#[inline]
fn reserve(out: &mut Vec<u8>, length: usize) {
    let more = 2 + length + length / 16;
    if length >= CHUNK && length >= out.len() {
        out.reserve_exact(more);
    } else {
        out.reserve(more);
    }
}

/// Writes a serializable value. Fails only if its `Serialize` implementation fails.
pub(crate) fn value<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), serde_json::Error> {
    value.serialize(&mut Serializer::with_formatter(out, SingleLine))
}

/// Writes a value whose serialization cannot fail, such as a `serde_json::Value`.
pub(crate) fn plain<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let start = out.len();
    if self::value(out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// Copies encoded JSON, with spaces in place of line breaks.
///
/// A message must be a single line, so that nothing in a value can be mistaken for another message. In JSON, line
/// breaks occur only between tokens, where a space means the same.
pub(crate) fn verbatim(out: &mut Vec<u8>, json: &[u8]) {
    let start = out.len();
    out.extend_from_slice(json);
    for at in memchr2_iter(b'\n', b'\r', json) {
        out[start + at] = b' ';
    }
}

/// The compact format of `serde_json`, on a single line even if a [`RawValue`](serde_json::value::RawValue) contains
/// line breaks. See [`verbatim`].
struct SingleLine;

impl Formatter for SingleLine {
    fn write_raw_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut start = 0;
        for at in memchr2_iter(b'\n', b'\r', fragment.as_bytes()) {
            writer.write_all(&fragment.as_bytes()[start..at])?;
            writer.write_all(b" ")?;
            start = at + 1;
        }
        writer.write_all(&fragment.as_bytes()[start..])
    }
}

/// Writes bytes as a base64 string, including quotes.
pub(crate) fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or(0);
    out.truncate(start + written);
    out.push(b'"');
}

/// Appends `out[from..to]` as a string, including quotes, to send a serialized value as text.
pub(crate) fn append_as_string(out: &mut Vec<u8>, from: usize, to: usize) {
    reserve(out, to - from);
    out.push(b'"');
    let mut at = from;
    while at < to {
        let chunk = at..to.min(at + CHUNK);
        let start = make_room(out, chunk.len());
        let (before, room) = out.split_at_mut(start);
        let (read, written) = escape(&before[chunk], room);
        out.truncate(start + written);
        at += read;
        if read == written {
            // After a long run without escapes, the scan is faster than the copy by words.
            let end = scan::unescaped_end(&out[..to], at);
            out.extend_from_within(at..end);
            at = end;
        }
    }
    out.push(b'"');
}

/// The number of bytes that are escaped at a time.
const CHUNK: usize = 512;
/// The free space that [`escape`] needs to continue, in bytes.
const ROOM: usize = 16;

/// Extends the buffer by enough space to escape a chunk, and returns the start of that space.
fn make_room(out: &mut Vec<u8>, chunk: usize) -> usize {
    let start = out.len();
    out.resize(start + 2 * chunk + ROOM, 0);
    start
}

/// Escapes as much text as there is room for, and returns the number of bytes read and written.
///
/// JSON inside a string needs an escape every few bytes. Copying whole words of eight bytes and overwriting the excess
/// is faster than copying the runs in between.
fn escape(text: &[u8], room: &mut [u8]) -> (usize, usize) {
    let (mut read, mut written) = (0, 0);
    while let Some(room) = room.get_mut(written..).and_then(|room| room.first_chunk_mut()) {
        if let Some(word) = text.get(read..).and_then(|rest| rest.first_chunk()) {
            let (taken, put) = escape_word(*word, room);
            read += taken;
            written += put;
            continue;
        }
        let rest = &text[read..];
        if rest.is_empty() {
            break;
        }
        // The word is padded with spaces, which need no escape, so any excess is at the end.
        let mut word = [b' '; 8];
        word[..rest.len()].copy_from_slice(rest);
        let (taken, put) = escape_word(word, room);
        let beyond = taken.saturating_sub(rest.len());
        read += taken - beyond;
        written += put - beyond;
    }
    (read, written)
}

/// Writes a word up to and including the first byte that must be escaped.
#[inline]
fn escape_word(word: [u8; 8], room: &mut [u8; ROOM]) -> (usize, usize) {
    room[..8].copy_from_slice(&word);
    let clean = scan::unescaped_prefix(word);
    let Some(&byte) = word.get(clean) else { return (clean, clean) };
    room[clean] = b'\\';
    match short_escape(byte) {
        Some(short) => {
            room[clean + 1] = short;
            (clean + 1, clean + 2)
        }
        None => {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            room[clean + 1..clean + 6].copy_from_slice(&[b'u', b'0', b'0', high, low]);
            (clean + 1, clean + 6)
        }
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Returns the short escape of a byte, without the backslash. `None` means `\u00…`.
fn short_escape(byte: u8) -> Option<u8> {
    Some(match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_value_that_cannot_be_serialized_becomes_null() {
        let mut out = b"[".to_vec();
        // Only strings can be the keys of an object.
        super::plain(&mut out, &std::collections::HashMap::from([(vec![1], 2)]));
        assert_eq!(out, b"[null");
    }

    #[test]
    fn strings_match_serde_json() {
        let every_control: String = (0u8..0x20).map(char::from).collect();
        for text in ["", "plain", "a\"b\\c", "tab\tnew\nline\r", "grüße 🦀", &every_control, "\u{7f}\u{2028}"] {
            let mut out = Vec::new();
            super::string(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(text).unwrap());
        }
    }

    #[test]
    fn texts_of_all_kinds_and_lengths_match_serde_json() {
        let every_control: String = (0u8..0x20).map(char::from).collect();
        let parts = ["plain", "\"", "\\", "\"\"\"\"\"\"\"\"", "{\"a\":1}", "\n", "\u{1}", "grüße 🦀", &every_control];
        let long = format!("\"{}\"{}", "x".repeat(5000), "y".repeat(1022));
        let parts = parts.into_iter().chain([&*long]);
        for part in parts {
            for before in ["", "a", "seven b", "eight by"] {
                for times in [1, 2, 3, 50, 1024].into_iter().filter(|times| part.len() * times < 1 << 20) {
                    let text = format!("{before}{}", part.repeat(times));
                    let mut out = format!("?{text}?").into_bytes();
                    super::append_as_string(&mut out, 1, 1 + text.len());
                    let escaped = serde_json::to_string(&text).unwrap().into_bytes();
                    assert_eq!(&out[text.len() + 2..], escaped, "{text}");

                    out.clear();
                    super::string(&mut out, &text);
                    assert_eq!(out, escaped, "{text}");
                }
            }
        }
    }

    #[test]
    fn line_breaks_of_verbatim_json_become_spaces() {
        for (json, expected) in [
            ("1", "1"),
            (r#"{"a":"\n\r","b":[]}"#, r#"{"a":"\n\r","b":[]}"#),
            ("[\n1,\r\n2\r]", "[ 1,  2 ]"),
            ("{\"a\"\n:\n\n[\t]}", "{\"a\" :  [\t]}"),
        ] {
            let raw = serde_json::value::RawValue::from_string(json.to_owned()).unwrap();
            let mut out = b"\n".to_vec();
            super::verbatim(&mut out, json.as_bytes());
            super::value(&mut out, &raw).unwrap();
            super::plain(&mut out, &[Some(&raw), None]);
            assert_eq!(String::from_utf8(out).unwrap(), format!("\n{expected}{expected}[{expected},null]"));
        }
    }

    #[test]
    fn base64_is_padded() {
        for (bytes, text) in [(&b""[..], r#""""#), (b"f", r#""Zg==""#), (b"foobar", r#""Zm9vYmFy""#)] {
            let mut out = Vec::new();
            super::base64(&mut out, bytes);
            assert_eq!(out, text.as_bytes());
        }
    }
}
