//! The few styles of what is shown; they vanish where no terminal shows them. And what a server says, tamed.

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};

/// What stands above a part.
pub(crate) const HEADING: Style = Style::new().bold().underline();
/// The name of a tool, resource, prompt or role.
pub(crate) const NAME: Style = Style::new().bold();
/// What matters less.
pub(crate) const DIM: Style = Style::new().dimmed();
/// What to be careful with.
pub(crate) const CARE: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));
/// What went wrong.
pub(crate) const WRONG: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red))).bold();

/// What a server says of itself or asks, without what would change the terminal or the order of its letters: the user decides by it.
pub(crate) fn tame(text: &str) -> Cow<'_, str> {
    let wild = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    match text.contains(wild) {
        true => Cow::Owned(text.replace(wild, "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::tame;

    #[test]
    fn a_server_cannot_move_the_cursor() {
        for (text, tamed) in [
            ("Delete it?\n\tYes", "Delete it?\n\tYes"),
            ("a\x1b[2Jb\r", "a\u{fffd}[2Jb\u{fffd}"),
            ("\u{202e}moc.elpmaxe", "\u{fffd}moc.elpmaxe"),
        ] {
            assert_eq!(tame(text), tamed);
        }
    }
}
