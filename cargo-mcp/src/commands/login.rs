//! `cargo mcp login` and `cargo mcp logout`: authorization to use a server.

use crate::{
    authorization::{self, Login, TokenStore},
    failure::Failure,
    output::{errln, escape_line},
    target::url,
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
    #[command(flatten)]
    login: Login,
}

pub(crate) async fn run(Args { login }: Args) -> Result<(), Failure> {
    let scopes = authorization::login(&login).await?;
    let scopes = match escape_line(&scopes.join(" ")) {
        none if none.is_empty() => none,
        scopes => format!(" with the scopes {scopes}"),
    };
    errln!("logged in to {}{scopes}", login.url);
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
