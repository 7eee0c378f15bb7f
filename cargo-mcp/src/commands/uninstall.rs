//! `cargo mcp uninstall`: takes a server out of the configuration of clients.

use std::path::PathBuf;

use super::install::{
    ClientArgs, broken_file, client_file, clients::Client, document::Document, file::File, keep, notes::Notes, parse,
    places::Places, server::name_of, show,
};
use crate::{
    failure::Failure,
    near::nearest,
    target::is_url,
    workspace::{BuildArgs, Workspace, listed},
};

/// Take a server out of the configuration of clients again
///
/// What `cargo mcp install` made for the server goes too, and the file is what it was before. If the client has written its file
/// anew since, the entry goes and the rest stays. An entry that `--force` has replaced does not come back: it is in the copy beside
/// the file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo mcp uninstall --client claude-code             the server of this package
  cargo mcp uninstall --client cursor,vscode notes     by its name
  cargo mcp uninstall --client codex notes --dry-run   what would be changed")]
pub(crate) struct Args {
    /// The server's name, or the URL it was installed with; without it the only package here that is a server
    name: Option<String>,
    #[command(flatten)]
    clients: ClientArgs,
    /// The Cargo.toml of the package or workspace
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let places = Places::here()?;
    let build = BuildArgs { manifest_path: args.manifest_path.clone(), ..BuildArgs::default() };
    if args.name.is_none() && Workspace::read(&build).is_err() {
        return Err(Failure::usage("which server is to be uninstalled? there is no package here")
            .help("name it; `cargo mcp install --list` shows where there are any"));
    }
    let name = name_of(args.name.as_deref(), &build)?;
    let clients = args.clients.chosen(&places, "taken out of")?;
    let notes_path = places.notes();
    let mut notes = Notes::read(&notes_path);
    let removals = clients.into_iter().map(|client| Removal::new(client, &args, &places, &name, &notes));
    let removals = removals.collect::<Result<Vec<_>, _>>()?;
    for removal in removals {
        match args.clients.dry_run {
            true => removal.show(),
            false => {
                removal.write(&name, &mut notes)?;
                keep(&notes, &notes_path);
            }
        }
    }
    Ok(())
}

struct Removal {
    client: &'static Client,
    file: File,
    before: Document,
    after: Document,
    /// The name behind the one that goes.
    next: Option<String>,
    /// The directories that were made for the file, if that was made for the server and nothing is left in it.
    made: Option<Vec<PathBuf>>,
}

impl Removal {
    fn new(client: &'static Client, args: &Args, places: &Places, name: &str, notes: &Notes) -> Result<Self, Failure> {
        let file = File::read(client_file(client, args.clients.scope, places)?)?;
        let before = parse(client, &file)?;
        let names = before.names().map_err(|broken| broken_file(&file.path, &broken))?;
        let Some(at) = names.iter().position(|there| there == name) else {
            return Err(unknown(client, &file, name, args.name.as_deref(), &names));
        };
        let noted = notes.of(&file.key());
        let inserted = noted.and_then(|noted| noted.inserted(name));
        let after = before.remove(name, inserted.as_ref()).map_err(|broken| broken_file(&file.path, &broken))?;
        let made = noted.filter(|noted| noted.made && inserted.is_some() && after.is_empty());
        let made = made.map(|noted| noted.directories.clone());
        Ok(Self { client, file, before, after, next: names.get(at + 1).cloned(), made })
    }

    fn show(&self) {
        let after = self.made.is_none().then(|| self.after.masked());
        show::difference(&self.file.path, Some(&self.before.masked()), after.as_deref());
    }

    fn write(&self, name: &str, notes: &mut Notes) -> Result<(), Failure> {
        let key = self.file.key();
        let path = self.file.path.display();
        match &self.made {
            Some(directories) => {
                self.file.remove(directories)?;
                anstream::println!("{}: uninstalled `{name}`; {path} was made for it and is gone", self.client.title);
            }
            None => {
                let written = self.file.write(&self.after.text(), true)?;
                anstream::println!("{}: uninstalled `{name}` from {path}", self.client.title);
                if let Some(backup) = written.backup {
                    anstream::eprintln!("  as it was: {}", backup.display());
                }
            }
        }
        notes.drop(&key, name, self.next.as_deref());
        Ok(())
    }
}

fn unknown(client: &Client, file: &File, name: &str, given: Option<&str>, names: &[String]) -> Failure {
    let failure = Failure::usage(format_args!("{} has no `{name}` in `{}`", client.title, file.path.display()));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match (nearest(name, names.iter().copied()), &*names) {
        (Some(near), _) => failure.help(format_args!("did you mean `{near}`?")),
        (None, []) => failure.help("there is no server in it"),
        (None, names) => {
            let failure = failure.help(format_args!("it has {}", listed(names)));
            match given {
                Some(given) if !is_url(given) => failure,
                _ => failure.help("if it was installed with `--name`, give that name"),
            }
        }
    }
}
