//! Scopes of functions: every kind of request is checked before a function runs.

use std::time::Duration;

use http_body_util::BodyExt as _;
use mcp_runtime::{
    Context, Fault, HttpOptions, Revision, Server,
    auth::{Identity, Principal, Scopes},
    function::{MethodEntry, ToolEntry},
    http::HttpService,
    layers::CacheReadOnly,
    resource, tool, tools,
};
use serde_json::{Value, json};
use tower_service::Service as _;

use super::{
    Journal, METADATA, Protected, Reply, Request, call, note, read_notes, server, soon, stateless, with_token,
};
use crate::{http::request::initialize, tasks::shared::slow_backend};

const LEGACY: &str = "2025-03-26";

/// Opens a session as a user and returns its id.
async fn open_session(server: &Protected, token: &str, version: &str) -> String {
    let reply = server.send(with_token(initialize(version), token)).await;
    reply.header("mcp-session-id").unwrap().to_owned()
}

fn in_session(id: &str, version: &str, message: &Value) -> Request {
    Request::post(message).with("mcp-session-id", id).with("mcp-protocol-version", version)
}

fn challenge(scopes: &str, error: &str) -> String {
    format!(r#"Bearer {error}scope="{scopes}", resource_metadata="{METADATA}""#)
}

/// Checks that a request is challenged for all its scopes, without a token and with one that lacks a scope, and that it
/// succeeds with all of them.
async fn assert_requires(server: &Protected, request: &Request, scopes: &str, granted: &str) {
    let runs = server.journal.runs();
    let anonymous = server.send(request.clone()).await;
    assert_eq!((anonymous.status, anonymous.challenges()), (401, vec![&*challenge(scopes, "")]), "{request:?}");
    for token in ["ada", "ada/other", "ada/Notes.read"] {
        let reply = server.send(with_token(request.clone(), token)).await;
        let expected = challenge(scopes, r#"error="insufficient_scope", "#);
        assert_eq!((reply.status, reply.challenges()), (403, vec![&*expected]), "{token} {request:?}");
        let required: Vec<_> = scopes.split(' ').collect();
        let json = reply.json();
        let error = if json.is_array() { &json[0]["error"] } else { &json["error"] };
        assert_eq!((&error["code"], &error["data"]["requiredScopes"]), (&json!(-32600), &json!(required)));
    }
    assert_eq!(server.journal.runs(), runs, "a function ran: {request:?}");
    let reply = server.open(with_token(request.clone(), granted)).await;
    let message: Value = serde_json::from_slice(&request.clone().into_parts().3).unwrap();
    let messages = message.as_array().map_or(std::slice::from_ref(&message), Vec::as_slice);
    let has_response = messages.iter().any(|message| !message["id"].is_null());
    assert_eq!(reply.status(), if has_response { 200 } else { 202 }, "{request:?}");
}

#[tokio::test]
async fn every_kind_of_request_is_checked() {
    let server = Protected::new();
    let completion = |reference: Value| {
        stateless("completion/complete", &json!({"ref": reference, "argument": {"name": "id", "value": ""}}))
    };
    let by_template = completion(json!({"type": "ref/resource", "uri": "notes://{id}"}));
    let by_uri = completion(json!({"type": "ref/resource", "uri": "notes://7"}));
    let by_prompt = completion(json!({"type": "ref/prompt", "name": "summary"}));
    let filter = json!({"notifications": {"resourceSubscriptions": ["notes://7", "memo://none"]}});
    for (request, scopes, granted) in [
        (call("read_notes"), "notes.read", "ada/notes.read"),
        (call("delete_note"), "notes.write", "ada/notes.write/more"),
        (call("audit"), "notes.read audit", "ada/audit/notes.read"),
        (call("audit"), "notes.read audit", "ada/audit/notes.admin"),
        (stateless("resources/read", &json!({"uri": "notes://7"})), "notes.read", "ada/notes.read"),
        (stateless("prompts/get", &json!({"name": "summary"})), "notes.read", "ada/notes.read"),
        (by_template, "notes.read", "ada/notes.read"),
        (by_uri, "notes.read", "ada/notes.read"),
        (by_prompt, "notes.read", "ada/notes.read"),
        (stateless("subscriptions/listen", &filter), "notes.read", "ada/notes.read"),
        (stateless("com.example/search", &json!({})), "notes.read", "ada/notes.read"),
    ] {
        assert_requires(&server, &request, scopes, granted).await;
    }
    let id = open_session(&server, "ada", "2025-11-25").await;
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "notes://7"}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "delete_note"}});
    let notify = json!({"jsonrpc": "2.0", "method": "com.example/search"});
    for (message, scopes, granted) in [
        (subscribe, "notes.read", "ada/notes.read"),
        (call, "notes.write", "ada/notes.write"),
        (notify.clone(), "notes.read", "ada/notes.read"),
    ] {
        assert_requires(&server, &in_session(&id, "2025-11-25", &message), scopes, granted).await;
    }
    let stateless = Request::post(&notify).with("mcp-protocol-version", "2026-07-28");
    assert_requires(&server, &stateless, "notes.read", "ada/notes.read").await;
    let runs = server.journal.runs();
    let nowhere = server.send(with_token(Request::post(&notify), "ada/notes.read")).await;
    assert_eq!((nowhere.status, server.journal.runs()), (400, runs), "no session, and no stateless revision");
}

/// A notification is acknowledged before its call ends, which the end of the exchange does not cancel.
#[tokio::test]
async fn the_call_of_a_notification_outlives_its_exchange() {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let note = MethodEntry::new("com.example/note", json!({"type": "object"}), move |_: Value, ctx: Context| {
        let sender = sender.clone();
        async move {
            tokio::task::yield_now().await;
            sender.send(ctx.identity().map(|identity| identity.principal().to_owned())).await.unwrap();
            Ok::<_, Fault>(json!({}))
        }
    });
    let server = Protected::with(|server| server.with_entry(note), HttpOptions::default());
    let id = open_session(&server, "ada", LEGACY).await;
    let message = json!({"jsonrpc": "2.0", "method": "com.example/note"});
    for request in [
        Request::post(&message).with("mcp-protocol-version", "2026-07-28"),
        in_session(&id, LEGACY, &message),
        in_session(&id, LEGACY, &json!([message])),
    ] {
        let reply = server.send(with_token(request, "ada")).await;
        assert_eq!((reply.status, &*reply.body), (202, &b""[..]));
        assert_eq!(soon(receiver.recv()).await.unwrap().as_deref(), Some("ada"));
    }
}

/// It does not matter which kind of function is the only one that requires scopes.
#[tokio::test]
async fn every_kind_of_function_alone_is_checked() {
    for (name, request) in [
        ("read_notes", call("read_notes")),
        ("note", stateless("resources/read", &json!({"uri": "notes://7"}))),
        ("summary", stateless("prompts/get", &json!({"name": "summary"}))),
        ("com.example/search", stateless("com.example/search", &json!({}))),
    ] {
        let only = |server: Server| server.only(move |entry| [name, "whoami"].contains(&entry.name));
        let server = Protected::with(only, HttpOptions::default());
        assert_requires(&server, &request, "notes.read", "ada/notes.read").await;
        let id = open_session(&server, "ada", LEGACY).await;
        let message = |request: &Request| serde_json::from_slice::<Value>(&request.clone().into_parts().3).unwrap();
        let mut scoped = message(&request);
        scoped["params"].as_object_mut().unwrap().remove("_meta");
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "whoami"}});
        let batch = in_session(&id, LEGACY, &json!([call, scoped]));
        let runs = server.journal.runs();
        assert_requires(&server, &batch, "notes.read", "ada/notes.read").await;
        assert_eq!(server.journal.runs(), runs + 2, "{name}");
        let error = only(self::server().0).build().unwrap().into_http_service(HttpOptions::default()).unwrap_err();
        let expected = format!("`{name}` requires scopes, but the server does not authenticate");
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

/// Either all requests of a batch run or none, and one challenge names the scopes of all.
#[tokio::test]
async fn a_batch_is_checked_as_a_whole() {
    let server = Protected::new();
    let id = open_session(&server, "ada", LEGACY).await;
    let call =
        |id: u32, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}});
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
    let batch = json!([call(1, "whoami"), call(2, "read_notes"), cancelled, call(3, "delete_note")]);
    let request = in_session(&id, LEGACY, &batch);
    assert_requires(&server, &request, "notes.read notes.write", "ada/notes.read/notes.write").await;
    assert_eq!(server.journal.runs(), 3);
    let reply = server.send(with_token(request, "ada/notes.read")).await;
    let ids: Vec<_> = reply.json().as_array().unwrap().iter().map(|response| response["id"].clone()).collect();
    assert_eq!((reply.status, ids), (403, vec![json!(1), json!(2), json!(3)]));
    assert_eq!(server.journal.runs(), 3);
    let notify = json!({"jsonrpc": "2.0", "method": "com.example/search"});
    let notifications = in_session(&id, LEGACY, &json!([notify, notify]));
    assert_requires(&server, &notifications, "notes.read", "ada/notes.read").await;
    assert_eq!(server.journal.runs(), 5);
}

/// A function that demands more is challenged with everything that the operation needs, if nothing was sent yet.
#[tokio::test]
async fn functions_demand_scopes_at_run_time() {
    /// Demand a scope that only concerns the authorization server, which challenges do not name.
    #[tool]
    fn stay(ctx: &Context) -> Result<(), Fault> {
        ctx.require_scopes(["notes.share", "offline_access"])
    }

    /// Demand scopes one after another.
    #[tool(scopes("notes.read"))]
    fn export_all(ctx: &Context) -> Result<(), Fault> {
        ctx.require_scopes("notes.write")?;
        ctx.require_scopes("notes.share")
    }

    let entries = |server: Server| server.require_scopes("mcp").with::<stay>().with::<export_all>();
    let server = Protected::with(entries, HttpOptions::default());
    let reply = server.send(with_token(call("export_all"), "ada/mcp/notes.read/notes.write")).await;
    let expected = challenge("mcp notes.read notes.write notes.share", r#"error="insufficient_scope", "#);
    assert_eq!((reply.status, reply.challenges()), (403, vec![&*expected]));
    let reply = server.send(with_token(call("stay"), "ada/mcp")).await;
    let expected = challenge("mcp notes.share", r#"error="insufficient_scope", "#);
    assert_eq!((reply.status, reply.challenges()), (403, vec![&*expected]));
    let reply = server.send(with_token(call("share"), "ada/mcp/notes.read")).await;
    let expected = challenge("mcp notes.read notes.share", r#"error="insufficient_scope", "#);
    assert_eq!((reply.status, reply.challenges()), (403, vec![&*expected]));
    assert_eq!(
        reply.json()["error"]["message"],
        "the operation requires the scopes `mcp`, `notes.read`, `notes.share`"
    );
    assert_eq!(server.journal.runs(), 0);
    let reply = server.send(with_token(call("share"), "ada/mcp/notes.read/notes.share")).await;
    assert_eq!((reply.status, server.journal.runs()), (200, 1));
    // Another call of the batch has run.
    let id = open_session(&server, "ada/mcp", LEGACY).await;
    let call =
        |id: u32, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}});
    let batch = in_session(&id, LEGACY, &json!([call(1, "whoami"), call(2, "share")]));
    let reply = server.send(with_token(batch, "ada/mcp/notes.read")).await;
    assert_eq!((reply.status, server.journal.runs()), (200, 2));
    let mut responses = reply.json().as_array().unwrap().clone();
    responses.sort_by_key(|response| response["id"].as_u64());
    assert_eq!((responses[0].get("error"), &responses[1]["error"]["code"]), (None, &json!(-32600)));
}

/// After the response has begun, its status cannot change, so the error names the scopes.
#[tokio::test]
async fn a_scope_that_is_demanded_late_is_an_error_in_the_stream() {
    let options = HttpOptions::default().stream_after(Duration::ZERO);
    let server = Protected::with(|server| server, options);
    let late = call("share").change(|message| message["params"]["arguments"] = json!({"waits": true}));
    let response = server.open(with_token(late, "ada/notes.read")).await;
    assert_eq!(response.status(), 200);
    server.journal.permits.add_permits(1);
    let body = soon(response.into_body().collect()).await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert!(text.contains("the operation requires the scopes `notes.read`, `notes.share`"), "{text}");
}

#[tokio::test]
async fn broad_scopes_contain_narrow_ones() {
    let server = Protected::with(
        |server| {
            server
                .scope_implies("notes.admin", ["notes.write"])
                .scope_implies("notes.write", ["notes.read"])
                .scope_implies_if(|broad, narrow| broad == "all" || broad.strip_suffix('*') == Some(narrow))
        },
        HttpOptions::default(),
    );
    for (token, tool, status) in [
        ("ada/notes.write", "read_notes", 200),
        ("ada/notes.admin", "read_notes", 200),
        ("ada/notes.admin", "share", 403),
        ("ada/notes.read", "delete_note", 403),
        ("ada/all", "audit", 200),
        ("ada/all", "share", 200),
    ] {
        let reply = server.send(with_token(call(tool), token)).await;
        assert_eq!(reply.status, status, "{token} {tool}");
    }
    // A granted scope is not requested again under another name.
    let reply = server.send(with_token(call("audit"), "ada/notes.admin")).await;
    assert_eq!(reply.challenges(), [challenge("notes.read audit", r#"error="insufficient_scope", "#)]);
}

#[tokio::test]
async fn rules_add_scopes_to_functions() {
    let server = Protected::with(
        |server| {
            server
                .require_scopes_for(|entry| entry.name == "whoami", "profile")
                .require_scopes_for(|entry| entry.is::<read_notes>(), Scopes::any(["eu", "us"]))
                .require_scopes_for(|entry| entry.is::<note>(), ["eu", "notes.read"])
        },
        HttpOptions::default(),
    );
    for (request, scopes, granted) in [
        (call("whoami"), "profile", "ada/profile"),
        (call("read_notes"), "notes.read eu", "ada/notes.read/us"),
        (stateless("resources/read", &json!({"uri": "notes://7"})), "notes.read eu", "ada/eu/notes.read"),
    ] {
        assert_requires(&server, &request, scopes, granted).await;
    }
    // Of alternatives, the one that was granted is requested again.
    let reply = server.send(with_token(call("read_notes"), "ada/us")).await;
    assert_eq!(reply.challenges(), [challenge("notes.read us", r#"error="insufficient_scope", "#)]);
}

/// A shared helper and the server itself may both require scopes.
#[tokio::test]
async fn scopes_of_every_request_add_up() {
    let server =
        Protected::with(|server| server.require_scopes("mcp").require_scopes(["eu", "mcp"]), HttpOptions::default());
    assert_requires(&server, &call("whoami"), "mcp eu", "ada/mcp/eu").await;
}

/// A draft.
#[resource("drafts://{id}", scopes("drafts.read"))]
fn draft(id: u32) -> String {
    id.to_string()
}

/// One challenge names the scopes of all resources, in the order of the request.
#[tokio::test]
async fn a_subscription_requires_the_scopes_of_all_its_resources() {
    let server = Protected::with(|server| server.with::<draft>(), HttpOptions::default());
    for (uris, scopes) in [
        (["notes://7", "drafts://1"], "notes.read drafts.read"),
        (["drafts://1", "notes://7"], "drafts.read notes.read"),
    ] {
        let filter = json!({"notifications": {"resourceSubscriptions": uris}});
        let request = stateless("subscriptions/listen", &filter);
        assert_requires(&server, &request, scopes, "ada/notes.read/drafts.read").await;
    }
}

/// The functions that list the resources of a template run only for those who may read them.
#[tokio::test]
async fn resources_are_listed_for_those_who_may_read_them() {
    let server = Protected::new();
    for (token, expected) in [("ada", 0), ("ada/notes.read", 1)] {
        let reply = server.send(with_token(stateless("resources/list", &json!({})), token)).await;
        assert_eq!(reply.json()["result"]["resources"].as_array().unwrap().len(), expected, "{token}");
    }
}

struct Archive;

#[tools(scopes("archive"))]
impl Archive {
    /// Search.
    #[tool]
    fn search(&self) {}

    /// Purge.
    #[tool(scopes("archive", any("purge", "admin")))]
    fn purge(&self) {}

    /// Restore.
    #[tool(scopes("restore"))]
    fn restore(&self) {}
}

#[tokio::test]
async fn a_block_requires_scopes_for_all_its_methods() {
    let server = Protected::with(|server| server.with::<Archive>().with_state(Archive), HttpOptions::default());
    for (tool, scopes, granted) in [
        ("search", "archive", "ada/archive"),
        ("purge", "archive purge", "ada/archive/admin"),
        ("restore", "archive restore", "ada/archive/restore"),
    ] {
        assert_requires(&server, &call(tool), scopes, granted).await;
    }
}

/// Over stdio there are no tokens, so scopes are not enforced, and the process has the identity of its user.
#[tokio::test]
async fn scopes_are_not_enforced_over_stdio() {
    let (server, journal) = server();
    let ada = Identity::new(Principal::new("ada")).with_claims(json!({"email": "ada@example.com"}));
    let mut client = server.stdio_identity(ada).test_client(Revision::V2026_07_28);
    for tool in ["read_notes", "audit", "share"] {
        assert!(client.call(tool, ()).await.is_ok(), "{tool}");
    }
    assert_eq!(client.call("whoami", ()).await.unwrap().text(), "ada ada@example.com");
    assert_eq!(journal.runs(), 4);
}

/// Add two numbers.
#[tool]
fn add(a: i32, b: i32) -> i32 {
    a + b
}

/// A server without an authenticator refuses to start if a function requires scopes.
#[tokio::test]
async fn functions_with_scopes_are_not_served_without_an_authenticator() {
    let help = "help: add an authenticator with `Server::authenticate`; if a middleware identifies the callers, add \
                `IdentityFromExtensions`";
    let adder = || Server::empty("adder", "1.0.0").with::<add>();
    let all: fn(Server) -> Server = |server| server.require_scopes("mcp");
    let one: fn(Server) -> Server = |server| server.require_scopes_for(|_| true, "math");
    let several: fn(Server) -> Server = |server| {
        let tool = |name| ToolEntry::new(name, json!({"type": "object"}), async |_: Value, _: Context| "");
        let server = ["b", "c", "d", "e"].into_iter().fold(server, |server, name| server.with_entry(tool(name)));
        server.require_scopes_for(|_| true, "math")
    };
    let many: fn(Server) -> Server = |_| self::server().0;
    // It may be enabled at any time.
    let disabled: fn(Server) -> Server = |server| server.with_disabled::<read_notes>().with_state(Journal::default());
    for (change, expected) in [
        (disabled, "`read_notes` requires scopes"),
        (all, "every request requires scopes"),
        (one, "`add` requires scopes"),
        (several, "`add`, `b`, `c`, `d`, `e` require scopes"),
        (many, "`audit`, `delete_note`, `export`, `read_notes`, `share` and others require scopes"),
    ] {
        let expected = format!("{expected}, but the server does not authenticate requests over HTTP\n{help}");
        let error = change(adder()).build().unwrap().into_http_service(HttpOptions::default()).unwrap_err();
        assert_eq!(error.problems(), [expected]);
    }
}

/// A function with scopes that is added later is not open either.
#[tokio::test]
async fn functions_that_are_added_later_are_protected() {
    let built = Server::empty("adder", "1.0.0").with::<add>().with_state(Journal::default()).build().unwrap();
    let handle = built.handle();
    let mut service: HttpService = built.into_http_service(HttpOptions::default()).unwrap();
    handle.add::<read_notes>().unwrap();
    let response = soon(service.call(call("read_notes").into_http(|_| {}))).await.unwrap();
    let challenge = response.headers()["www-authenticate"].to_str().unwrap();
    assert_eq!((response.status().as_u16(), challenge), (401, r#"Bearer scope="notes.read""#));
    let response = soon(service.call(call("add").into_http(|_| {}))).await.unwrap();
    assert_eq!(response.status(), 200);
}

#[test]
fn impossible_scopes_are_reported_when_the_server_is_built() {
    let line = line!() + 4;
    let error = Server::empty("adder", "1.0.0")
        .with::<add>()
        .require_scopes(Scopes::any([""; 0]))
        .require_scopes_for(|_| true, "a b")
        .require_scopes_for(|_| true, "offline_access")
        .check()
        .unwrap_err();
    let file = file!();
    let next = line + 1;
    assert_eq!(
        error.problems(),
        [
            format!(
                "`Server::require_scopes_for` ({file}:{line}): invalid scope `a b`, expected visible ASCII characters without \
                 `\"`, `\\` and spaces"
            ),
            format!(
                "`Server::require_scopes_for` ({file}:{next}): `offline_access` concerns the authorization server and cannot \
                 be required"
            ),
            "`Server::require_scopes`: no scope is named, so no caller could meet the requirement".to_owned(),
        ]
    );
}

fn with_tasks(request: Request) -> Request {
    request.change(|message| {
        let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    })
}

/// Creates a task and returns its id.
async fn create_task(server: &Protected) -> String {
    let created = server.send(with_token(with_tasks(call("export")), "ada/notes.write")).await.json();
    created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
}

/// Creates a task in a session.
async fn create_in_session(server: &Protected, session: &str, tool: &str, token: &str) {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "task": {}}});
    let created = server.send(with_token(in_session(session, "2025-11-25", &call), token)).await.json();
    assert!(created["result"]["task"]["taskId"].is_string(), "{created}");
}

/// Tasks require the scopes of their function when they are created and when they are read.
#[tokio::test]
async fn tasks_require_the_scopes_of_their_function() {
    let server = Protected::new();
    assert_requires(&server, &with_tasks(call("export")), "notes.write", "ada/notes.write").await;
    let id = create_task(&server).await;
    let about = |method: &str, params: Value| with_tasks(stateless(method, &params).with("mcp-name", &id));
    let get = about("tasks/get", json!({"taskId": id}));
    let update = about("tasks/update", json!({"taskId": id, "inputResponses": {}}));
    let cancel = about("tasks/cancel", json!({"taskId": id}));
    let expected = challenge("notes.write", r#"error="insufficient_scope", "#);
    for request in [&get, &update, &cancel] {
        let reply = server.send(with_token(request.clone(), "ada/notes.read")).await;
        assert_eq!((reply.status, reply.challenges()), (403, vec![&*expected]));
        let reply = server.send(with_token(request.clone(), "ada/notes.write")).await;
        assert_eq!((reply.status, &reply.json()["error"]), (200, &Value::Null), "{reply:?}");
        // To another principal, the task does not exist, whatever the scopes.
        let reply = server.send(with_token(request.clone(), "eve/notes.write")).await;
        assert_eq!(reply.json()["error"]["code"], -32602);
    }
}

/// A client that acts for the same user with fewer scopes does not learn about the tasks of another one.
#[tokio::test]
async fn tasks_are_listed_for_those_who_may_read_them() {
    let server = Protected::new();
    let id = open_session(&server, "ada", "2025-11-25").await;
    create_in_session(&server, &id, "export", "ada/notes.write").await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/list"});
    for (token, listed) in [("ada/notes.write", 1), ("ada/notes.read", 0)] {
        let reply = server.send(with_token(in_session(&id, "2025-11-25", &list), token)).await;
        assert_eq!(reply.json()["result"]["tasks"].as_array().map(Vec::len), Some(listed), "{token}");
    }
}

/// Wait for nothing.
#[tool(task)]
async fn idle() -> &'static str {
    "done"
}

/// The list continues after entries that the client may not see.
#[tokio::test]
async fn pages_without_visible_tasks_are_followed_by_others() {
    let server = Protected::with(|server| server.with::<idle>().page_size(1), HttpOptions::default());
    let id = open_session(&server, "ada", "2025-11-25").await;
    for _ in 0..4 {
        create_in_session(&server, &id, "export", "ada/notes.write").await;
        create_in_session(&server, &id, "idle", "ada").await;
    }
    for (token, expected) in [("ada/notes.write", 8), ("ada/notes.read", 4)] {
        let (mut listed, mut params) = (0, json!({}));
        loop {
            let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": params});
            let page = server.send(with_token(in_session(&id, "2025-11-25", &list), token)).await.json();
            listed += page["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{page}")).len();
            match &page["result"]["nextCursor"] {
                Value::Null => break,
                cursor => params = json!({ "cursor": cursor }),
            }
        }
        assert_eq!(listed, expected, "{token}");
    }
}

/// Show the accounts.
#[tool(read_only)]
fn accounts(ctx: &Context) -> Result<&'static str, Fault> {
    ctx.require_scopes("accounts")?;
    Ok("all accounts")
}

/// A cached result is not for a token that lacks the scopes that the function would have required.
#[tokio::test]
async fn cached_results_depend_on_the_scopes_of_the_caller() {
    let cache = CacheReadOnly::new(Duration::from_secs(60)).per_key(|_| String::new());
    let server = Protected::with(|server| server.with::<accounts>().layer(cache), HttpOptions::default());
    for (token, status) in [("ada/accounts", 200), ("ada", 403), ("ada/accounts", 200), ("ada/other", 403)] {
        let reply = server.send(with_token(call("accounts"), token)).await;
        assert_eq!(reply.status, status, "{token}");
    }
}

/// A subscription to a task shows its result only to those who may read it.
#[tokio::test]
async fn notifications_about_tasks_require_the_scopes_of_their_function() {
    let cases = [("ada/notes.write", true), ("ada/notes.read", false), ("eve/notes.write", false)];
    // With a shared backend, the task is read after the subscription has begun.
    for (is_shared, (token, is_shown)) in [false, true].into_iter().flat_map(|shared| cases.map(|case| (shared, case)))
    {
        let server = if is_shared {
            Protected::with(|server| server.backend(slow_backend()), HttpOptions::default())
        } else {
            Protected::new()
        };
        let filter = json!({"notifications": {"taskIds": [create_task(&server).await]}});
        let listen = with_tasks(stateless("subscriptions/listen", &filter));
        let body = server.open(with_token(listen, token)).await.into_body();
        // The notification is sent by another task of the same thread.
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.service.graceful_shutdown(Duration::from_secs(60)).await;
        let bytes = soon(body.collect()).await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("acknowledged"), "{text}");
        assert_eq!(text.contains("exported"), is_shown, "{token}: {text}");
    }
}

/// Lists contain everything by default, since clients request the scopes of what they find there.
#[tokio::test]
async fn lists_may_omit_what_the_caller_may_not_use() {
    let hiding = Protected::with(Server::hide_unauthorized, HttpOptions::default());
    let showing = Protected::new();
    let names = |reply: &Reply, list: &str| -> Vec<String> {
        let listed = &reply.json()["result"][list];
        listed.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = ["audit", "delete_note", "export", "read_notes", "share", "waits", "whoami"];
    for (server, token, tools, prompts) in [
        (&showing, "ada", &all[..], 1),
        (&hiding, "ada", &["waits", "whoami"], 0),
        (&hiding, "ada/notes.read", &["read_notes", "share", "waits", "whoami"], 1),
        (&hiding, "ada/notes.read/notes.write/audit", &all, 1),
    ] {
        let list = |method: &str| with_token(stateless(method, &json!({})), token);
        let reply = server.send(list("tools/list")).await;
        assert_eq!(names(&reply, "tools"), tools, "{token}");
        // The list depends on the caller, so caches must not share it.
        for reply in [reply, server.send(list("server/discover")).await] {
            assert_eq!(reply.json()["result"]["cacheScope"], "private");
        }
        assert_eq!(names(&server.send(list("prompts/list")).await, "prompts").len(), prompts, "{token}");
        let templates = server.send(list("resources/templates/list")).await;
        assert_eq!(names(&templates, "resourceTemplates").len(), prompts, "{token}");
    }
    // The call still says which scopes it needs.
    let reply = hiding.send(with_token(call("read_notes"), "ada")).await;
    assert_eq!((reply.status, reply.challenges()[0].contains("notes.read")), (403, true));
}
