//! The command line of a server: what `main!()` and `#[server]` expand to.

#[cfg(feature = "http")]
mod address;
mod help;
mod options;
mod show;

use std::{fmt::Display, io, pin::Pin, process::ExitCode, sync::Arc};

use options::{Mode, Options};

use crate::{
    BuiltServer, Server,
    handler::{Contract, Encoding, HandlerError, Input, StateMap, entry::ArgumentEntry, from_strings},
    registry,
    revision::{self, Revision},
    testing::TestClient,
    transport::Stdio,
};

/// The exit code for a command line that cannot be understood.
const USAGE: u8 = 2;

/// What cargo knows of the author's crate.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// `CARGO_PKG_NAME`
    pub name: &'static str,
    /// `CARGO_PKG_VERSION`
    pub version: &'static str,
    /// `CARGO_PKG_DESCRIPTION`
    pub description: &'static str,
    /// `CARGO_PKG_HOMEPAGE`
    pub homepage: &'static str,
}

/// The future of an author's `main`.
pub type Starting = Pin<Box<dyn Future<Output = Result<Server, String>>>>;

/// An author's `main`, which decodes its command line and configures the server.
pub type Body = for<'a> fn(Server, Input<'a>) -> Result<Starting, HandlerError>;

/// What an author's `main` may return.
#[diagnostic::on_unimplemented(
    message = "a `#[server]` function cannot return `{Self}`",
    label = "expected `Server`, or a `Result` of it"
)]
pub trait Started {
    /// The server, or why there is none.
    #[doc(hidden)]
    fn started(self) -> Result<Server, String>;
}

impl Started for Server {
    fn started(self) -> Result<Server, String> {
        Ok(self)
    }
}

impl<E: Display> Started for Result<Server, E> {
    fn started(self) -> Result<Server, String> {
        self.map_err(|error| format!("{error:#}"))
    }
}

/// Writes `main`: collects every annotated function of the program and serves it as the command line says.
///
/// The server takes its name, version and description from the crate's `Cargo.toml`. For state and configuration write
/// a `main` with [`#[server]`](crate::server).
#[macro_export]
macro_rules! main {
    () => {
        fn main() -> ::std::process::ExitCode {
            $crate::__private::start($crate::__private::package!(), &[], $crate::__private::as_it_is)
        }
    };
}

/// Takes what cargo knows of the crate that this is written in.
#[doc(hidden)]
#[macro_export]
macro_rules! __package {
    () => {
        $crate::__private::Package {
            name: ::core::env!("CARGO_PKG_NAME"),
            version: ::core::env!("CARGO_PKG_VERSION"),
            description: ::core::env!("CARGO_PKG_DESCRIPTION"),
            homepage: ::core::env!("CARGO_PKG_HOMEPAGE"),
        }
    };
}

/// The body of `main!()`.
pub fn as_it_is(server: Server, _: Input<'_>) -> Result<Starting, HandlerError> {
    Ok(Box::pin(async { Ok(server) }))
}

/// Runs a server as its command line says.
pub fn start(package: Package, flags: &'static [ArgumentEntry], body: Body) -> ExitCode {
    #[cfg(feature = "lock")]
    if crate::lock::lend(|words| lent(&package, flags, body, words)) {
        return ExitCode::SUCCESS;
    }
    let contract = match registry::contract(flags) {
        Ok(contract) => contract,
        Err(why) => return fail(&package, 1, &format!("the command line of `main` is invalid: {why}")),
    };
    let options = match Options::parse(std::env::args_os().skip(1), &contract) {
        Ok(options) => options,
        Err(why) => return fail(&package, USAGE, &format!("{why}\n\nsee `{} --help`", package.name)),
    };
    match options.mode {
        Mode::Help => return print(&help::help(&package, &contract)),
        Mode::Version => return print(&format!("{} {}\n", package.name, package.version)),
        _ => {}
    }
    // Before any code of the author's, which may print.
    let stdio = match Stdio::claim() {
        Ok(stdio) => stdio,
        Err(error) => return fail(&package, 1, &format!("stdin and stdout cannot be used: {error}")),
    };
    #[cfg(feature = "log")]
    crate::log::install(options.mode.serves());
    let runtime = match options.mode.runtime().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&package, 1, &format!("the runtime cannot be started: {error}")),
    };
    let outcome = runtime.block_on(run(&package, &contract, options, body, stdio));
    // A thread that still blocks on stdin or in a function must not hold up the end of the process.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => code,
        Err(Failure { code, why }) => fail(&package, code, &why),
    }
}

struct Failure {
    code: u8,
    why: String,
}

impl Failure {
    fn new(why: impl Display) -> Self {
        Self { code: 1, why: why.to_string() }
    }
}

async fn run(
    package: &Package,
    contract: &Contract,
    options: Options,
    body: Body,
    stdio: Stdio,
) -> Result<ExitCode, Failure> {
    let server = built(package, contract, &options, body).await?;
    match options.mode {
        Mode::List => stdio.print(&show::list(server.engine())),
        Mode::Schema => stdio.print(&show::schema(&mut client(&server)).await),
        Mode::Call { name, arguments } => {
            let exchange = show::call(&mut client(&server), &name, &arguments).await.map_err(Failure::new)?;
            stdio.print(&exchange.text);
            if exchange.failed {
                return Ok(ExitCode::FAILURE);
            }
        }
        #[cfg(feature = "http")]
        Mode::Http(address) => {
            let path = options.http.path.clone();
            let listener = server.bind_http(address, options.http).await.map_err(Failure::new)?;
            address::report(package, &format!("http://{}{path}", listener.address())).map_err(Failure::new)?;
            let stop = crate::transport::stop(server.engine().limits.grace);
            listener.serve(stop).await;
        }
        Mode::Serve | Mode::Help | Mode::Version => {
            if stdio.is_terminal() {
                let _ = io::Write::write_all(&mut io::stderr(), show::greeting(package, server.engine()).as_bytes());
            }
            server.serve_claimed(stdio).await.map_err(Failure::new)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the server that a command line asks for.
async fn built(package: &Package, contract: &Contract, options: &Options, body: Body) -> Result<BuiltServer, Failure> {
    let mut server = configure(package, contract, options, body)?.await.map_err(Failure::new)?;
    if !options.state_keys.is_empty() {
        server = server.state_keys(options.state_keys.iter().cloned());
    }
    server.build().map_err(Failure::new)
}

/// Reads what the server of a command line lists, in place of serving it.
#[cfg(feature = "lock")]
fn lent(
    package: &Package,
    flags: &'static [ArgumentEntry],
    body: Body,
    words: Vec<std::ffi::OsString>,
) -> Result<mcp_lock::Lock, String> {
    let contract = registry::contract(flags)?;
    let options = Options::parse(words.into_iter(), &contract)?;
    let runtime = options.mode.runtime().enable_all().build().map_err(|error| error.to_string())?;
    // The author's `main` may have given its state to this runtime, so the lists are read on it as well.
    runtime.block_on(async {
        let server = built(package, &contract, &options, body).await.map_err(|failure| failure.why)?;
        crate::lock::lock(&server).await
    })
}

/// Runs the author's `main` up to the server that it makes.
fn configure(package: &Package, contract: &Contract, options: &Options, body: Body) -> Result<Starting, Failure> {
    let mut server = Server::new(package.name, package.version);
    if !package.description.is_empty() {
        server = server.description(package.description);
    }
    if !package.homepage.is_empty() {
        server = server.website_url(package.homepage);
    }
    let strings = options.flags.iter().map(|(name, value)| ((*name).into(), value.as_str().into()));
    let arguments = from_strings(contract, strings);
    let dialect = revision::newest();
    let encoding =
        Arc::new(Encoding { dialect, features: dialect.features(), identity: Vec::new(), is_private: false });
    let input = Input {
        arguments: &arguments,
        contract,
        states: &Arc::new(StateMap::default()),
        context: None,
        encoding: &encoding,
        uri: "",
    };
    body(server, input).map_err(|refusal| Failure { code: USAGE, why: help::refusal(refusal, package) })
}

fn client(server: &BuiltServer) -> TestClient {
    server.test_client(Revision::LATEST)
}

fn fail(package: &Package, code: u8, why: &str) -> ExitCode {
    let _ = io::Write::write_all(&mut io::stderr(), format!("{}: {why}\n", package.name).as_bytes());
    ExitCode::from(code)
}

/// Prints to stdout; a reader that has gone has seen enough.
fn print(text: &str) -> ExitCode {
    let _ = io::Write::write_all(&mut io::stdout(), text.as_bytes());
    ExitCode::SUCCESS
}
