//! Status lines on stderr.

use std::fmt::Display;

use crate::output::{AnsiColor, Style, errln};

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

    /// Forwards a line of the server's log.
    pub(super) fn log(&self, line: &str) {
        errln!("{}", line.trim_end());
    }

    /// Forwards output of cargo, which styles it.
    pub(super) fn cargo(&self, text: &str) {
        anstream::eprintln!("{}", text.trim_end());
    }

    /// Returns whether stderr shows colors.
    pub(super) fn is_colored(&self) -> bool {
        anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
    }
}

fn write_line(color: AnsiColor, text: impl Display) {
    let style = Style::color(color).bold();
    errln!("{style}dev{style:#}: {text}");
}
