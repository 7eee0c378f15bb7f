//! The findings of a check: their subjects, and their codes, which `codes.md` explains.

use serde_json::{Value, json};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Error,
    Warning,
    Note,
}

impl Level {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A problem that a check looks for.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
}

/// The explanation of a code.
#[derive(Debug)]
pub(crate) struct Explanation {
    /// The problem in one line.
    pub(crate) summary: String,
    /// Why it matters, followed by sources, one per line.
    pub(crate) why: String,
    /// The frameworks that do not understand such schemas, and what becomes of them.
    pub(crate) frameworks: Option<String>,
    /// How to fix it.
    pub(crate) help: String,
}

impl Code {
    /// Returns the code called `name`.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().copied().find(|code| code.name == name)
    }

    /// Reads the explanation of the code.
    ///
    /// # Panics
    ///
    /// Panics if `codes.md` does not explain the code. A test ensures that it does.
    pub(crate) fn explanation(&self) -> Explanation {
        let sections = include_str!("codes.md").split("\n## ").skip(1);
        let mut sections = sections.filter_map(|section| section.split_once('\n'));
        let text = sections.find(|(name, _)| *name == self.name).map(|(_, text)| text).expect("each code is explained");
        let mut paragraphs: Vec<String> = text.trim().split("\n\n").map(unwrapped).collect();
        let mut labelled = |label: &str| {
            let text = paragraphs.pop_if(|last| last.starts_with(label))?;
            Some(text[label.len()..].to_owned())
        };
        let help = labelled("help: ").expect("each code has help");
        let frameworks = labelled("Agent frameworks: ");
        let [summary, why] = <[String; 2]>::try_from(paragraphs).expect("each code has a summary and a reason");
        Explanation { summary, why, frameworks, help }
    }
}

/// Joins the lines of a paragraph. Lines with URLs remain separate.
fn unwrapped(paragraph: &str) -> String {
    let mut text = String::new();
    for line in paragraph.lines() {
        let separator = if line.starts_with("https://") { "\n" } else { " " };
        text += if text.is_empty() { "" } else { separator };
        text += line;
    }
    text
}

/// The part of a server that a finding is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    /// `server`, `authorization server`, `tool`, `resource`, `resource template` or `prompt`.
    pub(crate) kind: &'static str,
    /// The name or URI; empty for the server.
    pub(crate) name: String,
}

impl Subject {
    pub(crate) fn server() -> Self {
        Self { kind: "server", name: String::new() }
    }

    /// Returns the subject for an item of a list result.
    pub(crate) fn of(kind: &'static str, item: &Value) -> Self {
        let key = match kind {
            "resource" => "uri",
            "resource template" => "uriTemplate",
            _ => "name",
        };
        Self { kind, name: item[key].as_str().unwrap_or("?").to_owned() }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.name.is_empty() { f.write_str(self.kind) } else { write!(f, "{} `{}`", self.kind, self.name) }
    }
}

#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) code: &'static Code,
    pub(crate) subject: Subject,
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn json(&self) -> Value {
        let explanation = self.code.explanation();
        let mut json = json!({
            "level": self.code.level.as_str(),
            "code": self.code.name,
            "entry": {"kind": self.subject.kind, "name": self.subject.name},
            "message": self.message,
            "help": explanation.help,
        });
        if let Some(frameworks) = explanation.frameworks {
            json["frameworks"] = frameworks.into();
        }
        json
    }
}

/// The collected findings, without duplicates.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    pub(crate) fn add(&mut self, code: &'static Code, subject: &Subject, message: impl Into<String>) {
        // Text from the server must not contain terminal escape sequences.
        let plain = |text: &str| text.replace(|c: char| c.is_control(), "\u{fffd}");
        let subject = Subject { kind: subject.kind, name: plain(&subject.name) };
        let message = plain(&message.into());
        let is_known =
            |known: &Finding| known.code.name == code.name && known.subject == subject && known.message == message;
        if !self.0.iter().any(is_known) {
            self.0.push(Finding { code, subject, message });
        }
    }

    /// Adds a finding about the server itself.
    pub(crate) fn add_to_server(&mut self, code: &'static Code, message: impl Into<String>) {
        self.add(code, &Subject::server(), message);
    }

    pub(crate) fn count(&self, level: Level) -> usize {
        self.0.iter().filter(|finding| finding.code.level == level).count()
    }
}

macro_rules! codes {
    ($($id:ident = $name:literal, $level:ident;)*) => {
        $(pub(crate) const $id: &Code = &Code { name: $name, level: Level::$level };)*
        /// All codes, in the order in which `--explain list` prints them.
        pub(crate) const ALL: &[&Code] = &[$($id),*];
    };
}

codes! {
    INVALID_SCHEMA = "invalid-schema", Error;
    OTHER_DIALECT = "other-dialect", Note;
    NO_OBJECT_SCHEMA = "no-object-schema", Error;
    OUTPUT_NOT_OBJECT = "output-not-object", Error;
    UNRESOLVED_REF = "unresolved-ref", Error;
    REMOTE_REF = "remote-ref", Error;
    BAD_DEFAULT = "bad-default", Error;
    BAD_EXAMPLE = "bad-example", Warning;
    UNDECLARED_REQUIRED = "undeclared-required", Warning;
    BAD_HEADER = "bad-header", Error;

    TOP_LEVEL_UNION = "top-level-union", Warning;
    SCHEMA_REF = "schema-ref", Warning;
    RECURSIVE_SCHEMA = "recursive-schema", Warning;
    UNION = "union", Note;
    TYPE_ARRAY = "type-array", Warning;
    MISSING_TYPE = "missing-type", Warning;
    ARRAY_WITHOUT_ITEMS = "array-without-items", Warning;
    TUPLE = "tuple", Warning;
    BOOLEAN_SCHEMA = "boolean-schema", Warning;
    BOOLEAN_ADDITIONAL = "boolean-additional-properties", Warning;
    MAP_SCHEMA = "map-schema", Warning;
    ENUM_VALUES = "enum-values", Warning;
    UNKNOWN_FORMAT = "unknown-format", Note;
    DEEP_NESTING = "deep-nesting", Note;
    PROPERTY_NAME = "property-name", Warning;

    BAD_NAME = "bad-name", Error;
    DUPLICATE_NAME = "duplicate-name", Error;
    DOTTED_NAME = "dotted-name", Warning;
    LONG_NAME = "long-name", Warning;
    NAME_START = "name-start", Warning;
    NAME_CLASH = "name-clash", Warning;

    UNDESCRIBED_TOOL = "undescribed-tool", Error;
    MISSING_DESCRIPTION = "missing-description", Warning;
    SHORT_DESCRIPTION = "short-description", Note;
    SAME_DESCRIPTION = "same-description", Warning;
    LONG_DESCRIPTION = "long-description", Warning;

    CONTRADICTORY_HINTS = "contradictory-hints", Warning;
    INEFFECTIVE_HINT = "ineffective-hint", Note;
    NAME_AGAINST_HINTS = "name-against-hints", Note;
    NO_HINTS = "no-hints", Note;

    TOO_MANY_TOOLS = "too-many-tools", Warning;
    TOKEN_BUDGET = "token-budget", Error;

    BAD_HANDSHAKE = "bad-handshake", Error;
    REVISION_REFUSED = "revision-refused", Note;
    INVALID_RESPONSE = "invalid-response", Error;
    STDOUT_NOISE = "stdout-noise", Error;
    UNANSWERED_INVALID_JSON = "unanswered-invalid-json", Warning;
    DOES_NOT_EXIT = "does-not-exit", Warning;
    BAD_URI = "bad-uri", Error;
    UNREADABLE_RESOURCE = "unreadable-resource", Error;
    COMPLETION_FAILED = "completion-failed", Error;
    BAD_PAGE = "bad-page", Error;
    PAGE_CALL = "page-call", Error;

    NO_CHALLENGE = "no-challenge", Error;
    NO_METADATA = "no-metadata", Warning;
    NO_METADATA_LINK = "no-metadata-link", Warning;
    BAD_RESOURCE_METADATA = "bad-resource-metadata", Error;
    WRONG_RESOURCE = "wrong-resource", Error;
    BROAD_RESOURCE = "broad-resource", Warning;
    BAD_ISSUER_METADATA = "bad-issuer-metadata", Error;
    NO_PKCE = "no-pkce", Error;
    INSECURE_URL = "insecure-url", Error;
    UNVERIFIED_TOKEN = "unverified-token", Error;
    UNCHECKED_AUDIENCE = "unchecked-audience", Error;
    OTHER_AUDIENCE = "other-audience", Warning;
    TOKEN_IN_QUERY = "token-in-query", Error;

    BREAKING_CHANGE = "breaking-change", Error;
    COMPATIBLE_CHANGE = "compatible-change", Error;
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn each_code_is_explained() {
        for code in ALL {
            let explanation = code.explanation();
            assert!(!explanation.why.is_empty() && !explanation.summary.contains('\n'), "{}", code.name);
        }
        assert_eq!(include_str!("codes.md").matches("\n## ").count(), ALL.len(), "no other code is explained");
    }
}
