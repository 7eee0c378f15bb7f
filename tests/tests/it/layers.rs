//! Layers around calls: their order, their access to calls and outcomes, and their isolation.

mod asking;
mod built_in;
mod callers;
mod completion;
pub(crate) mod log;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_runtime::{
    Context, EntryKind, Fault, Json, PromptMessage, Resource, Revision, Server, TestClient, ToolResult,
    layers::{Call, CallStatus, Layer, LayerFuture, Next, Outcome, from_fn},
    prompt, resource, tool,
};
use serde_json::{Map, Value, json};

/// Counts how often the functions ran.
#[derive(Debug, Default)]
pub(crate) struct Runs(AtomicUsize);

impl Runs {
    fn count(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn total(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Double a number.
#[tool(read_only)]
fn double(runs: &Runs, #[arg(range = 0..=100)] number: u32) -> u32 {
    runs.count();
    number * 2
}

/// Double a number, later.
#[tool(read_only)]
async fn later(runs: &Runs, number: u32) -> Json<u32> {
    tokio::task::yield_now().await;
    runs.count();
    Json(number * 2)
}

/// Double a number on a blocking thread.
#[tool(blocking, read_only)]
fn aside(runs: &Runs, number: u32) -> String {
    runs.count();
    (number * 2).to_string()
}

/// Fail with an error that contains a secret.
#[tool(read_only)]
fn fails(runs: &Runs) -> Result<(), String> {
    runs.count();
    Err("password=hunter2".to_owned())
}

/// Fail on purpose.
#[tool(read_only)]
fn refuses(runs: &Runs) -> ToolResult {
    runs.count();
    ToolResult::error("not today")
}

/// Fail with a protocol error.
#[tool(read_only)]
async fn faults(runs: &Runs) -> Result<(), Fault> {
    runs.count();
    Err(Fault::custom(7, "out of paper"))
}

/// Panic.
#[tool(read_only, tags("panics"))]
async fn panics() {
    panic!("boom");
}

/// Never complete, with a short timeout.
#[tool(timeout = "20ms")]
async fn not_long(runs: &Runs) {
    struct Dropped<'a>(&'a Runs);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.count();
        }
    }
    let _dropped = Dropped(runs);
    std::future::pending::<()>().await;
}

/// Describe the call.
#[tool(read_only)]
fn whoami(ctx: &Context) -> String {
    format!("{} {}", ctx.request_id(), ctx.name())
}

/// A page.
#[resource("pages://{number}")]
fn page(number: u32) -> Result<String, String> {
    match number {
        0 => Err("password=hunter2".to_owned()),
        _ => Ok(format!("page {number}")),
    }
}

/// A greeting.
#[prompt]
fn greeting(name: String, times: u8) -> String {
    format!("hello {name} {times}")
}

fn server() -> (Arc<Runs>, Server) {
    let runs = Arc::new(Runs::default());
    let server = Server::empty("layers", "1.0.0")
        .with::<double>()
        .with::<later>()
        .with::<aside>()
        .with::<fails>()
        .with::<refuses>()
        .with::<faults>()
        .with::<panics>()
        .with::<not_long>()
        .with::<whoami>()
        .with::<page>()
        .with::<greeting>()
        .with_shared(Arc::clone(&runs));
    (runs, server)
}

/// Calls a tool and returns the text of the result or the protocol error.
async fn text(client: &mut TestClient, name: &str, arguments: Value) -> String {
    match client.call(name, arguments).await {
        Ok(answer) if answer.is_error() => format!("error: {}", answer.text()),
        Ok(answer) => answer.text(),
        Err(error) => format!("{} {}", error.code, error.message),
    }
}

/// Records events in order.
#[derive(Debug, Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    fn push(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Records the calls that pass through it.
struct Watch(&'static str, Events);

impl Layer for Watch {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        Box::pin(async move {
            let Self(own, events) = self;
            events.push(format!("{own} > {:?} {} {}", call.kind(), call.name(), call.arguments()));
            let name = call.entry().name;
            let outcome = next.run(call).await;
            events.push(format!("{own} < {name} {}", outcome.status()));
            outcome
        })
    }
}

#[tokio::test]
async fn the_first_layer_is_the_outermost() {
    for revision in Revision::ALL {
        let events = Events::default();
        let (_, server) = server();
        let watch = |name| Watch(name, events.clone());
        let server = server.layer(watch("a")).layer_for(|entry| entry.kind == EntryKind::Tool, watch("b"));
        let mut client = server.layer(Arc::new(watch("c"))).test_client(revision);
        assert_eq!(text(&mut client, "double", json!({"number": 2})).await, "4");
        let seen = [
            r#"a > Tool double {"number":2}"#,
            r#"b > Tool double {"number":2}"#,
            r#"c > Tool double {"number":2}"#,
            "c < double success",
            "b < double success",
            "a < double success",
        ];
        assert_eq!(events.take(), seen);
        assert_eq!(client.read("pages://7").await.unwrap()[0]["text"], "page 7");
        let seen = [
            r#"a > Resource pages://7 {"number":7}"#,
            r#"c > Resource pages://7 {"number":7}"#,
            "c < page success",
            "a < page success",
        ];
        assert_eq!(events.take(), seen);
        client.prompt("greeting", json!({"name": "Ada", "times": "3"})).await.unwrap();
        let seen = [
            r#"a > Prompt greeting {"name":"Ada","times":3}"#,
            r#"c > Prompt greeting {"name":"Ada","times":3}"#,
            "c < greeting success",
            "a < greeting success",
        ];
        assert_eq!(events.take(), seen);
    }
}

/// Responses are byte-for-byte the same with and without layers.
#[tokio::test]
async fn a_pass_through_layer_does_not_change_responses() {
    let requests = [
        ("tools/call", json!({"name": "double", "arguments": {"number": 2}})),
        ("tools/call", json!({"name": "double", "arguments": {"number": 200}})),
        ("tools/call", json!({"name": "double", "arguments": {"number": 2.0}})),
        ("tools/call", json!({"name": "double"})),
        ("tools/call", json!({"name": "later", "arguments": {"number": 2}})),
        ("tools/call", json!({"name": "later", "arguments": {"numbr": 2}})),
        ("tools/call", json!({"name": "aside", "arguments": {"number": 2}})),
        ("tools/call", json!({"name": "aside", "arguments": {"number": "two"}})),
        ("tools/call", json!({"name": "fails"})),
        ("tools/call", json!({"name": "refuses"})),
        ("tools/call", json!({"name": "faults"})),
        ("tools/call", json!({"name": "panics"})),
        ("tools/call", json!({"name": "not_long"})),
        ("tools/call", json!({"name": "whoami"})),
        ("tools/call", json!({"name": "nothing"})),
        ("resources/read", json!({"uri": "pages://7"})),
        ("resources/read", json!({"uri": "pages://0"})),
        ("resources/read", json!({"uri": "pages://seven"})),
        ("prompts/get", json!({"name": "greeting", "arguments": {"name": "Ada", "times": "3"}})),
        ("prompts/get", json!({"name": "greeting", "arguments": {"name": "Ada"}})),
        ("tools/list", json!({})),
    ];
    for revision in Revision::ALL {
        let mut bare = server().1.test_client(revision);
        let layer = || from_fn(|call: Call, next: Next| async move { next.run(call).await });
        let mut layered = server().1.layer(layer()).layer(layer()).test_client(revision);
        for (method, params) in &requests {
            let expected = bare.request(method, params.clone()).await;
            assert_eq!(layered.request(method, params.clone()).await, expected, "{method} {params} in {revision}");
        }
    }
}

/// A call that is ready immediately is answered immediately, even with layers.
#[tokio::test]
async fn layers_that_do_not_wait_do_not_spawn_a_task() {
    let (_, server) = server();
    let mut client = server.layer(Watch("a", Events::default())).test_client(Revision::V2025_11_25);
    let call = |name: &str| {
        let params = json!({"name": name, "arguments": {"number": 1}});
        json!({"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": params}).to_string()
    };
    assert_eq!(client.send_raw(call("double").as_bytes()).len(), 1);
    assert_eq!(client.in_flight(), 0);
    assert_eq!(client.send_raw(call("later").as_bytes()).len(), 0);
    assert_eq!(client.in_flight(), 1);
    assert_eq!(client.settle().await.len(), 1);
}

#[tokio::test]
async fn layers_see_every_kind_of_outcome() {
    let cases = [
        ("tools/call", json!({"name": "double", "arguments": {"number": 2}}), CallStatus::Success, None, None),
        ("tools/call", json!({"name": "fails"}), CallStatus::ToolError, Some("password=hunter2"), None),
        ("tools/call", json!({"name": "refuses"}), CallStatus::ToolError, None, None),
        ("tools/call", json!({"name": "faults"}), CallStatus::Fault, None, Some("out of paper")),
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
        let _ = server.layer(layer).test_client(Revision::V2025_11_25).request(method, params.clone()).await;
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

/// Responds without running the function.
fn instead(answer: impl Fn(&Call) -> Outcome + Send + Sync + 'static) -> impl Layer {
    from_fn(move |call: Call, _: Next| {
        let outcome = answer(&call);
        async move { outcome }
    })
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
        assert_eq!(text(&mut client, "refuses", json!({})).await, "-32603 `refuses` failed: internal error");
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
async fn a_panic_in_a_layer_fails_only_its_call() {
    for revision in [Revision::V2025_03_26, Revision::V2026_07_28] {
        for when in ["at once", "polled", "after"] {
            let (events, (_, server)) = (Events::default(), server());
            let panics = from_fn(move |call: Call, next: Next| {
                assert!(call.name() != "double" || when != "at once", "boom");
                async move {
                    let name = call.name().to_owned();
                    assert!(name != "double" || when != "polled", "boom");
                    let outcome = next.run(call).await;
                    assert!(name != "double" || when != "after", "boom");
                    outcome
                }
            });
            let mut client = server.layer(Watch("a", events.clone())).layer(panics).test_client(revision);
            let answer = text(&mut client, "double", json!({"number": 2})).await;
            assert_eq!(answer, "-32603 `double` failed: internal error", "{when}");
            assert_eq!(events.take()[1], "a < double fault", "{when}");
            assert_eq!(text(&mut client, "aside", json!({"number": 2})).await, "4");
        }
    }
}

#[tokio::test]
async fn a_panic_in_a_filter_keeps_the_layer() {
    let (_, server) = server();
    let server = server.layer_for(|entry| panic!("{}", entry.name), instead(|call| Outcome::error(call, "closed")));
    let mut client = server.test_client(Revision::V2026_07_28);
    assert_eq!(text(&mut client, "double", json!({"number": 2})).await, "error: closed");
}

/// Counts futures that are dropped before completion.
struct Guard(Arc<Runs>);

impl Layer for Guard {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        struct Unfinished<'a>(Option<&'a Runs>);
        impl Drop for Unfinished<'_> {
            fn drop(&mut self) {
                self.0.into_iter().for_each(Runs::count);
            }
        }
        Box::pin(async move {
            let mut unfinished = Unfinished(Some(&self.0));
            let outcome = next.run(call).await;
            unfinished.0 = None;
            outcome
        })
    }
}

#[tokio::test]
async fn calls_are_dropped_with_their_layers() {
    for revision in Revision::ALL {
        let (runs, server) = server();
        let dropped = Arc::new(Runs::default());
        let mut client = server.layer(Guard(Arc::clone(&dropped))).test_client(revision);
        let answer = text(&mut client, "not_long", json!({})).await;
        assert_eq!(answer, "error: `not_long` did not finish within 20ms");
        assert_eq!((runs.total(), dropped.total()), (1, 1));

        let id = client.send_request("tools/call", json!({"name": "not_long"}));
        client.notify("notifications/cancelled", json!({"requestId": id}));
        assert_eq!(client.in_flight(), 0);
        let until = async {
            while (runs.total(), dropped.total()) != (2, 2) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), until).await.expect("the call is dropped in time");
        assert_eq!(client.settle().await, Vec::<Value>::new());
    }
}

/// Time spent in a layer counts towards the timeout of the call. A layer can also apply a shorter timeout itself.
#[tokio::test]
async fn layers_share_the_timeout_of_the_call() {
    let (runs, server) = server();
    let waits = from_fn(|call: Call, next: Next| async move {
        if call.argument("number") == Some(json!(0)) {
            std::future::pending::<()>().await;
        }
        match tokio::time::timeout(Duration::from_millis(1), next.run(call.clone())).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::error(&call, "too slow for this layer"),
        }
    });
    let mut client = server.layer(waits).timeout(Duration::from_millis(20)).test_client(Revision::V2026_07_28);
    let answer = text(&mut client, "double", json!({"number": 0})).await;
    assert_eq!(answer, "error: `double` did not finish within 20ms");
    assert_eq!(text(&mut client, "not_long", json!({})).await, "error: too slow for this layer");
    assert_eq!(runs.total(), 1);
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

/// Layers around the calls of a batch do not split its response.
#[tokio::test]
async fn a_batch_gets_a_single_response() {
    let (_, server) = server();
    let events = Events::default();
    let mut client = server.layer(Watch("a", events.clone())).test_client(Revision::V2025_03_26);
    let call = |id: u32, name: &str| {
        let arguments = if name == "panics" { json!({}) } else { json!({"number": id}) };
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let batch = Value::Array(vec![call(1, "double"), call(2, "later"), call(3, "aside"), call(4, "panics")]);
    assert_eq!(client.send_raw(batch.to_string().as_bytes()), Vec::<Value>::new());
    let answers = client.settle().await;
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].as_array().unwrap().len(), 4);
    let mut events = events.take();
    events.sort();
    let seen = [
        "a < aside success",
        "a < double success",
        "a < later success",
        "a < panics fault",
        r#"a > Tool aside {"number":3}"#,
        r#"a > Tool double {"number":1}"#,
        r#"a > Tool later {"number":2}"#,
        "a > Tool panics {}",
    ];
    assert_eq!(events, seen);
}
