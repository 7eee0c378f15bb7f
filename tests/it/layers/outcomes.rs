//! Calls and outcomes as layers see and change them.

use std::sync::{Arc, Mutex};

use mcp_runtime::{
    Completions, Context, Fault, Json, PromptMessage, Resource, Revision,
    ask::ListRoots,
    layers::{Call, CallStatus, Layer, Next, Outcome, from_fn},
    tool,
};
use serde_json::{Map, Value, json};

use super::{Events, Watch, instead, server, text};

/// Ask a client that answers no questions.
#[tool]
async fn asks(ctx: &Context) -> Result<(), Fault> {
    ctx.ask(ListRoots).await.map(drop)
}

#[tokio::test]
async fn layers_see_every_kind_of_outcome() {
    let cases = [
        ("tools/call", json!({"name": "double", "arguments": {"number": 2}}), CallStatus::Success, None, None),
        ("tools/call", json!({"name": "fails"}), CallStatus::ToolError, Some("password=hunter2"), None),
        ("tools/call", json!({"name": "refuses"}), CallStatus::ToolError, None, None),
        ("tools/call", json!({"name": "faults"}), CallStatus::Fault, None, Some("out of paper")),
        (
            "tools/call",
            json!({"name": "asks"}),
            CallStatus::ToolError,
            None,
            Some("the client has not declared the capability `roots`"),
        ),
        ("tools/call", json!({"name": "panics"}), CallStatus::Fault, None, Some("`panics` failed: internal error")),
        ("tools/call", json!({"name": "double"}), CallStatus::ToolError, None, None),
        ("resources/read", json!({"uri": "pages://0"}), CallStatus::Fault, Some("password=hunter2"), None),
        (
            "resources/read",
            json!({"uri": "pages://seven"}),
            CallStatus::Fault,
            None,
            Some("resource not found: pages://seven"),
        ),
        ("prompts/get", json!({"name": "greeting"}), CallStatus::Fault, None, None),
    ];
    for (method, params, status, failure, fault) in cases {
        let seen = Arc::new(Mutex::new(None));
        let (keep, (_, server)) = (Arc::clone(&seen), server());
        let layer = from_fn(move |call: Call, next: Next| {
            let keep = Arc::clone(&keep);
            async move {
                let outcome = next.run(call).await;
                let failure = outcome.failure().map(ToOwned::to_owned);
                let fault = outcome.fault().map(ToString::to_string);
                *keep.lock().unwrap() = Some((outcome.status(), failure, fault, outcome.json().is_some()));
                outcome
            }
        });
        let _ =
            server.with::<asks>().layer(layer).test_client(Revision::V2025_11_25).request(method, params.clone()).await;
        let owned = |text: Option<&str>| text.map(ToOwned::to_owned);
        let has_json = params["name"] == "refuses" || params["name"] == "double" && params.get("arguments").is_some();
        assert_eq!(*seen.lock().unwrap(), Some((status, owned(failure), owned(fault), has_json)), "{params}");
    }
}

#[tokio::test]
async fn invalid_arguments_are_errors_of_the_tool() {
    for revision in Revision::ALL {
        let (events, (runs, server)) = (Events::default(), server());
        let mut client = server.layer(Watch("a", events.clone())).test_client(revision);
        let _ = client.call("double", json!({"number": 200})).await;
        assert_eq!(events.take()[1], "a < double tool_error");
        assert_eq!(runs.total(), 0);
    }
}

#[tokio::test]
async fn a_layer_can_respond_instead_of_the_function() {
    for revision in Revision::ALL {
        let (runs, bare) = server();
        let layer = instead(|call| match call.name() {
            "double" => Outcome::tool(call, 7),
            "later" => Outcome::tool(call, Json(7)),
            "fails" => Outcome::error(call, "closed"),
            "faults" => Fault::custom(8, "closed").into(),
            "pages://1" => Outcome::resource(call, "a page"),
            "pages://2" => Outcome::resource(call, None::<Resource>),
            "pages://3" => Outcome::error(call, "closed"),
            "greeting" => Outcome::prompt(call, PromptMessage::user("hello")),
            "panics" => Outcome::completions(call, &Completions::new(["a completion in place of a tool result"])),
            _ => Outcome::prompt(call, "a prompt in place of a tool result"),
        });
        let mut client = bare.layer(layer).test_client(revision);
        assert_eq!(text(&mut client, "double", json!({"number": 1000})).await, "7");
        let later = client.call("later", ()).await.unwrap();
        let structured = match revision {
            Revision::V2024_11_05 | Revision::V2025_03_26 => None,
            Revision::V2025_06_18 | Revision::V2025_11_25 => Some(json!({"result": 7})),
            _ => Some(json!(7)),
        };
        assert_eq!((later.text().as_str(), later.structured()), ("7", structured.as_ref()));
        assert_eq!(text(&mut client, "fails", json!({})).await, "error: closed");
        assert_eq!(text(&mut client, "faults", json!({})).await, "8 closed");
        for name in ["refuses", "panics"] {
            assert_eq!(text(&mut client, name, json!({})).await, format!("-32603 `{name}` failed: internal error"));
        }
        let page = client.read("pages://1").await.unwrap();
        assert_eq!((&page[0]["uri"], &page[0]["text"]), (&json!("pages://1"), &json!("a page")));
        assert!(client.read("pages://2").await.unwrap_err().message.contains("not found"));
        assert_eq!(client.read("pages://3").await.unwrap_err().message, "closed");
        let prompt = client.prompt("greeting", ()).await.unwrap();
        assert_eq!(prompt["messages"][0]["content"]["text"], "hello");
        assert_eq!(runs.total(), 0);
    }
}

/// Replaces or removes the argument `number`.
fn rewriting(number: Option<Value>) -> impl Layer {
    from_fn(move |mut call: Call, next: Next| {
        let mut arguments: Map<_, _> = serde_json::from_str(call.arguments()).unwrap();
        assert_eq!(call.argument("number"), arguments.get("number").cloned());
        match &number {
            Some(number) => arguments.insert("number".to_owned(), number.clone()),
            None => arguments.remove("number"),
        };
        call.set_arguments(arguments);
        next.run(call)
    })
}

#[tokio::test]
async fn changed_arguments_are_validated() {
    for (number, ran) in [(Some(json!(21)), 1), (Some(json!(101)), 0), (Some(json!("x")), 0), (None, 0)] {
        let arguments = number.as_ref().map_or(json!({}), |number| json!({ "number": number }));
        for revision in Revision::ALL {
            let expected = text(&mut server().1.test_client(revision), "double", arguments.clone()).await;
            assert_eq!(expected == "42", ran == 1, "{expected}");
            let (runs, server) = server();
            let mut client = server.layer(rewriting(number.clone())).test_client(revision);
            assert_eq!(text(&mut client, "double", json!({"number": 1})).await, expected);
            assert_eq!(runs.total(), ran);
        }
    }
    let (_, server) = server();
    let mut client = server.layer(rewriting(Some(json!(9)))).test_client(Revision::V2026_07_28);
    assert_eq!(client.read("pages://1").await.unwrap()[0], json!({"uri": "pages://1", "text": "page 9"}));
}

#[tokio::test]
async fn a_layer_can_retry() {
    let (runs, server) = server();
    let again = from_fn(|call: Call, next: Next| async move {
        let first = next.clone().run(call.clone()).await;
        match first.status() {
            CallStatus::ToolError => next.run(call).await,
            _ => first,
        }
    });
    let mut client = server.layer(again).test_client(Revision::V2026_07_28);
    assert_eq!(text(&mut client, "fails", json!({})).await, "error: password=hunter2");
    assert_eq!(runs.total(), 2);
}

#[tokio::test]
async fn layers_see_the_caller() {
    for revision in Revision::ALL {
        let (_, server) = server();
        let describes = instead(|call| {
            let caller = call.caller();
            let client = caller.client().map(|client| client.name.as_str());
            let identity = format!("{:?} {:?} {} {}", caller.principal(), client, caller.revision(), call.request_id());
            Outcome::error(call, format!("{identity} {:?} {:?}", call.hints().read_only, call.entry().tags))
        });
        let mut client = server.layer_for(|entry| entry.has_tag("panics"), describes).test_client(revision);
        let expected = format!("error: None Some(\"test-client\") {revision} 1 Some(true) [\"panics\"]");
        assert_eq!(text(&mut client, "panics", json!({})).await, expected);
        assert_eq!(text(&mut client, "double", json!({"number": 1})).await, "2");
    }
}
