//! Unified diffs.

use std::path::Path;

use similar::TextDiff;

use crate::{
    output::outln,
    style::{AnsiColor, Style},
};

/// Prints a unified diff. `None` represents a missing file.
pub(crate) fn print(path: &Path, before: Option<&str>, after: Option<&str>) {
    let name = |text: Option<&str>| match text {
        Some(_) => path.display().to_string(),
        None => "/dev/null".to_owned(),
    };
    let (old, new) = (before.unwrap_or_default(), after.unwrap_or_default());
    if old == new {
        outln!("--- {}\n    only masked values differ", path.display());
        return;
    }
    let diff = TextDiff::from_lines(old, new);
    let text = diff.unified_diff().context_radius(3).header(&name(before), &name(after)).to_string();
    for line in text.lines() {
        let line = line.trim_end_matches('\r');
        let style = match line.as_bytes() {
            [b'+', ..] => Style::color(AnsiColor::Green),
            [b'-', ..] => Style::color(AnsiColor::Red),
            [b'@', ..] => Style::color(AnsiColor::Cyan),
            _ => Style::NONE,
        };
        outln!("{style}{line}{style:#}");
    }
}
