//! `cargo mcp install`: adds a server to the configuration of clients.

mod args;
mod change;
pub(crate) mod client;
mod document;
mod entry;
pub(crate) mod file;
mod json;
pub(crate) mod server;
mod toml;

use std::{path::Path, time::Duration};

use self::{
    change::Change,
    client::{CLIENTS, Client, Scope, project},
    document::Document,
    file::File,
    server::ServerSpec,
};
use crate::{
    client::connect,
    directories::Directories,
    failure::Failure,
    output::{counted, errln, out},
    target::Target,
};

pub(crate) use self::args::{Args, ClientArgs};

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let directories = Directories::current()?;
    if args.list {
        return list(&args, &directories);
    }
    let spec = ServerSpec::new(&args)?;
    let clients = args.clients.select(&directories, "Which clients should use the server?")?;
    let launch = spec.launch(&args)?;
    let mut changes = Vec::new();
    for client in clients {
        let Some(change) = Change::new(client, &args, &directories, &spec.name, &launch)? else { continue };
        // Two clients may share a file of the project.
        if changes.iter().all(|other: &Change| other.file.path != change.file.path) {
            changes.push(change);
        }
    }
    // A package is built and copied even if it is installed already, since its source may have changed.
    if changes.is_empty() && !spec.is_package() {
        return Ok(());
    }
    if args.clients.dry_run {
        changes.iter().for_each(Change::show);
        return Ok(());
    }
    let launch = spec.build(&args)?;
    if !args.no_check {
        check(&args, &spec.name, &launch).await?;
    }
    for change in &mut changes {
        // The path of the program is known for certain only after the build.
        change.set_launch(&launch)?;
        change.write()?;
    }
    if spec.is_package()
        && args.copy_to.is_none()
        && !changes.is_empty()
        && let Target::Program { program, .. } = &launch
    {
        let program = program.display();
        errln!("note: clients start {program}, which `cargo clean` removes; `--copy-to DIRECTORY` keeps a copy");
    }
    Ok(())
}

/// Starts the server as a client would, and stops it.
async fn check(args: &Args, name: &str, launch: &Target) -> Result<(), Failure> {
    let connection = connect(launch, Duration::from_secs(args.connect_timeout)).await;
    let connection = connection
        .map_err(|failure| failure.help("nothing was changed; `--no-check` installs the server without starting it"))?;
    let server = connection.peer_info().and_then(|info| info.server_info.clone());
    if let Some(server) = server {
        errln!("`{name}` responds as {} {}", server.name, server.version);
    }
    // How the server exits does not matter here.
    let _ = tokio::time::timeout(Duration::from_secs(5), connection.cancel()).await;
    Ok(())
}

/// Prints the configuration files of the chosen clients, and whether they contain the server.
fn list(args: &Args, directories: &Directories) -> Result<(), Failure> {
    let name = match (&args.name, &args.server) {
        (Some(name), _) => Some(name.clone()),
        (None, Some(server)) => Some(server::default_name(Some(server), &args.build())?),
        (None, None) => server::default_name(None, &args.build()).ok(),
    };
    let is_chosen =
        |client: &&Client| args.clients.client.is_empty() || args.clients.client.iter().any(|id| id == client.id);
    let mut rows = Vec::new();
    for client in CLIENTS.iter().filter(is_chosen) {
        for scope in [Scope::User, Scope::Project] {
            let Some(path) = client.file(scope, directories, &project()) else { continue };
            let state = state(client, &path, name.as_deref());
            rows.push([client.id.to_owned(), scope.as_str().to_owned(), state, path.display().to_string()]);
        }
    }
    out!("{}", columns(&rows));
    Ok(())
}

/// Summarizes the content of a file.
fn state(client: &Client, path: &Path, name: Option<&str>) -> String {
    let file = match File::read(path.to_owned()) {
        Ok(file) if !file.exists() => return "no file".to_owned(),
        Ok(file) => file,
        Err(_) => return "unreadable".to_owned(),
    };
    let document = file.text().ok().and_then(|text| Document::parse(client.syntax, client.object, text).ok());
    match (document.as_ref().map(Document::names), name) {
        (None, _) => "invalid".to_owned(),
        (Some(names), Some(name)) if names.contains(&name) => format!("has `{name}`"),
        (Some(names), Some(name)) => format!("no `{name}`, {}", counted(names.len(), "other")),
        (Some(names), None) => counted(names.len(), "server"),
    }
}

fn columns(rows: &[[String; 4]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<_> = (0..3).map(width).collect();
    let line = |row: &[String; 4]| {
        format!("{:1$}  {2:3$}  {4:5$}  {6}\n", row[0], widths[0], row[1], widths[1], row[2], widths[2], row[3])
    };
    rows.iter().map(line).collect()
}
