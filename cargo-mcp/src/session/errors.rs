//! Failures of requests, with help.

use rmcp::{ServiceError, model::ErrorData};

use super::Session;
use crate::{
    client::{describe_exit, refused, stray_line_help},
    failure::Failure,
};

impl Session {
    /// The failure of a request that the server answered with an error.
    pub(crate) fn refused(&self, what: &str, error: ErrorData) -> Failure {
        let failure = Failure::tool(format_args!("{what}: {} (code {})", error.message, error.code.0));
        match (self.missing_capability_help(&error.message), error.data) {
            (Some(help), _) => failure.help(help),
            (None, Some(data)) => failure.help(format_args!("error data: {data}")),
            (None, None) => failure,
        }
    }

    /// Returns help if an error message mentions a capability that this client has not declared.
    pub(crate) fn missing_capability_help(&self, message: &str) -> Option<&'static str> {
        let message = message.to_lowercase();
        let has = self.host().capabilities();
        [
            (
                "elicitation",
                has.elicitation.is_some(),
                "the server asks for input: run this in a terminal or pass `--answer KEY=VALUE`",
            ),
            (
                "sampling",
                has.sampling.is_some(),
                "the server requests sampling: pass the response with `--sample TEXT`",
            ),
            ("roots", has.roots.is_some(), "the server requests roots: pass them with `--root DIR`"),
        ]
        .into_iter()
        .find(|(name, declared, _)| !declared && message.contains(name))
        .map(|(_, _, help)| help)
    }

    /// The failure of a request without a result.
    pub(super) fn failure(&self, what: &str, error: ServiceError) -> Failure {
        let is_closed = matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_));
        let failure = match (is_closed, self.observer.exit_status()) {
            (true, Some(status)) => {
                Failure::connection(format_args!("{what}: the server exited ({})", describe_exit(status)))
            }
            (true, None) => Failure::connection(format_args!("{what}: the server closed the connection")),
            (false, _) => {
                return match error {
                    ServiceError::McpError(error) => self.refused(what, error),
                    ServiceError::UnexpectedResponse => {
                        Failure::connection(format_args!("{what}: the response does not conform to the protocol"))
                            .help("`cargo mcp check` shows the details")
                    }
                    error => refused(what, error),
                };
            }
        };
        match self.observer.stray_line() {
            Some(line) => failure.help(stray_line_help(&line)),
            None => failure.help("its output on stderr is shown above, if there is any"),
        }
    }
}
