//! One module a command: its arguments, and what it does.

pub(crate) mod bundle;
pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod dev;
pub(crate) mod install;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod new;
pub(crate) mod prompt;
pub(crate) mod read;
pub(crate) mod uninstall;

use std::future::Future;

use crate::{cli::Command, failure::Failure};

/// Runs a command.
pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Bundle(args) => bundle::run(args),
        Command::Call(args) => wait(call::run(args)),
        Command::Check(args) => wait(check::run(args)),
        Command::Complete(args) => wait(complete::run(args)),
        Command::Completions(args) => completions::run(args),
        Command::Dev(args) => wait(dev::run(args)),
        Command::Install(args) => wait(install::run(args)),
        Command::List(args) => wait(list::run(args)),
        Command::Lock(args) => wait(lock::run(args)),
        Command::New(args) => new::run(args),
        Command::Prompt(args) => wait(prompt::run(args)),
        Command::Read(args) => wait(read::run(args)),
        Command::Uninstall(args) => uninstall::run(args),
    }
}

/// Runs a future of the client, which needs one thread.
fn wait<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::connection(format_args!("no event loop: {error}")))?;
    let done = runtime.block_on(future);
    // A thread that still asks the user must not keep the command from ending.
    runtime.shutdown_timeout(std::time::Duration::from_millis(100));
    done
}
