//! The transport of 2024-11-05: one replica holds the stream of a session, and any of them receives its messages.

mod failures;
mod limits;
mod listeners;
mod messages;
mod shutdown;

use std::time::Duration;

use mcp_runtime::{Context, Fault, Handle, HttpOptions, SampleRequest, Server, resource, tool};
use serde_json::{Value, json};

use super::{Cluster, sessions::request};
use crate::http::{
    authorization::{OWN_HEADER, Tokens},
    client::{FullResponse, soon},
    request::Request,
};

/// A resource to subscribe to.
#[resource("memo://one")]
fn memo() -> &'static str {
    "one"
}

/// Announce that the resource has changed.
#[tool]
fn update(handle: &Handle) {
    handle.resource_updated("memo://one");
}

/// Send a log message.
#[tool]
fn logs(ctx: &Context) {
    ctx.info("logged");
}

/// Ask for the roots of the client, and its model.
#[tool]
async fn consults(ctx: &Context) -> Result<String, Fault> {
    let roots = ctx.roots().await?.len();
    let sampled = ctx.sample(SampleRequest::new("Hello")).await?;
    Ok(format!("{roots} {}", sampled.model))
}

/// Return the length of a text.
#[tool]
fn measure(text: String) -> usize {
    text.len()
}

/// Describe the user.
#[tool(scopes("read"))]
fn user(ctx: &Context) -> String {
    let scopes = ctx.identity().into_iter().flat_map(|identity| identity.scopes()).collect::<Vec<_>>();
    let has = |name| ctx.headers().is_some_and(|headers| headers.contains_key(name));
    let has_token = has("authorization") || has(OWN_HEADER);
    format!("{:?} {scopes:?} {has_token} {:?}", ctx.principal(), ctx.identity().and_then(|user| user.claim("email")))
}

fn options() -> HttpOptions {
    HttpOptions::default().legacy_sse(true)
}

fn configure(server: Server) -> Server {
    server.with::<memo>().with::<update>().with::<logs>().with::<consults>().with::<measure>()
}

async fn cluster(replicas: usize) -> Cluster {
    Cluster::start_with(replicas, options, configure).await
}

async fn authenticated() -> Cluster {
    Cluster::start_with(2, options, |server| server.with::<user>().authenticate(Tokens::default())).await
}

fn post(path: &str, message: &Value) -> Request {
    Request::post(message).path(path)
}

fn call_with(id: u64, name: &str, arguments: &Value) -> Value {
    request(id, "tools/call", &json!({"name": name, "arguments": arguments}))
}

async fn accepted(cluster: &Cluster, replica: usize, request: &Request) {
    let response = cluster.at(replica).send(request).await;
    assert_eq!((response.status, response.body.len()), (202, 0), "{replica} {response:?}");
}

/// Sends a request until it has a status. Every other response before asks the client to retry.
async fn until_status(cluster: &Cluster, replica: usize, request: &Request, status: u16) -> FullResponse {
    soon(async {
        loop {
            let response = cluster.at(replica).send(request).await;
            if response.status == status {
                return response;
            }
            assert!(response.status == 202 || response.header("retry-after").is_some(), "{response:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}
