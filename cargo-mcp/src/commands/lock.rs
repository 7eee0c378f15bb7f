//! `cargo mcp lock`: keep what a server promises, to be told when it changes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use mcp_lock::{FILE_NAME, Lock};

use crate::{
    failure::Failure,
    probe,
    target::{TargetArgs, is_url},
    workspace::Workspace,
};

/// Write what a server promises to `mcp.lock.json`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo mcp lock notes                          beside the Cargo.toml of package `notes`
  cargo mcp lock --output api.lock.json -- ./server --read-only
  cargo mcp lock https://example.com/mcp

`cargo mcp check --locked` tells what has changed since, and whether that breaks callers; the macro `locked_test!` of
`mcp-runtime` does so in `cargo test`. Resources that one of the templates stands for are data, and are left out.")]
pub(crate) struct Args {
    /// A package of this workspace, or a URL; without it the only server here
    server: Option<String>,
    /// The file; by default `mcp.lock.json` beside the package's Cargo.toml, or here
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    target: TargetArgs,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let path = path(args.output, args.server.as_deref(), &args.target)?;
    let lock = read(args.server.as_deref(), &args.target).await?;
    let text = lock.write();
    let is_new = match fs::read_to_string(&path) {
        Ok(old) if old == text => {
            anstream::println!("`{}` is as it was", shown(&path));
            return Ok(());
        }
        Ok(old) => {
            // What is accepted is said, so that nobody accepts it unseen.
            if let Ok(old) = Lock::read(&old) {
                anstream::print!("{}", mcp_lock::listed(&old.changes(&lock)));
            }
            false
        }
        Err(_) => true,
    };
    fs::write(&path, text)
        .map_err(|error| Failure::usage(format_args!("`{}` cannot be written: {error}", shown(&path))))?;
    anstream::println!("{} `{}`", if is_new { "wrote" } else { "rewrote" }, shown(&path));
    Ok(())
}

async fn read(server: Option<&str>, target: &TargetArgs) -> Result<Lock, Failure> {
    if let Some(revision) = target.revision {
        return Err(Failure::usage(format_args!(
            "`--revision {}`: a lock is of the newest revision that a server speaks, which says the most",
            revision.as_str()
        ))
        .help("leave `--revision` out"));
    }
    let time = target.connect_timeout();
    let target = target.resolve(server)?;
    let mut session = probe::newest(&target, time).await?;
    let listing = session.listing().await;
    let listing = listing.map_err(|(method, why)| Failure::connection(format_args!("{target}: {method}: {why}")))?;
    session.wire.close(super::check::PATIENCE).await;
    Ok(Lock::of(&listing))
}

/// A path as people write it: from here, if it is below.
pub(super) fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

/// The lock file of a server: the one that is named, or the package's, or that of the current directory.
pub(super) fn path(named: Option<PathBuf>, server: Option<&str>, target: &TargetArgs) -> Result<PathBuf, Failure> {
    if let Some(path) = named {
        return Ok(path);
    }
    let is_elsewhere = !target.command.is_empty() || server.is_some_and(is_url);
    if is_elsewhere {
        return Ok(PathBuf::from(FILE_NAME));
    }
    let server = Workspace::read(&target.build)?.server(server, target.build.bin.as_deref())?;
    let directory = server.package.manifest_path.parent().map(|parent| parent.as_std_path().to_owned());
    Ok(directory.unwrap_or_default().join(FILE_NAME))
}
