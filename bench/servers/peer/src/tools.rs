//! The tools, with rmcp tuned as far as its documentation allows: the router is shared, so that a session copies no
//! tool; pipes are polled; stdio uses a single-threaded runtime; responses are plain JSON where possible; TCP_NODELAY
//! is set; nothing is logged.

use std::{io, net::SocketAddr, sync::Arc};

use axum::serve::ListenerExt;
use rmcp::{
    Json, ServerHandler, ServiceExt,
    handler::server::{
        common::schema_for_input,
        router::tool::{ToolRoute, ToolRouter},
        wrapper::Parameters,
    },
    model::{JsonObject, Tool},
    tool, tool_handler, tool_router,
    transport::{
        io::stdio_pipes,
        streamable_http_server::{
            StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
        },
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use work::{Found, Search};

/// The default of `--tools`.
const TOOLS: usize = 103;

#[derive(Clone)]
pub struct Server {
    router: Arc<ToolRouter<Self>>,
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// The message.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first addend.
    a: f64,
    /// The second addend.
    b: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Fill {
    /// Name of an item.
    text: String,
    /// The count.
    count: u32,
}

#[tool_router(router = echo_router)]
impl Server {
    /// Return the message.
    #[tool]
    fn echo(&self, Parameters(Echo { text }): Parameters<Echo>) -> String {
        text
    }
}

#[tool_router(router = work_router)]
impl Server {
    /// Add two numbers.
    #[tool]
    fn add(&self, Parameters(Add { a, b }): Parameters<Add>) -> String {
        (a + b).to_string()
    }

    /// Search the catalogue.
    #[tool]
    fn search(&self, Parameters(search): Parameters<Search>) -> Json<Found> {
        Json(work::search(&search.query, &search.filter, &search.page))
    }
}

#[tool_handler(router = self.router)]
impl ServerHandler for Server {}

fn fill(Parameters(Fill { text, count }): Parameters<Fill>) -> String {
    format!("{count} of {text}")
}

/// Creates a router with the given number of tools: `echo`, for the default number also `add` and `search`, and
/// fillers.
fn router(tools: usize) -> ToolRouter<Server> {
    let mut router = Server::echo_router();
    if tools == TOOLS {
        router.merge(Server::work_router());
    }
    let schema = schema_for_input::<Fill>().expect("the schema is an object");
    for number in 0..tools - router.map.len() {
        let tool = Tool::new(format!("filler_{number:03}"), "Fill the list.", Arc::clone(&schema));
        router.add_route(ToolRoute::new(tool, fill));
    }
    router
}

/// Returns the schema of a tool without arguments.
#[allow(dead_code, reason = "only one of the two servers uses it")]
pub fn no_arguments() -> Arc<JsonObject> {
    schema_for_input::<rmcp::model::EmptyObject>().expect("the schema is an object")
}

/// Serves stdio, or HTTP with `--http ADDRESS`.
pub fn main(with: impl FnOnce(ToolRouter<Server>) -> ToolRouter<Server>) -> io::Result<()> {
    let (mut http, mut tools) = (None, TOOLS);
    let mut words = std::env::args().skip(1);
    while let (Some(option), Some(value)) = (words.next(), words.next()) {
        match option.as_str() {
            "--http" => http = Some(value.parse::<SocketAddr>().map_err(io::Error::other)?),
            "--tools" => tools = value.parse().map_err(io::Error::other)?,
            _ => return Err(io::Error::other(format!("unknown option {option}"))),
        }
    }
    let server = Server { router: Arc::new(with(router(tools))) };
    match http {
        Some(address) => {
            tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(http_server(server, address))
        }
        None => tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(stdio_server(server)),
    }
}

async fn stdio_server(server: Server) -> io::Result<()> {
    server.serve(stdio_pipes()).await.map_err(io::Error::other)?.waiting().await.map_err(io::Error::other)?;
    Ok(())
}

async fn http_server(server: Server, address: SocketAddr) -> io::Result<()> {
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        LocalSessionManager::default().into(),
        StreamableHttpServerConfig::default().with_json_response(true),
    );
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("peer listens on http://{}/mcp", listener.local_addr()?);
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("a socket has that option"));
    axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await
}
