//! `cargo mcp`: creates, inspects, calls, checks and installs MCP servers.

mod arguments;
mod authorization;
mod client;
mod commands;
mod console;
mod content;
mod directories;
mod failure;
mod host;
mod http_client;
mod output;
mod pages;
mod probe;
mod process;
mod program;
mod raw_connection;
mod refusal;
mod revision;
mod session;
mod signals;
mod sse;
mod table;
mod target;
mod temporary;
mod workspace;

use std::{ffi::OsString, process::ExitCode, time::Duration};

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::{failure::Failure, signals::interrupt};

fn main() -> ExitCode {
    let cli = Cli::parse_from(without_subcommand(std::env::args_os()));
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit_code()
        }
    }
}

/// Create, inspect, call, check and install MCP servers
#[derive(Debug, Parser)]
#[command(name = "cargo mcp", bin_name = "cargo mcp", version, propagate_version = true, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    App(commands::app::Args),
    Bundle(commands::bundle::Args),
    Call(commands::call::Args),
    Check(commands::check::Args),
    Complete(commands::complete::Args),
    Completions(commands::completions::Args),
    Dev(commands::dev::Args),
    Inspect(commands::inspect::Args),
    Install(commands::install::Args),
    List(commands::list::Args),
    Lock(commands::lock::Args),
    Login(commands::login::Args),
    Logout(commands::login::LogoutArgs),
    New(commands::new::Args),
    Prompt(commands::prompt::Args),
    Read(commands::read::Args),
    Types(commands::types::Args),
    Uninstall(commands::uninstall::Args),
}

impl Cli {
    /// Runs the subcommand.
    ///
    /// # Errors
    ///
    /// Returns the failure of the subcommand.
    fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::App(args) => block_on(commands::app::run(args)),
            Command::Bundle(args) => block_on(interruptible(commands::bundle::run(args))),
            Command::Call(args) => block_on(commands::call::run(args)),
            Command::Check(args) => block_on(interruptible(commands::check::run(args))),
            Command::Complete(args) => block_on(commands::complete::run(args)),
            Command::Completions(args) => commands::completions::run(args, &Self::command()),
            Command::Dev(args) => block_on(commands::dev::run(args)),
            Command::Inspect(args) => block_on(commands::inspect::run(args)),
            Command::Install(args) => block_on(interruptible(commands::install::run(args))),
            Command::List(args) => block_on(commands::list::run(args)),
            Command::Lock(args) => block_on(interruptible(commands::lock::run(args))),
            Command::Login(args) => block_on(interruptible(commands::login::run(args))),
            Command::Logout(args) => commands::login::run_logout(&args),
            Command::New(args) => commands::new::run(args),
            Command::Prompt(args) => block_on(commands::prompt::run(args)),
            Command::Read(args) => block_on(commands::read::run(args)),
            Command::Types(args) => block_on(interruptible(commands::types::run(args))),
            Command::Uninstall(args) => commands::uninstall::run(args),
        }
    }
}

/// Removes the `mcp` that cargo passes on: `cargo-mcp mcp list` becomes `cargo-mcp list`.
fn without_subcommand(args: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    args.enumerate().filter(|(index, arg)| !(*index == 1 && arg == "mcp")).map(|(_, arg)| arg)
}

/// Runs a command until a signal arrives. Dropping its future kills the programs that it has started, and deletes its
/// temporary files. Until it first waits, such as while cargo builds, signals end the process.
async fn interruptible(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::select! {
        biased;
        result = command => result,
        () = interrupt() => Err(Failure::interrupted()),
    }
}

/// Runs a future to completion on the current thread.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::connection(format_args!("cannot start the event loop: {error}")))?;
    let output = runtime.block_on(future);
    // A blocking thread that still waits for the keyboard must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_millis(100));
    output
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_definition_is_consistent() {
        super::Cli::command().debug_assert();
    }

    #[test]
    fn only_the_first_mcp_is_removed() {
        for (arguments, expected) in [
            (&["cargo-mcp", "mcp", "new", "mcp"][..], &["cargo-mcp", "new", "mcp"][..]),
            (&["cargo-mcp", "new", "mcp"], &["cargo-mcp", "new", "mcp"]),
            (&["cargo-mcp"], &["cargo-mcp"]),
        ] {
            let rest = super::without_subcommand(arguments.iter().map(Into::into));
            assert!(rest.eq(expected.iter().copied()), "{arguments:?}");
        }
    }
}
