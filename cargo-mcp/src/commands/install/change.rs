//! The change that an installation makes to one file.

use super::{
    args::Args,
    client::{Client, Scope, invalid},
    document::{Document, masked},
    entry::Entry,
    file::File,
};
use crate::{
    directories::Directories,
    failure::Failure,
    output::{errln, outln},
    target::Target,
    temporary::Access,
};

/// A configuration file, its current content and the entry to write.
pub(super) struct Change {
    client: &'static Client,
    scope: Scope,
    pub(super) file: File,
    before: Document,
    entry: Entry,
    name: String,
}

impl Change {
    /// Plans the change for a client. Returns `None` if the entry exists already.
    ///
    /// # Errors
    ///
    /// Fails if the file is invalid, or, without `--force`, if the client is not installed or a different entry exists.
    pub(super) fn new(
        client: &'static Client,
        args: &Args,
        directories: &Directories,
        name: &str,
        launch: &Target,
    ) -> Result<Option<Self>, Failure> {
        let scope = args.clients.scope;
        let (file, before) = client.read(scope, directories)?;
        let entry = entry(client, launch)?;
        if scope == Scope::User && !file.exists() && !args.force {
            check_installed(client, args.clients.dry_run, directories)?;
        }
        warn(client, &file, &before, &entry);
        if let Some(existing) = before.get(name) {
            if entry.is_same(existing) {
                outln!("{}: `{name}` is already installed in {}", client.title, file.path.display());
                return Ok(None);
            }
            if !args.force {
                return Err(Failure::usage(format_args!(
                    "{} has a different entry `{name}` in `{}`: {}",
                    client.title,
                    file.path.display(),
                    masked(existing)
                ))
                .help("`--force` replaces it, `--name` installs the server under another name"));
            }
        }
        Ok(Some(Self { client, scope, file, before, entry, name: name.to_owned() }))
    }

    /// Replaces the launch of the server.
    pub(super) fn set_launch(&mut self, launch: &Target) -> Result<(), Failure> {
        self.entry = entry(self.client, launch)?;
        if let (Scope::Project, Target::Program { program, .. }) = (self.scope, launch)
            && program.is_absolute()
        {
            errln!("note: the project's configuration contains a path of this machine: {}", program.display());
        }
        Ok(())
    }

    fn after(&self) -> Result<Document, Failure> {
        self.before.set(&self.name, Some(&self.entry)).map_err(|error| invalid(&self.file.path, &error))
    }

    /// Prints the change as a diff.
    pub(super) fn show(&self) {
        match self.after() {
            Ok(after) => self.file.print_diff(&self.before.masked(), &after.masked()),
            Err(failure) => failure.print(),
        }
    }

    /// Writes the file.
    pub(super) fn write(&self) -> Result<(), Failure> {
        let name = &self.name;
        let is_private = self.scope == Scope::User || self.entry.may_be_secret();
        let access = if is_private { Access::Private } else { Access::Default };
        let backup = self.file.write(&self.after()?.text(), access)?;
        let path = self.file.path.display();
        outln!("{}: installed `{name}` ({}) in {path}", self.client.title, self.scope.as_str());
        if let Some(backup) = backup {
            errln!("  backup: {}", backup.display());
        }
        errln!("  next step: {}", self.client.activation);
        Ok(())
    }
}

/// Warns about syntax and values that the client will not understand as intended.
fn warn(client: &Client, file: &File, document: &Document, entry: &Entry) {
    if let Some(unsupported) = document.unsupported_syntax() {
        errln!(
            "warning: {} requires plain JSON, but `{}` uses extensions: {unsupported}",
            client.title,
            file.path.display()
        );
    }
    if let Some(prefix) = client.variable_prefix_in(entry) {
        errln!("note: {} expands variables that start with `{prefix}`", client.title);
    }
}

/// Checks that a client without a configuration file is installed.
fn check_installed(client: &Client, is_dry_run: bool, directories: &Directories) -> Result<(), Failure> {
    let Some(missing) = client.missing(directories) else { return Ok(()) };
    let message = format!("{} does not seem to be installed: `{}` does not exist", client.title, missing.display());
    if is_dry_run {
        errln!("warning: {message}");
        return Ok(());
    }
    Err(Failure::usage(message).help("`--force` creates its configuration anyway"))
}

fn entry(client: &Client, launch: &Target) -> Result<Entry, Failure> {
    client.entry(launch).map_err(|instead| {
        Failure::usage(format_args!("the configuration file of {} cannot contain URLs", client.title)).help(instead)
    })
}
