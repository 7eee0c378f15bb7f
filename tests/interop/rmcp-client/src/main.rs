//! Checks the notes server with rmcp's client.
//!
//! ```text
//! rmcp-client [--revision R]… (--http URL | [--] COMMAND ARGUMENT…)
//! ```
//!
//! `auto` probes for 2026-07-28. Older revisions are requested in the handshake. rmcp has no HTTP+SSE transport, so 2024-11-05 uses
//! streamable HTTP.

mod checks;

use std::process::ExitCode;

use rmcp::{
    RoleClient, ServiceError,
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

const VERSION: &str = "3.9.0";
const REVISIONS: [&str; 6] = ["auto", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    let mut only = Vec::new();
    while args.next_if_eq("--revision").is_some() {
        only.extend(args.next());
    }
    let is_http = args.next_if_eq("--http").is_some();
    args.next_if_eq("--");
    let command: Vec<String> = args.collect();
    let Some(first) = command.first() else {
        eprintln!("usage: rmcp-client [--revision R]… (--http URL | [--] COMMAND ARGUMENT…)");
        return ExitCode::FAILURE;
    };
    let server = if is_http { Server::Url(first.clone()) } else { Server::Command(command) };
    if only.is_empty() {
        only = REVISIONS.map(String::from).to_vec();
    }
    for revision in only {
        match run_revision(&server, &revision).await {
            Ok(count) => println!("ok rmcp {VERSION} {revision}: {count} checks"),
            Err(failure) => {
                eprintln!("FAILED rmcp {VERSION} {revision}: {failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

async fn run_revision(server: &Server, revision: &str) -> Result<usize, String> {
    let mut client = Client::connect(server, revision).await?;
    let expected = if revision == "auto" { "2026-07-28" } else { revision };
    let count = checks::run(&client, expected).await;
    client.service.close().await.map_err(|error| format!("closing: {error}"))?;
    count
}

/// How to reach the server.
enum Server {
    Command(Vec<String>),
    Url(String),
}

/// A connection of rmcp's client that returns results as plain JSON.
pub struct Client {
    service: RunningService<RoleClient, ClientConfig>,
}

/// A JSON-RPC error.
#[derive(Debug)]
pub struct Failure {
    pub code: i32,
    pub message: String,
}

type Response = Result<Value, Failure>;

impl Client {
    async fn connect(server: &Server, revision: &str) -> Result<Self, String> {
        let modern = vec![ProtocolVersion::V_2026_07_28];
        let version: ProtocolVersion =
            serde_json::from_value(Value::from(revision)).map_err(|error| error.to_string())?;
        let config = ClientConfig::new(Default::default(), Implementation::new("interop", "1.0.0"));
        let (config, mode) = match revision {
            "auto" => (config, ClientLifecycleMode::Auto { preferred_versions: modern, legacy_version: None }),
            "2026-07-28" => (config, ClientLifecycleMode::Discover { preferred_versions: modern }),
            _ => (config.with_protocol_version(version), ClientLifecycleMode::Initialize),
        };
        let service = match server {
            Server::Url(url) => {
                config.serve_with_lifecycle(StreamableHttpClientTransport::from_uri(url.as_str()), mode).await
            }
            Server::Command(words) => {
                let mut process = Command::new(&words[0]);
                process.args(&words[1..]);
                let transport =
                    TokioChildProcess::new(process).map_err(|error| format!("starting the server: {error}"))?;
                config.serve_with_lifecycle(transport, mode).await
            }
        };
        Ok(Self { service: service.map_err(|error| format!("connecting: {error}"))? })
    }

    pub fn negotiated(&self) -> String {
        self.service.peer_info().map(|info| info.protocol_version.to_string()).unwrap_or_default()
    }

    pub async fn tools(&self) -> Response {
        json(self.service.list_all_tools().await)
    }

    pub async fn call(&self, name: &str, arguments: Value) -> Response {
        json(
            self.service.call_tool(CallToolRequestParams::new(name.to_owned()).with_arguments(object(arguments))).await,
        )
    }

    pub async fn resources(&self) -> Response {
        json(self.service.list_all_resources().await)
    }

    pub async fn templates(&self) -> Response {
        json(self.service.list_all_resource_templates().await)
    }

    pub async fn read(&self, uri: &str) -> Response {
        json(self.service.read_resource(ReadResourceRequestParams::new(uri)).await.map(|result| result.contents))
    }

    pub async fn prompts(&self) -> Response {
        json(self.service.list_all_prompts().await)
    }

    pub async fn prompt(&self, name: &str, arguments: Value) -> Response {
        json(self.service.get_prompt(GetPromptRequestParams::new(name).with_arguments(object(arguments))).await)
    }

    pub async fn complete_prompt(&self, name: &str, argument: &str, value: &str) -> Response {
        json(self.service.complete_prompt_simple(name, argument, value).await)
    }

    pub async fn complete_template(&self, template: &str, argument: &str, value: &str) -> Response {
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
