//! HTTP responses that refuse a request for lack of authorization.

use std::{error::Error, fmt::Display};

use rmcp::{
    ServiceError,
    service::ClientInitializeError,
    transport::{
        auth::AuthError,
        streamable_http_client::{AuthRequiredError, InsufficientScopeError},
    },
};

use crate::{
    failure::{Failure, name_list},
    output::shell_word,
};

/// The help for a server that requires authorization.
pub(crate) const SEND_TOKEN: &str = "log in with `cargo mcp login URL`, or send a token with `--bearer TOKEN`";

/// A response with which a server refuses a request.
pub(crate) struct Refusal {
    kind: RefusalKind,
    /// The value of `WWW-Authenticate`.
    challenge: Option<String>,
}

enum RefusalKind {
    /// Status 401.
    Unauthorized,
    /// Status 403, with the scopes that the request needs, if they are known.
    Forbidden(Vec<String>),
}

impl Refusal {
    /// Returns why a handshake was refused, or `None` if it failed for another reason.
    pub(crate) fn of_handshake(error: &ClientInitializeError) -> Option<Self> {
        match error {
            ClientInitializeError::TransportError { error, .. } => Self::find(error.error.as_ref()),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => Self::of_handshake(fallback),
            _ => None,
        }
    }

    /// Returns why a request was refused, or `None` if it failed for another reason.
    pub(crate) fn of_request(error: &ServiceError) -> Option<Self> {
        match error {
            ServiceError::TransportSend(error) => Self::find(error.error.as_ref()),
            _ => None,
        }
    }

    fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(cause) = next {
            if let Some(error) = cause.downcast_ref::<InsufficientScopeError>() {
                let scopes = error.required_scope.as_deref().unwrap_or_default().split_whitespace();
                let kind = RefusalKind::Forbidden(scopes.map(str::to_owned).collect());
                return Some(Self { kind, challenge: Some(error.www_authenticate_header.clone()) });
            }
            if let Some(error) = cause.downcast_ref::<AuthRequiredError>() {
                let challenge = Some(error.www_authenticate_header.clone());
                return Some(Self { kind: RefusalKind::Unauthorized, challenge });
            }
            // Without a challenge, the client reports only the status; without a usable token, it sends nothing.
            let message = cause.to_string();
            let is_unauthorized = message.contains("HTTP 401")
                || matches!(cause.downcast_ref::<AuthError>(), Some(AuthError::AuthorizationRequired));
            if is_unauthorized {
                return Some(Self { kind: RefusalKind::Unauthorized, challenge: None });
            }
            if message.contains("HTTP 403") {
                return Some(Self { kind: RefusalKind::Forbidden(Vec::new()), challenge: None });
            }
            next = cause.source();
        }
        None
    }

    /// Describes the refusal of a request to a server. `create` decides about the exit code.
    pub(crate) fn failure(
        self,
        create: impl Fn(String) -> Failure,
        subject: impl Display,
        url: &str,
        headers: &[(String, String)],
    ) -> Failure {
        let sent = self.challenge.map(|challenge| format!("the server sent `WWW-Authenticate: {challenge}`"));
        let has_token = has_token(headers);
        match &self.kind {
            RefusalKind::Unauthorized if has_token => {
                create(format!("{subject}: the server does not accept the token (HTTP 401)"))
                    .help_if(sent)
                    .help(format_args!("log in with `cargo mcp login {url}` and omit the token, or send a valid one"))
            }
            RefusalKind::Unauthorized => {
                create(format!("{subject} requires authorization (HTTP 401)")).help_if(sent).help(SEND_TOKEN)
            }
            RefusalKind::Forbidden(scopes) if scopes.is_empty() => {
                create(format!("access to {subject} is forbidden (HTTP 403)")).help_if(sent).help(
                    "check that the server allows this host and that the token has permission; \
                     `--header` sends another token",
                )
            }
            RefusalKind::Forbidden(scopes) => {
                let names = name_list(&scopes.iter().map(String::as_str).collect::<Vec<_>>());
                let (noun, pronoun) = if scopes.len() == 1 { ("scope", "the scope") } else { ("scopes", "the scopes") };
                let options: String = scopes.iter().map(|scope| format!(" --scope {}", shell_word(scope))).collect();
                let (lacks, omit) =
                    if has_token { (", which the token does not have", " and omit the token") } else { ("", "") };
                create(format!("{subject} requires the {noun} {names}{lacks} (HTTP 403)")).help(format_args!(
                    "log in with `cargo mcp login {url}{options}`{omit}, or send a token that has {pronoun}"
                ))
            }
        }
    }
}

/// Returns whether a header contains a token.
pub(crate) fn has_token(headers: &[(String, String)]) -> bool {
    headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
}
