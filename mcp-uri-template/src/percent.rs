//! Percent-encoding with the character classes of RFC 6570.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Everything except unreserved characters.
const NOT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Everything except unreserved and reserved characters.
const NOT_IN_URI: &AsciiSet = &NOT_UNRESERVED
    .remove(b':')
    .remove(b'/')
    .remove(b'?')
    .remove(b'#')
    .remove(b'[')
    .remove(b']')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=');

/// Encodes everything except unreserved characters.
pub(crate) fn encode(text: &str, out: &mut String) {
    out.extend(utf8_percent_encode(text, NOT_UNRESERVED));
}

/// Encodes everything except unreserved characters, reserved characters, and existing percent-encoding.
pub(crate) fn encode_reserved(text: &str, out: &mut String) {
    let mut runs = text.split('%');
    out.extend(utf8_percent_encode(runs.next().unwrap_or_default(), NOT_IN_URI));
    for run in runs {
        out.push_str(if starts_with_hex_pair(run) { "%" } else { "%25" });
        out.extend(utf8_percent_encode(run, NOT_IN_URI));
    }
}

/// Decodes a value. Returns `None` if the result is not UTF-8.
pub(crate) fn decode(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

pub(crate) fn starts_with_hex_pair(text: &str) -> bool {
    text.as_bytes().get(..2).is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit))
}

/// Returns whether [`encode_reserved`] leaves a character unchanged.
pub(crate) fn is_literal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte) || is_reserved(byte)
}

pub(crate) fn is_reserved(byte: u8) -> bool {
    b":/?#[]@!$&'()*+,;=".contains(&byte)
}
