//! The command line, as clap sees it.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::commands;

/// Scaffold, look at, call, check and install MCP servers.
#[derive(Debug, Parser)]
#[command(name = "cargo mcp", bin_name = "cargo mcp", version, propagate_version = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Bundle(commands::bundle::Args),
    Call(commands::call::Args),
    Check(commands::check::Args),
    Complete(commands::complete::Args),
    Completions(commands::completions::Args),
    Dev(commands::dev::Args),
    Install(commands::install::Args),
    List(commands::list::Args),
    Lock(commands::lock::Args),
    New(commands::new::Args),
    Prompt(commands::prompt::Args),
    Read(commands::read::Args),
    Uninstall(commands::uninstall::Args),
}

/// The words of the command line, without the `mcp` that cargo passes on: `cargo-mcp mcp list` is `cargo-mcp list`.
pub(crate) fn words(words: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    words.enumerate().filter(|(at, word)| !(*at == 1 && word == "mcp")).map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
