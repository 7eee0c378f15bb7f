//! Bounded excerpts of text that a client sent, for error messages and the log.

use std::borrow::Cow;

/// The maximum number of characters of a client's text that a message repeats.
const MAX_CHARS: usize = 200;

/// Returns the text, or its beginning and an ellipsis if it is longer than 200 characters.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    // Most text is short, and bytes are counted faster than characters.
    if text.len() <= MAX_CHARS {
        return Cow::Borrowed(text);
    }
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Returns the beginning of a text, at most this number of bytes.
pub(crate) fn beginning(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_text_is_cut() {
        for (text, expected) in [
            (String::new(), String::new()),
            ("x".repeat(200), "x".repeat(200)),
            ("é".repeat(200), "é".repeat(200)),
            ("x".repeat(201), format!("{}…", "x".repeat(200))),
            ("é".repeat(1 << 20), format!("{}…", "é".repeat(200))),
        ] {
            assert_eq!(excerpt(&text), expected);
        }
        for (bytes, expected) in [(0, ""), (1, ""), (2, "é"), (3, "éa"), (9, "éa")] {
            assert_eq!(beginning("éa", bytes), expected);
        }
    }
}
