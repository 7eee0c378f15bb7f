//! Connecting to a server with the official client.

use std::time::Duration;

use rmcp::{
    ClientHandler, RoleClient, ServiceError,
    model::{ErrorData, Implementation, ProtocolVersion},
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService},
    transport::{
        StreamableHttpClientTransport, TokioChildProcess, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use tokio::process::Command;

use crate::{
    failure::Failure,
    target::{Revision, Target},
};

/// A connection, and the handler of what the server asks and tells.
pub(crate) type Connection<H> = RunningService<RoleClient, H>;

/// Who we are to a server.
pub(crate) fn identity() -> Implementation {
    Implementation::new("cargo-mcp", env!("CARGO_PKG_VERSION"))
}

impl From<Revision> for ProtocolVersion {
    fn from(revision: Revision) -> Self {
        match revision {
            Revision::V2024_11_05 => Self::V_2024_11_05,
            Revision::V2025_03_26 => Self::V_2025_03_26,
            Revision::V2025_06_18 => Self::V_2025_06_18,
            Revision::V2025_11_25 => Self::V_2025_11_25,
            Revision::V2026_07_28 => Self::V_2026_07_28,
        }
    }
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
    let modern = vec![ProtocolVersion::V_2026_07_28];
    let mode = match revision {
        None => ClientLifecycleMode::Auto { preferred_versions: modern, legacy_version: None },
        Some(Revision::V2026_07_28) => ClientLifecycleMode::Discover { preferred_versions: modern },
        Some(_) => ClientLifecycleMode::Initialize,
    };
    let shaking = async {
        match target {
            Target::Program { program, args, env, .. } => {
                let mut command = Command::new(program);
                command.args(args).envs(env.iter().map(|(name, value)| (name, value)));
                let transport = TokioChildProcess::new(command).map_err(|error| {
                    Failure::connection(format_args!("`{}` cannot be started: {error}", program.display()))
                })?;
                handler
                    .serve_with_lifecycle(transport, mode)
                    .await
                    .map_err(|error| unreachable(target, revision, &error))
            }
            Target::Url { url, headers } => {
                let transport = StreamableHttpClientTransport::from_config(http(url, headers)?);
                handler
                    .serve_with_lifecycle(transport, mode)
                    .await
                    .map_err(|error| unreachable(target, revision, &error))
            }
        }
    };
    let connection = match tokio::time::timeout(timeout, shaking).await {
        Ok(connection) => connection?,
        Err(_) => {
            return Err(Failure::connection(format_args!(
                "{target} does not answer the handshake within {} s",
                timeout.as_secs()
            ))
            .help(
                "is it a server, and does it log to stderr rather than stdout? `--connect-timeout` gives it longer",
            ));
        }
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

fn unreachable(target: &Target, revision: Option<Revision>, error: &ClientInitializeError) -> Failure {
    let failure = Failure::connection(format_args!("{target} cannot be connected to: {error}"));
    match (target, revision) {
        (Target::Program { .. }, None) => {
            failure.help("start it by hand to see what it says; what it prints to stdout must be JSON-RPC")
        }
        (Target::Program { .. } | Target::Url { .. }, Some(_)) => {
            failure.help("leave `--revision` out to speak what both sides know")
        }
        (Target::Url { .. }, None) => failure.help("is the path right? many servers are at `/mcp`"),
    }
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
