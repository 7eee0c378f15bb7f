//! The text between two tokens, and the indentation of lines.

use jsonc_parser::common::{Range, Ranged as _};

/// A piece of the text between two tokens.
enum Trivia {
    Comma,
    Comment,
    Space,
}

fn trivia(text: &str, from: usize, to: usize) -> impl Iterator<Item = (Trivia, Range)> {
    let mut at = from;
    std::iter::from_fn(move || {
        let rest = text.get(at..to).filter(|rest| !rest.is_empty())?;
        let (kind, length) = match rest {
            _ if rest.starts_with("//") => (Trivia::Comment, rest.find(['\r', '\n']).unwrap_or(rest.len())),
            _ if rest.starts_with("/*") => (Trivia::Comment, rest.find("*/").map_or(rest.len(), |end| end + 2)),
            _ if rest.starts_with(',') => (Trivia::Comma, 1),
            _ => (Trivia::Space, rest.chars().next().map_or(1, char::len_utf8)),
        };
        at += length;
        Some((kind, Range::new(at - length, at)))
    })
}

/// Returns the offset of the comma between two offsets.
pub(super) fn comma(text: &str, from: usize, to: usize) -> Option<usize> {
    trivia(text, from, to).find(|(kind, _)| matches!(kind, Trivia::Comma)).map(|(_, range)| range.start)
}

/// Returns the end of the last comment between two offsets.
pub(super) fn comments_end(text: &str, from: usize, to: usize) -> Option<usize> {
    trivia(text, from, to).filter(|(kind, _)| matches!(kind, Trivia::Comment)).last().map(|(_, range)| range.end)
}

/// Returns the end of the last comment on the line of `from`, or `from`.
pub(super) fn line_end(text: &str, from: usize, to: usize) -> usize {
    let on_line = |(_, range): &(Trivia, Range)| !range.text(text).contains('\n');
    let comments = trivia(text, from, to).take_while(on_line).filter(|(kind, _)| matches!(kind, Trivia::Comment));
    comments.last().map_or(from, |(_, range)| range.end)
}

/// Returns the white space at the start of the line that contains the offset.
pub(super) fn indentation(text: &str, at: usize) -> String {
    let line = &text[line_start(text, at)..];
    line[..line.len() - line.trim_start_matches([' ', '\t']).len()].to_owned()
}

/// Returns the white space before the offset, if there is nothing else on its line.
pub(super) fn own_line(text: &str, at: usize) -> Option<&str> {
    let before = &text[line_start(text, at)..at];
    before.trim_matches([' ', '\t']).is_empty().then_some(before)
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}
