//! One module a command: its arguments, and what it does.

pub(crate) mod dev;
pub(crate) mod list;

use std::future::Future;

use crate::{cli::Command, failure::Failure};

/// Runs a command.
pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Dev(args) => wait(dev::run(args)),
        Command::List(args) => wait(list::run(args)),
    }
}

/// Runs a future of the client, which needs one thread.
fn wait<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::connection(format_args!("no event loop: {error}")))?;
    runtime.block_on(future)
}
