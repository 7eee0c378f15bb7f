//! Why a request was not answered, and what to do about it.

use rmcp::{ServiceError, model::ErrorData};

use super::Session;
use crate::{
    client::{outcome, refused, stray},
    failure::Failure,
};

impl Session {
    /// An error that the server answered with, and what to do about it.
    pub(crate) fn refused(&self, what: &str, error: ErrorData) -> Failure {
        let failure = Failure::tool(format_args!("{what}: {} (code {})", error.message, error.code.0));
        match (self.lacking(&error.message), error.data) {
            (Some(help), _) => failure.help(help),
            (None, Some(data)) => failure.help(format_args!("the server adds {data}")),
            (None, None) => failure,
        }
    }

    /// What to do about an error that speaks of something that this client has not declared.
    pub(crate) fn lacking(&self, message: &str) -> Option<&'static str> {
        let message = message.to_lowercase();
        let has = self.host().capabilities();
        [
            (
                "elicitation",
                has.elicitation.is_some(),
                "the server asks the user: run this in a terminal, or answer with `--answer KEY=VALUE`",
            ),
            (
                "sampling",
                has.sampling.is_some(),
                "the server asks the client's model: `--sample TEXT` says what it answers",
            ),
            ("roots", has.roots.is_some(), "the server asks for directories: name them with `--root DIR`"),
        ]
        .into_iter()
        .find(|(name, declared, _)| !declared && message.contains(name))
        .map(|(_, _, help)| help)
    }

    /// A request that was not answered with a result.
    pub(super) fn failure(&self, what: &str, error: ServiceError) -> Failure {
        let gone = matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_));
        let failure = match (gone, self.witness.ended()) {
            (true, Some(status)) => Failure::connection(format_args!("{what}: the server ended ({})", outcome(status))),
            (true, None) => Failure::connection(format_args!("{what}: the server closed the connection")),
            (false, _) => {
                return match error {
                    ServiceError::McpError(error) => self.refused(what, error),
                    ServiceError::UnexpectedResponse => {
                        Failure::connection(format_args!("{what}: the server's answer is not what the protocol says"))
                            .help("`cargo mcp check` says what is wrong with it")
                    }
                    error => refused(what, error),
                };
            }
        };
        match self.witness.stray() {
            Some(line) => failure.help(stray(&line)),
            None => failure.help("what it wrote to stderr stands above, if anything"),
        }
    }
}
