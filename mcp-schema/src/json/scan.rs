//! Scans strings many bytes at a time, because most of the text of a call is inside them, and replaces their escapes.

use memchr::{memchr, memchr2};

/// The number of bytes that are scanned word by word, to find the end of short strings quickly.
const NEAR: usize = 64;
/// The size of the blocks in which the rest is scanned for bytes that must be escaped.
const BLOCK: usize = 128;

/// Returns the position of the next quote or backslash at or after `at`, or the end.
#[inline]
pub fn quote_or_backslash(bytes: &[u8], at: usize) -> usize {
    let marked = |word| equal(word, b'"') | equal(word, b'\\');
    find(bytes, at, marked, |byte| (byte == b'"') | (byte == b'\\'), skip_to_quote_or_backslash)
}

/// Returns the position of the next byte at or after `at` that must be escaped in a JSON string, or the end.
#[inline]
pub fn unescaped_end(bytes: &[u8], at: usize) -> usize {
    let matches = |byte| (byte == b'"') | (byte == b'\\') | (byte < b' ');
    find(bytes, at, to_escape, matches, skip_clean_blocks)
}

/// Returns the number of leading bytes of a word that need no escape in a JSON string.
#[inline]
pub fn unescaped_prefix(word: [u8; 8]) -> usize {
    (to_escape(u64::from_le_bytes(word)).trailing_zeros() / 8) as usize
}

/// Marks the bytes of a word that must be escaped in a JSON string.
fn to_escape(word: u64) -> u64 {
    // Exchanging 0x20 to 0x21 with 0x22 to 0x23 places the quote next to the control characters.
    below(word ^ (ONES * 2), b' ' + 1) | equal(word, b'\\')
}

/// Returns the position of the first matching byte. `marked` marks matching bytes in a word, and `skip` skips bytes that
/// do not match.
#[inline]
fn find(
    bytes: &[u8],
    mut at: usize,
    marked: impl Fn(u64) -> u64,
    matches: impl Fn(u8) -> bool,
    skip: fn(&[u8], usize) -> usize,
) -> usize {
    let near = at + NEAR;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let marks = marked(u64::from_le_bytes(*word));
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
        if at == near {
            at = skip(bytes, at);
        }
    }
    while bytes.get(at).is_some_and(|&byte| !matches(byte)) {
        at += 1;
    }
    at
}

#[inline(never)]
fn skip_to_quote_or_backslash(bytes: &[u8], at: usize) -> usize {
    memchr2(b'"', b'\\', &bytes[at..]).map_or(bytes.len(), |length| at + length)
}

/// Skips blocks at `at` without a byte that must be escaped in a JSON string.
#[inline(never)]
fn skip_clean_blocks(bytes: &[u8], at: usize) -> usize {
    // The compiler vectorizes this: it computes two minimums per byte, which SSE2 can, with the quote next to the control
    // characters as in `to_escape`. A loop over indices instead of an iterator and `min`, because calls make it six times
    // slower in unoptimized programs.
    let is_clean = |block: &[u8; BLOCK]| {
        let (mut control_or_quote, mut backslash) = (u8::MAX, u8::MAX);
        let mut index = 0;
        while index < BLOCK {
            let byte = block[index];
            control_or_quote = if byte ^ 2 < control_or_quote { byte ^ 2 } else { control_or_quote };
            backslash = if byte ^ b'\\' < backslash { byte ^ b'\\' } else { backslash };
            index += 1;
        }
        control_or_quote > b' ' && backslash > 0
    };
    let (blocks, _) = bytes[at..].as_chunks();
    at + blocks.iter().take_while(|block| is_clean(block)).count() * BLOCK
}

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// Sets the high bit of each byte of a word that equals `byte`. Only the lowest mark is reliable.
fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * u64::from(byte)), 1)
}

/// Sets the high bit of each byte of a word that is less than `limit`, which is at most 128. Only the lowest mark is
/// reliable.
fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGHS
}

/// Replaces the escapes in the content of a JSON string. Returns `None` if an escape is invalid or a lone surrogate.
///
/// `serde_json` decodes strings with escapes into a buffer that it grows and then copies. This allocates once.
pub(super) fn unescape(text: &str) -> Option<String> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(length) = memchr(b'\\', rest.as_bytes()) {
        let (plain, escape) = rest.split_at(length);
        out.push_str(plain);
        let (char, length) = decode_escape(escape.as_bytes())?;
        out.push(char);
        rest = &escape[length..];
    }
    out.push_str(rest);
    Some(out)
}

/// Decodes the escape at the start of a text, which is a backslash and the characters after it. Returns its length,
/// too.
fn decode_escape(text: &[u8]) -> Option<(char, usize)> {
    let char = match text.get(1)? {
        byte @ (b'"' | b'\\' | b'/') => char::from(*byte),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return decode_unicode(text),
        _ => return None,
    };
    Some((char, 2))
}

fn decode_unicode(text: &[u8]) -> Option<(char, usize)> {
    let first = code_unit(text)?;
    match char::from_u32(first.into()) {
        Some(char) => Some((char, 6)),
        None => {
            let pair = [first, code_unit(text.get(6..)?)?];
            let char = char::decode_utf16(pair).next()?.ok()?;
            Some((char, 12))
        }
    }
}

/// Decodes the escaped UTF-16 code unit at the start of a text.
fn code_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | u16::try_from(char::from(digit).to_digit(16)?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_found_at_every_position() {
        for byte in 0..=u8::MAX {
            for place in (0..20).chain(320..340) {
                let mut text = [b'a', 0x80, 0xff, b' ', b'#', b'!', b'[', b']', 0x7f, 0xa2].repeat(34);
                text[place] = byte;
                let end = text.len();
                for from in [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 19, 20, end] {
                    let expected = |matches: bool| if matches && from <= place { place } else { end };
                    let is_special = matches!(byte, b'"' | b'\\');
                    assert_eq!(quote_or_backslash(&text, from), expected(is_special), "{byte} {place} {from}");
                    assert_eq!(
                        unescaped_end(&text, from),
                        expected(is_special || byte < 0x20),
                        "{byte} {place} {from}"
                    );
                }
            }
        }
    }

    #[test]
    fn escapes_are_decoded_as_by_serde_json() {
        for text in [
            "",
            "plain, grüße 🦀",
            r#"\"\\\/\b\f\n\r\t"#,
            r"line\nline\n",
            r"\u0041\u00e9\u20AC\ud83e\udd80 \uD83E\uDD80\u0000",
            r"\ud83e",
            r"\udd80",
            r"\ud83e\ud83e",
            r"\ud83ex\udd80",
            r"\ud83e\n",
            r"\u00",
            r"\u+041",
            r"\u00é",
            r"\x",
            r"\é",
            r"ends with \",
        ] {
            let expected = serde_json::from_str::<String>(&format!("\"{text}\"")).ok();
            assert_eq!(unescape(text), expected, "{text}");
        }
    }
}
