//! Telling people and programs what a check found.

use anstyle::{AnsiColor, Style};
use mcp_lock::Change;
use serde_json::{Value, json};

use super::{
    conformance::{Handshake, Outcome},
    finding::{Entry, Findings, Level},
    tokens,
};

/// Everything that there is to tell.
pub(crate) struct Report<'a> {
    pub(crate) target: String,
    pub(crate) handshakes: &'a [Handshake],
    pub(crate) findings: &'a Findings,
    pub(crate) tokens: &'a [(String, usize)],
    /// What differs from the lock file; nothing if nobody asked.
    pub(crate) changes: Option<&'a [Change]>,
    pub(crate) failed: bool,
}

impl Report<'_> {
    /// What people read.
    pub(crate) fn human(&self) {
        self.tell_handshakes();
        self.tell_findings();
        self.tell_tokens();
        self.tell_changes();
        anstream::println!("{}", self.summary());
    }

    fn tell_handshakes(&self) {
        anstream::println!("{}", heading("handshakes"));
        for Handshake { revision, outcome } in self.handshakes {
            anstream::println!("  {}  {}", revision.as_str(), told(outcome));
        }
        anstream::println!();
    }

    fn tell_findings(&self) {
        let mut entries: Vec<&Entry> = Vec::new();
        for finding in &self.findings.0 {
            if !entries.contains(&&finding.entry) {
                entries.push(&finding.entry);
            }
        }
        for entry in entries {
            anstream::println!("{}", heading(&entry.to_string()));
            let mut found: Vec<_> = self.findings.0.iter().filter(|finding| finding.entry == *entry).collect();
            found.sort_by_key(|finding| finding.code.level);
            for (at, finding) in found.iter().enumerate() {
                let style = style(finding.code.level);
                let (level, code) = (finding.code.level.as_str(), finding.code.name);
                anstream::println!("  {style}{level}{style:#}[{code}]: {}", finding.message);
                // What to do is the same for all findings of a code, and said after the last.
                if found.get(at + 1).is_none_or(|next| next.code.name != code) {
                    anstream::println!("    help: {}", finding.code.help);
                }
            }
            anstream::println!();
        }
    }

    fn tell_tokens(&self) {
        if self.tokens.is_empty() {
            return;
        }
        anstream::println!("{} (an estimate: {})", heading("tokens"), tokens::METHOD);
        let width =
            self.tokens.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default().max("in all".len());
        for (name, tokens) in self.tokens {
            anstream::println!("  {name:width$}  {tokens:>6}");
        }
        anstream::println!("  {:width$}  {:>6}\n", "in all", self.total());
    }

    fn tell_changes(&self) {
        match self.changes {
            None => {}
            Some([]) => anstream::println!("the server matches `{}`\n", mcp_lock::FILE_NAME),
            Some(changes) => {
                anstream::println!("{}\nhelp: run `cargo mcp lock` to accept\n", mcp_lock::report(changes));
            }
        }
    }

    fn summary(&self) -> String {
        let count = |level: Level| {
            let count = self.findings.count(level);
            format!("{count} {}{}", level.as_str(), if count == 1 { "" } else { "s" })
        };
        format!("{}, {}, {}", count(Level::Error), count(Level::Warning), count(Level::Note))
    }

    fn total(&self) -> usize {
        self.tokens.iter().map(|(_, tokens)| tokens).sum()
    }

    /// What programs read. `formatVersion` changes when a member goes or means something else; new ones may come.
    pub(crate) fn json(&self) {
        let handshakes: Vec<Value> = self.handshakes.iter().map(handshake).collect();
        let findings: Vec<Value> = self.findings.0.iter().map(super::finding::Finding::json).collect();
        let of_tools: Vec<Value> =
            self.tokens.iter().map(|(name, tokens)| json!({"name": name, "tokens": tokens})).collect();
        let mut report = json!({
            "formatVersion": 1,
            "server": self.target,
            "handshakes": handshakes,
            "findings": findings,
            "tokens": {"method": tokens::METHOD, "total": self.total(), "tools": of_tools},
            "summary": {
                "errors": self.findings.count(Level::Error),
                "warnings": self.findings.count(Level::Warning),
                "notes": self.findings.count(Level::Note),
                "failed": self.failed,
            },
        });
        if let Some(changes) = self.changes {
            let change =
                |change: &Change| json!({"breaking": change.breaking, "entry": change.entry, "text": change.text});
            report["changes"] = changes.iter().map(change).collect();
        }
        anstream::println!("{report:#}");
    }

    /// What GitHub shows beside a run.
    ///
    /// See [Workflow commands](https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions).
    pub(crate) fn github(&self) {
        for finding in &self.findings.0 {
            let command = match finding.code.level {
                Level::Error => "error",
                Level::Warning => "warning",
                Level::Note => "notice",
            };
            let text = format!("{}: {}; {}", finding.entry, finding.message, finding.code.help);
            let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
            anstream::println!("::{command} title={}::{text}", finding.code.name);
        }
        anstream::println!("{}", self.summary());
    }
}

fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Refused(how) => format!("not spoken: {how}"),
        Outcome::Failed(why) | Outcome::Unlisted(why) => format!("failed: {why}"),
        Outcome::Spoken(inventory) => {
            let listing = &inventory.listing;
            let counts = [
                (listing.tools.len(), "tool"),
                (listing.resources.len(), "resource"),
                (listing.resource_templates.len(), "resource template"),
                (listing.prompts.len(), "prompt"),
            ];
            let counts = counts.iter().filter(|(count, _)| *count > 0);
            let counts: Vec<String> =
                counts.map(|(count, what)| format!("{count} {what}{}", if *count == 1 { "" } else { "s" })).collect();
            let offered = if counts.is_empty() { "nothing is listed".to_owned() } else { counts.join(", ") };
            let ping = if inventory.ping == Some(true) { ", ping" } else { "" };
            format!("ok: {offered}{ping}")
        }
    }
}

fn handshake(handshake: &Handshake) -> Value {
    let revision = handshake.revision.as_str();
    match &handshake.outcome {
        Outcome::Refused(how) => json!({"revision": revision, "outcome": "refused", "why": how}),
        Outcome::Failed(why) | Outcome::Unlisted(why) => json!({"revision": revision, "outcome": "failed", "why": why}),
        Outcome::Spoken(inventory) => json!({
            "revision": revision,
            "outcome": "ok",
            "serverInfo": inventory.server,
            "tools": inventory.listing.tools.len(),
            "resources": inventory.listing.resources.len(),
            "resourceTemplates": inventory.listing.resource_templates.len(),
            "prompts": inventory.listing.prompts.len(),
            "ping": inventory.ping,
        }),
    }
}

fn heading(text: &str) -> String {
    let bold = Style::new().bold();
    format!("{bold}{text}{bold:#}")
}

fn style(level: Level) -> Style {
    let color = match level {
        Level::Error => AnsiColor::Red,
        Level::Warning => AnsiColor::Yellow,
        Level::Note => AnsiColor::Cyan,
    };
    Style::new().fg_color(Some(color.into())).bold()
}
