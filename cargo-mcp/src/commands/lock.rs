//! `cargo mcp lock`: records a server's contract, so that later changes to it are detected.

use std::{fs, path::PathBuf};

use mcp_runtime_lock::{FILE_NAME, Lock};

use super::types;
use crate::{
    client::with_stored_token,
    failure::Failure,
    output::{display_path, out, outln},
    probe,
    target::{SHUTDOWN_TIMEOUT, TargetArgs, is_url},
};

/// Record the server's tools, resources and prompts in `mcp.lock.json`
#[derive(Debug, clap::Args)]
#[command(mut_arg("revision", |arg| arg.hide(true)), after_help = "\
Examples:
  cargo mcp lock notes                          next to the Cargo.toml of package `notes`
  cargo mcp lock --output api.lock.json -- ./server --read-only
  cargo mcp lock https://example.com/mcp

`cargo mcp check --locked` reports what has changed since, and whether the change breaks callers. In `cargo test`, the \
macro `locked_test!` of `mcp-runtime` does the same. Resources that match a listed template are data and are not recorded.")]
pub(crate) struct Args {
    /// Package of this workspace or URL [default: the only server here]
    server: Option<String>,
    /// Lock file to write [default: `mcp.lock.json` next to the package's Cargo.toml, or in the current directory]
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    target: TargetArgs,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let path = path(args.output, args.server.as_deref(), &args.target)?;
    let lock = read(args.server.as_deref(), &args.target).await?;
    let text = lock.to_json();
    let shown = display_path(&path);
    let old = fs::read_to_string(&path).ok();
    // Rewriting the file accepts the changes, so they are listed.
    if let Some(Ok(old)) = old.as_deref().filter(|old| *old != text).map(Lock::parse) {
        out!("{}", mcp_runtime_lock::format_changes(&old.changes(&lock)));
    }
    match (types::write(&path, &text)?, old) {
        (false, _) => outln!("`{shown}` is up to date"),
        (true, Some(_)) => outln!("updated `{shown}`"),
        (true, None) => outln!("created `{shown}`"),
    }
    Ok(())
}

async fn read(server: Option<&str>, target: &TargetArgs) -> Result<Lock, Failure> {
    if let Some(revision) = target.revision {
        return Err(Failure::usage(format_args!(
            "`--revision {}` cannot be used here: a lock file records the newest revision that the server supports",
            revision.as_str()
        ))
        .help("omit `--revision`"));
    }
    let timeout = target.connect_timeout();
    let target = with_stored_token(target.resolve(server)?).await?;
    let mut session = probe::connect(&target, None, &serde_json::json!({}), timeout).await?;
    let listing = session.listing().await;
    let listing = listing.map_err(|(method, why)| Failure::connection(format_args!("{target}: {method}: {why}")))?;
    session.connection.close(SHUTDOWN_TIMEOUT).await;
    Ok(Lock::of(&listing))
}

/// Returns the path of a server's lock file: `named`, or in the package's directory, or in the current directory.
///
/// # Errors
///
/// Fails if the server is a package that does not exist.
pub(super) fn path(named: Option<PathBuf>, server: Option<&str>, target: &TargetArgs) -> Result<PathBuf, Failure> {
    if let Some(path) = named {
        return Ok(path);
    }
    let is_elsewhere = target.program().is_some() || server.is_some_and(is_url);
    if is_elsewhere {
        return Ok(PathBuf::from(FILE_NAME));
    }
    let server = target.workspace()?.server(server, target.build.bin.as_deref())?;
    let directory = server.package.manifest_path.parent().map(|parent| parent.as_std_path().to_owned());
    Ok(directory.unwrap_or_default().join(FILE_NAME))
}
