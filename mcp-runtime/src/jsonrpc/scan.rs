//! Looks through text many bytes at once: most of the text of a call is the inside of strings.

/// Up to here a text is looked through by words, so that the end of a short string is found soon.
const NEAR: usize = 64;
/// Then it is looked through by blocks of so many bytes.
const BLOCK: usize = 64;

/// Finds the next quote or backslash from `at` on, or the end.
pub(super) fn quote_or_backslash(bytes: &[u8], at: usize) -> usize {
    find(bytes, at, |word| equal(word, b'"') | equal(word, b'\\'), |byte| (byte == b'"') | (byte == b'\\'))
}

/// Finds the next byte from `at` on that a JSON string must not hold as it is, or the end.
pub(super) fn unwritable(bytes: &[u8], at: usize) -> usize {
    find(bytes, at, unwritable_in, |byte| (byte == b'"') | (byte == b'\\') | (byte < b' '))
}

/// How many bytes a word begins with that a JSON string may hold as they are.
pub(super) fn writable(word: [u8; 8]) -> usize {
    (unwritable_in(u64::from_le_bytes(word)).trailing_zeros() / 8) as usize
}

/// Marks the bytes of a word that a JSON string must not hold as they are.
fn unwritable_in(word: u64) -> u64 {
    equal(word, b'"') | equal(word, b'\\') | below(word, b' ')
}

/// Finds the first byte that is meant, which `marked` marks in its word.
#[inline]
fn find(bytes: &[u8], mut at: usize, marked: impl Fn(u64) -> u64, is_meant: impl Fn(u8) -> bool) -> usize {
    let near = at + NEAR;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let marks = marked(u64::from_le_bytes(*word));
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
        if at == near {
            at = skip_blocks(bytes, at, &is_meant);
        }
    }
    while bytes.get(at).is_some_and(|&byte| !is_meant(byte)) {
        at += 1;
    }
    at
}

/// Skips the blocks from `at` on that hold nothing that is meant.
#[inline(never)]
fn skip_blocks(bytes: &[u8], at: usize, is_meant: impl Fn(u8) -> bool) -> usize {
    let (blocks, _) = bytes[at..].as_chunks::<BLOCK>();
    // Without a branch for each byte, so that the compiler takes many of them at once.
    let is_clean = |block: &[u8; BLOCK]| block.iter().fold(0, |any, &byte| any | u8::from(is_meant(byte))) == 0;
    at + blocks.iter().take_while(|block| is_clean(block)).count() * BLOCK
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
            for place in (0..20).chain(170..190) {
                let mut text = [b'a', 0x80, 0xff, b' ', b'#', b'!', b'[', b']', 0x7f, 0xa2].repeat(19);
                text[place] = byte;
                let end = text.len();
                for from in (0..=20).chain([end]) {
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
