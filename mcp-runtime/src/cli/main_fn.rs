//! The function that configures a program's server: the body of a `#[server]` function, or the default of `main!()`.

use std::{
    fmt::{self, Display},
    pin::Pin,
};

use crate::{
    handler::{ErrorOutput, HandlerError, Input},
    server::Server,
};

/// The function that decodes the flags of the command line and configures the server.
pub type MainFn = for<'a> fn(Server, Input<'a>) -> Result<ServerFuture, HandlerError>;

/// The future of a [`MainFn`], which resolves to the configured server.
pub type ServerFuture = Pin<Box<dyn Future<Output = Result<Server, MainError>>>>;

/// The message of the error that a `#[server]` function returned.
#[derive(Debug)]
pub struct MainError(String);

impl Display for MainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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
    fn into_server(self) -> Result<Server, MainError>;
}

impl IntoServer for Server {
    fn into_server(self) -> Result<Server, MainError> {
        Ok(self)
    }
}

impl<E: ErrorOutput> IntoServer for Result<Server, E> {
    fn into_server(self) -> Result<Server, MainError> {
        self.map_err(|error| MainError(format!("{error:#}")))
    }
}

/// Returns the server unchanged. This is the [`MainFn`] of `main!()`.
///
/// # Errors
///
/// Never fails: the return type is that of [`MainFn`].
pub fn default_main(server: Server, _: Input<'_>) -> Result<ServerFuture, HandlerError> {
    Ok(Box::pin(async { Ok(server) }))
}
