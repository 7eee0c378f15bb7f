//! Connecting to a server with the official client.

use std::time::Duration;

use rmcp::{
    ClientHandler, RoleClient, ServiceError,
    model::{ClientConfig, ErrorData, Implementation, ProtocolVersion},
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use tokio::process::Command;

use crate::{
    authorization::{access_token, authorized_client},
    failure::Failure,
    http_client::parse_headers,
    output::escape_line,
    program::{ProcessObserver, Program},
    refusal::{Refusal, has_token},
    revision::Revision,
    target::Target,
};

/// A connection with a handler for the requests and notifications of the server.
pub(crate) type Connection<H> = RunningService<RoleClient, H>;

/// Returns the name and version that `cargo mcp` sends to servers.
pub(crate) fn identity() -> Implementation {
    Implementation::new("cargo-mcp", env!("CARGO_PKG_VERSION"))
}

/// Connects as [`connect_observed`] does, in any revision, as a client without capabilities.
///
/// # Errors
///
/// Returns an error as [`connect_observed`] does.
pub(crate) async fn connect(target: &Target, timeout: Duration) -> Result<Connection<ClientConfig>, Failure> {
    let config = ClientConfig::new(Default::default(), identity());
    connect_observed(target, None, config, timeout, &ProcessObserver::default()).await
}

/// Starts a program or connects to a URL, and performs the handshake. The observer records how a program exits, and its
/// output that is not a message.
///
/// The handler's `get_info` must return the same revision, which goes into the `initialize` request.
///
/// # Errors
///
/// Returns an error if the server cannot be reached, exits, does not respond in time, or does not support the revision.
pub(crate) async fn connect_observed<H: ClientHandler>(
    target: &Target,
    revision: Option<Revision>,
    handler: H,
    timeout: Duration,
    observer: &ProcessObserver,
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
    let handshake = async {
        let connected = match target {
            Target::Program { program, args, env, .. } => {
                let mut command = Command::new(program);
                if std::env::var_os("RUST_LOG").is_none() {
                    // Only warnings matter here, not that the server has started.
                    command.env("RUST_LOG", "warn");
                }
                command.args(args).envs(env.iter().map(|(name, value)| (name, value)));
                let transport = Program::start(command, observer.clone()).map_err(|error| {
                    Failure::connection(format_args!("cannot run `{}`: {error}", program.display()))
                })?;
                handler.serve_with_lifecycle(transport, mode).await
            }
            Target::Url { url, headers } => {
                let config = http(url, headers)?;
                match if has_token(headers) { None } else { authorized_client(url).await? } {
                    Some(client) => {
                        let transport = StreamableHttpClientTransport::with_client(client, config);
                        handler.serve_with_lifecycle(transport, mode).await
                    }
                    None => {
                        let transport = StreamableHttpClientTransport::from_config(config);
                        handler.serve_with_lifecycle(transport, mode).await
                    }
                }
            }
        };
        connected.map_err(|error| handshake_failure(target, revision, &error, observer))
    };
    let connection = match tokio::time::timeout(timeout, handshake).await {
        Ok(connection) => connection?,
        Err(_) => return Err(timeout_failure(target, timeout, observer)),
    };
    let offered = connection.peer_info().map(|info| info.protocol_version.clone());
    if let (Some(wanted), Some(offered)) = (revision, offered)
        && offered != ProtocolVersion::from(wanted)
    {
        return Err(Failure::connection(format_args!(
            "{target} does not support revision {}: it offers {offered}",
            wanted.as_str()
        )));
    }
    Ok(connection)
}

/// Adds the stored token of a server to its headers, for connections that do not refresh it.
///
/// # Errors
///
/// Fails if the token cannot be read, or has expired and cannot be refreshed.
pub(crate) async fn with_stored_token(mut target: Target) -> Result<Target, Failure> {
    if let Target::Url { url, headers } = &mut target
        && !has_token(headers)
        && let Some(token) = access_token(url).await?
    {
        headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
    }
    Ok(target)
}

fn http(url: &str, headers: &[(String, String)]) -> Result<StreamableHttpClientTransportConfig, Failure> {
    // The only provider that is compiled in. Installing it again fails, which is harmless.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let custom = parse_headers(headers)?.into_iter().collect();
    Ok(StreamableHttpClientTransportConfig::with_uri(url).custom_headers(custom))
}

fn timeout_failure(target: &Target, timeout: Duration, observer: &ProcessObserver) -> Failure {
    let seconds = timeout.as_secs();
    let failure = Failure::connection(format_args!("{target} did not answer the handshake within {seconds} s"));
    match (target, observer.stray_line()) {
        (_, Some(line)) => failure.help(stray_line_help(&line)),
        (Target::Program { .. }, None) => {
            failure.help("check that it is a server on stdin and stdout; `--connect-timeout` extends the limit")
        }
        (Target::Url { .. }, None) => failure.help("`--connect-timeout` extends the limit"),
    }
}

fn handshake_failure(
    target: &Target,
    revision: Option<Revision>,
    error: &ClientInitializeError,
    observer: &ProcessObserver,
) -> Failure {
    match target {
        Target::Program { .. } => {
            let failure = match observer.exit_status() {
                Some(status) => Failure::connection(format_args!(
                    "{target} exited before it answered the handshake ({})",
                    describe_exit(status)
                )),
                None => Failure::connection(format_args!("cannot connect to {target}: {error}")),
            };
            match (observer.stray_line(), revision) {
                (Some(line), _) => failure.help(stray_line_help(&line)),
                (None, Some(_)) if observer.exit_status().is_none() => failure.help(OMIT_REVISION),
                (None, _) => failure.help("run it in a terminal to see its output; it must wait for JSON-RPC on stdin"),
            }
        }
        Target::Url { url, headers } => http_failure(url, headers, revision, error),
    }
}

const OMIT_REVISION: &str = "omit `--revision` to use the newest revision that both sides support";

/// Returns help for a line on stdout that is not a message.
pub(crate) fn stray_line_help(line: &str) -> String {
    format!("stdout contains `{line}`, which is not JSON-RPC; a server must log to stderr")
}

/// Describes how a program exited.
pub(crate) fn describe_exit(status: std::process::ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    }
}

fn http_failure(
    url: &str,
    headers: &[(String, String)],
    revision: Option<Revision>,
    error: &ClientInitializeError,
) -> Failure {
    if let Some(refusal) = Refusal::of_handshake(error) {
        return refusal.failure(Failure::connection, format_args!("`{url}`"), url, headers);
    }
    let messages = causes(error);
    let contains = |text: &str| messages.iter().any(|message| message.contains(text));
    if contains("HTTP 404") {
        return Failure::connection(format_args!("`{url}` was not found (HTTP 404)"))
            .help("check the path; many servers use `/mcp`");
    }
    // The HTTP client exposes the underlying cause only in its debug output.
    if format!("{error:?}").contains("ConnectionRefused") {
        return Failure::connection(format_args!("no server is listening at `{url}`"))
            .help("start the server with `--http` and this address");
    }
    let cause = escape_line(messages.last().map_or("", String::as_str));
    let failure = Failure::connection(format_args!("cannot reach `{url}`: {cause}"));
    match revision {
        Some(_) if !contains("onnect") => failure.help(OMIT_REVISION),
        _ => failure.help(
            "check that the server is running and that the address and path are correct; many servers use `/mcp`",
        ),
    }
}

/// Returns the messages of an error and of its causes, outermost first.
fn causes(error: &ClientInitializeError) -> Vec<String> {
    let first: &dyn std::error::Error = match error {
        ClientInitializeError::TransportError { error, .. } => error.error.as_ref(),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => return causes(fallback),
        other => other,
    };
    std::iter::successors(Some(first), |error| error.source()).map(ToString::to_string).collect()
}

/// Converts the error of a request to a failure.
pub(crate) fn request_failure(what: &str, error: ServiceError) -> Failure {
    match error {
        ServiceError::McpError(ErrorData { code, message, data, .. }) => {
            let failure = Failure::tool(format_args!("{what}: {message} (code {})", code.0));
            failure.help_if(data.map(|data| format!("error data: {data}")))
        }
        error => Failure::connection(format_args!("{what}: {}", escape_line(&error.to_string()))),
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
