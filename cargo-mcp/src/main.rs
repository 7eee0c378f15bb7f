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
mod probe;
mod program;
mod schema;
mod session;
mod sse;
mod style;
mod table;
mod target;
mod wire;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

fn main() -> ExitCode {
    end_with_the_reader();
    let cli = Cli::parse_from(cli::words(std::env::args_os()));
    match commands::run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit_code()
        }
    }
}

/// Ends quietly, rather than with a panic, when nobody reads our output any more: `cargo mcp list | head -1`.
fn end_with_the_reader() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.payload().downcast_ref::<String>();
        if said.is_some_and(|said| said.starts_with("failed printing to stdout") && said.contains("Broken pipe")) {
            std::process::exit(0);
        }
        hook(panic);
    }));
}
