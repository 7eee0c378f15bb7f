//! `cargo mcp dev`: a proxy that keeps clients connected while the server behind it is rebuilt and restarted.

mod builder;
mod http;
mod message;
mod process;
mod proxy;
mod session;
mod snapshot;
mod sources;
mod stdio;
mod watch;

use std::{
    fmt::Display,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use inquire::InquireError;
use tokio::sync::mpsc;

use self::{builder::Builder, process::LaunchConfig, proxy::ProxyConfig, sources::Sources};
use crate::{
    arguments::elicit::in_terminal,
    failure::Failure,
    output::{AnsiColor, Style, errln},
    signals::ShutdownSignals,
    target::pair,
    temporary,
    workspace::{BuildArgs, Workspace},
};

/// Serve a package and rebuild it when its source changes
///
/// Clients stay connected: they talk to a proxy, which forwards messages to the newest build, replays their
/// `initialize` request to it, and notifies them of changed lists. Calls in flight get a grace period. While the source
/// does not compile, the last successful build keeps serving. Without `--release`, files of pages need no build: they
/// are read when a client reads the page. The proxy speaks JSON-RPC on stdin and stdout, for clients that start the server themselves, or streamable HTTP with `--http`. Connections of the HTTP+SSE transport of
/// 2024-11-05 do not survive a restart.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help.txt").trim_end())]
pub(crate) struct Args {
    /// The package to serve [default: the only server of this workspace]
    package: Option<String>,
    /// Arguments for the server
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
    /// Serve HTTP at this address instead of stdin and stdout, such as 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// Listen on an address that other machines can reach without asking
    #[arg(long, requires = "http")]
    allow_remote: bool,
    /// Also rebuild when this file or directory changes (may be repeated)
    #[arg(long, value_name = "PATH")]
    watch: Vec<PathBuf>,
    /// Write TypeScript declarations of the tools to this file after each build, as `cargo mcp types` does
    #[arg(long, value_name = "FILE")]
    types: Option<PathBuf>,
    /// Check for changes every second, for file systems without change notifications such as network mounts
    #[arg(long)]
    poll: bool,
    /// Seconds that calls in flight may continue after a rebuild
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    grace: u64,
    /// Maximum number of seconds to wait for a new build to start
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    start_timeout: u64,
    /// Set an environment variable of the server (may be repeated)
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Print warnings and errors only
    #[arg(long, short)]
    quiet: bool,
    /// Run a program until stdin is closed
    #[arg(long, value_name = "PROGRAM", hide = true)]
    watchdog: Option<PathBuf>,
    #[command(flatten)]
    build: BuildArgs,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let signals = ShutdownSignals::install()
        .map_err(|error| Failure::connection(format_args!("cannot install signal handlers: {error}")))?;
    if let Some(program) = args.watchdog {
        return process::run_watchdog(program, args.args, signals).await;
    }
    let workspace = Workspace::read(&args.build)?;
    let server = workspace.server(args.package.as_deref(), args.build.bin.as_deref())?;
    let uses_runtime = server.package.dependencies.iter().any(|dependency| dependency.name == "mcp-runtime");
    let listener = match args.http {
        Some(_) if !uses_runtime => {
            let name = &server.package.name;
            return Err(Failure::usage(format_args!(
                "`--http` requires a server built with `mcp-runtime`, but `{name}` does not depend on it"
            ))
            .help("omit `--http`: stdin and stdout work with any server"));
        }
        Some(address) => {
            confirm_address(address, args.allow_remote)?;
            Some(tokio::net::TcpListener::bind(address).await.map_err(|error| {
                Failure::connection(format_args!("cannot listen on `{address}`: {error}"))
                    .help("`--http 127.0.0.1:0` picks a free port")
            })?)
        }
        None => None,
    };
    let reporter = Reporter { quiet: args.quiet };
    let sources = Sources::read(&server, &args.build)?;
    let (package, build) = (server.clone(), args.build.clone());
    let read_sources = move || Sources::read(&package, &build).ok();
    let changes = watch::start(&sources, &args.watch, args.poll, read_sources)?;
    let executables = Arc::new(executable_directory(&sources.target)?);
    let (build_events, received_builds) = mpsc::unbounded_channel();
    let config = ProxyConfig {
        id_prefix: format!("cargo-mcp-{:016x}", fastrand::u64(..)),
        can_list: uses_runtime,
        grace: Duration::from_secs(args.grace),
        start_timeout: Duration::from_secs(args.start_timeout),
    };
    let mut env = args.env;
    env.push((mcp_page::DEV_VARIABLE.to_owned(), "1".to_owned()));
    let launch = LaunchConfig { args: args.args, env };
    let builder = Builder {
        server,
        args: args.build,
        launch: launch.clone(),
        types: args.types,
        executables: Arc::clone(&executables),
        reporter: reporter.clone(),
    };
    let serving = async {
        match listener {
            Some(listener) => {
                let directory = executables.path();
                http::serve(listener, config, launch, directory, reporter, received_builds, signals).await
            }
            None => stdio::serve(config, launch, reporter, received_builds, signals).await,
        }
    };
    tokio::select! {
        () = serving => {}
        () = builder.run(changes, build_events) => {}
    }
    Ok(())
}

/// Asks the user before the server listens on an address that other machines can reach.
///
/// # Errors
///
/// Fails if the user declines, or if there is no terminal in which to ask.
fn confirm_address(address: SocketAddr, is_allowed: bool) -> Result<(), Failure> {
    if is_allowed || address.ip().is_loopback() {
        return Ok(());
    }
    let why = format!("other machines can reach `{address}`");
    let failure = |why: String| {
        Failure::usage(why)
            .help("`--allow-remote` listens on it without asking")
            .help("`--http 127.0.0.1:8080` is for this machine only")
    };
    if !in_terminal() {
        return Err(failure(why));
    }
    let question = format!("Other machines can reach `{address}`. Allow them to use the server?");
    match inquire::Confirm::new(&question).with_default(false).prompt() {
        Ok(true) => Ok(()),
        Ok(false) | Err(InquireError::OperationCanceled | InquireError::OperationInterrupted) => {
            Err(Failure::interrupted())
        }
        Err(error) => Err(failure(format!("{why}, and the terminal cannot ask: {error}"))),
    }
}

/// The prefix of the names of directories for executables, followed by the process id.
const DIRECTORY_PREFIX: &str = "mcp-dev-";

/// Creates a directory for executables that is deleted with this process, and deletes the directories that dead
/// processes left.
fn executable_directory(target: &Path) -> Result<tempfile::TempDir, Failure> {
    for entry in std::fs::read_dir(target).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(DIRECTORY_PREFIX)?.split('-').next()?.parse().ok());
        if owner.is_some_and(|owner| !process::is_running(owner)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let prefix = format!("{DIRECTORY_PREFIX}{}-", std::process::id());
    let created = std::fs::create_dir_all(target).and_then(|()| temporary::private_directory_in(target, &prefix));
    created.map_err(|error| {
        let target = target.display();
        Failure::connection(format_args!("cannot create a directory for executables in `{target}`: {error}"))
    })
}

/// Writes status lines for the developer to stderr.
#[derive(Debug, Clone)]
struct Reporter {
    /// Whether to write warnings only.
    quiet: bool,
}

impl Reporter {
    /// Writes a status line, unless `--quiet` is set.
    fn info(&self, text: impl Display) {
        if !self.quiet {
            write_line(AnsiColor::Green, text);
        }
    }

    /// Writes a warning.
    fn warn(&self, text: impl Display) {
        write_line(AnsiColor::Yellow, text);
    }

    /// Forwards a line of the server's log.
    fn log(&self, line: &str) {
        errln!("{}", line.trim_end());
    }

    /// Forwards output of cargo, which styles it.
    fn cargo(&self, text: &str) {
        anstream::eprintln!("{}", text.trim_end());
    }

    /// Returns whether stderr shows colors.
    fn is_colored(&self) -> bool {
        anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
    }
}

fn write_line(color: AnsiColor, text: impl Display) {
    let style = Style::color(color).bold();
    errln!("{style}dev{style:#}: {text}");
}

#[cfg(all(test, unix))]
mod tests {
    use super::executable_directory;

    /// Several processes may share a target directory.
    #[test]
    fn only_directories_of_dead_processes_are_deleted() {
        let target = tempfile::tempdir().expect("a directory");
        // No process has the greatest number.
        let [dead, running] = [i32::MAX.unsigned_abs(), std::process::id()].map(|id| format!("mcp-dev-{id}-abc"));
        for name in [&*dead, &*running, "mcp-dev-notes", "debug"] {
            std::fs::create_dir(target.path().join(name)).expect("a directory");
        }
        let own = executable_directory(target.path()).expect("a directory");
        for (name, expected) in [(&*dead, false), (&*running, true), ("mcp-dev-notes", true), ("debug", true)] {
            assert_eq!(target.path().join(name).exists(), expected, "{name}");
        }
        let path = own.path().to_owned();
        assert!(path.starts_with(target.path()) && path.exists());
        drop(own);
        assert!(!path.exists());
    }
}
