//! `cargo mcp install`: adds a server to the configuration of clients.

mod args;
mod change;
pub(crate) mod client;
mod document;
mod entry;
pub(crate) mod file;
mod json;
mod list;
pub(crate) mod server;
mod toml;

use std::time::Duration;

use rmcp::model::ClientConfig;

use self::{change::Change, entry::Launch, server::ServerSpec};
use crate::{
    client::{connect, identity},
    directories::Directories,
    failure::Failure,
    output::errln,
};

pub(crate) use self::args::{Args, ClientArgs};

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let directories = Directories::current()?;
    if args.list {
        return list::run(&args, &directories);
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
        check(&args, &spec, &launch).await?;
    }
    for change in &mut changes {
        // The path of the program is known for certain only after the build.
        change.set_launch(&launch)?;
        change.write()?;
    }
    if spec.is_package()
        && args.copy_to.is_none()
        && !changes.is_empty()
        && let Launch::Program { program, .. } = &launch
    {
        errln!("note: clients start {program}, which `cargo clean` removes; `--copy-to DIRECTORY` keeps a copy");
    }
    Ok(())
}

/// Starts the server as a client would, and stops it.
async fn check(args: &Args, spec: &ServerSpec, launch: &Launch) -> Result<(), Failure> {
    let config = ClientConfig::new(Default::default(), identity());
    let timeout = Duration::from_secs(args.connect_timeout);
    let connection = connect(&spec.target(launch), None, config, timeout).await;
    let connection = connection
        .map_err(|failure| failure.help("nothing was changed; `--no-check` installs the server without starting it"))?;
    let server = connection.peer_info().and_then(|info| info.server_info.clone());
    if let Some(server) = server {
        errln!("`{}` responds as {} {}", spec.name, server.name, server.version);
    }
    // How the server exits does not matter here.
    let _ = tokio::time::timeout(Duration::from_secs(5), connection.cancel()).await;
    Ok(())
}
