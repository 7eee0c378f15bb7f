//! A server with flags of every kind, for tests of the command line.

use mcp_runtime::{Server, backend::MemoryBackend, server, tool};

/// The flags with which the program was started.
struct Given(String);

/// Return the flags.
#[tool(read_only)]
fn given(given: &Given) -> String {
    given.0.clone()
}

/// How much to log.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Detail {
    Brief,
    Full,
}

/// Connects a server to a backend in memory. URLs with the path `down` fail.
async fn connect(url: &str, server: &str) -> Result<MemoryBackend, String> {
    match url.split_once("://") {
        Some((_, "down")) => Err(format!("down for {server}")),
        _ => Ok(MemoryBackend::default()),
    }
}

mcp_runtime::backend_connector!(["tests", "test"], connect);

#[server]
#[expect(clippy::too_many_arguments, reason = "one of each kind")]
fn main(
    server: Server,
    /// The database.
    #[arg(env = "FLAGS_DB")]
    db: String,
    /// The largest number
    /// of connections.
    #[arg(range = 1..=100)]
    max_connections: u32,
    /// Whether to explain everything.
    #[arg(env = "FLAGS_VERBOSE")]
    verbose: bool,
    /// A label.
    labels: Vec<String>,
    #[arg(env = "FLAGS_PORTS", length = ..=2)] ports: &[u16],
    #[arg(default = 3)] retries: u8,
    /// Hosts.
    #[arg(default = vec!["a".to_owned(), "b".to_owned()])]
    hosts: Vec<String>,
    cache: Option<bool>,
    detail: Option<Detail>,
    #[arg(default = true)] color: bool,
    #[arg(default = false)] quiet: bool,
) -> Server {
    let given = format!("{db} {max_connections} {verbose} {labels:?} {ports:?} {retries} {cache:?} {detail:?}");
    server.title(format!("{} {color} {quiet}", hosts.join(" "))).with_state(Given(given))
}
