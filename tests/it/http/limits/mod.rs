//! Limits and timeouts of HTTP.

mod bodies;
mod calls;
mod connections;
mod rates;
mod responses;

use std::time::Duration;

use super::{
    client::{Connection, Endpoint, soon},
    request::call,
};

const MEGABYTE: usize = 1 << 20;

/// More than the socket buffers between server and client hold: the client's is small, and the server's has at most 4 MiB.
pub(super) const UNREAD: usize = 8 * MEGABYTE;

/// Retries until a request is accepted, and returns its connection.
async fn served(endpoint: &Endpoint) -> Connection {
    soon(async {
        loop {
            let (response, connection) = endpoint.connect().await.send(&call("quick")).await;
            match response.status {
                200 => break connection,
                503 => tokio::time::sleep(Duration::from_millis(2)).await,
                other => panic!("{other}"),
            }
        }
    })
    .await
}
