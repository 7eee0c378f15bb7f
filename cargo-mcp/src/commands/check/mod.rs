//! `cargo mcp check`: what is wrong with a server, and what some clients will not like.

mod clients;
mod codes;
mod conformance;
mod finding;
mod report;
mod schemas;
mod tokens;
mod walk;
mod words;

use std::{fs, path::PathBuf, time::Duration};

use mcp_lock::{Change, Listing, Lock};

use codes::Code;
use conformance::{Inventory, Outcome};
use finding::{Entry, Findings, Level};
use report::Report;

use super::lock;
use crate::{
    failure::Failure,
    near::nearest,
    target::{Revision, TargetArgs},
};

/// How long a server may take to end when its input has.
pub(super) const PATIENCE: Duration = Duration::from_secs(7);

/// Find what is wrong with a server, and what clients will not like
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo mcp check notes
  cargo mcp check notes --deny warnings --allow no-hints --max-tokens 4000
  cargo mcp check notes --locked --format github
  cargo mcp check --explain schema-ref

Every revision of the protocol is tried, or the one of `--revision`; what the newest one lists is looked at.
Exit codes: 0 nothing is denied, 1 something is, 2 the command line is wrong, 3 the server is not there.")]
pub(crate) struct Args {
    /// A package of this workspace, or a URL; without it the only server here
    server: Option<String>,
    /// How findings are told
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// Fail for warnings, or for notes as well, or for one CODE (may be repeated)
    #[arg(long, value_name = "warnings|notes|CODE")]
    deny: Vec<String>,
    /// Leave the findings of a code out (may be repeated)
    #[arg(long, value_name = "CODE")]
    allow: Vec<String>,
    /// Tell what a code means and where that is known from; `list` tells all codes
    #[arg(long, value_name = "CODE")]
    explain: Option<String>,
    /// Fail if the server is not what its lock file says; the file is `mcp.lock.json` beside the package's Cargo.toml, or PATH
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true)]
    locked: Option<Option<PathBuf>>,
    /// Fail if the tools take more tokens in all
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<usize>,
    /// Fail if one tool takes more tokens
    #[arg(long, value_name = "TOKENS")]
    max_tool_tokens: Option<usize>,
    /// Also read each listed resource, and complete an argument of each prompt and template
    #[arg(long)]
    read: bool,
    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Text for people
    Human,
    /// One JSON object: `formatVersion` 1, `server`, `handshakes`, `findings`, `tokens`, `changes` with `--locked`, `summary`
    Json,
    /// Annotations of a GitHub workflow
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
    let target = args.target.resolve(args.server.as_deref())?;
    let revisions = args.target.revision.map_or_else(|| Revision::ALL.to_vec(), |revision| vec![revision]);
    let mut findings = Findings::default();
    let time = args.target.connect_timeout();
    let handshakes = conformance::handshakes(&mut findings, &target, &revisions, time, args.read).await?;
    let spoken = handshakes.iter().filter_map(|handshake| match &handshake.outcome {
        Outcome::Spoken(inventory) => Some((handshake.revision, &**inventory)),
        _ => None,
    });
    let spoken: Vec<(Revision, &Inventory)> = spoken.collect();
    older_results(&mut findings, &spoken);
    let newest = spoken.last().map(|(_, inventory)| *inventory);
    let mut tokens = Vec::new();
    if let Some(inventory) = newest {
        look(&mut findings, inventory);
        tokens = tokens::of_tools(&inventory.listing);
        tokens::budget(&mut findings, &tokens, args.max_tokens, args.max_tool_tokens);
    }
    let changes = lock.zip(newest).map(|(lock, now)| lock.changes(&Lock::of(&now.listing)));
    compare(&mut findings, changes.as_deref().unwrap_or_default());
    findings.0.retain(|finding| !args.allow.iter().any(|name| name == finding.code.name));
    findings.0.sort_by_key(|finding| rank(&finding.entry));
    let failed = findings.0.iter().any(|finding| denied(finding.code));
    let report = Report {
        target: target.to_string().trim_matches('`').to_owned(),
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
    match failed {
        false => Ok(()),
        true => Err(Failure::tool(format_args!("{target} does not pass the check"))
            .help("`cargo mcp check --explain CODE` tells more, `--allow CODE` leaves a code out")),
    }
}

impl Args {
    /// Which codes make the command fail.
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

    /// The lock file, if it is to be compared.
    fn lock(&self) -> Result<Option<Lock>, Failure> {
        let Some(named) = &self.locked else { return Ok(None) };
        if let Some(revision) = self.target.revision {
            return Err(Failure::usage(format_args!(
                "`--locked` compares the newest revision that the server speaks, and `--revision {}` is another",
                revision.as_str()
            ))
            .help("leave one of them out"));
        }
        let path = lock::path(named.clone(), self.server.as_deref(), &self.target)?;
        let text = fs::read_to_string(&path).map_err(|error| {
            Failure::usage(format_args!("`{}` cannot be read: {error}", lock::shown(&path)))
                .help("run `cargo mcp lock` to write it")
        })?;
        let lock = Lock::read(&text).map_err(|why| {
            Failure::usage(format_args!("`{}` is not a lock file: {why}", lock::shown(&path)))
                .help("run `cargo mcp lock` to write it anew")
        })?;
        Ok(Some(lock))
    }
}

/// Looks at what a server offers.
fn look(findings: &mut Findings, inventory: &Inventory) {
    let Inventory { server, listing, .. } = inventory;
    for tool in &listing.tools {
        let entry = Entry::of("tool", tool);
        schemas::input(findings, &entry, &tool["inputSchema"]);
        clients::input(findings, &entry, &tool["inputSchema"]);
        if let Some(schema) = tool.get("outputSchema") {
            schemas::output(findings, &entry, schema);
            clients::output(findings, &entry, schema);
        }
    }
    uris(findings, listing);
    words::names(findings, listing, server["name"].as_str().unwrap_or_default());
    words::descriptions(findings, listing);
    words::hints(findings, listing);
}

fn uris(findings: &mut Findings, listing: &Listing) {
    let lists = [("resource", &listing.resources), ("resource template", &listing.resource_templates)];
    for (kind, items) in lists {
        for item in items {
            let entry = Entry::of(kind, item);
            let is_scheme = |scheme: &str| {
                scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                    && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
            };
            // A template may give the whole URI, scheme and all.
            let is_open = kind == "resource template" && entry.name.starts_with('{');
            let is_clean = !entry.name.chars().any(|letter| letter.is_whitespace() || letter.is_control());
            let is_uri = is_clean && entry.name.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme));
            if !is_open && !is_uri {
                findings.add(codes::BAD_URI, &entry, format!("`{}` is no URI", entry.name));
            }
        }
    }
}

/// Looks at results as the revisions before 2026-07-28 have them.
fn older_results(findings: &mut Findings, spoken: &[(Revision, &Inventory)]) {
    for (revision, inventory) in spoken.iter().filter(|(revision, _)| *revision < Revision::V2026_07_28) {
        for tool in &inventory.listing.tools {
            let schema = tool.get("outputSchema").filter(|schema| schema["type"] != "object");
            if let Some(schema) = schema {
                let kind = if schema["type"].is_null() { "no type" } else { "another type" };
                let message = format!("`outputSchema` has {kind} in {}", revision.as_str());
                findings.add(codes::OUTPUT_NOT_OBJECT, &Entry::of("tool", tool), message);
            }
        }
    }
}

/// Makes findings of what differs from the lock file.
fn compare(findings: &mut Findings, changes: &[Change]) {
    for change in changes {
        let code = if change.breaking { codes::BREAKING_CHANGE } else { codes::COMPATIBLE_CHANGE };
        let (kind, name) = change.entry.split_once(" `").unwrap_or((&change.entry, ""));
        let kind = ["tool", "resource template", "resource", "prompt"].into_iter().find(|known| *known == kind);
        let entry = Entry { kind: kind.unwrap_or("server"), name: name.trim_end_matches('`').to_owned() };
        findings.add(code, &entry, change.text.clone());
    }
}

/// The server first, then what it lists, in its order.
fn rank(entry: &Entry) -> usize {
    ["server", "tool", "resource", "resource template", "prompt"]
        .iter()
        .position(|kind| *kind == entry.kind)
        .unwrap_or(9)
}

fn code(name: &str) -> Result<&'static Code, Failure> {
    codes::named(name).ok_or_else(|| {
        let failure = Failure::usage(format_args!("there is no code `{name}`"));
        match nearest(name, codes::ALL.iter().map(|code| code.name)) {
            Some(near) => failure.help(format_args!("did you mean `{near}`?")),
            None => failure.help("`cargo mcp check --explain list` lists them"),
        }
    })
}

fn explain(name: &str) -> Result<(), Failure> {
    if name == "list" {
        let width = codes::ALL.iter().map(|code| code.name.len()).max().unwrap_or_default();
        for code in codes::ALL {
            anstream::println!("{:7}  {:width$}  {}", code.level.as_str(), code.name, code.summary);
        }
        return Ok(());
    }
    let Code { name, level, summary, why, help } = code(name)?;
    anstream::println!("{}[{name}]: {summary}\n\n{why}\n\nhelp: {help}", level.as_str());
    Ok(())
}
