//! `cargo mcp inspect`: opens a server in the official Inspector.

use std::{io::Write as _, time::Duration};

use serde_json::{Map, Value, json};
use tokio::process::Command;

use crate::{
    client::with_stored_token,
    failure::Failure,
    process::terminate,
    signals::interrupt,
    target::{Target, TargetArgs},
    temporary,
};

/// The package that contains the Inspector. Another major version may have other options.
const PACKAGE: &str = "@modelcontextprotocol/inspector@2";

/// How long to wait for the Inspector to end after Ctrl-C.
const END_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(windows)]
const NPX: &str = "npx.cmd";
#[cfg(not(windows))]
const NPX: &str = "npx";

/// Open a server in the official MCP Inspector
///
/// Builds the package if the server is one, and starts `npx @modelcontextprotocol/inspector` with its transport, its
/// environment, and the headers and the stored token for its URL. They are passed in a file that only you can read, which
/// is deleted when the Inspector ends. Requires Node.js 22.19 or newer.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("revision", |arg| arg.help("Connect with or without a session, as this protocol revision does")),
    mut_arg("connect_timeout", |arg| arg.hide(true)),
    after_help = "\
Examples:
  cargo mcp inspect notes
  cargo mcp inspect https://example.com/mcp
  cargo mcp inspect -- target/debug/server --read-only")]
pub(crate) struct Args {
    /// Package of this workspace or URL [default: the only server here]
    server: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let target = with_stored_token(args.target.resolve(args.server.as_deref())?).await?;
    let era = match args.target.revision {
        None => "auto",
        Some(revision) if revision.is_stateless() => "modern",
        Some(_) => "legacy",
    };
    let config = json!({"mcpServers": {target.to_string().trim_matches('`'): entry(&target, era)}});
    let unwritable = |error: std::io::Error| Failure::usage(format_args!("cannot write a temporary file: {error}"));
    let mut file = temporary::file_in(&std::env::temp_dir(), temporary::Access::Private).map_err(unwritable)?;
    file.write_all(config.to_string().as_bytes()).map_err(unwritable)?;
    let mut command = Command::new(NPX);
    command.arg(PACKAGE).arg("--config").arg(file.path()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| {
        let is_missing = error.kind() == std::io::ErrorKind::NotFound;
        Failure::usage(format_args!("cannot run `{NPX}`: {error}"))
            .help_if(is_missing.then_some("install Node.js 22.19 or newer, which contains it: https://nodejs.org"))
    })?;
    let status = tokio::select! {
        status = child.wait() => status,
        () = interrupt() => {
            // Ctrl-C reaches the Inspector, too, but other signals do not.
            terminate(&child);
            let _ = tokio::time::timeout(END_TIMEOUT, child.wait()).await;
            return Ok(());
        }
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::connection(format_args!("the Inspector ended with {status}"))
            .help("its output is shown above; it requires Node.js 22.19 or newer")),
        Err(error) => Err(Failure::connection(format_args!("cannot wait for the Inspector: {error}"))),
    }
}

/// Returns the server as the Inspector's configuration describes it.
fn entry(target: &Target, era: &str) -> Value {
    let object = |pairs: &[(String, String)]| {
        Value::Object(pairs.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect::<Map<_, _>>())
    };
    match target {
        Target::Program { program, args, env, .. } => {
            json!({"type": "stdio", "command": program, "args": args, "env": object(env), "protocolEra": era})
        }
        Target::Url { url, headers } => {
            json!({"type": "streamable-http", "url": url, "headers": object(headers), "protocolEra": era})
        }
    }
}
