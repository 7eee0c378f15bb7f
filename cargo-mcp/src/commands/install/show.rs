//! What a change of a file looks like.

use std::path::Path;

use anstyle::{AnsiColor, Style};
use similar::TextDiff;

/// Prints a unified difference.
pub(crate) fn difference(path: &Path, before: Option<&str>, after: Option<&str>) {
    let name = |text: Option<&str>| match text {
        Some(_) => path.display().to_string(),
        None => "/dev/null".to_owned(),
    };
    let (old, new) = (before.unwrap_or_default(), after.unwrap_or_default());
    if old == new {
        anstream::println!("--- {}\n    only values that are not shown differ", path.display());
        return;
    }
    let difference = TextDiff::from_lines(old, new);
    let text = difference.unified_diff().context_radius(3).header(&name(before), &name(after)).to_string();
    for line in text.lines() {
        let line = line.trim_end_matches('\r');
        let style = match line.as_bytes() {
            [b'+', ..] => Style::new().fg_color(Some(AnsiColor::Green.into())),
            [b'-', ..] => Style::new().fg_color(Some(AnsiColor::Red.into())),
            [b'@', ..] => Style::new().fg_color(Some(AnsiColor::Cyan.into())),
            _ => Style::new(),
        };
        anstream::println!("{style}{line}{style:#}");
    }
}
