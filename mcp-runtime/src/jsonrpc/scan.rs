//! Looks through text eight bytes at once: most of the text of a call is the inside of strings.

/// Finds the next quote or backslash from `at` on, or the end.
pub(super) fn quote_or_backslash(bytes: &[u8], at: usize) -> usize {
    find(bytes, at, |word| equal(word, b'"') | equal(word, b'\\'), |byte| matches!(byte, b'"' | b'\\'))
}

/// Finds the next byte from `at` on that a JSON string must not hold as it is, or the end.
pub(super) fn unwritable(bytes: &[u8], at: usize) -> usize {
    find(
        bytes,
        at,
        |word| equal(word, b'"') | equal(word, b'\\') | below(word, b' '),
        |byte| matches!(byte, b'"' | b'\\' | ..b' '),
    )
}

/// Finds the first byte that is marked in its word, or, behind the last whole word, meant.
#[inline]
fn find(bytes: &[u8], mut at: usize, marked: impl Fn(u64) -> u64, is_meant: impl Fn(u8) -> bool) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let marks = marked(u64::from_le_bytes(*chunk));
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|&byte| !is_meant(byte)) {
        at += 1;
    }
    at
}

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// Marks the high bit of each byte of a word that is `byte`. Bytes above the first such byte may be marked wrongly; the first
/// never is.
fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * u64::from(byte)), 1)
}

/// Marks the high bit of each byte of a word that is less than `limit`, which is 128 at most; in the same way.
fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGHS
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_byte_is_found_at_every_place() {
        for byte in 0..=u8::MAX {
            for place in 0..20 {
                let mut text = [b'a', 0x80, 0xff, b' ', b'#', b'!', b'[', b']', 0x7f, 0xa2].repeat(2);
                text[place] = byte;
                let end = text.len();
                for from in 0..=end {
                    let expected = |is_meant: bool| if is_meant && from <= place { place } else { end };
                    let is_special = matches!(byte, b'"' | b'\\');
                    assert_eq!(super::quote_or_backslash(&text, from), expected(is_special), "{byte} {place} {from}");
                    assert_eq!(
                        super::unwritable(&text, from),
                        expected(is_special || byte < 0x20),
                        "{byte} {place} {from}"
                    );
                }
            }
        }
    }
}
