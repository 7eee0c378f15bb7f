//! `ctx.supports`, `ctx.require` and the missing-capability error.

use mcp_runtime::{
    Context, Fault, Revision, Server,
    ask::{Capability, IncludeContext, SampleRequest},
    testing::TestClient,
    tool,
};
use serde_json::{Value, json};

const ALL: [Capability; 6] = [
    Capability::Elicitation,
    Capability::UrlElicitation,
    Capability::Sampling,
    Capability::SamplingTools,
    Capability::SamplingContext,
    Capability::Roots,
];

/// List the capabilities of the client.
#[tool]
fn supported(ctx: &Context) -> String {
    let supported: Vec<_> = ALL.into_iter().filter(|capability| ctx.supports(*capability)).collect();
    format!("{supported:?}")
}

/// Require tools in sampling.
#[tool]
fn picky(ctx: &Context) -> Result<&'static str, Fault> {
    ctx.require(Capability::SamplingTools)?;
    Ok("fine")
}

/// Calls a tool as a client with the given capabilities.
fn call(revision: Revision, capabilities: Value, tool: &str) -> Value {
    let server = Server::empty("capabilities", "1.0.0").with::<supported>().with::<picky>();
    call_to(server, revision, capabilities, tool)
}

fn call_to(server: Server, revision: Revision, capabilities: Value, tool: &str) -> Value {
    let mut lines = call_with(server, revision, capabilities, tool, json!({}));
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

/// Calls a tool with arguments, and returns the lines that the server writes at once.
fn call_with(server: Server, revision: Revision, capabilities: Value, tool: &str, arguments: Value) -> Vec<Value> {
    let mut client = TestClient::uninitialized(server, revision);
    let mut params = json!({"name": tool, "arguments": arguments});
    if revision.is_stateless() {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": revision.as_str(),
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
    } else {
        let params = json!({"protocolVersion": revision.as_str(), "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1.0.0"}});
        client.send_raw(
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string().as_bytes(),
        );
        client.notify("notifications/initialized", json!({}));
    }
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    client.send_raw(request.to_string().as_bytes())
}

#[test]
fn supports_depends_on_the_declared_capabilities_and_the_revision() {
    let everything =
        json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}, "roots": {}});
    let all = "[Elicitation, UrlElicitation, Sampling, SamplingTools, SamplingContext, Roots]";
    for (revision, capabilities, expected) in [
        (Revision::V2024_11_05, everything.clone(), "[Sampling, SamplingContext, Roots]"),
        (Revision::V2025_06_18, everything.clone(), "[Elicitation, Sampling, SamplingContext, Roots]"),
        (Revision::V2025_11_25, everything.clone(), all),
        (Revision::V2026_07_28, everything, all),
        (Revision::V2025_11_25, json!({}), "[]"),
        (Revision::V2026_07_28, json!({}), "[]"),
        (Revision::V2025_06_18, json!({"sampling": {}}), "[Sampling, SamplingContext]"),
        (Revision::V2026_07_28, json!({"sampling": {}}), "[Sampling]"),
        (Revision::V2026_07_28, json!({"elicitation": {"url": {}}, "roots": null}), "[UrlElicitation]"),
    ] {
        let answer = call(revision, capabilities.clone(), "supported");
        assert_eq!(answer["result"]["content"][0]["text"], expected, "{revision} {capabilities}");
    }
}

/// Nothing is taken from the session of the connection.
#[test]
fn a_stateless_request_declares_its_own_capabilities_and_client() {
    /// Return the name of the client and its settings of an extension.
    #[tool]
    fn sender(ctx: &Context) -> String {
        let settings = ctx.client_extension("com.example/charts").map(|settings| settings["size"].clone());
        format!("{:?} {settings:?}", ctx.client().map(|client| client.name.as_str()))
    }

    let server = Server::empty("capabilities", "1.0.0").with::<supported>().with::<sender>();
    let mut client = TestClient::uninitialized(server, Revision::V2025_11_25);
    let charts = |size: u64| json!({"com.example/charts": {"size": size}});
    let declared = json!({"elicitation": {}, "sampling": {}, "roots": {}, "extensions": charts(1)});
    let session = json!({"protocolVersion": "2025-11-25", "capabilities": declared,
        "clientInfo": {"name": "of the session", "version": "1.0.0"}});
    let mut send = |id: u64, method: &str, params: Value| {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        client.send_raw(request.to_string().as_bytes())
    };
    send(0, "initialize", session);
    let own = json!({"name": "its own", "version": "1.0.0"});
    for (tool, capabilities, info, expected) in [
        ("supported", json!({}), None, "[]"),
        ("supported", json!({"roots": {}}), None, "[Roots]"),
        ("sender", json!({}), None, "None None"),
        ("sender", json!({"extensions": charts(2)}), Some(own), "Some(\"its own\") Some(Number(2))"),
    ] {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        if let Some(info) = info {
            meta["io.modelcontextprotocol/clientInfo"] = info;
        }
        let answer = send(1, "tools/call", json!({"name": tool, "_meta": meta}));
        assert_eq!(answer[0]["result"]["content"][0]["text"], expected, "{tool} {capabilities}");
    }
    let answer = send(2, "tools/call", json!({"name": "sender"}));
    assert_eq!(answer[0]["result"]["content"][0]["text"], "Some(\"of the session\") Some(Number(1))");
}

#[test]
fn require_names_the_missing_capability() {
    let enough = json!({"sampling": {"tools": {}}});
    for (revision, capabilities, expected) in [
        (Revision::V2025_06_18, enough.clone(), (json!(true), Value::Null)),
        (Revision::V2025_11_25, json!({"sampling": {}}), (json!(true), Value::Null)),
        (Revision::V2026_07_28, json!({"sampling": {}}), (json!(-32021), json!({"requiredCapabilities": enough}))),
        (Revision::V2025_11_25, enough.clone(), (Value::Null, Value::Null)),
        (Revision::V2026_07_28, enough.clone(), (Value::Null, Value::Null)),
    ] {
        let mut answer = call(revision, capabilities, "picky");
        let error = answer["error"].take();
        let outcome = if error.is_null() { &answer["result"]["isError"] } else { &error["code"] };
        assert_eq!((outcome.clone(), error["data"].clone()), expected, "{revision}: {answer} {error}");
    }
}

#[tokio::test]
async fn sampling_is_refused_before_it_is_sent_if_the_client_lacks_a_capability() {
    /// Sample, with the options that need a capability of their own.
    #[tool]
    async fn sample(ctx: &Context, tools: bool, context: bool) -> Result<String, Fault> {
        let mut request = SampleRequest::new("Hello");
        if tools {
            request = request.with_tool("add", "Adds", json!({"type": "object"}));
        }
        if context {
            request = request.include_context(IncludeContext::ThisServer);
        }
        Ok(ctx.sample(request).await?.text())
    }

    let (tools, context) = (json!({"tools": {}}), json!({"context": {}}));
    let both = json!({"tools": {}, "context": {}});
    for revision in mcp_tests::revisions(|expected| expected.sampling_tools) {
        for (declared, needs_tools, needs_context, missing) in [
            (json!({}), false, false, None),
            (json!({}), true, false, Some(&tools)),
            (json!({}), false, true, Some(&context)),
            (json!({}), true, true, Some(&both)),
            (tools.clone(), true, false, None),
            (tools.clone(), false, true, Some(&context)),
            (tools.clone(), true, true, Some(&context)),
            (context.clone(), true, false, Some(&tools)),
            (context.clone(), true, true, Some(&tools)),
            (both.clone(), true, true, None),
        ] {
            let case = format!("{revision}: {declared}, tools {needs_tools}, context {needs_context}");
            let arguments = json!({"tools": needs_tools, "context": needs_context});
            let server = Server::empty("sampling", "1.0.0").with::<sample>();
            let lines = call_with(server, revision, json!({"sampling": declared}), "sample", arguments);
            assert_eq!(lines.len(), 1, "{case}: {lines:?}");
            let sent = revision.is_stateless() && lines[0]["result"]["resultType"] == "input_required"
                || lines[0]["method"] == "sampling/createMessage";
            assert_eq!(sent, missing.is_none(), "{case}: {lines:?}");
            if let Some(missing) = missing {
                let names: Vec<_> =
                    missing.as_object().unwrap().keys().map(|part| format!("`sampling.{part}`")).collect();
                let message = format!("the client has not declared the capability {}", names.join(", "));
                let text = &lines[0]["result"]["content"][0]["text"];
                let told = if revision.is_stateless() { &lines[0]["error"]["message"] } else { text };
                assert_eq!(*told, message, "{case}");
            }
        }
    }
}

#[test]
fn the_missing_capability_survives_conversion_to_any_error_type() {
    type BoxError = Box<dyn std::error::Error + Send + Sync>;

    /// Ask, and return any error.
    #[tool]
    async fn asks(ctx: &Context) -> Result<String, BoxError> {
        ctx.roots().await?;
        Ok("asked".to_owned())
    }

    /// Require, and return any error.
    #[tool]
    fn requires(ctx: &Context) -> Result<String, BoxError> {
        ctx.require(Capability::Roots)?;
        Ok("required".to_owned())
    }

    /// Continue without the answer.
    #[tool]
    async fn recovers(ctx: &Context) -> Result<String, BoxError> {
        Ok(ctx.roots().await.map_or_else(|_| "nothing".to_owned(), |roots| roots.len().to_string()))
    }

    for (tool, code) in [("asks", json!(-32021)), ("requires", json!(-32021)), ("recovers", Value::Null)] {
        for layered in [false, true] {
            let server = Server::empty("any", "1.0.0").with::<asks>().with::<requires>().with::<recovers>();
            let server = if layered { server.layer(mcp_runtime::layers::MaskErrors::new()) } else { server };
            let answer = call_to(server, Revision::V2026_07_28, json!({}), tool);
            assert_eq!(answer["error"]["code"], code, "{tool}: {answer}");
            if !code.is_null() {
                assert_eq!(answer["error"]["data"], json!({"requiredCapabilities": {"roots": {}}}), "{tool}");
            }
        }
    }
}
