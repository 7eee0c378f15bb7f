//! Styles of the output, and sanitizing of text from servers.

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};

/// A heading.
pub(crate) const HEADING: Style = Style::new().bold().underline();
/// The name of a tool, resource, prompt or role.
pub(crate) const NAME: Style = Style::new().bold();
/// Secondary information.
pub(crate) const DIM: Style = Style::new().dimmed();
/// A warning.
pub(crate) const WARNING: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));
/// An error.
pub(crate) const ERROR: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red))).bold();

/// Replaces control characters and bidirectional overrides, so that text from a server cannot deceive the user.
pub(crate) fn sanitize(text: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(is_unsafe) { Cow::Owned(text.replace(is_unsafe, "\u{fffd}")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::sanitize;

    #[test]
    fn control_characters_are_replaced() {
        for (text, expected) in [
            ("Delete it?\n\tYes", "Delete it?\n\tYes"),
            ("a\x1b[2Jb\r", "a\u{fffd}[2Jb\u{fffd}"),
            ("\u{202e}moc.elpmaxe", "\u{fffd}moc.elpmaxe"),
        ] {
            assert_eq!(sanitize(text), expected);
        }
    }
}
