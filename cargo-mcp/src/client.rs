//! Connecting to a server with the official client.

use std::time::Duration;

use rmcp::{
    ClientHandler, RoleClient, ServiceError,
    model::{ErrorData, Implementation, ProtocolVersion},
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use tokio::process::Command;

use crate::{
    failure::Failure,
    program::{Program, Witness},
    revision::Revision,
    target::Target,
};

/// A connection, and the handler of what the server asks and tells.
pub(crate) type Connection<H> = RunningService<RoleClient, H>;

/// Who we are to a server.
pub(crate) fn identity() -> Implementation {
    Implementation::new("cargo-mcp", env!("CARGO_PKG_VERSION"))
}

/// Starts a program, or reaches out to a URL, and shakes hands.
///
/// The handler's `get_info` must tell the same revision, which older handshakes send.
///
/// # Errors
///
/// The server is not there, ends, does not answer in time, or does not speak the revision.
pub(crate) async fn connect<H: ClientHandler>(
    target: &Target,
    revision: Option<Revision>,
    handler: H,
    timeout: Duration,
) -> Result<Connection<H>, Failure> {
    let witness = Witness::default();
    witnessed(target, revision, handler, timeout, &witness).await
}

/// The same, and the witness sees how a program ends and what it writes beside its messages.
///
/// # Errors
///
/// Those of [`connect`].
pub(crate) async fn witnessed<H: ClientHandler>(
    target: &Target,
    revision: Option<Revision>,
    handler: H,
    timeout: Duration,
    witness: &Witness,
) -> Result<Connection<H>, Failure> {
    let modern = vec![ProtocolVersion::V_2026_07_28];
    let legacy_version = Some(ProtocolVersion::LATEST_WITH_INITIALIZE);
    let mode = match revision {
        None => ClientLifecycleMode::Auto { preferred_versions: modern, legacy_version },
        Some(revision) if revision.is_stateless() => {
            ClientLifecycleMode::Discover { preferred_versions: vec![revision.into()] }
        }
        Some(_) => ClientLifecycleMode::Initialize,
    };
    let shaking = async {
        match target {
            Target::Program { program, args, env, .. } => {
                let mut command = Command::new(program);
                if std::env::var_os("RUST_LOG").is_none() {
                    // Here a server's word counts, not that it is built and ready.
                    command.env("RUST_LOG", "warn");
                }
                command.args(args).envs(env.iter().map(|(name, value)| (name, value)));
                let transport = Program::start(command, witness.clone()).map_err(|error| {
                    Failure::connection(format_args!("`{}` cannot be started: {error}", program.display()))
                })?;
                handler
                    .serve_with_lifecycle(transport, mode)
                    .await
                    .map_err(|error| unreachable(target, revision, &error, witness))
            }
            Target::Url { url, headers } => {
                let transport = StreamableHttpClientTransport::from_config(http(url, headers)?);
                handler
                    .serve_with_lifecycle(transport, mode)
                    .await
                    .map_err(|error| unreachable(target, revision, &error, witness))
            }
        }
    };
    let connection = match tokio::time::timeout(timeout, shaking).await {
        Ok(connection) => connection?,
        Err(_) => return Err(silent(target, timeout, witness)),
    };
    let spoken = connection.peer_info().map(|info| info.protocol_version.clone());
    if let (Some(wanted), Some(spoken)) = (revision, spoken)
        && spoken != ProtocolVersion::from(wanted)
    {
        return Err(Failure::connection(format_args!(
            "{target} does not speak {}: it offers {spoken}",
            wanted.as_str()
        )));
    }
    Ok(connection)
}

fn http(url: &str, headers: &[(String, String)]) -> Result<StreamableHttpClientTransportConfig, Failure> {
    // The only provider that is compiled in; a second installation is refused, and no harm.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut custom = std::collections::HashMap::new();
    for (name, value) in headers {
        let wrong = |error: &dyn std::fmt::Display| Failure::usage(format_args!("the header `{name}`: {error}"));
        custom.insert(name.parse().map_err(|error| wrong(&error))?, value.parse().map_err(|error| wrong(&error))?);
    }
    Ok(StreamableHttpClientTransportConfig::with_uri(url).custom_headers(custom))
}

fn silent(target: &Target, timeout: Duration, witness: &Witness) -> Failure {
    let seconds = timeout.as_secs();
    let failure = Failure::connection(format_args!("{target} does not answer the handshake within {seconds} s"));
    match (target, witness.stray()) {
        (_, Some(line)) => failure.help(stray(&line)),
        (Target::Program { .. }, None) => {
            failure.help("is it a server on stdin and stdout? `--connect-timeout` gives it longer")
        }
        (Target::Url { .. }, None) => failure.help("`--connect-timeout` gives it longer"),
    }
}

fn unreachable(
    target: &Target,
    revision: Option<Revision>,
    error: &ClientInitializeError,
    witness: &Witness,
) -> Failure {
    match target {
        Target::Program { .. } => {
            let failure = match witness.ended() {
                Some(status) => Failure::connection(format_args!(
                    "{target} ended before it answered the handshake ({})",
                    outcome(status)
                )),
                None => Failure::connection(format_args!("{target} cannot be connected to: {error}")),
            };
            match (witness.stray(), revision) {
                (Some(line), _) => failure.help(stray(&line)),
                (None, Some(_)) if witness.ended().is_none() => failure.help(ANY_REVISION),
                (None, _) => failure.help("start it by hand to see what it says: it must wait for JSON-RPC on stdin"),
            }
        }
        Target::Url { url, .. } => http_failure(url, revision, error),
    }
}

const ANY_REVISION: &str = "leave `--revision` out to speak what both sides know";

/// What happens next to a line that a program should have written elsewhere.
pub(crate) fn stray(line: &str) -> String {
    format!("its stdout begins with `{line}`, which is not JSON-RPC: a server writes its log to stderr")
}

/// How a program ended, in words.
pub(crate) fn outcome(status: std::process::ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    }
}

fn http_failure(url: &str, revision: Option<Revision>, error: &ClientInitializeError) -> Failure {
    let said = causes(error);
    let is = |text: &str| said.iter().any(|cause| cause.contains(text));
    if is("HTTP 403") {
        return Failure::connection(format_args!("`{url}` refuses us (HTTP 403)"))
            .help("does it know the host, and may the token do this? `--header` sends another one");
    }
    if error.is_authorization_required() || is("HTTP 401") {
        let failure = Failure::connection(format_args!("`{url}` wants to know who is asking (HTTP 401)"));
        let failure = match error.auth_challenge() {
            Some(challenge) => failure.help(format_args!("it says `WWW-Authenticate: {challenge}`")),
            None => failure,
        };
        return failure.help("give it a token: `--header 'Authorization: Bearer …'`");
    }
    if is("HTTP 404") {
        return Failure::connection(format_args!("there is nothing at `{url}` (HTTP 404)"))
            .help("is the path right? many servers are at `/mcp`");
    }
    // The cause below an HTTP client's error is in its debug text alone.
    if format!("{error:?}").contains("ConnectionRefused") {
        return Failure::connection(format_args!("nobody listens at `{url}`"))
            .help("is the server running? start it with `--http` and the address");
    }
    let cause = said.last().map_or("", String::as_str);
    let failure = Failure::connection(format_args!("`{url}` cannot be reached: {cause}"));
    match revision {
        Some(_) if !is("onnect") => failure.help(ANY_REVISION),
        _ => failure.help("is the server running, and are address and path right? many servers are at `/mcp`"),
    }
}

/// An error and what caused it, the last of them deepest.
fn causes(error: &ClientInitializeError) -> Vec<String> {
    let first: &dyn std::error::Error = match error {
        ClientInitializeError::TransportError { error, .. } => error.error.as_ref(),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => return causes(fallback),
        other => other,
    };
    std::iter::successors(Some(first), |error| error.source()).map(ToString::to_string).collect()
}

/// What became of a request that was not answered with a result.
pub(crate) fn refused(what: &str, error: ServiceError) -> Failure {
    match error {
        ServiceError::McpError(ErrorData { code, message, data, .. }) => {
            let failure = Failure::tool(format_args!("{what}: {message} (code {})", code.0));
            match data {
                Some(data) => failure.help(format_args!("the server adds {data}")),
                None => failure,
            }
        }
        error => Failure::connection(format_args!("{what}: {error}")),
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Program { name, .. } => write!(f, "`{name}`"),
            Self::Url { url, .. } => write!(f, "`{url}`"),
        }
    }
}
