//! Violations of a schema, worded so that the sender can correct the value, and their receivers.

use std::{fmt, ops::ControlFlow};

/// The maximum number of characters shown of a value or a name.
const SHOWN: usize = 80;
/// The maximum number of characters shown of a path, or of a rule that repeats text of the sender.
const LONGEST: usize = 200;

/// A value that violates a rule of its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The path of the value, such as `tags[2].name`. Empty for the root.
    pub path: String,
    /// The value as JSON, shortened; `None` if it is missing or irrelevant.
    pub value: Option<String>,
    /// The violated rule as a predicate: `must be at most 100`.
    pub rule: String,
}

impl Violation {
    /// Creates a violation with a shortened path and value.
    pub fn new(path: &str, value: Option<&str>, rule: &str) -> Self {
        Self { path: truncate(path, LONGEST), value: value.map(shorten), rule: rule.to_owned() }
    }

    /// Creates the violation of the value at a path.
    pub(super) fn at(path: &Path<'_>, value: Option<&str>, rule: impl Into<String>) -> Self {
        Self { path: truncate(&path.to_string(), LONGEST), value: value.map(shorten), rule: rule.into() }
    }

    /// Creates a violation whose rule repeats text of the sender and is shortened, too.
    pub(super) fn quoting(path: &Path<'_>, value: Option<&str>, rule: &str) -> Self {
        Self::at(path, value, truncate(rule, LONGEST))
    }

    /// Creates the violation of a text whose check takes too many steps.
    pub fn too_large(json: &str) -> Self {
        Self::new("", Some(json), "is too large or too deeply nested to be checked")
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.path.as_str(), &self.value) {
            ("", None) => f.write_str(&self.rule),
            ("", Some(value)) => write!(f, "{value} {}", self.rule),
            (path, None) => write!(f, "`{path}` {}", self.rule),
            (path, Some(value)) => write!(f, "`{path}`: {value} {}", self.rule),
        }
    }
}

/// Truncates a value or a name to 80 characters and `…`.
pub(super) fn shorten(text: &str) -> String {
    truncate(text, SHOWN)
}

fn truncate(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The path to the current value. Lives on the stack and is formatted only for violations.
#[derive(Debug, Clone, Copy)]
pub(super) enum Path<'a> {
    Root,
    Member(&'a Path<'a>, &'a str),
    Element(&'a Path<'a>, usize),
}

impl Path<'_> {
    pub(super) fn is_root(&self) -> bool {
        matches!(self, Self::Root)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Element(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Member(parent, name) => {
                let plain = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-' | '$');
                let name = shorten(name);
                if name.is_empty() || !name.trim_end_matches('…').chars().all(plain) {
                    return write!(f, "{parent}[{name:?}]");
                }
                write!(f, "{parent}{}{name}", if parent.is_root() { "" } else { "." })
            }
        }
    }
}

/// The maximum number of violations that are reported individually.
const LIMIT: usize = 32;

/// Whether to continue.
pub(super) type Flow = ControlFlow<()>;

/// A receiver of violations.
pub(super) trait Report {
    /// Receives a violation and returns whether to look for more. Calls `violation` only if it needs the message.
    fn fail(&mut self, violation: impl FnOnce() -> Violation) -> Flow;

    /// Returns whether the next violation is reported individually.
    fn needs_message(&self) -> bool;
}

/// A receiver that stops at the first violation and ignores its message.
#[derive(Debug)]
pub(super) struct StopAtFirst;

impl Report for StopAtFirst {
    fn fail(&mut self, _: impl FnOnce() -> Violation) -> Flow {
        Flow::Break(())
    }

    fn needs_message(&self) -> bool {
        false
    }
}

/// A receiver that collects violations up to [`LIMIT`] and counts the rest.
#[derive(Debug, Default)]
pub(super) struct Collector {
    violations: Vec<Violation>,
    uncollected: usize,
}

impl Collector {
    pub(super) fn push(&mut self, violation: Violation) {
        let _ = self.fail(|| violation);
    }

    /// Returns the number of all violations.
    pub(super) fn count(&self) -> usize {
        self.violations.len() + self.uncollected
    }

    /// Passes the violations to another receiver.
    pub(super) fn forward(self, report: &mut impl Report) -> Flow {
        for violation in self.violations {
            report.fail(|| violation)?;
        }
        // The other receiver has at least `LIMIT` violations by now and only counts these.
        (0..self.uncollected).try_for_each(|_| report.fail(|| Violation::new("", None, "")))
    }

    pub(super) fn finish(mut self) -> Vec<Violation> {
        if self.uncollected > 0 {
            self.violations.push(Violation::new("", None, &format!("and {} more", self.uncollected)));
        }
        self.violations
    }
}

impl Report for Collector {
    fn fail(&mut self, violation: impl FnOnce() -> Violation) -> Flow {
        if self.needs_message() {
            self.violations.push(violation());
        } else {
            self.uncollected += 1;
        }
        Flow::Continue(())
    }

    fn needs_message(&self) -> bool {
        self.violations.len() < LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_start_with_path_and_value() {
        for (path, value, expected) in [
            ("limit", Some("500"), "`limit`: 500 must be short"),
            ("limit", None, "`limit` must be short"),
            ("", Some("{}"), "{} must be short"),
            ("", None, "must be short"),
        ] {
            assert_eq!(Violation::new(path, value, "must be short").to_string(), expected);
        }
    }

    #[test]
    fn shortens_on_character_boundaries() {
        let text = "é".repeat(81);
        assert_eq!(shorten(&text), format!("{}…", "é".repeat(80)));
        assert_eq!(shorten(&text[2..]), "é".repeat(80));
        assert_eq!(Violation::new(&"é".repeat(201), None, "").path, format!("{}…", "é".repeat(200)));
    }

    #[test]
    fn paths_are_written_like_expressions() {
        let tags = Path::Member(&Path::Root, "tags");
        let second = Path::Element(&tags, 2);
        for (path, expected) in [
            (Path::Root, ""),
            (tags, "tags"),
            (Path::Member(&second, "name"), "tags[2].name"),
            (Path::Member(&second, "a b"), "tags[2][\"a b\"]"),
            (Path::Member(&Path::Root, ""), "[\"\"]"),
        ] {
            assert_eq!(path.to_string(), expected);
        }
    }
}
