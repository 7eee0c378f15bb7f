//! The report of a check, in three formats.

use mcp_runtime_lock::{Change, Severity};
use serde_json::{Value, json};

use super::{
    authorization::Protection,
    codes::{Explanation, Finding, Findings, Level, Subject},
    conformance::{HandshakeOutcome, RevisionCheck},
    metadata::{TOKEN_ESTIMATE, ToolTokens, lists},
};

use crate::output::{AnsiColor, NAME, Style, counted, escape_line, outln, print_json};

/// The results of a check.
pub(crate) struct Report<'a> {
    pub(crate) target: String,
    /// Absent if the server requires no authorization.
    pub(crate) protection: Option<&'a Protection>,
    /// Empty if the server requires a token, and there is none.
    pub(crate) handshakes: &'a [RevisionCheck],
    pub(crate) findings: &'a Findings,
    pub(crate) tokens: &'a [ToolTokens],
    /// The differences from the lock file, with `--locked`.
    pub(crate) changes: Option<&'a [Change]>,
    pub(crate) failed: bool,
}

impl Report<'_> {
    /// Prints the report for humans.
    pub(crate) fn human(&self) {
        self.print_authorization();
        self.print_handshakes();
        self.print_findings();
        self.print_tokens();
        self.print_changes();
        outln!("{}", self.summary());
    }

    fn print_authorization(&self) {
        let Some(Protection { metadata, resource, authorization_servers }) = self.protection else { return };
        outln!("{}", heading("authorization"));
        let line = |name: &str, value: Option<&str>| {
            outln!("  {name:20}  {}", escape_line(value.unwrap_or("unknown")));
        };
        line("metadata", metadata.as_deref());
        line("resource", resource.as_deref());
        authorization_servers.iter().for_each(|issuer| line("authorization server", Some(issuer)));
        outln!();
    }

    fn print_handshakes(&self) {
        if self.handshakes.is_empty() {
            return;
        }
        outln!("{}", heading("handshakes"));
        for RevisionCheck { revision, outcome } in self.handshakes {
            outln!("  {}  {}", revision.as_str(), describe(outcome));
        }
        outln!();
    }

    fn print_findings(&self) {
        let mut subjects: Vec<&Subject> = Vec::new();
        for finding in &self.findings.0 {
            if !subjects.contains(&&finding.subject) {
                subjects.push(&finding.subject);
            }
        }
        for subject in subjects {
            outln!("{}", heading(&subject.to_string()));
            let mut found: Vec<_> = self.findings.0.iter().filter(|finding| finding.subject == *subject).collect();
            found.sort_by_key(|finding| finding.code.level);
            for (index, finding) in found.iter().enumerate() {
                let style = style(finding.code.level);
                let (level, code) = (finding.code.level.as_str(), finding.code.name);
                outln!("  {style}{level}{style:#}[{code}]: {}", finding.message);
                // All findings of a code share their frameworks and their help, which follow the last of them.
                if found.get(index + 1).is_none_or(|next| next.code.name != code) {
                    let Explanation { frameworks, help, .. } = finding.code.explanation();
                    if let Some(frameworks) = frameworks {
                        outln!("    frameworks: {frameworks}");
                    }
                    outln!("    help: {help}");
                }
            }
            outln!();
        }
    }

    fn print_tokens(&self) {
        if self.tokens.is_empty() {
            return;
        }
        outln!("{} (estimated: {})", heading("tokens"), TOKEN_ESTIMATE);
        let names = self.tokens.iter().map(|tool| escape_line(&tool.name).chars().count());
        let width = names.max().unwrap_or_default().max("total".len());
        for ToolTokens { name, tokens } in self.tokens {
            outln!("  {:width$}  {tokens:>6}", escape_line(name));
        }
        outln!("  {:width$}  {:>6}\n", "total", self.total());
    }

    fn print_changes(&self) {
        match self.changes {
            None => {}
            Some([]) => outln!("the server matches `{}`\n", mcp_runtime_lock::FILE_NAME),
            Some(changes) => {
                outln!("{}\nhelp: run `cargo mcp lock` to accept the changes\n", mcp_runtime_lock::report(changes));
            }
        }
    }

    fn summary(&self) -> String {
        let count = |level: Level| counted(self.findings.count(level), level.as_str());
        format!("{}, {}, {}", count(Level::Error), count(Level::Warning), count(Level::Note))
    }

    fn total(&self) -> usize {
        self.tokens.iter().map(|tool| tool.tokens).sum()
    }

    /// Prints the report as JSON. `formatVersion` changes if a member is removed or redefined; members may be added.
    pub(crate) fn json(&self) {
        let handshakes: Vec<Value> = self.handshakes.iter().map(handshake).collect();
        let findings: Vec<Value> = self.findings.0.iter().map(Finding::json).collect();
        let of_tools: Vec<Value> =
            self.tokens.iter().map(|tool| json!({"name": tool.name, "tokens": tool.tokens})).collect();
        let mut report = json!({
            "formatVersion": 1,
            "server": self.target,
            "handshakes": handshakes,
            "findings": findings,
            "tokens": {"method": TOKEN_ESTIMATE, "total": self.total(), "tools": of_tools},
            "summary": {
                "errors": self.findings.count(Level::Error),
                "warnings": self.findings.count(Level::Warning),
                "notes": self.findings.count(Level::Note),
                "failed": self.failed,
            },
        });
        if let Some(Protection { metadata, resource, authorization_servers }) = self.protection {
            report["authorization"] =
                json!({"metadata": metadata, "resource": resource, "authorizationServers": authorization_servers});
        }
        if let Some(changes) = self.changes {
            let change = |Change { severity, entry, text }: &Change| json!({"breaking": *severity == Severity::Breaking, "entry": entry, "text": text});
            report["changes"] = changes.iter().map(change).collect();
        }
        print_json(&format!("{report:#}"));
    }

    /// Prints annotations for a GitHub workflow run.
    ///
    /// See [Workflow commands](https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions).
    pub(crate) fn github(&self) {
        for finding in &self.findings.0 {
            let command = match finding.code.level {
                Level::Error => "error",
                Level::Warning => "warning",
                Level::Note => "notice",
            };
            let text = format!("{}: {}; {}", finding.subject, finding.message, finding.code.explanation().help);
            let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
            outln!("::{command} title={}::{text}", finding.code.name);
        }
        outln!("{}", self.summary());
    }
}

fn describe(outcome: &HandshakeOutcome) -> String {
    match outcome {
        HandshakeOutcome::Refused(how) => format!("not supported: {how}"),
        HandshakeOutcome::Failed(why) | HandshakeOutcome::Unlisted(why) => format!("failed: {why}"),
        HandshakeOutcome::Supported(inventory) => {
            let lists = lists(&inventory.listing).into_iter().filter(|(_, items)| !items.is_empty());
            let counts: Vec<String> = lists.map(|(kind, items)| counted(items.len(), kind)).collect();
            let entries = if counts.is_empty() { "no entries".to_owned() } else { counts.join(", ") };
            let ping = if inventory.ping == Some(true) { ", ping" } else { "" };
            format!("ok: {entries}{ping}")
        }
    }
}

fn handshake(handshake: &RevisionCheck) -> Value {
    let revision = handshake.revision.as_str();
    match &handshake.outcome {
        HandshakeOutcome::Refused(how) => json!({"revision": revision, "outcome": "refused", "why": how}),
        HandshakeOutcome::Failed(why) | HandshakeOutcome::Unlisted(why) => {
            json!({"revision": revision, "outcome": "failed", "why": why})
        }
        HandshakeOutcome::Supported(inventory) => json!({
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
    format!("{NAME}{}{NAME:#}", escape_line(text))
}

fn style(level: Level) -> Style {
    let color = match level {
        Level::Error => AnsiColor::Red,
        Level::Warning => AnsiColor::Yellow,
        Level::Note => AnsiColor::Cyan,
    };
    Style::color(color).bold()
}
