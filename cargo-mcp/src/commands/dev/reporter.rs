//! Status lines on stderr.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

/// Writes status lines for the developer to stderr.
#[derive(Debug, Clone)]
pub(super) struct Reporter {
    /// Whether to write warnings only.
    pub(super) quiet: bool,
}

impl Reporter {
    /// Writes a status line, unless `--quiet` is set.
    pub(super) fn info(&self, text: impl Display) {
        if !self.quiet {
            write_line(AnsiColor::Green, text);
        }
    }

    /// Writes a warning.
    pub(super) fn warn(&self, text: impl Display) {
        write_line(AnsiColor::Yellow, text);
    }

    /// Forwards output of another program.
    pub(super) fn forward(&self, text: &str) {
        anstream::eprintln!("{}", text.trim_end());
    }

    /// Returns whether stderr shows colors.
    pub(super) fn is_colored(&self) -> bool {
        anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
    }
}

fn write_line(color: AnsiColor, text: impl Display) {
    let style = Style::new().fg_color(Some(color.into())).bold();
    anstream::eprintln!("{style}dev{style:#}: {text}");
}
