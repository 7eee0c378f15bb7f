//! Checks servers with rmcp's client.
//!
//! ```text
//! rmcp-client [--suite SUITE] [--without FEATURE]… [--revision R]… (--http URL | [--] COMMAND ARGUMENT…)
//! ```
//!
//! `auto` probes for 2026-07-28. Older revisions are requested in the handshake. rmcp has no HTTP+SSE transport, so
//! 2024-11-05 uses streamable HTTP.

#![allow(clippy::print_stdout, reason = "clients report what they have checked")]

mod checks;
mod everything;
mod user;

use std::{collections::BTreeSet, process::ExitCode};

use rmcp::{
    RoleClient, Service, ServiceError,
    model::{
        CallToolRequestParams, ClientConfig, GetPromptRequestParams, Implementation, JsonObject, ProtocolVersion,
        ReadResourceRequestParams,
    },
    service::{ClientLifecycleMode, ClientServiceExt, RunningService},
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde::Serialize;
use serde_json::Value;
use tokio::process::Command;

use user::User;

const VERSION: &str = "3.9.0";
const REVISIONS: [&str; 6] = ["auto", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut args = std::env::args().skip(1).peekable();
    let mut suite = None;
    if args.next_if_eq("--suite").is_some() {
        suite = args.next();
    }
    let mut without = BTreeSet::new();
    while args.next_if_eq("--without").is_some() {
        without.extend(args.next());
    }
    let mut only = Vec::new();
    while args.next_if_eq("--revision").is_some() {
        only.extend(args.next());
    }
    let is_http = args.next_if_eq("--http").is_some();
    args.next_if_eq("--");
    let command: Vec<String> = args.collect();
    let Some(first) = command.first() else {
        eprintln!(
            "usage: rmcp-client [--suite SUITE] [--without FEATURE]… [--revision R]… (--http URL | [--] COMMAND ARGUMENT…)"
        );
        return ExitCode::FAILURE;
    };
    let server = if is_http { Server::Url(first.clone()) } else { Server::Command(command) };
    if only.is_empty() {
        only = REVISIONS.map(String::from).to_vec();
    }
    for revision in only {
        let count = match suite.as_deref() {
            None | Some("notes") => run_notes(&server, &revision).await,
            Some("everything") => run_everything(&server, &revision, &without).await,
            Some(other) => Err(format!("unknown suite `{other}`")),
        };
        match count {
            Ok(count) => println!("ok rmcp {VERSION} {revision}: {count} checks"),
            Err(failure) => {
                eprintln!("FAILED rmcp {VERSION} {revision}: {failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

async fn run_notes(server: &Server, revision: &str) -> Result<usize, String> {
    let mut client = Client { service: connect(config(revision)?, server, revision).await? };
    let count = checks::run(&client, negotiated(revision)).await;
    client.service.close().await.map_err(|error| format!("closing: {error}"))?;
    count
}

async fn run_everything(server: &Server, revision: &str, without: &BTreeSet<String>) -> Result<usize, String> {
    let mut service = connect(User::new(config(revision)?), server, revision).await?;
    let count = everything::run(&service, negotiated(revision), without).await;
    service.close().await.map_err(|error| format!("closing: {error}"))?;
    count
}

/// Returns the revision that a connection is expected to negotiate.
fn negotiated(revision: &str) -> &str {
    if revision == "auto" { "2026-07-28" } else { revision }
}

fn config(revision: &str) -> Result<ClientConfig, String> {
    let config = ClientConfig::new(Default::default(), Implementation::new("interop", "1.0.0"));
    if negotiated(revision) == "2026-07-28" {
        return Ok(config);
    }
    let version: ProtocolVersion = serde_json::from_value(Value::from(revision)).map_err(|error| error.to_string())?;
    Ok(config.with_protocol_version(version))
}

async fn connect<S: Service<RoleClient>>(
    handler: S,
    server: &Server,
    revision: &str,
) -> Result<RunningService<RoleClient, S>, String> {
    let modern = vec![ProtocolVersion::V_2026_07_28];
    let mode = match revision {
        "auto" => ClientLifecycleMode::Auto { preferred_versions: modern, legacy_version: None },
        "2026-07-28" => ClientLifecycleMode::Discover { preferred_versions: modern },
        _ => ClientLifecycleMode::Initialize,
    };
    let service = match server {
        Server::Url(url) => {
            handler.serve_with_lifecycle(StreamableHttpClientTransport::from_uri(url.as_str()), mode).await
        }
        Server::Command(words) => {
            let mut process = Command::new(&words[0]);
            process.args(&words[1..]);
            let transport = TokioChildProcess::new(process).map_err(|error| format!("starting the server: {error}"))?;
            handler.serve_with_lifecycle(transport, mode).await
        }
    };
    service.map_err(|error| format!("connecting: {error}"))
}

/// How to reach the server.
enum Server {
    Command(Vec<String>),
    Url(String),
}

/// A connection of rmcp's client that returns results as plain JSON.
pub(crate) struct Client {
    service: RunningService<RoleClient, ClientConfig>,
}

/// A JSON-RPC error.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) message: String,
}

type Response = Result<Value, Failure>;

impl Client {
    pub(crate) fn negotiated(&self) -> String {
        self.service.peer_info().map(|info| info.protocol_version.to_string()).unwrap_or_default()
    }

    pub(crate) async fn tools(&self) -> Response {
        json(self.service.list_all_tools().await)
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Response {
        json(
            self.service.call_tool(CallToolRequestParams::new(name.to_owned()).with_arguments(object(arguments))).await,
        )
    }

    pub(crate) async fn resources(&self) -> Response {
        json(self.service.list_all_resources().await)
    }

    pub(crate) async fn templates(&self) -> Response {
        json(self.service.list_all_resource_templates().await)
    }

    pub(crate) async fn read(&self, uri: &str) -> Response {
        json(self.service.read_resource(ReadResourceRequestParams::new(uri)).await.map(|result| result.contents))
    }

    pub(crate) async fn prompts(&self) -> Response {
        json(self.service.list_all_prompts().await)
    }

    pub(crate) async fn prompt(&self, name: &str, arguments: Value) -> Response {
        json(self.service.get_prompt(GetPromptRequestParams::new(name).with_arguments(object(arguments))).await)
    }

    pub(crate) async fn complete_prompt(&self, name: &str, argument: &str, value: &str) -> Response {
        json(self.service.complete_prompt_simple(name, argument, value).await)
    }

    pub(crate) async fn complete_template(&self, template: &str, argument: &str, value: &str) -> Response {
        json(self.service.complete_resource_simple(template, argument, value).await)
    }
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

fn json<T: Serialize>(result: Result<T, ServiceError>) -> Response {
    match result {
        Ok(value) => Ok(serde_json::to_value(value).expect("a result can be serialized")),
        Err(ServiceError::McpError(error)) => Err(Failure { code: error.code.0, message: error.message.into_owned() }),
        Err(error) => Err(Failure { code: 0, message: error.to_string() }),
    }
}
