//! The capabilities that clients and servers declare.

use mcp_runtime::{Context, Revision, Server, testing::TestClient, tool};
use mcp_tests::schemas::Official;
use serde_json::{Value, json};

use super::server;

/// Returns what the client declared.
#[tool]
fn declared(ctx: &Context, name: &str) -> String {
    json!([ctx.client_experimental(name), ctx.client_extension(name)]).to_string()
}

/// Calls `declared` as a client with these capabilities. Returns the responses to the handshake and to the call.
fn call_declared(revision: Revision, capabilities: &Value, name: &str) -> Vec<Value> {
    let mut client = TestClient::uninitialized(Server::empty("declared", "1.0.0").with::<declared>(), revision);
    let mut params = json!({"name": "declared", "arguments": {"name": name}});
    let mut lines = Vec::new();
    if revision.is_stateless() {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": revision.as_str(),
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
    } else {
        let params = json!({"protocolVersion": revision.as_str(), "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1.0.0"}});
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        lines.append(&mut client.send_raw(request.to_string().as_bytes()));
    }
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    lines.append(&mut client.send_raw(request.to_string().as_bytes()));
    lines
}

#[test]
fn functions_read_the_capabilities_of_the_client() {
    let capabilities = json!({
        "experimental": {"com.example/a": {"level": 3}, "com.example/b": {}, "com.example/c": true},
        "extensions": {"com.example/a": {"formats": ["svg"]}, "com.example/d": {}},
    });
    for revision in Revision::ALL {
        for (name, experimental, extension) in [
            ("com.example/a", json!({"level": 3}), json!({"formats": ["svg"]})),
            ("com.example/b", json!({}), Value::Null),
            ("com.example/c", Value::Null, Value::Null),
            ("com.example/d", Value::Null, json!({})),
            ("unknown", Value::Null, Value::Null),
        ] {
            let lines = call_declared(revision, &capabilities, name);
            let expected = json!([experimental, extension]).to_string();
            let result = &lines.last().unwrap()["result"];
            assert_eq!(result["content"][0]["text"], expected, "{revision} {name}");
        }
    }
}

#[test]
fn large_capabilities_of_clients_are_rejected() {
    const LIMIT: usize = 65_536;
    let padded = |bytes: usize| json!({"experimental": {"com.example/a": {"x": "x".repeat(bytes)}}});
    let frame = padded(0).to_string().len();
    for revision in Revision::ALL {
        for (bytes, is_accepted) in [(LIMIT, true), (LIMIT + 1, false)] {
            let capabilities = padded(bytes - frame);
            let lines = call_declared(revision, &capabilities, "com.example/a");
            assert_eq!(lines[0].get("result").is_some(), is_accepted, "{revision} {bytes}");
            if !is_accepted {
                let message = lines[0]["error"]["message"].as_str().unwrap();
                assert_eq!(lines[0]["error"]["code"], -32602, "{revision}: {message}");
                assert!(message.ends_with("bytes, expected at most 65536"), "{revision}: {message}");
            }
        }
    }
}

#[tokio::test]
async fn declared_capabilities_are_sent_in_every_revision() {
    for revision in Revision::ALL {
        let server = server()
            .with_experimental("com.example/a", json!({"level": 3}))
            .with_experimental("b", json!({}))
            .with_mcp_extension("com.example/charts", json!({"formats": ["svg"]}));
        let mut client = TestClient::uninitialized(server, revision);
        let (method, params) = if revision.is_stateless() {
            ("server/discover", json!({}))
        } else {
            let client = json!({"name": "test", "version": "1.0.0"});
            let params = json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": client});
            ("initialize", params)
        };
        let result = client.request(method, params).await.unwrap();
        let response = json!({"jsonrpc": "2.0", "id": 1, "result": result});
        let problems = Official::load(revision).map(|official| official.problems(&response, Some(method)));
        assert_eq!(problems.unwrap_or_default(), Vec::<String>::new(), "{revision}");
        let capabilities = &result["capabilities"];
        assert_eq!(capabilities["experimental"], json!({"com.example/a": {"level": 3}, "b": {}}), "{revision}");
        let extensions = json!({"com.example/charts": {"formats": ["svg"]}});
        assert_eq!(capabilities["extensions"], extensions, "{revision}");
    }
}

/// Code that many servers share sets defaults, and the author of each server decides.
#[tokio::test]
async fn default_instructions_do_not_replace_those_of_the_author() {
    let server = || Server::empty("test", "1.0.0");
    for (server, expected) in [
        (server(), Value::Null),
        (server().default_instructions("default"), json!("default")),
        (server().instructions("own").default_instructions("default"), json!("own")),
        (server().default_instructions("default").instructions("own"), json!("own")),
    ] {
        let described = server.test_client(Revision::V2026_07_28).request("server/discover", json!({})).await.unwrap();
        assert_eq!(described["instructions"], expected);
    }
}

#[test]
fn invalid_capabilities_are_reported_when_the_server_is_built() {
    let invalid_name = |name: &str| {
        format!("invalid name `{name}` of an extension, expected a prefix and a name as in `com.example/charts`")
    };
    let own = "is declared by the server itself\nhelp: remove `.with_mcp_extension(…)`";
    let objects = "must be an object, found `true`\nhelp: use `json!({})` if there are none";
    let server = || Server::empty("test", "1.0.0");
    for (server, expected) in [
        (server().with_mcp_extension("charts", json!({})), invalid_name("charts")),
        (server().with_mcp_extension("1a/charts", json!({})), invalid_name("1a/charts")),
        (server().with_mcp_extension("a..b/charts", json!({})), invalid_name("a..b/charts")),
        (server().with_mcp_extension("a-/charts", json!({})), invalid_name("a-/charts")),
        (server().with_mcp_extension("com.example/-", json!({})), invalid_name("com.example/-")),
        (
            server().with_mcp_extension("io.modelcontextprotocol/tasks", json!({})),
            format!("the extension `io.modelcontextprotocol/tasks` {own}"),
        ),
        (server().with_mcp_extension("a/b", true), format!("the settings of the extension `a/b` {objects}")),
        (server().with_experimental("a", true), format!("the settings of the experimental capability `a` {objects}")),
        (
            server().with_experimental("a", json!({})).with_experimental("a", json!({})),
            "duplicate experimental capability `a`".to_owned(),
        ),
        (
            server().with_mcp_extension("a/b", json!({})).with_mcp_extension("a/b", json!({})),
            "duplicate extension `a/b`".to_owned(),
        ),
    ] {
        assert_eq!(server.check().unwrap_err().problems(), [expected]);
    }
    assert!(
        server()
            .with_mcp_extension("a/", json!({}))
            .with_mcp_extension("com.example-1.x/y_z.2", json!({}))
            .check()
            .is_ok()
    );
}
