//! `cargo mcp`: creates, inspects, calls, checks and installs MCP servers.

mod authorization;
mod cli;
mod client;
mod coerce;
mod commands;
mod console;
mod content;
mod directories;
mod elicit;
mod exact;
mod failure;
mod host;
mod http_client;
mod output;
mod probe;
mod program;
mod raw_connection;
mod refusal;
mod revision;
mod schema;
mod session;
mod sse;
mod table;
mod target;
mod temporary;
mod uri_template;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse_from(cli::without_subcommand(std::env::args_os()));
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit_code()
        }
    }
}
