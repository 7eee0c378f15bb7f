//! Serves the subcommands of a [clap] 4 program as tools.
//!
//! One line at the start of `main` adds the flag `--mcp` to a program:
//!
//! ```no_run
//! use clap::{CommandFactory as _, Parser};
//!
//! /// Manage notes.
//! #[derive(Parser)]
//! enum Cli {
//!     /// Print the notes that contain a text.
//!     Search {
//!         /// The text to find
//!         text: String,
//!         /// The maximum number of notes
//!         #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=100))]
//!         limit: u8,
//!     },
//! }
//!
//! fn main() {
//!     mcp_clap::serve_if_asked(Cli::command);
//!     let Cli::Search { text, limit } = Cli::parse();
//!     println!("at most {limit} notes with `{text}`");
//! }
//! ```
//!
//! A client that starts `notes --mcp` finds a tool `search` with the arguments `text` and `limit`. Each call starts the program again,
//! here as `notes search --limit=10 -- TEXT`, and the result is the text that it prints.
//!
//! A program that decides in another way, such as by a subcommand of its own, calls [`serve`].
//!
//! [`Program`] chooses and describes the tools, serves another program, or adds its tools to a [`Server`] that has tools of its own.
//!
//! The page [Composing](https://docs.rs/mcp-runtime/latest/mcp_runtime/guide/composing/) of the guide shows how a
//! server combines them with other sources.
//!
//! # Tools
//!
//! Each command without subcommands, or with an optional subcommand, is a tool. The name consists of the names
//! of the subcommands (`git remote add` becomes `remote_add`), or is the name of the program for the program itself. Hidden commands, and
//! the generated `help`, are left out. The description is the long help. There are no behaviour hints unless
//! [`configure`](Program::configure) sets them.
//!
//! | argument in clap | property of the schema |
//! | --- | --- |
//! | option with a value, positional argument | `string`; `enum` for possible values; `boolean`, `integer` with its range and `number` for `bool`, numbers and their value parsers |
//! | several values: `num_args`, `value_delimiter`, `ArgAction::Append` | `array`; `minItems` and `maxItems` where clap limits their number |
//! | flag | `boolean`; `true` passes the flag, also if the flag turns something off |
//! | flag that is counted | `integer` from 0 to 255 |
//! | required, and not available from an environment variable | `required` |
//! | default value | `default`, unless it is hidden |
//!
//! Properties are named after the long option, or after the id of an argument without one. Characters other than letters, digits and `_`
//! become `_`, and a name that exists already gets a number. Options of the commands above a subcommand belong to its tool, too, and
//! global ones appear once. Conflicts, groups and other rules are left to clap, whose message becomes the error of the tool.
//!
//! Not available:
//!
//! - hidden arguments, positional arguments of a command above a subcommand, and the form of an option without its optional value;
//! - options with a variable number of values, unless a value ends them, if the values may begin with `-`, or if a subcommand or a
//!   positional argument that `--` cannot precede follows;
//! - options that need `=`, and have several values without a delimiter;
//! - options without a long name whose command has a positional argument with `allow_hyphen_values` that is not `last`: clap takes
//!   `-u=root` for the positional argument;
//! - commands with a required argument that is not available. The server logs a warning.
//!
//! Where one positional argument follows several values, clap accepts no value that begins with `-` for it.
//!
//! # Calls
//!
//! A call starts the program without a shell. No value can become an option or a subcommand: values of options are passed as
//! `--name=value`, and positional arguments after `--`. Where clap accepts neither, a value that begins with `-` is rejected. A value
//! that contains the delimiter of its argument is rejected, too. Values are not restricted further: a path may point anywhere, a tool such
//! as `find --exec` runs any command, and a program may read its values as something else, such as the name of a file that it
//! overwrites. [Leave out](Program::configure) commands that a model must not use.
//!
//! - stdin is empty, but a program that opens `/dev/tty` can still ask at the terminal of the server. The environment and the working
//!   directory are those of the server.
//! - A program that replaces `@file` by the words in a file before clap parses them also does so with values.
//! - Exit code 0: the result is stdout as text, or stderr if stdout is empty. Any other exit code: the call fails with the exit code,
//!   stderr and stdout.
//! - Of each stream, the first 256 KiB are kept, or [`output_limit`](Program::output_limit).
//! - At most 16 calls run at the same time, or [`max_processes`](Program::max_processes). Further ones wait within their timeout.
//! - A call that is cancelled or exceeds the server's [`timeout`](Server::timeout) kills the program, on Unix with its process group.
//! - While the program runs, the lines that it writes to stderr are progress of the call. The client receives these lines even if
//!   the program succeeds, so **the program must not print secrets to stderr**. [`mcp_process`] describes which lines are sent.
#![warn(clippy::missing_errors_doc)]

mod arguments;
mod commands;
mod schema;

use std::{env, ffi::OsString, path::PathBuf, process, sync::Arc, thread};

use clap::{Command, CommandFactory};
use mcp_runtime::{Server, function::ToolEntry};
use tokio::runtime;

/// The default of [`Program::output_limit`].
const OUTPUT_LIMIT: usize = 256 * 1024;
/// The default of [`Program::max_processes`].
const MAX_PROCESSES: usize = 16;

/// Serves the program over stdio and exits, if its first argument is `--mcp`. Returns otherwise.
///
/// Call it at the start of `main`, before anything is printed to stdout, with a function that returns the [`Command`]: `Cli::command` of
/// [`CommandFactory`], or the function that builds it. It works within an async runtime, too.
///
/// A program with an option `--mcp` of its own can no longer be called with it as the first argument.
///
/// The exit code is 0 when stdin has ended, 1 if the server cannot be built or a stream fails, and 2 if other arguments follow
/// `--mcp`.
#[track_caller]
pub fn serve_if_asked(command: impl FnOnce() -> Command) {
    if is_asked() {
        Program::new(command()).serve_if_asked();
    }
}

/// Serves the program over stdio and exits, whatever its arguments are.
///
/// Do not call it unconditionally: each call of a tool starts the program again, with the arguments of a command, which must then run.
/// A hidden subcommand starts the server without being a tool:
///
/// ```no_run
/// use clap::Parser;
///
/// #[derive(Parser)]
/// enum Cli {
///     /// Print the number of notes.
///     Count,
///     /// Serve the commands to clients of the Model Context Protocol.
///     #[command(hide = true)]
///     Serve,
/// }
///
/// fn main() {
///     match Cli::parse() {
///         Cli::Count => println!("7"),
///         Cli::Serve => mcp_clap::serve::<Cli>(),
///     }
/// }
/// ```
///
/// It works within an async runtime, too. Exit codes are those of [`serve_if_asked`].
#[track_caller]
pub fn serve<T: CommandFactory>() -> ! {
    Program::new(T::command()).serve()
}

fn is_asked() -> bool {
    env::args_os().nth(1).is_some_and(|word| word == "--mcp")
}

type Configure = Box<dyn Fn(ToolEntry, &Command) -> Option<ToolEntry> + Send>;

/// A program whose commands become tools.
///
/// ```
/// use clap::{Command, arg};
/// use mcp_clap::Program;
/// use mcp_runtime::{Revision, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_runtime::testing::RpcError> {
/// let echo = Command::new("echo").about("Print words").arg(arg!(<word> ... "The words"));
/// let mut server = Server::empty("tools", "1.0.0");
/// for tool in Program::new(echo).path("/bin/echo").tools() {
///     server = server.with_entry(tool);
/// }
/// let mut client = server.test_client(Revision::V2026_07_28);
/// # if cfg!(target_os = "linux") {
/// let result = client.call("echo", serde_json::json!({"word": ["$(id)", "-n"]})).await?;
/// assert_eq!(result.text().trim_start_matches("-- "), "$(id) -n\n");
/// # }
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Program {
    command: Command,
    path: Option<PathBuf>,
    output_limit: usize,
    max_processes: usize,
    configure: Configure,
}

impl Program {
    /// Creates the tools of the current program, which must parse its command line with this [`Command`].
    pub fn new(command: Command) -> Self {
        Self {
            command,
            path: None,
            output_limit: OUTPUT_LIMIT,
            max_processes: MAX_PROCESSES,
            configure: Box::new(|tool, _| Some(tool)),
        }
    }

    /// Sets the program that calls start, in place of the [current](env::current_exe) one. A name without `/` is searched in `PATH`.
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Sets how many bytes of stdout, and of stderr, a result contains at most. The rest is read and discarded, and a note at the end says
    /// how much it was.
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes;
        self
    }

    /// Sets how many processes of calls run at the same time, at least 1. Further calls wait, within their timeout.
    pub fn max_processes(mut self, processes: usize) -> Self {
        self.max_processes = processes;
        self
    }

    /// Changes each tool, or leaves it out with `None`. [`Command::get_bin_name`] returns the complete name of its command, such as
    /// `git remote add`. A later call replaces an earlier one.
    ///
    /// ```
    /// # use clap::Command;
    /// use mcp_runtime::layers::Hints;
    ///
    /// # let git = Command::new("git").subcommand(Command::new("status")).subcommand(Command::new("push"));
    /// let program = mcp_clap::Program::new(git).configure(|tool, command| match command.get_bin_name()? {
    ///     "git status" => {
    ///         let mut hints = Hints::default();
    ///         hints.read_only = Some(true);
    ///         Some(tool.hints(hints))
    ///     }
    ///     "git push" => Some(tool.scopes("repository:write")),
    ///     _ => None,
    /// });
    /// assert_eq!(program.tools().len(), 2);
    /// ```
    pub fn configure(mut self, configure: impl Fn(ToolEntry, &Command) -> Option<ToolEntry> + Send + 'static) -> Self {
        self.configure = Box::new(configure);
        self
    }

    /// Returns the tools, for [`Server::with_entry`].
    ///
    /// # Panics
    ///
    /// Panics if there is no [`path`](Self::path) and the path of the current program cannot be found.
    #[track_caller]
    pub fn tools(self) -> Vec<ToolEntry> {
        // The path of a running program that is replaced by an update would change later.
        let path = self.path.map_or_else(env::current_exe, Ok);
        let path = match path {
            Ok(path) => path,
            Err(error) => panic!("the path of the current program cannot be found: {error}"),
        };
        let program = Arc::new(mcp_process::Program::new(path, self.output_limit, self.max_processes));
        commands::tools(self.command, &program, &self.configure)
    }

    /// Returns a server with these tools only, which has the name, the version and the description of the program.
    #[track_caller]
    pub fn server(self) -> Server {
        let command = &self.command;
        let mut server = Server::empty(command.get_name(), command.get_version().unwrap_or("0.0.0"));
        if let Some(about) = command.get_about() {
            server = server.description(about.to_string());
        }
        self.tools().into_iter().fold(server, Server::with_entry)
    }

    /// Serves the program like [`serve_if_asked`], with these settings.
    #[track_caller]
    pub fn serve_if_asked(self) {
        if !is_asked() {
            return;
        }
        let rest: Vec<OsString> = env::args_os().skip(2).collect();
        if !rest.is_empty() {
            eprintln!("error: `--mcp` takes no further arguments, found {rest:?}");
            process::exit(2);
        }
        self.serve()
    }

    #[track_caller]
    fn serve(self) -> ! {
        let server = self.server();
        // `main` may be async, and a runtime cannot start within another one.
        let served = thread::spawn(move || {
            let runtime =
                runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
            let served = runtime.block_on(server.serve_stdio()).map_err(|error| error.to_string());
            runtime.shutdown_background();
            served
        });
        let code = match served.join() {
            Ok(Ok(())) => 0,
            Ok(Err(error)) => {
                eprintln!("error: {error}");
                1
            }
            Err(_) => 1,
        };
        process::exit(code);
    }
}
