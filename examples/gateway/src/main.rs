//! One server for a team, in front of everything that it has: an MCP server that it starts, one that it reaches over HTTP, a REST
//! service, a folder of definitions, and functions of its own. Callers have keys, or tokens of an authorization server, whose scopes
//! decide what they see and use, a rate limit, and an audit log that names each of them.
//!
//! Without options, it serves its own functions over stdio. Each option adds a source:
//!
//! ```text
//! export RUST_LOG=warn,mcp_runtime::layers=info,mcp_runtime::audit=info    # the audit log
//! cargo run -p gateway -- --http 127.0.0.1:8080 --keys keys.json --git 'uvx mcp-server-git' \
//!     --notes https://notes.example.com/mcp --orders https://orders.example.com --definitions definitions
//! ```
//!
//! With `--issuer https://id.example.com --resource http://127.0.0.1:8080/mcp` in place of `--keys`, users log in at an authorization
//! server, as with the example `protected`.
//!
//! In a checkout of `mcp-runtime`, `cargo run -p mcp-runtime-auth --example new_api_key -- ada git orders:read` creates a key, and its entry
//! for the array in `{"keys": []}`.

use std::{env, error::Error, future::ready, path::PathBuf, time::Duration};

use mcp_auth::{ApiKeys, Jwt};
use mcp_proxy::Upstream;
use mcp_runtime::{
    Context, Server,
    layers::{LogCalls, RateLimit},
    server, tool,
};

/// Describe the caller: the name and the scopes.
#[tool(read_only)]
fn whoami(ctx: &Context) -> String {
    match ctx.identity() {
        Some(identity) => {
            format!("{}, with the scopes {}", identity.principal(), identity.scopes().collect::<Vec<_>>().join(" "))
        }
        None => "the user who started this server".to_owned(),
    }
}

/// Return who is on call in a week.
#[tool(read_only)]
fn on_call(
    /// The number of the week, as in ISO 8601.
    #[arg(range = 1..=53)]
    week: usize,
) -> &'static str {
    ["Ada", "Grace", "Barbara"][week % 3]
}

#[server]
#[expect(clippy::too_many_arguments, reason = "one for each option")]
async fn main(
    server: Server,
    /// The file with the hashes of the callers' keys. HTTP requires it, or an issuer.
    #[arg(env = "GATEWAY_KEYS")]
    keys: Option<PathBuf>,
    /// The issuer of the callers' access tokens, such as `https://id.example.com`.
    #[arg(env = "ISSUER")]
    issuer: Option<String>,
    /// The URL at which clients reach this server. Tokens must be intended for it.
    #[arg(env = "RESOURCE")]
    resource: Option<String>,
    /// The command of the MCP server for repositories, such as `uvx mcp-server-git`.
    git: Option<String>,
    /// The URL of the MCP server for notes. `NOTES_TOKEN` is the token of this server for it.
    notes: Option<String>,
    /// The URL of the service for orders. `ORDERS_KEY` is the key of this server for it.
    orders: Option<String>,
    /// A folder of definitions.
    definitions: Option<PathBuf>,
) -> Result<Server, Box<dyn Error + Send + Sync>> {
    let mut server = rules(server);
    server = match (keys, issuer) {
        (None, None) => server,
        (Some(file), None) => server.authenticate(ApiKeys::file(file)?),
        (None, Some(issuer)) => {
            let resource = resource.ok_or("`--issuer` requires `--resource`")?;
            server.authenticate(Jwt::discover(issuer).await?.resource(resource))
        }
        (Some(_), Some(_)) => return Err("`--keys` and `--issuer` exclude each other".into()),
    };
    if let Some(command) = git {
        let mut words = command.split_whitespace();
        let upstream = Upstream::command(words.next().unwrap_or_default(), words);
        server = upstream.add_to(server, "git").await?;
    }
    if let Some(url) = notes {
        let mut upstream = Upstream::http(url);
        if let Ok(token) = env::var("NOTES_TOKEN") {
            upstream = upstream.header("authorization", format!("Bearer {token}"));
        }
        server = upstream.add_to(server, "notes").await?;
    }
    if let Some(url) = orders {
        let key = env::var("ORDERS_KEY").ok();
        let api = mcp_openapi::import!("orders.yaml", include = ["/orders/**", "/orders"])
            .base_url(url)
            .authenticate(move |_, _| ready(key.clone()))
            .configure(|tool, operation| {
                let scope = if operation.method() == "GET" { "orders:read" } else { "orders:write" };
                Some(tool.scopes(scope).tags(["orders"]))
            });
        server = api.add_to(server)?;
    }
    if let Some(folder) = definitions {
        server = mcp_config::watch(server, folder)?;
    }
    Ok(server)
}

/// Adds the rules for all functions, wherever they come from.
fn rules(server: Server) -> Server {
    let minute = Duration::from_secs(60);
    server
        .instructions("Call `whoami` to find out what you may use.")
        .require_scopes_for(|entry| entry.has_tag("upstream:git"), "git")
        .require_scopes_for(|entry| entry.has_tag("upstream:notes"), "notes")
        .scope_implies("orders:write", ["orders:read"])
        .hide_unauthorized()
        // The first layer sees also the calls that the next ones reject.
        .layer(LogCalls::new())
        .layer(RateLimit::new(60, minute).per_caller())
        .layer_for(|entry| entry.has_tag("orders"), RateLimit::new(10, minute))
}

#[cfg(test)]
mod tests {
    use super::on_call;

    #[test]
    fn everyone_is_on_call_in_turn() {
        assert_eq!([1, 2, 3, 4].map(on_call), ["Grace", "Barbara", "Ada", "Grace"]);
    }
}
