//! Writes JSON into a byte buffer, without building values first.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;

use super::scan;

/// Writes a string with its quotes.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    utf8(out, text.as_bytes());
}

/// Writes bytes that are known to be UTF-8, such as JSON, as a string with its quotes.
pub(crate) fn utf8(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    escaped(out, text);
    out.push(b'"');
}

/// Writes any serialisable value; the error is the author's `Serialize` implementation's own.
pub(crate) fn value<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), serde_json::Error> {
    serde_json::to_writer(out, value)
}

/// Writes a value that came out of `serde_json` or holds only strings and numbers, so that it cannot fail.
pub(crate) fn plain<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// Writes bytes as a base64 string with its quotes.
pub(crate) fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or(0);
    out.truncate(start + written);
    out.push(b'"');
}

/// Writes `out[from..to]` once more at the end, escaped and in quotes: a value that was serialised, as text.
pub(crate) fn again_as_string(out: &mut Vec<u8>, from: usize, to: usize) {
    out.reserve(to - from + 2);
    out.push(b'"');
    let mut clean = from;
    loop {
        let at = scan::unwritable(&out[..to], clean);
        out.extend_from_within(clean..at);
        if at == to {
            break;
        }
        push_escape(out, out[at]);
        clean = at + 1;
    }
    out.push(b'"');
}

fn escaped(out: &mut Vec<u8>, text: &[u8]) {
    let mut clean = 0;
    loop {
        let at = scan::unwritable(text, clean);
        out.extend_from_slice(&text[clean..at]);
        let Some(&byte) = text.get(at) else { break };
        push_escape(out, byte);
        clean = at + 1;
    }
}

/// Writes a byte that a string must not hold as it is.
fn push_escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    #[test]
    fn strings_are_escaped_as_serde_json_does() {
        let every_control: String = (0u8..0x20).map(char::from).collect();
        for text in ["", "plain", "a\"b\\c", "tab\tnew\nline\r", "grüße 🦀", &every_control, "\u{7f}\u{2028}"] {
            let mut out = Vec::new();
            super::string(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(text).unwrap());

            let mut out = text.as_bytes().to_vec();
            super::again_as_string(&mut out, 0, text.len());
            assert_eq!(&out[text.len()..], serde_json::to_string(text).unwrap().as_bytes());
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
