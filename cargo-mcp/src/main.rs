//! `cargo mcp`: scaffold, look at, call, check and install MCP servers.

mod cli;
mod client;
mod commands;
mod failure;
mod near;
mod session;
mod target;
mod wire;
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
