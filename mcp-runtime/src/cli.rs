//! The command line of a server.

use std::{fmt::Display, pin::Pin, process::ExitCode};

use crate::{
    Server,
    handler::{Input, Refusal, entry::ArgumentEntry},
};

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
pub type Body = for<'a> fn(Server, Input<'a>) -> Result<Starting, Refusal>;

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

/// Runs a server as its command line says.
pub fn start(package: Package, flags: &'static [ArgumentEntry], body: Body) -> ExitCode {
    let _ = (package, flags, body);
    ExitCode::SUCCESS
}

/// The body of `main!()`.
pub fn as_it_is(server: Server, _: Input<'_>) -> Result<Starting, Refusal> {
    Ok(Box::pin(async { Ok(server) }))
}

/// Writes `main`: collects every annotated function of the program and serves it as the command line says.
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
