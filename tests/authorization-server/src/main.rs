//! A notebook that is its own authorization server. Its users log in at another provider, which knows this server as a client.
//!
//! ```text
//! authorization-server --http 127.0.0.1:8080 --provider https://id.example.com --client-id notes --client-secret … \
//!     --resource http://127.0.0.1:8080/mcp
//! ```
//!
//! With `--backend redis://…`, replicas share the state of the authorization server, too.

use std::sync::{Mutex, PoisonError};

use mcp_auth::{AuthorizationServer, ClientCredentials, ConfiguredClient, Dpop, Upstream, UpstreamTokens};
use mcp_redis::Redis;
use mcp_runtime::{Context, Server, server, tool};

/// The secret of the records, which are deleted with the test.
const SECRET: [u8; 32] = [7; 32];

/// The redirect URI of the configured application, which runs on the machine of its user.
const REDIRECT: &str = "http://127.0.0.1/callback";

/// The maximum number of notes.
const MAX_NOTES: usize = 1000;

/// The notes of all users, with the principal who wrote each.
#[derive(Default)]
struct Notes(Mutex<Vec<(String, String)>>);

/// List your notes.
#[tool(read_only, scopes("notes:read"))]
fn list_notes(notes: &Notes, ctx: &Context) -> Vec<String> {
    let notes = notes.0.lock().unwrap_or_else(PoisonError::into_inner);
    let mine = notes.iter().filter(|(user, _)| Some(user.as_str()) == ctx.principal());
    mine.map(|(_, text)| text.clone()).collect()
}

/// Add a note.
#[tool(destructive = false, scopes("notes:write"))]
fn add_note(notes: &Notes, ctx: &Context, text: String) -> Result<String, &'static str> {
    let mut notes = notes.0.lock().unwrap_or_else(PoisonError::into_inner);
    if notes.len() >= MAX_NOTES {
        return Err("there are too many notes");
    }
    notes.push((ctx.principal().unwrap_or_default().to_owned(), text));
    Ok("added".to_owned())
}

/// Return whether the server can act for you at the provider.
#[tool(read_only, scopes("notes:read"))]
async fn is_logged_in(tokens: &UpstreamTokens, ctx: &Context) -> bool {
    tokens.of(ctx).await.is_ok()
}

#[server]
async fn main(
    server: Server,
    /// The provider at which users log in.
    provider: String,
    /// The identifier of this server at the provider.
    client_id: String,
    /// The secret of this server at the provider.
    client_secret: String,
    /// The URL at which clients reach this server.
    resource: String,
    /// The Redis server that replicas share.
    #[arg(env = "MCP_BACKEND")]
    records: Option<String>,
    /// The public keys of the machine `robot`, as a JWK set.
    robot_keys: Option<String>,
) -> Result<Server, Box<dyn std::error::Error>> {
    let credentials = ClientCredentials::basic(client_id, client_secret);
    let upstream = Upstream::discover(provider, credentials).await?;
    let upstream = upstream.scopes(["openid", "offline_access"]).with_parameter("prompt", "consent");
    let mut authorization = AuthorizationServer::builder(&resource, upstream)?;
    if let Some(url) = records {
        authorization = authorization.records(Redis::connect(&url).await?).with_secret(SECRET);
    }
    if let Some(keys) = robot_keys {
        let robot = ConfiguredClient::machine_with_keys("robot", keys.parse()?, ["notes:read", "notes:write"]);
        authorization = authorization.with_client(robot);
    }
    let authorization = authorization
        .with_client(ConfiguredClient::confidential("agent", "a secret of the agent", "An agent", [REDIRECT])?)
        .identity_assertions(true)
        .dpop(Dpop::optional().nonces())
        .service_name("Notes")
        .with_scope("notes:read", "Read your notes")
        .with_scope("notes:write", "Change your notes")
        .build()
        .await?;
    Ok(server
        .with_state(Notes::default())
        .with_state(authorization.upstream_tokens())
        .require_scopes("notes:read")
        .scope_implies("notes:write", ["notes:read"])
        .authenticate(authorization))
}
