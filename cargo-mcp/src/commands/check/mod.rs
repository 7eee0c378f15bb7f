//! `cargo mcp check`: finds errors in a server, and problems that it causes in some clients.

mod authorization;
mod codes;
mod compatibility;
mod conformance;
mod metadata;
mod pages;
mod report;
mod schemas;

use std::{fs, path::PathBuf};

use mcp_runtime_lock::{Change, Listing, Lock, Severity};

use authorization::TokenArgs;
use codes::{Code, Explanation, Findings, Level, Subject};
use conformance::{HandshakeOutcome, Inventory};
use report::Report;

use super::lock;
use crate::{
    client::with_stored_token,
    failure::{Failure, nearest},
    output::{display_path, outln},
    revision::Revision,
    target::TargetArgs,
};

/// Check a server for errors and for problems with known clients
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("revision", |arg| arg.help("Check only this protocol revision [default: all]")),
    after_help = include_str!("help.txt").trim_end()
)]
pub(crate) struct Args {
    /// Package of this workspace or URL [default: the only server here]
    server: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// Fail on warnings, on warnings and notes, or on one CODE (may be repeated)
    #[arg(long, value_name = "warnings|notes|CODE")]
    deny: Vec<String>,
    /// Suppress the findings of a code (may be repeated)
    #[arg(long, value_name = "CODE")]
    allow: Vec<String>,
    /// Explain a code and cite its sources; `list` lists all codes
    #[arg(long, value_name = "CODE")]
    explain: Option<String>,
    /// Fail if the server differs from its lock file [default: `mcp.lock.json` next to the package's Cargo.toml]
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true)]
    locked: Option<Option<PathBuf>>,
    /// Fail if all tools together use more tokens
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<usize>,
    /// Fail if a single tool uses more tokens
    #[arg(long, value_name = "TOKENS")]
    max_tool_tokens: Option<usize>,
    /// Also read each listed resource, and complete one argument of each prompt and resource template
    #[arg(long)]
    read: bool,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Text for humans
    Human,
    /// A JSON object: `formatVersion` 1, `server`, `handshakes`, `findings`, `tokens`, `changes` (`--locked`),
    /// `authorization` (if the server requires it), `summary`
    Json,
    /// Annotations for a GitHub workflow run
    Github,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    if let Some(name) = &args.explain {
        return explain(name);
    }
    let denied = args.denied()?;
    for name in &args.allow {
        code(name)?;
    }
    let lock = args.lock()?;
    let target = with_stored_token(args.target.resolve(args.server.as_deref())?).await?;
    let revisions = args.target.revision.map_or_else(|| Revision::known().collect(), |revision| vec![revision]);
    let mut findings = Findings::default();
    let timeout = args.target.connect_timeout();
    let protection = authorization::check(&mut findings, &target, &args.tokens, timeout).await?;
    let handshakes =
        conformance::handshakes(&mut findings, &target, &revisions, args.target.revision.is_none(), timeout, args.read)
            .await;
    let (handshakes, unavailable) = match handshakes {
        Ok(handshakes) => (handshakes, None),
        // Without a token, only the authorization can be checked.
        Err(failure) if protection.is_some() => (Vec::new(), Some(failure)),
        Err(failure) => return Err(failure),
    };
    let supported = handshakes.iter().filter_map(|handshake| match &handshake.outcome {
        HandshakeOutcome::Supported(inventory) => Some((handshake.revision, &**inventory)),
        _ => None,
    });
    let supported: Vec<(Revision, &Inventory)> = supported.collect();
    output_schemas(&mut findings, &supported);
    let newest = supported.last().map(|(_, inventory)| *inventory);
    let mut tokens = Vec::new();
    if let Some(inventory) = newest {
        check_inventory(&mut findings, inventory);
        tokens = metadata::estimate_tokens(&inventory.listing);
        metadata::token_budget(&mut findings, &tokens, args.max_tokens, args.max_tool_tokens);
    }
    let changes = lock.zip(newest).map(|(lock, now)| lock.changes(&Lock::of(&now.listing)));
    lock_changes(&mut findings, changes.as_deref().unwrap_or_default());
    findings.0.retain(|finding| !args.allow.iter().any(|name| name == finding.code.name));
    findings.0.sort_by_key(|finding| rank(&finding.subject));
    let failed = findings.0.iter().any(|finding| denied(finding.code));
    let report = Report {
        target: target.to_string().trim_matches('`').to_owned(),
        protection: protection.as_ref(),
        handshakes: &handshakes,
        findings: &findings,
        tokens: &tokens,
        changes: changes.as_deref(),
        failed,
    };
    match args.format {
        Format::Human => report.human(),
        Format::Json => report.json(),
        Format::Github => report.github(),
    }
    if !failed {
        return unavailable.map_or(Ok(()), Err);
    }
    let failure = Failure::tool(format_args!("{target} failed the check"))
        .help("`cargo mcp check --explain CODE` explains a code, `--allow CODE` suppresses it");
    Err(failure
        .help_if(unavailable.map(|_| "everything but the authorization remains to be checked, which requires a token")))
}

impl Args {
    /// Returns whether a code makes the command fail.
    fn denied(&self) -> Result<impl Fn(&Code) -> bool, Failure> {
        let mut worst = Level::Error;
        let mut codes = Vec::new();
        for name in &self.deny {
            match name.as_str() {
                "warnings" => worst = worst.max(Level::Warning),
                "notes" => worst = Level::Note,
                name => codes.push(code(name)?.name),
            }
        }
        Ok(move |code: &Code| code.level <= worst || codes.contains(&code.name))
    }

    /// Reads the lock file if `--locked` is given.
    fn lock(&self) -> Result<Option<Lock>, Failure> {
        let Some(named) = &self.locked else { return Ok(None) };
        if let Some(revision) = self.target.revision {
            return Err(Failure::usage(format_args!(
                "`--locked` compares the newest revision that the server supports and conflicts with `--revision {}`",
                revision.as_str()
            ))
            .help("omit one of them"));
        }
        let path = lock::path(named.clone(), self.server.as_deref(), &self.target)?;
        let text = fs::read_to_string(&path).map_err(|error| {
            Failure::usage(format_args!("cannot read `{}`: {error}", display_path(&path)))
                .help("run `cargo mcp lock` to create it")
        })?;
        let lock = Lock::parse(&text).map_err(|why| {
            Failure::usage(format_args!("`{}` is not a lock file: {why}", display_path(&path)))
                .help("run `cargo mcp lock` to recreate it")
        })?;
        Ok(Some(lock))
    }
}

/// Checks everything that a server lists.
fn check_inventory(findings: &mut Findings, inventory: &Inventory) {
    let Inventory { server, listing, .. } = inventory;
    for tool in &listing.tools {
        let subject = Subject::of("tool", tool);
        schemas::input(findings, &subject, &tool["inputSchema"]);
        compatibility::input(findings, &subject, &tool["inputSchema"]);
        if let Some(schema) = tool.get("outputSchema") {
            schemas::output(findings, &subject, schema);
            compatibility::output(findings, &subject, schema);
        }
    }
    uris(findings, listing);
    metadata::names(findings, listing, server["name"].as_str().unwrap_or_default());
    metadata::descriptions(findings, listing);
    metadata::hints(findings, listing);
}

fn uris(findings: &mut Findings, listing: &Listing) {
    let lists = [("resource", &listing.resources), ("resource template", &listing.resource_templates)];
    for (kind, items) in lists {
        for item in items {
            let subject = Subject::of(kind, item);
            let is_scheme = |scheme: &str| {
                scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                    && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
            };
            // A template may leave the scheme to a variable.
            let has_variable_scheme = kind == "resource template" && subject.name.starts_with('{');
            let is_clean = !subject.name.chars().any(|letter| letter.is_whitespace() || letter.is_control());
            let is_uri = is_clean && subject.name.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme));
            if !has_variable_scheme && !is_uri {
                findings.add(codes::BAD_URI, &subject, format!("`{}` is not a URI", subject.name));
            }
        }
    }
}

/// Checks output schemas in the revisions before 2026-07-28, which allow only objects.
fn output_schemas(findings: &mut Findings, supported: &[(Revision, &Inventory)]) {
    for (revision, inventory) in supported.iter().filter(|(revision, _)| !revision.is_stateless()) {
        for tool in &inventory.listing.tools {
            let schema = tool.get("outputSchema").filter(|schema| schema["type"] != "object");
            if let Some(schema) = schema {
                let actual = if schema["type"].is_null() { "missing".to_owned() } else { schema["type"].to_string() };
                let message = format!("the type of `outputSchema` is {actual} in {}", revision.as_str());
                findings.add(codes::OUTPUT_NOT_OBJECT, &Subject::of("tool", tool), message);
            }
        }
    }
}

/// Turns the differences from the lock file into findings.
fn lock_changes(findings: &mut Findings, changes: &[Change]) {
    for change in changes {
        let code = match change.severity {
            Severity::Breaking => codes::BREAKING_CHANGE,
            Severity::Compatible => codes::COMPATIBLE_CHANGE,
        };
        let (kind, name) = change.entry.split_once(" `").unwrap_or((&change.entry, ""));
        let kind = ["tool", "resource template", "resource", "prompt"].into_iter().find(|known| *known == kind);
        let subject = Subject { kind: kind.unwrap_or("server"), name: name.trim_end_matches('`').to_owned() };
        findings.add(code, &subject, change.text.clone());
    }
}

/// Orders findings: the server, its authorization servers, and then its tools, resources, resource templates and prompts.
fn rank(subject: &Subject) -> usize {
    ["server", "authorization server", "tool", "resource", "resource template", "prompt"]
        .iter()
        .position(|kind| *kind == subject.kind)
        .unwrap_or(9)
}

fn code(name: &str) -> Result<&'static Code, Failure> {
    Code::named(name).ok_or_else(|| {
        let failure = Failure::usage(format_args!("unknown code `{name}`"));
        match nearest(name, codes::ALL.iter().map(|code| code.name)) {
            Some(near) => failure.help(format_args!("did you mean `{near}`?")),
            None => failure.help("`cargo mcp check --explain list` lists all codes"),
        }
    })
}

fn explain(name: &str) -> Result<(), Failure> {
    if name == "list" {
        let width = codes::ALL.iter().map(|code| code.name.len()).max().unwrap_or_default();
        for code in codes::ALL {
            outln!("{:7}  {:width$}  {}", code.level.as_str(), code.name, code.explanation().summary);
        }
        return Ok(());
    }
    let code @ Code { name, level } = code(name)?;
    let Explanation { summary, why, frameworks, help } = code.explanation();
    let frameworks = frameworks.map(|words| format!("\nAgent frameworks: {words}.")).unwrap_or_default();
    outln!("{}[{name}]: {summary}\n\n{why}{frameworks}\n\nhelp: {help}", level.as_str());
    Ok(())
}

#[cfg(test)]
mod tests;
