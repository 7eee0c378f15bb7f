//! `cargo mcp install`: writes a server into the configuration of clients.

mod change;
pub(crate) mod clients;
pub(crate) mod document;
pub(crate) mod entry;
pub(crate) mod file;
mod json;
mod list;
pub(crate) mod notes;
pub(crate) mod places;
pub(crate) mod server;
pub(crate) mod show;
mod toml;

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    time::Duration,
};

use rmcp::model::ClientConfig;

use self::{
    change::Change,
    clients::{CLIENTS, Client, Scope},
    document::{Broken, Document},
    entry::Launch,
    file::File,
    notes::Notes,
    places::Places,
    server::Wanted,
};
use crate::{
    client::{connect, identity},
    failure::Failure,
    target::header,
    workspace::{BuildArgs, listed},
};

/// Write a server into the configuration of Claude, Cursor, VS Code and others
///
/// The entry has the program's absolute path in the target directory, so that the next build is what the client starts; with
/// `--copy-to` it is a copy, which `cargo clean` does not reach. The server is started once to see that it answers.
///
/// Only the entry is changed: comments, order, indentation and line endings stay. The file is replaced at once, and a copy of
/// what it was stays beside it as `….bak`. What was put in is noted, so that `cargo mcp uninstall` leaves what was there before.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo mcp install --client claude-code                        the server of this package
  cargo mcp install --client cursor,vscode notes -- --db a.db   a package, with arguments
  cargo mcp install --client codex --env API_KEY --dry-run      what would be changed
  cargo mcp install --client vscode https://example.com/mcp --header 'Authorization: Bearer …'")]
pub(crate) struct Args {
    /// A package of this workspace, or a URL; without it the only server here
    server: Option<String>,
    /// The server's arguments if a package is named, and its whole command if not
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<String>,
    #[command(flatten)]
    clients: ClientArgs,
    /// What the client calls the server [default: the name of the package, the program or the host]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// A variable for the server: `NAME=VALUE`, or `NAME` with the value it has now (may be repeated)
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = Variable::parse)]
    env: Vec<Variable>,
    /// A header of each HTTP request, such as `Authorization: Bearer …` (may be repeated)
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// An argument for the server (may be repeated)
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    arg: Vec<String>,
    /// Copy the program into a directory, and install the copy
    #[arg(long, value_name = "DIRECTORY")]
    copy_to: Option<PathBuf>,
    /// Replace an entry that differs, and write for a client that does not seem to be installed
    #[arg(long)]
    force: bool,
    /// Do not build: the program is there already
    #[arg(long)]
    no_build: bool,
    /// Do not start the server to see that it answers
    #[arg(long)]
    no_check: bool,
    /// How many seconds the server may take to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    connect_timeout: u64,
    /// Show each client's file, and whether the server is in it
    #[arg(long, conflicts_with_all = ["dry_run", "force", "copy_to", "no_build", "no_check"])]
    list: bool,
    /// The Cargo.toml of the package or workspace
    #[arg(long, value_name = "PATH", help_heading = "Build")]
    manifest_path: Option<PathBuf>,
    /// Build without optimisations
    #[arg(long, help_heading = "Build")]
    debug: bool,
    /// Features of the package, separated by commas
    #[arg(long, short = 'F', value_name = "FEATURES", help_heading = "Build")]
    features: Vec<String>,
    /// Which binary of the package is the server, if it has several
    #[arg(long, value_name = "NAME", help_heading = "Build")]
    bin: Option<String>,
}

/// Whose configuration is changed, and whether really.
#[derive(Debug, clap::Args)]
pub(crate) struct ClientArgs {
    /// The clients, separated by commas
    #[arg(long, short, value_name = "CLIENT", value_delimiter = ',', value_parser = clients())]
    pub(crate) client: Vec<String>,
    /// Of all projects, or of the repository around the current directory
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t, hide_possible_values = false)]
    pub(crate) scope: Scope,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

fn clients() -> impl clap::builder::TypedValueParser<Value = String> {
    clap::builder::PossibleValuesParser::new(CLIENTS.iter().map(|client| client.id))
}

/// A variable of the server's environment.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    name: String,
    value: Option<String>,
}

impl Variable {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        match name {
            "" => Err("expected NAME=VALUE, or NAME".to_owned()),
            name => Ok(Self { name: name.to_owned(), value }),
        }
    }

    fn value(&self) -> Result<(String, String), Failure> {
        let value = match &self.value {
            Some(value) => value.clone(),
            None => std::env::var(&self.name).map_err(|_| {
                Failure::usage(format_args!("`--env {0}`: there is no `{0}` in this environment", self.name))
                    .help(format_args!("give it a value: `--env {}=…`", self.name))
            })?,
        };
        Ok((self.name.clone(), value))
    }
}

impl Args {
    fn build(&self) -> BuildArgs {
        BuildArgs {
            manifest_path: self.manifest_path.clone(),
            release: !self.debug,
            features: self.features.clone(),
            bin: self.bin.clone(),
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let places = Places::here()?;
    if args.list {
        return list::run(&args, &places);
    }
    let wanted = Wanted::find(&args)?;
    let clients = args.clients.chosen(&places, "installed for")?;
    let launch = wanted.launch(&args)?;
    let notes_path = places.notes();
    let mut notes = Notes::read(&notes_path);
    let mut changes = Vec::new();
    for client in clients {
        let Some(change) = Change::new(client, &args, &places, &wanted.name, &launch)? else { continue };
        // Two clients may share a file of the project.
        if changes.iter().all(|other: &Change| other.file.path != change.file.path) {
            changes.push(change);
        }
    }
    // A package that is installed already is built and copied again: it may be another one by now.
    if changes.is_empty() && !wanted.is_package() {
        return Ok(());
    }
    if args.clients.dry_run {
        changes.iter().for_each(Change::show);
        return Ok(());
    }
    let launch = wanted.build(&args)?;
    if !args.no_check {
        check(&args, &wanted, &launch).await?;
    }
    for change in &mut changes {
        // Once built, the program may be elsewhere than was foreseen.
        change.relaunch(&launch)?;
        change.write(&mut notes, &notes_path)?;
    }
    if wanted.is_package()
        && args.copy_to.is_none()
        && !changes.is_empty()
        && let Launch::Program { program, .. } = &launch
    {
        anstream::eprintln!(
            "note: clients start {program}, which `cargo clean` removes; `--copy-to DIRECTORY` keeps a copy"
        );
    }
    Ok(())
}

/// Starts the server as a client would, and lets it go.
async fn check(args: &Args, wanted: &Wanted, launch: &Launch) -> Result<(), Failure> {
    let config = ClientConfig::new(Default::default(), identity());
    let timeout = Duration::from_secs(args.connect_timeout);
    let connection = connect(&wanted.target(launch), None, config, timeout).await;
    let connection = connection
        .map_err(|failure| failure.help("nothing was changed; `--no-check` installs it without starting it"))?;
    let told = connection.peer_info().and_then(|info| info.server_info.clone());
    if let Some(server) = told {
        anstream::eprintln!("`{}` answers: it is {} {}", wanted.name, server.name, server.version);
    }
    // What it says at its end is no concern of the installation.
    let _ = tokio::time::timeout(Duration::from_secs(5), connection.cancel()).await;
    Ok(())
}

/// Notes make `uninstall` exact; without them it works still.
pub(crate) fn keep(notes: &Notes, path: &Path) {
    if let Err(error) = notes.write(path) {
        anstream::eprintln!("warning: what was changed cannot be noted in `{}`: {error}", path.display());
    }
}

pub(crate) fn client_file(client: &Client, scope: Scope, places: &Places) -> Result<PathBuf, Failure> {
    client.file(scope, places, &project()).ok_or_else(|| {
        let failure = Failure::usage(format_args!(
            "{} has no documented configuration file of scope `{}`",
            client.title,
            scope.as_str()
        ));
        match client.other(scope) {
            Some(other) => failure.help(format_args!("`--scope {}`", other.as_str())),
            None => failure,
        }
    })
}

pub(crate) fn parse(client: &Client, file: &File) -> Result<Document, Failure> {
    Document::parse(client, file.text()?).map_err(|broken| broken_file(&file.path, &broken))
}

pub(crate) fn broken_file(path: &Path, broken: &Broken) -> Failure {
    Failure::usage(format_args!("`{}`, {broken}", path.display())).help("mend the file; nothing was changed in it")
}

/// The top of the repository around the current directory, or that directory.
fn project() -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    let top = here.ancestors().find(|directory| directory.join(".git").exists());
    top.map_or_else(|| here.clone(), Path::to_owned)
}

impl ClientArgs {
    /// The clients that are named, or else chosen in the terminal.
    ///
    /// # Errors
    ///
    /// None is named, and nobody can be asked.
    pub(crate) fn chosen(&self, places: &Places, what: &str) -> Result<Vec<&'static Client>, Failure> {
        let named: Vec<_> = self.client.iter().filter_map(|id| Client::named(id)).collect();
        if !named.is_empty() {
            let mut seen = std::collections::BTreeSet::new();
            return Ok(named.into_iter().filter(|client| seen.insert(client.id)).collect());
        }
        let here: Vec<_> = CLIENTS.iter().filter(|client| self.offers(client, places)).collect();
        let ids: Vec<_> = here.iter().map(|client| client.id).collect();
        if ids.is_empty() {
            let all: Vec<_> = CLIENTS.iter().map(|client| client.id).collect();
            return Err(Failure::usage("no client is named with `--client`, and none seems to be installed here")
                .help(format_args!("name one of {}", listed(&all))));
        }
        if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            return Err(Failure::usage("no client is named with `--client`")
                .help(format_args!("these seem to be installed here: {}", listed(&ids))));
        }
        let titles = here.iter().map(|client| client.title).collect();
        let question = format!("Which clients is it to be {what}?");
        let answer = inquire::MultiSelect::new(&question, titles).raw_prompt();
        let chosen = answer.map_err(|error| Failure::usage(error).help("name clients with `--client`"))?;
        match chosen.is_empty() {
            true => Err(Failure::usage("no client was chosen").help("the space bar chooses one")),
            false => Ok(chosen.into_iter().map(|option| here[option.index]).collect()),
        }
    }

    fn offers(&self, client: &Client, places: &Places) -> bool {
        let has_file = client.file(self.scope, places, Path::new("")).is_some();
        has_file && (client.is_here(places) || (self.scope == Scope::Project && client.other(self.scope).is_none()))
    }
}
