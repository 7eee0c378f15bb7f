//! The arguments of `cargo mcp install`, and the arguments that it shares with `uninstall`.

use std::path::{Path, PathBuf};

use super::client::{self, CLIENTS, Client, Scope};
use crate::{
    arguments::elicit::in_terminal,
    directories::Directories,
    failure::{Failure, name_list},
    target::header,
    workspace::BuildArgs,
};

/// Add a server to the configuration of Claude, Cursor, VS Code and other clients
///
/// The entry contains the absolute path of the program in the target directory, so clients always start the latest
/// build. With `--copy-to`, it contains the path of a copy, which `cargo clean` does not remove. The server is started
/// once to verify that it responds.
///
/// Only the entry is changed: comments, order and line endings are preserved. The file is replaced atomically, and a
/// backup is kept next to it as `….bak`. `cargo mcp uninstall` removes the entry.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo mcp install --client claude-code                        the server of this package
  cargo mcp install --client cursor,vscode notes -- --db a.db   a package, with arguments
  cargo mcp install --client codex --env API_KEY --dry-run      show the changes only
  cargo mcp install --client vscode https://example.com/mcp --header 'Authorization: Bearer …'"
, mut_arg("release", |release| release.hide(true)))]
pub(crate) struct Args {
    /// Package of this workspace or URL [default: the only server here]
    pub(super) server: Option<String>,
    /// Arguments for the server if a package is named, otherwise its whole command
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) words: Vec<String>,
    #[command(flatten)]
    pub(super) clients: ClientArgs,
    /// Name of the server in the client [default: the name of the package, the program or the host]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(super) name: Option<String>,
    /// Set an environment variable for the server; NAME alone uses its current value (may be repeated)
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = Variable::parse)]
    pub(super) env: Vec<Variable>,
    /// Send a header with each HTTP request, such as `Authorization: Bearer …` (may be repeated)
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    pub(super) header: Vec<(String, String)>,
    /// Pass an argument to the server (may be repeated)
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub(super) arg: Vec<String>,
    /// Copy the program into a directory and install the copy
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) copy_to: Option<PathBuf>,
    /// Replace an entry that differs, and configure clients that do not seem to be installed
    #[arg(long)]
    pub(super) force: bool,
    /// Use the existing program instead of building it
    #[arg(long)]
    pub(super) no_build: bool,
    /// Do not start the server to verify that it responds
    #[arg(long)]
    pub(super) no_check: bool,
    /// Maximum number of seconds to wait for the server's response
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(super) connect_timeout: u64,
    /// List the configuration files of all clients, and whether they contain the server
    #[arg(long, conflicts_with_all = ["dry_run", "force", "copy_to", "no_build", "no_check"])]
    pub(super) list: bool,
    /// Build without optimizations
    #[arg(long, help_heading = "Build")]
    pub(super) debug: bool,
    #[command(flatten)]
    pub(super) build: BuildArgs,
}

impl Args {
    pub(super) fn build(&self) -> BuildArgs {
        BuildArgs { release: !self.debug, ..self.build.clone() }
    }
}

/// The choice of clients and of their files.
#[derive(Debug, clap::Args)]
pub(crate) struct ClientArgs {
    /// Comma-separated list of clients
    #[arg(long, short, value_name = "CLIENT", value_delimiter = ',', value_parser = client_ids())]
    pub(crate) client: Vec<String>,
    /// Configuration to change: that of all projects, or that of the current repository
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t, hide_possible_values = false)]
    pub(crate) scope: Scope,
    /// Show the changes without making them
    #[arg(long)]
    pub(crate) dry_run: bool,
}

fn client_ids() -> impl clap::builder::TypedValueParser<Value = String> {
    clap::builder::PossibleValuesParser::new(CLIENTS.iter().map(|client| client.id))
}

impl ClientArgs {
    /// Returns the clients named on the command line, or else asks for them in the terminal. `question` is the prompt.
    ///
    /// # Errors
    ///
    /// Fails if no client is named and there is no terminal, or if the user chooses none.
    pub(crate) fn select(&self, directories: &Directories, question: &str) -> Result<Vec<&'static Client>, Failure> {
        let named: Vec<_> = self.client.iter().filter_map(|id| client::named(id)).collect();
        if !named.is_empty() {
            let mut seen = std::collections::BTreeSet::new();
            return Ok(named.into_iter().filter(|client| seen.insert(client.id)).collect());
        }
        let installed: Vec<_> = CLIENTS.iter().filter(|client| self.is_candidate(client, directories)).collect();
        let ids: Vec<_> = installed.iter().map(|client| client.id).collect();
        if ids.is_empty() {
            let all: Vec<_> = CLIENTS.iter().map(|client| client.id).collect();
            return Err(Failure::usage("`--client` is missing, and no supported client seems to be installed")
                .help(format_args!("supported clients: {}", name_list(&all))));
        }
        if !in_terminal() {
            return Err(Failure::usage("`--client` is missing")
                .help(format_args!("these clients seem to be installed: {}", name_list(&ids))));
        }
        let titles = installed.iter().map(|client| client.title).collect();
        let answer = inquire::MultiSelect::new(question, titles).raw_prompt();
        let chosen = answer.map_err(|error| Failure::usage(error).help("name clients with `--client`"))?;
        if chosen.is_empty() {
            return Err(Failure::usage("no client selected").help("select clients with the space bar"));
        }
        Ok(chosen.into_iter().map(|option| installed[option.index]).collect())
    }

    fn is_candidate(&self, client: &Client, directories: &Directories) -> bool {
        let has_file = client.file(self.scope, directories, Path::new("")).is_some();
        has_file && (client.is_installed(directories) || client.user.is_none())
    }
}

/// An environment variable for the server.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    name: String,
    value: Option<String>,
}

impl Variable {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        if name.is_empty() {
            return Err("expected NAME=VALUE or NAME");
        }
        Ok(Self { name: name.to_owned(), value })
    }

    /// Returns the name and the value, which defaults to that in the current environment.
    ///
    /// # Errors
    ///
    /// Fails if the variable has no value.
    pub(super) fn resolve(&self) -> Result<(String, String), Failure> {
        let value = match &self.value {
            Some(value) => value.clone(),
            None => std::env::var(&self.name).map_err(|_| {
                Failure::usage(format_args!("`--env {0}`: `{0}` is not set in the current environment", self.name))
                    .help(format_args!("provide a value: `--env {}=…`", self.name))
            })?,
        };
        Ok((self.name.clone(), value))
    }
}
