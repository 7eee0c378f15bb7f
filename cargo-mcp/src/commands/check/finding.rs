//! What a check found, and of what.

use serde_json::{Value, json};

use super::codes::Code;

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

/// What a finding is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// `server`, `tool`, `resource`, `resource template`, `prompt`
    pub(crate) kind: &'static str,
    pub(crate) name: String,
}

impl Entry {
    pub(crate) fn server() -> Self {
        Self { kind: "server", name: String::new() }
    }

    pub(crate) fn of(kind: &'static str, item: &Value) -> Self {
        let key = match kind {
            "resource" => "uri",
            "resource template" => "uriTemplate",
            _ => "name",
        };
        Self { kind, name: item[key].as_str().unwrap_or("?").to_owned() }
    }
}

impl std::fmt::Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name.is_empty() {
            true => f.write_str(self.kind),
            false => write!(f, "{} `{}`", self.kind, self.name),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) code: &'static Code,
    pub(crate) entry: Entry,
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn json(&self) -> Value {
        json!({
            "level": self.code.level.as_str(),
            "code": self.code.name,
            "entry": {"kind": self.entry.kind, "name": self.entry.name},
            "message": self.message,
            "help": self.code.help,
        })
    }
}

/// Where findings are collected.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    pub(crate) fn add(&mut self, code: &'static Code, entry: &Entry, message: impl Into<String>) {
        // What a server says may not speak to the terminal.
        let plain = |text: &str| text.replace(|letter: char| letter.is_control(), "\u{fffd}");
        let entry = Entry { kind: entry.kind, name: plain(&entry.name) };
        let message = plain(&message.into());
        if !self.0.iter().any(|found| found.code.name == code.name && found.entry == entry && found.message == message)
        {
            self.0.push(Finding { code, entry, message });
        }
    }

    pub(crate) fn count(&self, level: Level) -> usize {
        self.0.iter().filter(|finding| finding.code.level == level).count()
    }
}
