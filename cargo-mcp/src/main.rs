//! `cargo mcp`: scaffold, look at, call, check and install MCP servers.

mod cli;
mod client;
mod coerce;
mod commands;
mod console;
mod content;
mod elicit;
mod failure;
mod host;
mod near;
mod program;
mod schema;
mod session;
mod style;
mod table;
mod target;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse_from(cli::words(std::env::args_os()));
    match commands::run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit_code()
        }
    }
}
