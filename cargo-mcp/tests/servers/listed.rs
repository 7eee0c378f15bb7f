//! A server for tests that lists the content of a JSON file, valid or not, and misbehaves as the file requests.
//!
//! ```json
//! {
//!   "server": {"name": "bad", "version": "1.0.0"},
//!   "revisions": ["2025-11-25"],              the first is offered to clients that request another
//!   "instructions": "…",
//!   "tools": [], "resources": [], "resourceTemplates": [], "prompts": [],
//!   "responses": {"ping": {"error": {}}},     replace the default responses
//!   "stray_line": "hello",                    written to stdout at startup
//!   "on_invalid_json": "ignore",              "exit" or a response; by default, an error response
//!   "ignores_closed_stdin": true
//! }
//! ```

use std::io::{BufRead, Write};

use serde_json::{Value, json};

const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
    ("prompts/list", "prompts"),
];

fn main() {
    let path = std::env::args().nth(1).expect("expected the path of a file");
    let text = std::fs::read_to_string(path).expect("the file can be read");
    let file: Value = serde_json::from_str(&text).expect("the file is JSON");
    let mut stdout = std::io::stdout();
    let mut send = |line: String| {
        let _ = writeln!(stdout, "{line}");
        let _ = stdout.flush();
    };
    if let Some(line) = file["stray_line"].as_str() {
        send(line.to_owned());
    }
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            match &file["on_invalid_json"] {
                Value::String(reaction) if reaction == "exit" => return,
                Value::String(_) => {}
                Value::Null => send(
                    json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "invalid JSON"}})
                        .to_string(),
                ),
                response => send(response.to_string()),
            }
            continue;
        };
        let Some(method) = message["method"].as_str().filter(|_| message.get("id").is_some()) else { continue };
        let mut response = match file["responses"].get(method) {
            Some(response) => response.clone(),
            None => default_response(&file, method, &message["params"]),
        };
        response["jsonrpc"] = "2.0".into();
        response["id"] = message["id"].clone();
        send(response.to_string());
    }
    if file["ignores_closed_stdin"] == true {
        std::thread::sleep(std::time::Duration::from_secs(600));
    }
}

fn default_response(file: &Value, method: &str, params: &Value) -> Value {
    let all = json!(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]);
    let revisions = file.get("revisions").unwrap_or(&all).as_array().expect("a list of revisions");
    let server = file.get("server").cloned().unwrap_or_else(|| json!({"name": "bad", "version": "1.0.0"}));
    let mut capabilities = json!({"completions": {}});
    for (_, member) in LISTS.iter().filter(|(_, member)| file.get(*member).is_some()) {
        capabilities[if *member == "resourceTemplates" { "resources" } else { member }] = json!({});
    }
    if let Some((_, member)) = LISTS.iter().find(|(name, _)| *name == method) {
        return json!({"result": {*member: file.get(*member).cloned().unwrap_or_else(|| json!([]))}});
    }
    let mut result = match method {
        "initialize" => {
            let version =
                Some(&params["protocolVersion"]).filter(|version| revisions.contains(version)).unwrap_or(&revisions[0]);
            json!({"protocolVersion": version, "serverInfo": server, "capabilities": capabilities})
        }
        // Stateless requests name their revision, which may be newer than 2026-07-28.
        "server/discover" if revisions.contains(&params["_meta"]["io.modelcontextprotocol/protocolVersion"]) => json!({
            "_meta": {"io.modelcontextprotocol/serverInfo": server},
            "supportedVersions": revisions,
            "capabilities": capabilities,
        }),
        "ping" => json!({}),
        "completion/complete" => json!({"completion": {"values": []}}),
        "resources/read" => json!({"contents": []}),
        _ => return json!({"error": {"code": -32601, "message": format!("method not found: {method}")}}),
    };
    if let Some(instructions) = file.get("instructions") {
        result["instructions"] = instructions.clone();
    }
    json!({ "result": result })
}
