//! `cargo mcp uninstall`: removes a server from the configuration of clients.

use std::path::PathBuf;

use super::install::{
    ClientArgs, client::Client, config, diff, document::Document, file::File, records::Records, server::default_name,
};
use crate::{
    directories::Directories,
    failure::Failure,
    near::suggest,
    output::{errln, outln},
    target::is_url,
    temporary::Access,
    workspace::{BuildArgs, Workspace},
};

/// Remove a server from the configuration of clients
///
/// Everything that `cargo mcp install` inserted is removed, which restores the original file. If the client has
/// rewritten its file since, only the entry is removed. An entry that `--force` replaced is not restored; the backup
/// next to the file contains it.
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
    let records_path = directories.records();
    let mut records = Records::read(&records_path);
    let removals = clients.into_iter().map(|client| Removal::new(client, &args, &directories, &name, &records));
    let removals = removals.collect::<Result<Vec<_>, _>>()?;
    for removal in removals {
        if args.clients.dry_run {
            removal.show();
        } else {
            removal.write(&name, &mut records)?;
            records.save(&records_path);
        }
    }
    Ok(())
}

/// The removal of an entry from one file.
struct Removal {
    client: &'static Client,
    file: File,
    before: Document,
    after: Document,
    /// The name of the entry after the removed one.
    next: Option<String>,
    /// The directories created for the file, if the file was created for the server and is empty now.
    created_directories: Option<Vec<PathBuf>>,
}

impl Removal {
    fn new(
        client: &'static Client,
        args: &Args,
        directories: &Directories,
        name: &str,
        records: &Records,
    ) -> Result<Self, Failure> {
        let file = File::read(config::path(client, args.clients.scope, directories)?)?;
        let before = config::parse(client, &file)?;
        let names = before.names().map_err(|error| config::invalid(&file.path, &error))?;
        let Some(index) = names.iter().position(|known| known == name) else {
            return Err(unknown(client, &file, name, args.name.as_deref(), &names));
        };
        let record = records.get(&file.key());
        let inserted = record.and_then(|record| record.inserted(name));
        let after = before.remove(name, inserted.as_ref()).map_err(|error| config::invalid(&file.path, &error))?;
        let created = record.filter(|record| record.created && inserted.is_some() && after.is_empty());
        let created_directories = created.map(|record| record.created_directories.clone());
        Ok(Self { client, file, before, after, next: names.get(index + 1).cloned(), created_directories })
    }

    /// Prints the removal as a diff.
    fn show(&self) {
        let after = self.created_directories.is_none().then(|| self.after.masked());
        diff::print(&self.file.path, Some(&self.before.masked()), after.as_deref());
    }

    /// Writes or deletes the file, and removes the record.
    fn write(&self, name: &str, records: &mut Records) -> Result<(), Failure> {
        let key = self.file.key();
        let path = self.file.path.display();
        match &self.created_directories {
            Some(directories) => {
                self.file.remove(directories)?;
                outln!("{}: uninstalled `{name}` and deleted {path}, which was created for it", self.client.title);
            }
            None => {
                let written = self.file.write(&self.after.text(), Access::Private)?;
                outln!("{}: uninstalled `{name}` from {path}", self.client.title);
                if let Some(backup) = written.backup {
                    errln!("  backup: {}", backup.display());
                }
            }
        }
        records.remove(&key, name, self.next.as_deref());
        Ok(())
    }
}

fn unknown(client: &Client, file: &File, name: &str, given: Option<&str>, names: &[String]) -> Failure {
    let failure = Failure::usage(format_args!("{} has no server `{name}` in `{}`", client.title, file.path.display()));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let failure = suggest(failure, name, &names, "servers");
    if names.is_empty() || given.is_some_and(|given| !is_url(given)) {
        return failure;
    }
    failure.help("if the server was installed with `--name`, use that name")
}
