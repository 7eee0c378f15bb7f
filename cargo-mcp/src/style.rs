//! The few styles of what is shown; they vanish where no terminal shows them.

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
