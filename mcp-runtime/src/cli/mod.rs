//! The program of a server, which `main!()` and `#[server]` expand to: the function that configures the server, its command line,
//! and serving.

mod flags;
#[cfg(feature = "http")]
mod http;
mod options;
mod show;

pub use show::Package;

use std::{fmt::Display, io, pin::Pin, process::ExitCode, sync::Arc};

use self::options::{Mode, Options};
use crate::{
    handler::{
        Contract, ErrorOutput, HandlerError, Input,
        entry::{ArgumentEntry, Entry},
    },
    server::{BuiltServer, Server},
    stderr,
    stdx::OnDrop,
    transport::Stdio,
};

/// The exit code for an invalid command line.
const USAGE: u8 = 2;

/// Expands to a `main` function that serves every annotated function of the program.
///
/// ```no_run
/// use mcp_runtime::tool;
///
/// /// Add two numbers.
/// #[tool]
/// fn add(a: f64, b: f64) -> f64 {
///     a + b
/// }
///
/// mcp_runtime::main!();
/// ```
///
/// The server takes its name, version and description from the crate's `Cargo.toml`. To add state or configuration,
/// write a `main` function with [`#[server]`](crate::server) instead.
///
/// The program logs warnings and errors to stderr; the environment variable `RUST_LOG` sets another filter, and
/// `--log-format json` another format. In addition, a server that was started with `--http` prints its URL. See the
/// chapter about [logging](crate::guide::logging).
///
/// The program serves stdio by default. With the feature `http`, the option `--http` serves HTTP; see `--help` for all
/// options. If the environment variable `MCP_ADDRESS_FILE` names a file, the URL of the HTTP endpoint is written to it
/// once the server accepts connections, so that other programs learn the port if port 0 was requested.
#[macro_export]
macro_rules! main {
    () => {
        fn main() -> ::std::process::ExitCode {
            $crate::__private::start($crate::__private::package!(), &[], $crate::__private::default_main)
        }
    };
}

/// An error that ends the program.
struct Failure {
    exit_code: u8,
    message: String,
}

impl Failure {
    fn new(error: impl Display) -> Self {
        Self { exit_code: 1, message: error.to_string() }
    }
}

/// Runs a program.
pub fn start(package: Package, flags: &'static [ArgumentEntry], main: MainFn) -> ExitCode {
    let program = || Program::new(package, flags, main);
    #[cfg(feature = "testing")]
    if crate::testing::lock::answer(|words| program().map_err(|failure| failure.message)?.lock(words)) {
        return ExitCode::SUCCESS;
    }
    // Writes the rest of the log when the program ends, even if `main` panics.
    let _flush = OnDrop(stderr::flush);
    program().and_then(|program| program.start()).unwrap_or_else(|failure| {
        stderr::writer().push(format!("{}: {}\n", package.name, failure.message).as_bytes());
        ExitCode::from(failure.exit_code)
    })
}

/// The parts of a program that the macro passes to [`start`].
struct Program {
    package: Package,
    /// The contract of the flags.
    contract: Arc<Contract>,
    main: MainFn,
}

impl Program {
    fn new(package: Package, flags: &'static [ArgumentEntry], main: MainFn) -> Result<Self, Failure> {
        let contract = Contract::of_flags(flags);
        if !flags.is_empty() {
            contract.compile().map_err(|error| Failure::new(format_args!("invalid flags of `main`: {error}")))?;
        }
        Ok(Self { package, contract: Arc::new(contract), main })
    }

    /// Creates the error of an invalid command line, in the layout of clap.
    fn usage_error(&self, error: impl Display) -> Failure {
        let (usage, program) = (options::usage(&self.package, &self.contract), options::program(&self.package));
        let message = format!("{error}\n\n{usage}\n\nfor more information, try `{program} --help`");
        Failure { exit_code: USAGE, message }
    }

    fn start(&self) -> Result<ExitCode, Failure> {
        let Self { package, contract, .. } = self;
        let options = Options::parse(std::env::args_os().skip(1), contract).map_err(|error| self.usage_error(error))?;
        match options.mode {
            Mode::Help => return Ok(print(&options::help(package, contract))),
            Mode::Version => return Ok(print(&format!("{} {}\n", package.name, package.version))),
            _ => {}
        }
        // Claimed before the author's code runs, since that code may print.
        let stdio =
            Stdio::claim().map_err(|error| Failure::new(format_args!("cannot use stdin and stdout: {error}")))?;
        stderr::set_panic_hook();
        #[cfg(feature = "log")]
        crate::log::install(options.logs_json);
        let runtime = options.mode.runtime().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(format_args!("cannot start the runtime: {error}")))?;
        let logs_json = options.logs_json;
        let result = runtime.block_on(self.run(options, stdio));
        // Threads that block on stdin or in a function must not keep the process from ending.
        runtime.shutdown_background();
        match result {
            Err(Failure { exit_code, message }) if logs_json && tracing::event_enabled!(tracing::Level::ERROR) => {
                tracing::error!("{message}");
                Ok(ExitCode::from(exit_code))
            }
            result => result,
        }
    }

    async fn run(&self, options: Options, stdio: Stdio) -> Result<ExitCode, Failure> {
        let server = self.build(&options).await?;
        match options.mode {
            Mode::List => stdio.print(&show::list(server.engine())),
            Mode::Schema => stdio.print(&show::schema(&server).await),
            Mode::Call { name, arguments } => {
                let (text, exit_code) = show::call(&server, &name, &arguments).await.map_err(Failure::new)?;
                stdio.print(&text);
                return Ok(exit_code);
            }
            #[cfg(feature = "http")]
            Mode::Http(ref address) => {
                stderr::capture_printed();
                options.http.serve(&self.package, server, address, options.logs_json).await.map_err(Failure::new)?;
            }
            Mode::Serve | Mode::Help | Mode::Version => {
                if stdio.is_terminal() {
                    let banner = show::terminal_banner(&self.package, server.engine());
                    stderr::writer().push(banner.as_bytes());
                }
                stderr::capture_printed();
                server.serve_claimed(stdio).await.map_err(Failure::new)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Configures and builds the server.
    async fn build(&self, options: &Options) -> Result<BuiltServer, Failure> {
        let mut server = self.configure(options)?.await.map_err(Failure::new)?;
        if !options.state_keys.is_empty() {
            server = server.state_keys(options.state_keys.iter().cloned());
        }
        if let Some(url) = options.backend.as_ref().filter(|_| options.mode.uses_backend()) {
            server = self.connect(server, url).await?;
        }
        #[cfg(feature = "http")]
        if let Some(path) = &options.http.token_file {
            server = server.authenticate(crate::auth::TokenFile::open(path).map_err(Failure::new)?);
        }
        let inspects = matches!(options.mode, Mode::List | Mode::Schema);
        server.build_with(cfg!(debug_assertions) || inspects).map_err(Failure::new)
    }

    /// Connects the server to the backend with a URL.
    #[cfg(feature = "cluster")]
    async fn connect(&self, server: Server, url: &str) -> Result<Server, Failure> {
        let connector = crate::backend::BackendConnector::find(url).map_err(|error| self.usage_error(error))?;
        let backend = connector.connect(url, server.profile.first_name()).await;
        let failed = |error| Failure::new(format_args!("cannot connect to the backend: {error}"));
        Ok(server.shared_backend(backend.map_err(failed)?))
    }

    /// Fails, since no crate of the program provides a backend.
    #[cfg(not(feature = "cluster"))]
    async fn connect(&self, _: Server, _: &str) -> Result<Server, Failure> {
        let why = "this program was built without the feature `cluster` of `mcp-runtime`, so it has no backends\n\
                   help: for Redis and Valkey, add the crate `mcp-runtime-redis` to `[dependencies]`, and `use mcp_redis as _;` \
                   to the file with `main`";
        Err(self.usage_error(why))
    }

    /// Calls the author's `main` with the flags of the command line.
    fn configure(&self, options: &Options) -> Result<ServerFuture, Failure> {
        let Self { package, contract, main } = self;
        warn_if_not_linked(package);
        let mut server = Server::new(package.name, package.version);
        if !package.description.is_empty() {
            server = server.description(package.description);
        }
        if !package.homepage.is_empty() {
            server = server.website_url(package.homepage);
        }
        let arguments = flags::arguments(contract, &options.flags);
        let arguments = arguments.map_err(|error| self.usage_error(error))?;
        let input = Input { arguments: &arguments, contract, violations: None, call: None, context: None };
        main(server, input).map_err(|error| self.usage_error(options::invalid_flags(contract, &options.flags, error)))
    }

    /// Returns the lock of the server that a command line describes.
    #[cfg(feature = "testing")]
    fn lock(&self, words: Vec<std::ffi::OsString>) -> Result<mcp_runtime_lock::Lock, String> {
        let options = Options::parse(words.into_iter(), &self.contract)?;
        let runtime = options.mode.runtime().enable_all().build().map_err(|error| error.to_string())?;
        // The author's `main` may have bound state to this runtime, so the lists are read on it as well.
        runtime.block_on(async {
            let server = self.build(&options).await.map_err(|failure| failure.message)?;
            crate::testing::lock::lock(&server).await
        })
    }
}

/// Warns about libraries with annotated functions that the program does not contain.
fn warn_if_not_linked(package: &Package) {
    for library in package.libraries {
        let is_linked =
            *library != package.name && inventory::iter::<Entry>().any(|entry| entry.info().package == *library);
        if !is_linked {
            let name = library.replace('-', "_");
            tracing::warn!(
                library,
                "the functions of this library are missing, because nothing in the program refers to it\n\
                 help: add `use {name} as _;` to the file with `main`"
            );
        }
    }
}

/// Prints to stdout. Ignores errors, such as a closed pipe.
fn print(text: &str) -> ExitCode {
    let _ = io::Write::write_all(&mut io::stdout(), text.as_bytes());
    ExitCode::SUCCESS
}

/// The function that decodes the flags of the command line and configures the server.
pub type MainFn = for<'a> fn(Server, Input<'a>) -> Result<ServerFuture, HandlerError>;

/// The future of a [`MainFn`], which resolves to the configured server.
pub type ServerFuture = Pin<Box<dyn Future<Output = Result<Server, String>>>>;

/// The return types of `#[server]` functions.
#[diagnostic::on_unimplemented(
    message = "a `#[server]` function cannot return `{Self}`",
    label = "expected `Server`, or a `Result` of it",
    note = "return the server without building it: `#[server]` builds and serves it"
)]
pub trait IntoServer {
    /// Converts the returned value into the server.
    ///
    /// # Errors
    ///
    /// Returns the error that the function returned.
    #[doc(hidden)]
    fn into_server(self) -> Result<Server, String>;
}

impl IntoServer for Server {
    fn into_server(self) -> Result<Server, String> {
        Ok(self)
    }
}

impl<E: ErrorOutput> IntoServer for Result<Server, E> {
    fn into_server(self) -> Result<Server, String> {
        self.map_err(|error| format!("{error:#}"))
    }
}

/// Returns the server unchanged. This is the [`MainFn`] of `main!()`.
///
/// # Errors
///
/// Never fails: the return type is required by [`MainFn`].
pub fn default_main(server: Server, _: Input<'_>) -> Result<ServerFuture, HandlerError> {
    Ok(Box::pin(async { Ok(server) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crate_describes_the_server() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let options = Options::default();
        for (description, homepage) in [("", ""), ("Takes notes.", "https://notes.example.com")] {
            let package = Package { name: "notes", version: "1.2.3", description, homepage, libraries: &[] };
            let program = Program::new(package, &[], default_main).ok().unwrap();
            let server = program.configure(&options).ok().unwrap();
            let identity = runtime.block_on(server).unwrap().profile.identity;
            assert_eq!((&*identity.name, &*identity.version), ("notes", "1.2.3"));
            assert_eq!(identity.description.unwrap_or_default(), description);
            assert_eq!(identity.website_url.unwrap_or_default(), homepage);
        }
    }
}
