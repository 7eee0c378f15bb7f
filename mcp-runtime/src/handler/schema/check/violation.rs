//! What is wrong with a value, said so that whoever sent it can mend it.

use std::fmt;

/// How many characters of a value or a name are shown.
const SHOWN: usize = 80;

/// One place in a value that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Where: `tags[2].name`, the argument's name first. Empty for the whole.
    pub(crate) path: String,
    /// What stands there, as JSON and shortened. None if nothing does.
    pub(crate) value: Option<String>,
    /// What is wrong, as the rest of a sentence: `must be at most 100`.
    pub(crate) rule: String,
}

impl Violation {
    /// Describes a violation, and shortens the value to what can be read at a glance.
    pub(crate) fn new(path: &str, value: Option<&str>, rule: &str) -> Self {
        Self { path: path.to_owned(), value: value.map(shorten), rule: rule.to_owned() }
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

/// Cuts text behind its first 80 characters, and says so with `…`.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Where a walk is within the value. It lives on the stack, and is written out only for a violation.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences() {
        for (path, value, expected) in [
            ("limit", Some("500"), "`limit`: 500 must be seen"),
            ("limit", None, "`limit` must be seen"),
            ("", Some("{}"), "{} must be seen"),
            ("", None, "must be seen"),
        ] {
            assert_eq!(Violation::new(path, value, "must be seen").to_string(), expected);
        }
    }

    #[test]
    fn shortens_on_character_boundaries() {
        let text = "é".repeat(81);
        assert_eq!(shorten(&text), format!("{}…", "é".repeat(80)));
        assert_eq!(shorten(&text[2..]), "é".repeat(80));
    }

    #[test]
    fn paths() {
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
