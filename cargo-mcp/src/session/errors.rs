//! Failures of requests, with help.

use rmcp::{ServiceError, model::ErrorData};

use super::Session;
use crate::{
    client::{self, describe_exit, stray_line_help},
    failure::Failure,
    refusal::Refusal,
    target::Target,
};

/// Converts an error response to a failure.
pub(crate) fn rejection(session: &Session, what: &str, error: ErrorData) -> Failure {
    let failure = Failure::tool(format_args!("{what}: {} (code {})", error.message, error.code.0));
    match (missing_capability_help(session, &error.message), error.data) {
        (Some(help), _) => failure.help(help),
        (None, Some(data)) => failure.help(format_args!("error data: {data}")),
        (None, None) => failure,
    }
}

/// Returns help if an error message mentions a capability that this client has not declared.
pub(crate) fn missing_capability_help(session: &Session, message: &str) -> Option<&'static str> {
    let message = message.to_lowercase();
    let has = session.host().capabilities();
    [
        (
            "elicitation",
            has.elicitation.is_some(),
            "the server asks for input: run this in a terminal or pass `--answer KEY=VALUE`",
        ),
        ("sampling", has.sampling.is_some(), "the server requests sampling: pass the response with `--sample TEXT`"),
        ("roots", has.roots.is_some(), "the server requests roots: pass them with `--root DIR`"),
    ]
    .into_iter()
    .find(|(name, declared, _)| !declared && message.contains(name))
    .map(|(_, _, help)| help)
}

/// Converts the error of a request to a failure.
pub(super) fn failure(session: &Session, what: &str, error: ServiceError) -> Failure {
    if let (Target::Url { url, headers }, Some(refusal)) = (session.target(), Refusal::of_request(&error)) {
        return refusal.failure(Failure::tool, what, url, headers);
    }
    let is_closed = matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_));
    let failure = match (is_closed, session.observer.exit_status()) {
        (true, Some(status)) => {
            Failure::connection(format_args!("{what}: the server exited ({})", describe_exit(status)))
        }
        (true, None) => Failure::connection(format_args!("{what}: the server closed the connection")),
        (false, _) => {
            return match error {
                ServiceError::McpError(error) => rejection(session, what, error),
                ServiceError::UnexpectedResponse => {
                    Failure::connection(format_args!("{what}: the response does not conform to the protocol"))
                        .help("`cargo mcp check` shows the details")
                }
                error => client::request_failure(what, error),
            };
        }
    };
    match session.observer.stray_line() {
        Some(line) => failure.help(stray_line_help(&line)),
        None => failure.help("its output on stderr is shown above, if there is any"),
    }
}
