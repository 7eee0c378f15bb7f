//! `cargo mcp dev`: a server that is built and started again whenever its source changes, behind a front that keeps clients connected.

mod build;
mod flow;
mod front;
mod guard;
mod http;
mod listening;
mod message;
mod offers;
mod process;
mod questions;
mod stdio;
mod watch;

use std::{
    fmt::Display,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anstyle::{AnsiColor, Style};
use tokio::sync::mpsc;

use crate::{
    failure::Failure,
    target::pair,
    workspace::{BuildArgs, Workspace},
};

/// The number of a server's process.
type Generation = u64;

const EXAMPLES: &str = "\
Examples:
  cargo mcp dev                                    the only server here, for a client that starts this command
  claude mcp add notes -- cargo mcp dev notes      a client that does
  cargo mcp dev notes --http 127.0.0.1:8080        at http://127.0.0.1:8080/mcp
  cargo mcp dev notes --watch templates -- --db test.db";

/// Serve a package, and build and start it again when its source changes
///
/// Clients stay connected: they talk to a front, which hands what they say to the newest build, replays their handshake to it, and
/// tells them which lists changed. Calls in flight have some seconds to end. While the source does not compile, the last good build
/// goes on serving. The front speaks JSON-RPC on stdin and stdout, as clients want it that start a server, or streamable HTTP with
/// `--http`; the HTTP transport of 2024-11-05 is not kept open over a restart.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A package of this workspace; without it the only server here
    package: Option<String>,
    /// Arguments for the server
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
    /// Serve HTTP at this address, such as 127.0.0.1:8080, in place of stdin and stdout
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// Another file or directory whose changes count (may be repeated)
    #[arg(long, value_name = "PATH")]
    watch: Vec<PathBuf>,
    /// Look at the source every second, where the system does not tell of changes, as on network file systems
    #[arg(long)]
    poll: bool,
    /// How many seconds calls in flight have to end when there is a new build
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    grace: u64,
    /// How many seconds a new build may take to begin
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    start_timeout: u64,
    /// A variable of the server's environment (may be repeated)
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Say only what goes wrong
    #[arg(long, short)]
    quiet: bool,
    /// Runs a program for as long as somebody holds stdin
    #[arg(long, value_name = "PROGRAM", hide = true)]
    guard: Option<PathBuf>,
    #[command(flatten)]
    build: BuildArgs,
}

/// Tells the author, on stderr.
#[derive(Debug, Clone)]
struct Say {
    quiet: bool,
}

impl Say {
    fn info(&self, text: impl Display) {
        if !self.quiet {
            self.line(AnsiColor::Green, text);
        }
    }

    fn warn(&self, text: impl Display) {
        self.line(AnsiColor::Yellow, text);
    }

    fn line(&self, color: AnsiColor, text: impl Display) {
        let style = Style::new().fg_color(Some(color.into())).bold();
        anstream::eprintln!("{style}dev{style:#}: {text}");
    }

    /// Shows what another program says.
    fn verbatim(&self, text: &str) {
        anstream::eprintln!("{}", text.trim_end());
    }

    fn is_colored(&self) -> bool {
        anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
    }
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let stops =
        Stops::listen().map_err(|error| Failure::connection(format_args!("signals cannot be heard: {error}")))?;
    if let Some(program) = args.guard {
        return guard::run(program, args.args, stops).await;
    }
    let workspace = Workspace::read(&args.build)?;
    let server = workspace.server(args.package.as_deref(), args.build.bin.as_deref())?;
    let is_ours = server.package.dependencies.iter().any(|dependency| dependency.name == "mcp-runtime");
    let listener = match args.http {
        Some(_) if !is_ours => {
            let name = &server.package.name;
            return Err(Failure::usage(format_args!("`--http` needs a server of `mcp-runtime`, and `{name}` is none"))
                .help("leave `--http` out: stdin and stdout do for every server"));
        }
        Some(address) => Some(tokio::net::TcpListener::bind(address).await.map_err(|error| {
            Failure::connection(format_args!("`{address}` cannot be listened on: {error}"))
                .help("`--http 127.0.0.1:0` takes a port that is free")
        })?),
        None => None,
    };
    let say = Say { quiet: args.quiet };
    let sources = build::sources(&server, &args.build)?;
    let (watcher, changes) = watch::Watcher::start(&sources, &args.watch, args.poll)?;
    let kept = Arc::new(keeping_place(&sources.target)?);
    let (news, learned) = mpsc::unbounded_channel();
    let settings = front::Settings {
        prefix: format!("cargo-mcp-{}-{:x}", std::process::id(), since_epoch().subsec_nanos()),
        probes: is_ours,
        grace: Duration::from_secs(args.grace),
        start: Duration::from_secs(args.start_timeout),
    };
    let manner = stdio::Manner { args: args.args, env: args.env };
    let (package, build) = (server.clone(), args.build.clone());
    let builder = build::Builder { server, args: args.build, kept: Arc::clone(&kept), say: say.clone() };
    let watching = watcher.keep_up(move || build::sources(&package, &build).ok());
    let serving = async {
        match listener {
            Some(listener) => http::serve(listener, settings, manner, say, learned, stops).await,
            None => stdio::serve(settings, manner, say, learned, stops).await,
        }
    };
    tokio::select! {
        () = serving => {}
        () = builder.run(changes, news) => {}
        () = watching => {}
    }
    Ok(())
}

/// The beginning of the names of directories for programs.
const KEPT: &str = "mcp-dev-";

/// A directory for programs, which goes with this process. Those of processes that could not remove theirs go now.
fn keeping_place(target: &Path) -> Result<tempfile::TempDir, Failure> {
    for left in std::fs::read_dir(target).into_iter().flatten().filter_map(Result::ok) {
        let name = left.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(KEPT)?.split('-').next()?.parse().ok());
        if process.is_some_and(|process| !process::is_there(process)) {
            let _ = std::fs::remove_dir_all(left.path());
        }
    }
    let prefix = format!("{KEPT}{}-", std::process::id());
    let made =
        std::fs::create_dir_all(target).and_then(|()| tempfile::Builder::new().prefix(&prefix).tempdir_in(target));
    made.map_err(|error| {
        Failure::connection(format_args!("programs cannot be kept in `{}`: {error}", target.display()))
    })
}

fn since_epoch() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// Being told to end: by a person, by whoever started this, or by the end of the terminal.
struct Stops {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 3],
}

impl Stops {
    #[cfg(unix)]
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        let signals =
            [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?];
        Ok(Self { signals })
    }

    #[cfg(not(unix))]
    fn listen() -> std::io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
