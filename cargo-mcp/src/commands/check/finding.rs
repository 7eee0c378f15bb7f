//! The findings of a check and their subjects.

use serde_json::{Value, json};

use super::codes::{Code, Level};

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
