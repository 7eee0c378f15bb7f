//! Event streams: the parser does not depend on how a stream is split, and what the server encodes is what arrives.

#![no_main]

use bytes::Bytes;
use fuzz::{
    output::Output,
    runtime,
    server::server,
    sse::{self, Event},
};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use libfuzzer_sys::fuzz_target;
use mcp_runtime::HttpOptions;
use serde_json::{Value, json};
use tower_service::Service as _;

fuzz_target!(|data: &[u8]| {
    runtime().block_on(async {
        let whole = sse::read(data, &[data.len()]).await;
        assert_eq!(whole, parse(data));
        assert_eq!(whole, sse::read(data, &[1]).await);
        let sizes: Vec<_> = data.iter().take(8).map(|byte| usize::from(byte % 16)).collect();
        assert_eq!(whole, sse::read(data, if sizes.is_empty() { &[1] } else { &sizes }).await);
        round_trip(&String::from_utf8_lossy(data)).await;
    });
});

/// Parses a complete stream, as the WHATWG standard words it.
fn parse(data: &[u8]) -> Vec<Event> {
    let text = String::from_utf8_lossy(data).replace("\r\n", "\n").replace('\r', "\n");
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut lines: Vec<_> = text.split('\n').collect();
    // The last line has no end.
    lines.pop();
    let (mut events, mut event) = (Vec::new(), Event::default());
    for line in lines {
        if line.is_empty() {
            events.push(std::mem::take(&mut event));
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => event.event = Some(value.to_owned()),
            "data" => {
                event.data = Some(event.data.take().map_or(value.to_owned(), |data| format!("{data}\n{value}")));
            }
            "id" if !value.contains('\0') => event.id = Some(value.to_owned()),
            "retry" if value.chars().all(|char| char.is_ascii_digit()) => {
                event.retry = value.parse().ok().or(event.retry);
            }
            _ => {}
        }
    }
    events.retain(|event| *event != Event::default());
    events
}

/// Calls a tool that writes the text as log messages, as progress, and as its result.
async fn round_trip(text: &str) {
    let meta = json!({
        "progressToken": text.chars().take(100).collect::<String>(),
        "io.modelcontextprotocol/logLevel": "debug",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "fuzz", "version": "1"},
    });
    let params = json!({"name": "say", "arguments": {"text": text}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": text.chars().take(100).collect::<String>(), "method": "tools/call", "params": params});
    let request = Request::post("/")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "say")
        .body(Full::new(Bytes::from(body.to_string())))
        .expect("the head is constant");
    let mut service = server().into_http_service(HttpOptions::default()).unwrap();
    let response = match service.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let body = response.into_body().collect().await.expect("the stream is complete").to_bytes();
    let mut messages = Vec::new();
    let mut output = Output::default();
    for event in sse::read(&body, &[7]).await {
        let data = event.data.expect("every event has data");
        output.add(data.as_bytes());
        messages.push(serde_json::from_str::<Value>(&data).ok());
    }
    assert_eq!(output.responses.values().sum::<usize>(), 1);
    // A message that `Value` cannot hold, such as one with the number 1e999, has been checked above.
    let Some(Some(response)) = messages.last() else { panic!("no response") };
    assert_eq!(response["result"]["content"][0]["text"], text);
    let Some(Some(log)) = messages.first() else { panic!("no log message") };
    assert_eq!(log["params"]["data"], text);
}
