//! Accepts only access tokens that are bound to a key of the client (DPoP), or opaque ones about which the issuer is asked.
//!
//! ```text
//! cargo run -p mcp-runtime-auth --example other_tokens -- --http 127.0.0.1:8080 \
//!     --issuer https://id.example.com --resource http://127.0.0.1:8080/mcp
//! ```
//!
//! With `--client-id` and `--client-secret`, the server asks the issuer.

use std::time::Duration;

use mcp_auth::{ClientCredentials, Dpop, Introspection, Jwt};
use mcp_runtime::{Context, Server, server, tool};

/// How long a revoked token may still be used.
const CACHE_TIME: Duration = Duration::from_secs(2);

/// Return your name.
#[tool(read_only, scopes("notes:read"))]
fn whoami(ctx: &Context) -> Option<String> {
    ctx.principal().map(str::to_owned)
}

#[server]
async fn main(
    server: Server,
    /// The issuer of access tokens, such as `https://id.example.com`.
    #[arg(env = "ISSUER")]
    issuer: String,
    /// The URL at which clients reach this server. Tokens must be intended for it.
    #[arg(env = "RESOURCE")]
    resource: String,
    /// The name of this server at the issuer.
    #[arg(env = "CLIENT_ID")]
    client_id: Option<String>,
    /// The password of this server at the issuer.
    #[arg(env = "CLIENT_SECRET")]
    client_secret: Option<String>,
) -> Result<Server, mcp_auth::Error> {
    if let (Some(id), Some(secret)) = (client_id, client_secret) {
        let tokens = Introspection::discover(issuer, ClientCredentials::basic(id, secret)).await?;
        return Ok(server.authenticate(tokens.resource(resource).cache_for(CACHE_TIME)));
    }
    let tokens = Jwt::discover(issuer).await?.resource(resource);
    Ok(server.authenticate(tokens.dpop(Dpop::required().nonces())?))
}
