//! Printing to stdout and stderr, and its styles. Text from servers is escaped here. Nothing else in this program prints
//! such text, except for prompts and progress bars, whose libraries receive escaped text.

use std::{
    borrow::Cow,
    fmt,
    hash::{BuildHasher as _, RandomState},
    io::{ErrorKind, IsTerminal as _, Write as _},
    process::Stdio,
    sync::LazyLock,
};

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};

pub(crate) use anstyle::AnsiColor;

/// Prints to stdout, with styles only where they are supported.
macro_rules! out {
    ($($arg:tt)*) => { $crate::output::print(format_args!($($arg)*)) };
}

/// Prints a line to stdout, as [`out!`] does.
macro_rules! outln {
    () => { $crate::output::print(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($arg)*))) };
}

/// Prints a line to stderr, with styles only where they are supported.
macro_rules! errln {
    ($($arg:tt)*) => { $crate::output::print_error(format_args!($($arg)*)) };
}

pub(crate) use {errln, out, outln};

/// Writes text to stdout, unless the reader has closed the pipe.
///
/// # Panics
///
/// Panics if stdout cannot be written for another reason, as `println!` does.
pub(crate) fn print(text: fmt::Arguments<'_>) {
    write(&escape(&text.to_string()));
}

/// Writes JSON and a line break to stdout, as [`print()`] does. It contains no control characters and can be parsed.
pub(crate) fn print_json(json: &str) {
    write(&format!("{}\n", escape_json(json)));
}

fn write(text: &str) {
    match anstream::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        Err(error) => panic!("failed printing to stdout: {error}"),
    }
}

/// Writes a line to stderr. Ignores errors, since there is nowhere else to report them.
pub(crate) fn print_error(line: fmt::Arguments<'_>) {
    let _ = writeln!(anstream::stderr().lock(), "{}", escape(&line.to_string()));
}

/// The maximum number of bytes of a program's stderr that are printed as one line.
const MAX_LINE: u64 = 64 << 10;

/// Returns what stderr of a server is connected to: a pipe that [`forward`] reads if it would otherwise be the terminal.
pub(crate) fn server_stderr() -> Stdio {
    if std::io::stderr().is_terminal() { Stdio::piped() } else { Stdio::inherit() }
}

/// Prints the lines that a server writes to stderr.
pub(crate) async fn forward(stderr: impl AsyncRead + Unpin) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    while let Ok(1..) = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).await {
        errln!("{}", String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
}

/// A heading.
pub(crate) const HEADING: Style = Style(anstyle::Style::new().bold().underline());
/// The name of a tool, resource, prompt or role.
pub(crate) const NAME: Style = Style(anstyle::Style::new().bold());
/// Secondary information.
pub(crate) const DIM: Style = Style(anstyle::Style::new().dimmed());
/// A warning.
pub(crate) const WARNING: Style = Style::color(AnsiColor::Yellow);
/// An error.
pub(crate) const ERROR: Style = Style::color(AnsiColor::Red).bold();

/// A style of this program. [`escape`] recognizes its escape sequences and replaces all other sequences, which are part
/// of text from a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style(anstyle::Style);

impl Style {
    /// The style of plain text.
    pub(crate) const NONE: Self = Self(anstyle::Style::new());

    pub(crate) const fn color(color: AnsiColor) -> Self {
        Self(anstyle::Style::new().fg_color(Some(anstyle::Color::Ansi(color))))
    }

    pub(crate) const fn bold(self) -> Self {
        Self(self.0.bold())
    }
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sequences = if f.alternate() { format!("{:#}", self.0) } else { self.0.to_string() };
        f.write_str(&sequences.replace(ESCAPE, &MARK))
    }
}

const ESCAPE: char = '\x1b';

/// Stands for an escape character that this program writes. A server cannot guess it.
static MARK: LazyLock<String> = LazyLock::new(|| format!("{ESCAPE}{:016x}", RandomState::new().hash_one(0)));

/// Replaces control characters and bidirectional formatting, so that text from a server can neither control the terminal
/// nor deceive the user. Keeps line breaks, tabs and the [`Style`]s of this program.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let own: Vec<String> =
        text.split(MARK.as_str()).map(|part| part.replace("\r\n", "\n").replace(is_unsafe, "\u{fffd}")).collect();
    Cow::Owned(own.join("\x1b"))
}

/// Does the same as [`escape`] for text that belongs into one line, such as a name.
pub(crate) fn escape_line(text: &str) -> String {
    escape(text).replace(['\n', '\t'], "\u{fffd}")
}

/// Formats a number of things: `1 tool`, `2 tools`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns a path as users write it: relative if it is below the current directory.
pub(crate) fn display_path(path: &std::path::Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

/// Replaces each character of a name that is neither allowed nor `_` with `-`. Returns `None` if no name remains.
pub(crate) fn sanitized(name: &str, max: usize, is_allowed: fn(char) -> bool) -> Option<String> {
    let replace = |letter: char| if is_allowed(letter) || letter == '_' { letter } else { '-' };
    let name: String = name.chars().map(replace).take(max).collect();
    Some(name.trim_matches('-').to_owned()).filter(|name| !name.is_empty())
}

/// Quotes a word of a command to copy if a shell would not take it literally.
pub(crate) fn shell_word(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./~+=:,@\\".contains(letter);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Replaces the same characters as [`escape`] in JSON by the escape sequences of JSON, which do not change its meaning.
pub(crate) fn escape_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let escaped = |c: char| if is_unsafe(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(json.chars().map(escaped).collect())
}

/// Returns whether a character controls the terminal or the direction of text.
fn is_unsafe(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        for (text, expected) in [
            ("Delete it?\n\tYes", "Delete it?\n\tYes"),
            ("one\r\ntwo\r\n", "one\ntwo\n"),
            ("a\x1b[2Jb\r", "a\u{fffd}[2Jb\u{fffd}"),
            (
                "\x1b]8;;https://evil.example\x07safe\x1b]8;;\x07",
                "\u{fffd}]8;;https://evil.example\u{fffd}safe\u{fffd}]8;;\u{fffd}",
            ),
            ("\u{9b}31m\u{7f}\u{8}", "\u{fffd}31m\u{fffd}\u{fffd}"),
            ("\u{202e}moc.elpmaxe\u{2066}\u{61c}", "\u{fffd}moc.elpmaxe\u{fffd}\u{fffd}"),
            ("\u{200e}a\u{200f}", "\u{fffd}a\u{fffd}"),
        ] {
            assert_eq!(escape(text), expected);
        }
        assert_eq!(escape_line("a\nb\tc\r\nd"), "a\u{fffd}b\u{fffd}c\u{fffd}d");
    }

    #[test]
    fn only_own_styles_are_kept() {
        let text = format!("{ERROR}error{ERROR:#}: \x1b[31mforged\x1b[0m");
        assert_eq!(escape(&text), "\x1b[1m\x1b[31merror\x1b[0m: \u{fffd}[31mforged\u{fffd}[0m",);
        assert_eq!(escape(&format!("{}plain", Style::NONE)), "plain");
    }

    #[test]
    fn json_keeps_its_meaning() {
        for text in ["\x1b[31m\r\n\t", "\u{9b}31m\u{7f}", "\u{202e}\u{2066}", "\u{e4}\u{1f600}\\\""] {
            let json = serde_json::to_string_pretty(&[text]).unwrap();
            let escaped = escape_json(&json);
            assert!(!escaped.contains(is_unsafe), "{escaped:?}");
            assert_eq!(serde_json::from_str::<[String; 1]>(&escaped).unwrap(), [text]);
        }
    }
}
