//! What an installation changes in one file.

use std::path::Path;

use super::{
    Args, broken_file, client_file,
    clients::{Client, Scope},
    document::{Document, shown},
    entry::{Entry, Launch},
    file::File,
    json::Inserted,
    keep,
    notes::Notes,
    parse,
    places::Places,
    show,
};
use crate::failure::Failure;

/// A file of a client, and what becomes of it.
pub(super) struct Change {
    client: &'static Client,
    scope: Scope,
    pub(super) file: File,
    before: Document,
    entry: Entry,
    replaces: bool,
    name: String,
}

impl Change {
    /// What is to be changed for a client, if anything is.
    pub(super) fn new(
        client: &'static Client,
        args: &Args,
        places: &Places,
        name: &str,
        launch: &Launch,
    ) -> Result<Option<Self>, Failure> {
        let scope = args.clients.scope;
        let file = File::read(client_file(client, scope, places)?)?;
        let entry = entry(client, launch)?;
        if scope == Scope::User && !file.exists() && !args.force {
            check_present(client, args.clients.dry_run, places)?;
        }
        let before = parse(client, &file)?;
        if let Some(beyond) = before.beyond_syntax() {
            anstream::eprintln!(
                "warning: {} reads plain JSON, and `{}` is not: {beyond}",
                client.title,
                file.path.display()
            );
        }
        if let Some(beginning) = client.expands(&entry) {
            anstream::eprintln!("note: {} takes `{beginning}` for the beginning of a variable", client.title);
        }
        let there = before.get(name);
        if let Some(there) = &there {
            if entry.is_same(there) {
                anstream::println!("{}: `{name}` is already installed in {}", client.title, file.path.display());
                return Ok(None);
            }
            if !args.force {
                return Err(Failure::usage(format_args!(
                    "{} has another `{name}` in `{}`: {}",
                    client.title,
                    file.path.display(),
                    shown(there)
                ))
                .help("`--force` replaces it, `--name` installs this one under another name"));
            }
        }
        Ok(Some(Self { client, scope, file, before, entry, replaces: there.is_some(), name: name.to_owned() }))
    }

    /// Another way to start the server, once that is known.
    pub(super) fn relaunch(&mut self, launch: &Launch) -> Result<(), Failure> {
        self.entry = entry(self.client, launch)?;
        if let (Scope::Project, Launch::Program { program, .. }) = (self.scope, launch)
            && Path::new(program).is_absolute()
        {
            anstream::eprintln!("note: a project's file has a path of this machine: {program}");
        }
        Ok(())
    }

    fn after(&self) -> Result<(Document, Option<Inserted>), Failure> {
        let after = match self.replaces {
            true => self.before.replace(&self.name, &self.entry).map(|after| (after, None)),
            false => self.before.insert(&self.name, &self.entry).map(|(after, inserted)| (after, Some(inserted))),
        };
        after.map_err(|broken| broken_file(&self.file.path, &broken))
    }

    pub(super) fn show(&self) {
        match self.after() {
            Ok((after, _)) => {
                let before = self.file.exists().then(|| self.before.masked());
                show::difference(&self.file.path, before.as_deref(), Some(&after.masked()));
            }
            Err(failure) => failure.print(),
        }
    }

    pub(super) fn write(&self, notes: &mut Notes, notes_path: &Path) -> Result<(), Failure> {
        let name = &self.name;
        let (after, inserted) = self.after()?;
        let written = self.file.write(&after.text(), self.scope == Scope::User)?;
        if let Some(inserted) = inserted {
            let made = (!self.file.exists()).then_some(written.directories);
            let there = self.before.names().unwrap_or_default();
            notes.add(&self.file.key(), name, inserted, made, &there);
            keep(notes, notes_path);
        }
        anstream::println!(
            "{}: installed `{name}` ({}) in {}",
            self.client.title,
            self.scope.as_str(),
            self.file.path.display()
        );
        if let Some(backup) = written.backup {
            anstream::eprintln!("  as it was: {}", backup.display());
        }
        anstream::eprintln!("  next: {}", self.client.then);
        Ok(())
    }
}

/// A client that is not there gets no configuration, unless somebody insists.
fn check_present(client: &Client, only_show: bool, places: &Places) -> Result<(), Failure> {
    let Some(missing) = client.missing(places) else { return Ok(()) };
    let message = format!("{} does not seem to be installed: there is no `{}`", client.title, missing.display());
    if only_show {
        anstream::eprintln!("warning: {message}");
        return Ok(());
    }
    Err(Failure::usage(message).help("`--force` writes its configuration all the same"))
}

fn entry(client: &Client, launch: &Launch) -> Result<Entry, Failure> {
    client.entry(launch).map_err(|instead| {
        Failure::usage(format_args!("{} takes no URL from its configuration file", client.title)).help(instead)
    })
}
