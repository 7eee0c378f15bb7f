//! Well-behaved clients over HTTP. Everything that they send must be answered correctly, whatever others do.

use std::{io, net::SocketAddr, time::Duration};

use serde_json::{Value, json};

use crate::{
    connection::{Client, Connection, STATELESS, call, events},
    load::{Load, pause},
};

/// The calls of a well-behaved client, and the text of their results.
fn calls() -> Vec<(Value, &'static str)> {
    vec![
        (call(0, "echo", &json!({"text": "hello"})), "hello"),
        (call(0, "wait", &json!({"milliseconds": 20})), "waited"),
        (call(0, "reports", &json!({})), "reported"),
        (call(0, "blocks", &json!({})), "blocked"),
        (call(0, "echo", &json!({"text": "again"})), "again"),
    ]
}

/// Opens sessions, uses them, and closes them.
pub async fn client(load: Load, server: SocketAddr, number: u8, version: &'static str) {
    let mut id = 0;
    while load.is_on() {
        let mut client = Client::new(server, number, version);
        let session = session(&load, &mut client, &mut id).await;
        load.expect(session, "a session of a well-behaved client", version);
        pause(300).await;
    }
}

async fn session(load: &Load, client: &mut Client, id: &mut u64) -> io::Result<bool> {
    if !client.open().await? {
        return Ok(false);
    }
    for _ in 0..3 {
        for (mut message, text) in calls() {
            message["id"] = json!(*id);
            let (head, messages) = client.send(&message).await?;
            load.count();
            let result = messages.iter().find(|message| message["id"] == *id);
            if head.status != 200 || result.is_none_or(|result| result["result"]["content"][0]["text"] != text) {
                return Err(io::Error::other(format!("status {} and {messages:?} for {message}", head.status)));
            }
            *id += 1;
            pause(60).await;
        }
        if !listen(client, *id).await? {
            return Ok(false);
        }
    }
    if client.version == STATELESS {
        return rounds(client).await;
    }
    asked(client, *id).await?;
    Ok(client.bodiless("DELETE", "").await?.0.status == 204)
}

/// Opens a stream for notifications, and closes it after the first.
async fn listen(client: &Client, id: u64) -> io::Result<bool> {
    let mut stream;
    if client.version == STATELESS {
        let params = json!({"notifications": {"resourceSubscriptions": ["soak://1"]}});
        let listen = json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params});
        stream = client.connect().await?;
        stream.write(&client.post(&listen)).await?;
        if stream.head().await?.status != 200 {
            return Ok(false);
        }
    } else {
        let opened = client.bodiless("GET", "Accept: text/event-stream\r\n").await?;
        stream = opened.1;
        let params = json!({"uri": "soak://1"});
        let (head, _) = client
            .send(&json!({"jsonrpc": "2.0", "id": id + 500_000, "method": "resources/subscribe", "params": params}))
            .await?;
        if opened.0.status != 200 || head.status != 200 {
            return Ok(false);
        }
    }
    until(&mut stream, |message| message["method"] == "notifications/resources/updated").await
}

/// Reads events until one satisfies a condition.
async fn until(stream: &mut Connection, condition: impl Fn(&Value) -> bool) -> io::Result<bool> {
    let mut text = Vec::new();
    while let Some(chunk) = stream.chunk().await? {
        text.extend(chunk);
        if events(&text).iter().any(&condition) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Answers the question of a call, if the revision has questions.
async fn asked(client: &Client, id: u64) -> io::Result<()> {
    if client.version == "2025-03-26" {
        return Ok(());
    }
    let mut stream = client.connect().await?;
    stream.write(&client.post(&call(id + 700_000, "asks", &json!({})))).await?;
    stream.head().await?;
    let mut text = Vec::new();
    while let Some(chunk) = stream.chunk().await? {
        text.extend(chunk);
        let question = events(&text).into_iter().find(|message| message["method"] == "elicitation/create");
        if let Some(question) = question {
            let answer = json!({"action": "accept", "content": {"sure": true}});
            client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await?;
            break;
        }
    }
    let is_answered = until(&mut stream, |message| message["result"]["content"][0]["text"] == "sure").await?;
    if is_answered { Ok(()) } else { Err(io::Error::other("no result after an answer")) }
}

/// Answers the question of a call in a second round.
async fn rounds(client: &Client) -> io::Result<bool> {
    let mut message = call(1, "asks", &json!({}));
    let (_, first) = client.send(&message).await?;
    let result = first.last().map_or(&Value::Null, |message| &message["result"]);
    if result["resultType"] != "input_required" {
        return Err(io::Error::other(format!("{first:?}")));
    }
    message["params"]["requestState"] = result["requestState"].clone();
    message["params"]["inputResponses"] = json!({"sure": {"action": "accept", "content": {"sure": true}}});
    let (_, second) = client.send(&message).await?;
    Ok(second.last().is_some_and(|message| message["result"]["content"][0]["text"] == "sure"))
}

/// A client of 2024-11-05, which has a transport of its own.
pub async fn legacy_client(load: Load, server: SocketAddr, number: u8) {
    while load.is_on() {
        load.expect(legacy_session(&load, server, number).await, "a well-behaved session", "2024-11-05");
        pause(300).await;
    }
}

async fn legacy_session(load: &Load, server: SocketAddr, number: u8) -> io::Result<bool> {
    let client = Client::new(server, number, "2024-11-05");
    let mut stream = client.connect().await?;
    stream.write(b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n").await?;
    stream.head().await?;
    let first = stream.chunk().await?.unwrap_or_default();
    let first = String::from_utf8_lossy(&first).into_owned();
    let path = first.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default().to_owned();
    let path = path.find("/message").map_or("", |at| &path[at..]).to_owned();
    let mut send = async |message: &Value, id: &Value| {
        let body = message.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut connection = client.connect().await?;
        connection.write(request.as_bytes()).await?;
        let status = connection.head().await?.status;
        if status != 202 {
            return Err(io::Error::other(format!("status {status} for {message}")));
        }
        load.count();
        if id.is_null() { Ok(true) } else { until(&mut stream, |message| message["id"] == *id).await }
    };
    send(&crate::connection::initialize("2024-11-05"), &json!("init")).await?;
    send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), &Value::Null).await?;
    for id in 0..8 {
        let (mut message, _) = calls().swap_remove(usize::try_from(id).unwrap_or_default() % 5);
        message["id"] = json!(id);
        send(&message, &json!(id)).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(true)
}
