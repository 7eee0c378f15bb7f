//! Clients over HTTP that misbehave. Whatever they receive is right, as long as the server forgets them.

use std::{io, net::SocketAddr, time::Duration};

use serde_json::json;
use tokio::{
    io::AsyncReadExt as _,
    time::{sleep, timeout},
};

use crate::{
    connection::{Client, Connection, STATELESS, call, initialize},
    load::{Load, pause},
};

/// The time for a request that may open a stream.
const EXCHANGE: Duration = Duration::from_secs(5);

/// The kinds of abuse.
#[derive(Debug, Clone, Copy)]
pub enum Abuse {
    AbandonedSessions,
    UnreadResponses,
    SlowReaders,
    HalfHeads,
    HalfBodies,
    Cancellations,
    DuplicateIds,
    HostileBodies,
    WrongResumptions,
    DeleteRaces,
    UnansweredQuestions,
    Disconnections,
    AbandonedTasks,
}

impl Abuse {
    pub const ALL: [Self; 13] = [
        Self::AbandonedSessions,
        Self::UnreadResponses,
        Self::SlowReaders,
        Self::HalfHeads,
        Self::HalfBodies,
        Self::Cancellations,
        Self::DuplicateIds,
        Self::HostileBodies,
        Self::WrongResumptions,
        Self::DeleteRaces,
        Self::UnansweredQuestions,
        Self::Disconnections,
        Self::AbandonedTasks,
    ];
}

const VERSIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", STATELESS];

/// Misbehaves in one way until the load ends.
pub async fn client(load: Load, server: SocketAddr, number: u8, abuse: Abuse) {
    while load.is_on() {
        let version = VERSIONS[fastrand::usize(..VERSIONS.len())];
        let mut client = Client::new(server, number, version);
        // The server may close the connection at any time.
        let _ = commit(&mut client, abuse).await;
        load.count();
        pause(250).await;
    }
}

async fn commit(client: &mut Client, abuse: Abuse) -> io::Result<()> {
    match abuse {
        Abuse::AbandonedSessions => {
            for _ in 0..10 {
                client.session = None;
                client.send(&initialize(client.version)).await?;
            }
            client.open().await?;
        }
        Abuse::UnreadResponses => {
            let mut connections = Vec::new();
            for _ in 0..4 {
                let mut connection = client.connect().await?;
                connection.write(&client.post(&call(1, "long", &json!({"length": 1_000_000})))).await?;
                connections.push(connection);
            }
            sleep(Duration::from_millis(500)).await;
        }
        Abuse::SlowReaders => {
            let mut connection = client.connect().await?;
            connection.write(&client.post(&call(1, "long", &json!({"length": 1_000_000})))).await?;
            for _ in 0..20 {
                connection.0.read_u8().await?;
                sleep(Duration::from_millis(50)).await;
            }
        }
        Abuse::HalfHeads => {
            let head = client.request("POST", &"X-Padding: x\r\n".repeat(fastrand::usize(..200)), b"");
            let mut connection = client.connect().await?;
            connection.write(&head[..fastrand::usize(..head.len() - 2)]).await?;
            pause(2000).await;
        }
        Abuse::HalfBodies => {
            client.open().await?;
            let request = client.post(&call(1, "wait", &json!({"milliseconds": 10})));
            let mut connection = client.connect().await?;
            connection.write(&request[..fastrand::usize(request.len() / 2..request.len())]).await?;
            if fastrand::bool() {
                client.bodiless("DELETE", "").await?;
            }
            pause(1000).await;
        }
        Abuse::Cancellations => {
            client.open().await?;
            let mut connection = start(client, "wait").await?;
            pause(20).await;
            let params = json!({"requestId": 1, "reason": "soak"});
            client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await?;
            if fastrand::bool() {
                connection.response().await?;
            }
        }
        Abuse::DuplicateIds => {
            client.open().await?;
            let mut connections = Vec::new();
            for _ in 0..5 {
                connections.push(start(client, "reports").await?);
            }
            for mut connection in connections {
                connection.response().await?;
            }
        }
        Abuse::HostileBodies => hostile_body(client).await?,
        Abuse::WrongResumptions => {
            client.open().await?;
            let mut connection = start(client, "reports").await?;
            for id in ["1-0", "0-0", "1-99999", "x", "18446744073709551615-1", ""] {
                let header = format!("Accept: text/event-stream\r\nLast-Event-ID: {id}\r\n");
                let (_, stream) = client.bodiless("GET", &header).await?;
                pause(20).await;
                drop(stream);
            }
            connection.head().await?;
        }
        Abuse::DeleteRaces => {
            client.open().await?;
            let request = client.post(&call(1, "wait", &json!({"milliseconds": 50})));
            let (first, rest) = request.split_at(fastrand::usize(..request.len()));
            let mut connection = client.connect().await?;
            connection.write(first).await?;
            let delete = client.bodiless("DELETE", "");
            let post = async {
                pause(5).await;
                connection.write(rest).await?;
                connection.response().await
            };
            let _ = tokio::join!(delete, post);
        }
        Abuse::UnansweredQuestions => {
            client.open().await?;
            let name = if fastrand::bool() { "asks" } else { "samples" };
            let connection = start(client, name).await?;
            pause(1000).await;
            drop(connection);
        }
        Abuse::Disconnections => {
            client.open().await?;
            let name = ["wait", "reports", "panics", "blocks", "echo"][fastrand::usize(..5)];
            let connection = start(client, name).await?;
            pause(30).await;
            drop(connection);
        }
        Abuse::AbandonedTasks => {
            client.open().await?;
            let mut message = call(1, "task", &json!({}));
            message["params"]["task"] = json!({"ttl": 60_000});
            client.send(&message).await?;
        }
    }
    Ok(())
}

/// Sends a call without waiting for its response.
async fn start(client: &Client, name: &str) -> io::Result<Connection> {
    let mut connection = client.connect().await?;
    let arguments = if name == "wait" { json!({"milliseconds": 1000}) } else { json!({}) };
    connection.write(&client.post(&call(1, name, &arguments))).await?;
    Ok(connection)
}

async fn hostile_body(client: &mut Client) -> io::Result<()> {
    client.open().await?;
    let valid = call(1, "echo", &json!({"text": "hello"})).to_string().into_bytes();
    let body = match fastrand::usize(..7) {
        0 => {
            let mut body = valid;
            for _ in 0..fastrand::usize(1..5) {
                let at = fastrand::usize(..body.len());
                body[at] = fastrand::u8(..);
            }
            body
        }
        1 => valid[..fastrand::usize(..valid.len())].to_vec(),
        2 => "[".repeat(100_000).into_bytes(),
        3 => (0..500).map(|_| fastrand::u8(..)).collect(),
        4 => vec![b' '; 5 << 20],
        5 => format!("[{}]", vec!["1"; 10_000].join(",")).into_bytes(),
        _ => {
            let huge = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"x"}}"#, "i".repeat(100_000));
            huge.into_bytes()
        }
    };
    let mut connection = client.connect().await?;
    let mut request = client.request("POST", "", &body);
    if fastrand::u8(..) < 64 {
        // A chunked body with an invalid size.
        let text = "Transfer-Encoding: chunked\r\n";
        request = client.request("GET", text, b"zzz\r\n\r\n");
    }
    // The server may ignore the body of a GET, and open a stream.
    let exchange = async {
        connection.write(&request).await?;
        connection.response().await.map(drop)
    };
    timeout(EXCHANGE, exchange).await?
}
