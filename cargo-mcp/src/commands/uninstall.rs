//! `cargo mcp uninstall`: removes a server from the configuration of clients.

use std::path::PathBuf;

use super::install::{
    ClientArgs,
    client::{Client, invalid},
    file::File,
    server::default_name,
};
use crate::{
    directories::Directories,
    failure::{Failure, suggest},
    output::{errln, outln},
    target::is_url,
    temporary::Access,
    workspace::{BuildArgs, Workspace},
};

/// Remove a server from the configuration of clients
///
/// Only the entry is removed: comments, order and line endings are preserved, and a file that the installation created
/// is kept. An entry that `--force` replaced is not restored; the backup that `install --force` printed contains it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo mcp uninstall --client claude-code             the server of this package
  cargo mcp uninstall --client cursor,vscode notes     a server by name
  cargo mcp uninstall --client codex notes --dry-run   show the changes only")]
pub(crate) struct Args {
    /// Name of the server, or the URL it was installed with [default: the only server here]
    name: Option<String>,
    #[command(flatten)]
    clients: ClientArgs,
    /// Path to Cargo.toml
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let directories = Directories::current()?;
    let build = BuildArgs { manifest_path: args.manifest_path.clone(), ..BuildArgs::default() };
    if args.name.is_none() && Workspace::read(&build).is_err() {
        return Err(Failure::usage("the name of the server is missing, and there is no package here")
            .help("`cargo mcp install --list` lists the installed servers"));
    }
    let name = default_name(args.name.as_deref(), &build)?;
    let clients = args.clients.select(&directories, "Which clients should no longer use the server?")?;
    let mut removals = Vec::new();
    for client in clients {
        let (file, before) = client.read(args.clients.scope, &directories)?;
        if before.get(&name).is_none() {
            return Err(unknown(client, &file, &name, args.name.as_deref(), &before.names()));
        }
        let after = before.set(&name, None).map_err(|error| invalid(&file.path, &error))?;
        removals.push((client, file, before, after));
    }
    // The editions of VS Code share the file of a project.
    removals.dedup_by(|(_, file, ..), (_, other, ..)| file.path == other.path);
    for (client, file, before, after) in removals {
        if args.clients.dry_run {
            file.print_diff(&before.masked(), &after.masked());
            continue;
        }
        let backup = file.write(&after.text(), Access::Private)?;
        outln!("{}: uninstalled `{name}` from {}", client.title, file.path.display());
        if let Some(backup) = backup {
            errln!("  backup: {}", backup.display());
        }
    }
    Ok(())
}

fn unknown(client: &Client, file: &File, name: &str, given: Option<&str>, names: &[&str]) -> Failure {
    let failure = Failure::usage(format_args!("{} has no server `{name}` in `{}`", client.title, file.path.display()));
    let failure = suggest(failure, name, names, "servers");
    if names.is_empty() || given.is_some_and(|given| !is_url(given)) {
        return failure;
    }
    failure.help("if the server was installed with `--name`, use that name")
}
