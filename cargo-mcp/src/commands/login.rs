//! `cargo mcp login` and `cargo mcp logout`: authorization to use a server.

use std::time::Duration;

use crate::{
    authorization::{self, Login, TokenStore},
    failure::Failure,
    output::{errln, escape_line},
    target::is_url,
};

/// Log in to a server that requires authorization
///
/// Finds the authorization server that the server names, registers this client if necessary, and opens the browser, in
/// which you log in and consent. The tokens are stored for later commands in your configuration directory, in a file
/// that only you can read, and refreshed when they expire. If a call needs a scope that was not granted, the browser
/// opens again.
///
/// The variable `BROWSER` names the program that opens the page.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo mcp login https://mcp.example.com/mcp
  cargo mcp login https://mcp.example.com/mcp --scope notes:read --scope notes:write
  cargo mcp call https://mcp.example.com/mcp list_notes
  cargo mcp logout https://mcp.example.com/mcp")]
pub(crate) struct Args {
    /// URL of the server
    #[arg(value_parser = url)]
    url: String,
    /// Scope to request (may be repeated) [default: those that the server asks for]
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// Id of a client that is registered with the authorization server
    #[arg(long, value_name = "ID", conflicts_with = "client_metadata")]
    client_id: Option<String>,
    /// URL of a metadata document that describes the client
    #[arg(long, value_name = "URL", value_parser = url)]
    client_metadata: Option<String>,
    /// Port on this machine to which the browser is redirected; 0 for any
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Seconds to wait until you have logged in
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let login = Login {
        url: &args.url,
        scopes: &args.scope,
        client_id: args.client_id.as_deref(),
        client_metadata: args.client_metadata.as_deref(),
        port: args.port,
        limit: Duration::from_secs(args.timeout),
    };
    let scopes = authorization::login(&login).await?;
    let scopes = match escape_line(&scopes.join(" ")) {
        none if none.is_empty() => none,
        scopes => format!(" with the scopes {scopes}"),
    };
    errln!("logged in to {}{scopes}", args.url);
    Ok(())
}

/// Remove the tokens for a server
#[derive(Debug, clap::Args)]
pub(crate) struct LogoutArgs {
    /// URL of the server
    #[arg(value_parser = url)]
    url: String,
}

pub(crate) fn run_logout(args: &LogoutArgs) -> Result<(), Failure> {
    let store = TokenStore::of(&args.url)?;
    let removed = store.remove().map_err(|error| {
        Failure::usage(format_args!("cannot remove the tokens in `{}`: {error}", store.path().display()))
    })?;
    if !removed {
        return Err(Failure::usage(format_args!("there are no tokens for `{}`", args.url)));
    }
    errln!("logged out of {}", args.url);
    Ok(())
}

fn url(text: &str) -> Result<String, &'static str> {
    if is_url(text) { Ok(text.to_owned()) } else { Err("expected a URL that starts with `https://` or `http://`") }
}
