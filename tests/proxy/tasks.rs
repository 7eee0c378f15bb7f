//! Tools that an upstream runs as tasks.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_proxy::Upstream;
use mcp_runtime::{
    BuiltServer, Context, Elicit, Fault, Revision, Server, ask::Answer, function::TaskStatus, testing::ServerRequest,
    tool,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    behaviour::Leaving,
    eventually,
    fake::{self, Reply, discovered, lists, tool as listed},
    gateway, legacy,
    questions::before_program,
    serve, url,
};

/// Repeat a text.
#[tool(task)]
async fn echo(text: String, _ctx: &Context) -> String {
    text
}

/// Report progress, and end when the test allows it.
#[tool(task = "required")]
async fn report(ctx: &Context, released: &tokio::sync::Semaphore) -> &'static str {
    ctx.progress(1, 2, "half of it");
    released.acquire().await.unwrap().forget();
    "done"
}

/// A form.
#[derive(Elicit)]
struct Name {
    name: String,
}

/// Ask for a name.
#[tool(task = "required")]
async fn greet(ctx: &Context) -> Result<String, Fault> {
    Ok(match ctx.elicit::<Name>("name", "Your name?").await? {
        Answer::Accept(Name { name }) => format!("Hello {name}"),
        _ => "declined".to_owned(),
    })
}

/// Fail.
#[tool(task = "required")]
async fn fail(_ctx: &Context) -> Result<(), Fault> {
    Err(Fault::custom(-31050, "refused"))
}

/// Return an error that the model reads.
#[tool(task = "required")]
async fn refuse(_ctx: &Context) -> Result<(), String> {
    Err("no".to_owned())
}

/// Wait for ever.
#[tool(task = "required")]
async fn wait(running: &AtomicUsize) {
    running.fetch_add(1, Ordering::SeqCst);
    let _guard = Leaving(running);
    std::future::pending::<()>().await;
}

/// Do nothing.
#[tool]
fn plain() -> &'static str {
    "plain"
}

struct Started {
    server: BuiltServer,
    released: Arc<tokio::sync::Semaphore>,
    running: Arc<AtomicUsize>,
}

fn upstream() -> Started {
    let (released, running) = (Arc::new(tokio::sync::Semaphore::new(0)), Arc::<AtomicUsize>::default());
    let server = Server::empty("upstream", "1.0.0")
        .with::<echo>()
        .with::<report>()
        .with::<greet>()
        .with::<fail>()
        .with::<refuse>()
        .with::<wait>()
        .with::<plain>()
        .task_poll_interval(Duration::from_millis(50))
        // Calls would end before tasks do.
        .timeout(Duration::from_secs(2))
        .with_shared(Arc::clone(&released))
        .with_shared(Arc::clone(&running));
    Started { server: server.build().unwrap(), released, running }
}

/// Returns the addresses of an upstream that speaks only one of the two revisions that define tasks, for each of them.
async fn of_each_revision(server: &BuiltServer) -> [(Revision, String); 2] {
    let address = serve(server).await;
    let old = legacy(address.clone(), Revision::V2025_11_25).await;
    [(Revision::V2025_11_25, old), (Revision::V2026_07_28, address)]
}

fn answers(request: &ServerRequest) -> Value {
    assert_eq!(request.message(), "up: Your name?");
    json!({"action": "accept", "content": {"name": "Ada"}})
}

const WITH_TASKS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_an_upstream_run_as_tasks() {
    let Started { server, released, running } = upstream();
    for (spoken, address) in of_each_revision(&server).await {
        let gateway = gateway(&address).await.task_poll_interval(Duration::from_millis(20)).build().unwrap();
        for revision in WITH_TASKS {
            let case = format!("{spoken} for {revision}");
            let mut client = gateway.test_client(revision).answering(answers);
            let task = client.start_task("up_echo", json!({"text": "a"})).await.unwrap();
            assert_eq!(task.result(&mut client).await.unwrap().text(), "a", "{case}");

            let task = client.start_task("up_report", ()).await.unwrap();
            if revision == Revision::V2025_11_25 {
                let params = json!({"taskId": task.id()});
                eventually!(
                    client.request("tasks/get", params.clone()).await.unwrap()["statusMessage"] == "half of it"
                );
            }
            assert_eq!(task.status(&mut client).await.unwrap(), TaskStatus::Working, "{case}");
            // Longer than a call may take.
            tokio::time::sleep(Duration::from_millis(2200)).await;
            released.add_permits(1);
            assert_eq!(task.result(&mut client).await.unwrap().text(), "done", "{case}");
            assert_eq!(task.status(&mut client).await.unwrap(), TaskStatus::Completed, "{case}");

            let task = client.start_task("up_greet", ()).await.unwrap();
            assert_eq!(task.result(&mut client).await.unwrap().text(), "Hello Ada", "{case}");

            let task = client.start_task("up_fail", ()).await.unwrap();
            let error = task.result(&mut client).await.unwrap_err();
            assert_eq!((error.code, &*error.message), (-31050, "refused"), "{case}");

            let task = client.start_task("up_refuse", ()).await.unwrap();
            let result = task.result(&mut client).await.unwrap();
            assert!(result.is_error() && result.text() == "no", "{case}: {result:?}");

            let task = client.start_task("up_wait", ()).await.unwrap();
            eventually!(running.load(Ordering::SeqCst) == 1);
            task.cancel(&mut client).await.unwrap();
            eventually!(running.load(Ordering::SeqCst) == 0);
        }
    }
}

/// Clients without tasks wait for the result, also of tools that the upstream runs only as tasks.
#[tokio::test(flavor = "multi_thread")]
async fn clients_without_tasks_wait_for_the_result() {
    let Started { server, released, running } = upstream();
    for (spoken, address) in of_each_revision(&server).await {
        let gateway = gateway(&address).await.build().unwrap();
        let mut client = gateway.test_client(Revision::V2025_06_18).answering(answers);
        let echo = client.call("up_echo", json!({"text": "a"})).await.unwrap();
        assert_eq!(echo.text(), "a", "{spoken}");
        let id = client.send_request("tools/call", json!({"name": "up_report", "_meta": {"progressToken": 1}}));
        eventually!(client.notifications().iter().any(|message| message["params"]["message"] == "half of it"));
        released.add_permits(1);
        assert_eq!(client.response(id).await.unwrap()["content"][0]["text"], "done", "{spoken}");
        assert_eq!(client.call("up_greet", ()).await.unwrap().text(), "Hello Ada", "{spoken}");
        assert_eq!(client.call("up_fail", ()).await.unwrap_err().code, -31050, "{spoken}");
        let id = client.send_request("tools/call", json!({"name": "up_wait"}));
        eventually!(running.load(Ordering::SeqCst) == 1);
        client.notify("notifications/cancelled", json!({"requestId": id}));
        eventually!(running.load(Ordering::SeqCst) == 0);
    }
}

/// A stateless upstream decides for each call, and does not list which tools it runs as tasks.
#[tokio::test(flavor = "multi_thread")]
async fn the_task_support_of_an_upstream_is_listed() {
    let Started { server, .. } = upstream();
    let support = async |server: &BuiltServer| {
        let tools = server.test_client(Revision::V2025_11_25).tools().await.unwrap();
        let mut support: Vec<_> = tools
            .iter()
            .map(|tool| (tool.name().replace("up_", ""), tool["execution"]["taskSupport"].clone()))
            .collect();
        support.sort_by(|a, b| a.0.cmp(&b.0));
        support
    };
    let direct = support(&server).await;
    let [(_, old), (_, new)] = of_each_revision(&server).await;
    assert_eq!(support(&gateway(&old).await.build().unwrap()).await, direct);
    let optional: Vec<_> = direct.into_iter().map(|(name, _)| (name, json!("optional"))).collect();
    assert_eq!(support(&gateway(&new).await.build().unwrap()).await, optional);
}

/// Over stdio, a question names its task.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_program_run_as_tasks() {
    let script = format!("sed -u s_server/discover_server/none_ | {}", env!("CARGO_BIN_EXE_fixture"));
    let upstream = Upstream::command("sh", ["-c", &script]);
    let gateway = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap();
    let gateway = gateway.task_poll_interval(Duration::from_millis(20)).build().unwrap();
    let both = Arc::new(std::sync::Barrier::new(2));
    let clients = ["ada", "bob"].map(|name| {
        let (gateway, both) = (gateway.clone(), Arc::clone(&both));
        tokio::spawn(async move {
            let answer = move |_: &ServerRequest| {
                both.wait();
                json!({"action": "accept", "content": {"sure": true}})
            };
            let mut client = gateway.test_client(Revision::V2025_11_25).answering(answer);
            let task = client.start_task("up_asks_in_task", ()).await.unwrap();
            let result = task.result(&mut client).await.unwrap();
            assert!(!result.is_error(), "{name}: {result:?}");
        })
    });
    for client in clients {
        client.await.unwrap();
    }
}

/// Returns the state of a task of 2025-11-25 or of the extension.
fn state(is_stateless: bool, status: &str, more: Value) -> Value {
    let (ttl, interval) = if is_stateless { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
    let mut state = json!({
        "taskId": "t\u{202e}/../1", "status": status, "createdAt": "2025-11-25T10:30:00Z",
        "lastUpdatedAt": "2025-11-25T10:30:00Z", ttl: null, interval: 0,
    });
    if is_stateless {
        state["resultType"] = "complete".into();
    }
    state.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    state
}

/// Starts an upstream whose tool becomes a task. `create` returns the reply to the call from its parameters and its result, and `poll`
/// the reply to a request about the task, for the number of such requests before.
async fn lying(
    is_stateless: bool,
    create: impl Fn(&Value, Value) -> Reply + Send + Sync + 'static,
    poll: impl Fn(usize, &str, &Value) -> Reply + Send + Sync + 'static,
) -> fake::Fake {
    let polls = AtomicUsize::new(0);
    fake::start(move |method, params| match method {
        "server/discover" if is_stateless => {
            discovered(json!({"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}))
        }
        "initialize" => Reply::Result(json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}},
            "serverInfo": {"name": "fake", "version": "1"},
        })),
        "subscriptions/listen" => Reply::Error(json!({"code": -32601, "message": "none"})),
        "tools/list" => {
            let mut tool = listed("a");
            tool["execution"] = json!({"taskSupport": "required"});
            Reply::Result(json!({"resultType": "complete", "tools": [tool], "ttlMs": 0, "cacheScope": "private"}))
        }
        "tools/call" if is_stateless => {
            let required = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
            let declared = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
            if *declared != required["extensions"] {
                let data = json!({"requiredCapabilities": required});
                return Reply::Error(json!({"code": -32021, "message": "missing", "data": data}));
            }
            create(params, state(true, "working", json!({"resultType": "task"})))
        }
        "tools/call" => {
            assert!(params["task"].is_object(), "{params}");
            create(params, json!({"task": state(false, "working", json!({}))}))
        }
        "tasks/cancel" => Reply::Result(state(is_stateless, "cancelled", json!({}))),
        _ if method.starts_with("tasks/") => poll(polls.fetch_add(1, Ordering::SeqCst), method, params),
        _ => Reply::Error(json!({"code": -32601, "message": method})),
    })
    .await
}

/// An upstream over HTTP makes a task of a call that was cancelled before.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_comes_too_late_over_http_is_cancelled() {
    for is_stateless in [false, true] {
        let signal = Arc::new(Semaphore::new(0));
        let late = Arc::clone(&signal);
        let create = move |_: &Value, result| Reply::Late(Arc::clone(&late), result);
        let fake = lying(is_stateless, create, |_, method, _| panic!("{method}")).await;
        let upstream = Upstream::http(url(&fake.address));
        let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap();
        let mut client = server.test_client(Revision::V2025_06_18);
        let call = client.send_request("tools/call", json!({"name": "up_a"}));
        eventually!(fake.count("tools/call") == 1 + usize::from(is_stateless));
        client.notify("notifications/cancelled", json!({"requestId": call}));
        signal.add_permits(1);
        eventually!(fake.count("tasks/cancel") == 1);
        assert_eq!(fake.count("tasks/get"), 0);
    }
}

/// A program makes a task of a call that was cancelled before.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_comes_too_late_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let (called, cancelled) = (folder.path().join("called"), folder.path().join("called.cancelled"));
    let cases = r#"
        *tools/list*) answer "$id" result '{"tools":[{"name":"a","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}' ;;
        *tools/call*)
            echo >"$FILE"; while [ ! -e "$FILE.go" ]; do sleep 0.01; done
            answer "$id" result '{"task":{"taskId":"1","status":"working","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","ttl":null}}' ;;
        *tasks/cancel*) echo >"$FILE.cancelled" ;;
    "#;
    let mut client = before_program(cases, &called).await.test_client(Revision::V2025_06_18);
    let call = client.send_request("tools/call", json!({"name": "up_a"}));
    eventually!(called.exists());
    client.notify("notifications/cancelled", json!({"requestId": call}));
    std::fs::write(folder.path().join("called.go"), "").unwrap();
    eventually!(cancelled.exists());
}

/// The message of a task is progress of its call when it changes, unless the upstream sends progress.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_task_are_progress() {
    for is_stateless in [false, true] {
        for sends_progress in [false, true] {
            let create = move |params: &Value, result| {
                let progress =
                    json!({"progressToken": params["_meta"]["progressToken"], "progress": 0.5, "message": "own"});
                let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress});
                Reply::Events(if sends_progress { vec![progress] } else { Vec::new() }, result)
            };
            let fake = lying(is_stateless, create, move |number, method, _| {
                let result = json!({"content": []});
                Reply::Result(match number {
                    _ if method == "tasks/result" => result,
                    0..3 => state(is_stateless, "working", json!({"statusMessage": "one"})),
                    // Without what hides text.
                    3..6 => state(is_stateless, "working", json!({"statusMessage": "t\u{202e}wo"})),
                    _ => state(is_stateless, "completed", json!({"statusMessage": "t\u{202e}wo", "result": result})),
                })
            })
            .await;
            let mut client = gateway(&fake.address).await.test_client(Revision::V2025_06_18);
            let (_, progress) = client.call_with_progress("up_a", ()).await.unwrap();
            let steps: Vec<_> = progress.iter().map(|step| (step.progress, step.message.as_deref())).collect();
            let expected: &[_] =
                if sends_progress { &[(0.5, Some("own"))] } else { &[(1., Some("one")), (2., Some("two"))] };
            assert_eq!(steps, expected, "stateless: {is_stateless}");
        }
    }
}

/// A question that was not answered in time has ended, and the next one is asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_ends_when_its_task_works_again() {
    let asks = |key: &str| {
        let schema = json!({"type": "object", "properties": {}});
        let params = json!({"mode": "form", "message": key, "requestedSchema": schema});
        let requests = json!({key: {"method": "elicitation/create", "params": params}});
        state(true, "input_required", json!({"inputRequests": requests}))
    };
    let poll = move |number: usize, _: &str, _: &Value| {
        Reply::Result(match number {
            0 => asks("first"),
            1 => state(true, "working", json!({})),
            _ => asks("second"),
        })
    };
    let fake = lying(true, |_, result| Reply::Result(result), poll).await;
    let mut client = gateway(&fake.address).await.test_client(Revision::V2025_06_18).answering(|_| Value::Null);
    client.send_request("tools/call", json!({"name": "up_a"}));
    let mut received = Vec::new();
    eventually!({
        received.append(&mut client.notifications());
        received.len() >= 3
    });
    let methods: Vec<_> = received.iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["elicitation/create", "notifications/cancelled", "elicitation/create"]);
    assert_eq!(received[1]["params"]["requestId"], received[0]["id"]);
    let messages = [&received[0], &received[2]].map(|message| message["params"]["message"].as_str().unwrap());
    assert_eq!(messages, ["up: first", "up: second"]);
}

/// Capabilities that an upstream requires, and how often it is called.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_repeated_once_if_it_must_be_a_task() {
    for (required, calls) in
        [(json!({"elicitation": {}}), 1), (json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}), 2)]
    {
        let data = json!({"requiredCapabilities": required});
        let fake = fake::start_stateless(move |method, _| match method {
            "tools/call" => Reply::Error(json!({"code": -32021, "message": "missing", "data": data})),
            _ => Reply::Result(
                json!({"resultType": "complete", "tools": [listed("a")], "ttlMs": 0, "cacheScope": "private"}),
            ),
        })
        .await;
        let server = gateway(&fake.address).await.timeout(Duration::from_secs(2));
        let result = server.test_client(Revision::V2025_11_25).call("up_a", ()).await;
        assert_eq!(fake.count("tools/call"), calls, "{required}: {result:?}");
    }
}

/// An upstream may respond to a request for its tools with a stream.
#[tokio::test(flavor = "multi_thread")]
async fn the_task_support_in_a_stream_is_listed() {
    for is_stream in [false, true] {
        let fake = fake::start(move |method, _| {
            let mut tool = listed("a");
            tool["execution"] = json!({"taskSupport": "required"});
            match method {
                "tools/list" if is_stream => Reply::Events(Vec::new(), json!({"tools": [tool]})),
                _ => lists(method, json!([tool])),
            }
        })
        .await;
        let tools = gateway(&fake.address).await.test_client(Revision::V2025_11_25).tools().await.unwrap();
        assert_eq!(tools[0]["execution"]["taskSupport"], "required", "stream: {is_stream}");
    }
}

type Poll = Box<dyn Fn(usize, &str, &Value) -> Reply + Send + Sync>;

/// The states of a task that an upstream claims, and a part of the result or the error that the client gets.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_lying_upstream_fail_their_call() {
    let form = json!({"method": "elicitation/create", "params": {"mode": "form", "message": "m", "requestedSchema": {"type": "object", "properties": {}}}});
    let done = json!({"content": [{"type": "text", "text": "done"}]});
    for is_stateless in [false, true] {
        let state = move |status: &str, more: Value| Reply::Result(state(is_stateless, status, more));
        let finish = {
            let done = done.clone();
            move |method: &str| match method {
                "tasks/result" => Reply::Result(done.clone()),
                _ => state("completed", if is_stateless { json!({"result": done}) } else { json!({}) }),
            }
        };
        let mut cases: Vec<(&str, Poll, &str, usize)> = vec![
            (
                "unknown",
                Box::new(|_, _, _| Reply::Error(json!({"code": -32602, "message": "task not found"}))),
                "not found",
                1,
            ),
            ("nonsense", Box::new(|_, _, _| Reply::Result(json!(7))), "response is invalid", 1),
            (
                "a status that does not exist",
                Box::new(move |_, _, _| state("pondering", json!({}))),
                "response is invalid",
                1,
            ),
            (
                "one failure of HTTP",
                {
                    let finish = finish.clone();
                    Box::new(
                        move |number, method, _| {
                            if number == 0 { Reply::Head("502 Bad Gateway\r\n".to_owned()) } else { finish(method) }
                        },
                    )
                },
                "done",
                2,
            ),
            (
                "failures of HTTP",
                Box::new(|_, _, _| Reply::Head("502 Bad Gateway\r\n".to_owned())),
                "the request failed",
                5,
            ),
            ("another session", Box::new(|_, _, _| Reply::Head("404 Not Found\r\n".to_owned())), "unavailable", 1),
            (
                "rejected credentials",
                // After the pause between two attempts to connect.
                Box::new(move |number, _, _| match number {
                    0..15 => state("working", json!({})),
                    _ => Reply::Head("401 Unauthorized\r\nwww-authenticate: Bearer\r\n".to_owned()),
                }),
                "unavailable",
                20,
            ),
            // At intervals of 50 ms.
            ("the end of its time", Box::new(move |_, _, _| state("working", json!({}))), "did not finish within", 10),
        ];
        if is_stateless {
            let of_call = finish.clone();
            cases.push((
                "failures with successes in between",
                Box::new(move |number, method, _| match number {
                    10.. => of_call(method),
                    _ if number % 2 == 0 => Reply::Head("502 Bad Gateway\r\n".to_owned()),
                    _ => state("working", json!({})),
                }),
                "done",
                11,
            ));
            let form = form.clone();
            let asking = move |keys: Vec<String>| {
                let requests: serde_json::Map<_, _> = keys.into_iter().map(|key| (key, form.clone())).collect();
                state("input_required", json!({ "inputRequests": requests }))
            };
            let ask = asking.clone();
            cases.push((
                "a question for ever",
                Box::new(move |number, method, _| match method {
                    "tasks/update" => Reply::Result(json!({"resultType": "complete"})),
                    _ => ask(vec![number.to_string()]),
                }),
                "asks too many questions",
                2,
            ));
            let ask = asking.clone();
            cases.push((
                "seventeen questions",
                Box::new(move |_, _, _| ask((0..17).map(|key| key.to_string()).collect())),
                "asks too many questions",
                1,
            ));
            let ask = asking.clone();
            cases.push((
                "a long key",
                Box::new(move |_, _, _| ask(vec!["x".repeat(257)])),
                "asks too many questions",
                1,
            ));
            // The second time, the answer has not been processed yet.
            let (ask, finish) = (asking, finish.clone());
            let answers = Mutex::new(0);
            cases.push((
                "one question twice",
                Box::new(move |number, method, params| match method {
                    "tasks/update" => {
                        *answers.lock().unwrap() += 1;
                        assert_eq!(
                            (&params["inputResponses"]["k"]["action"], *answers.lock().unwrap()),
                            (&json!("accept"), 1)
                        );
                        Reply::Result(json!({"resultType": "complete"}))
                    }
                    _ if number < 4 => ask(vec!["k".to_owned()]),
                    _ => finish(method),
                }),
                "done",
                4,
            ));
            cases.push(("no result", Box::new(move |_, _, _| state("completed", json!({}))), "response is invalid", 1));
            cases.push((
                "a cancellation",
                Box::new(move |_, _, _| state("cancelled", json!({}))),
                "cancelled the task",
                1,
            ));
            cases.push((
                "a failure",
                Box::new(move |_, _, _| state("failed", json!({"error": {"code": -31050, "message": "refused"}}))),
                "refused",
                1,
            ));
        } else {
            cases.push((
                "a result that is none",
                Box::new(move |_, method, _| match method {
                    "tasks/result" => Reply::Result(json!({"messages": []})),
                    _ => state("completed", json!({})),
                }),
                "response is invalid",
                2,
            ));
            let lost = || Reply::Head("502 Bad Gateway\r\n".to_owned());
            let of_call = finish.clone();
            cases.push((
                "one lost result",
                Box::new(move |number, method, _| if number == 1 { lost() } else { of_call(method) }),
                "done",
                4,
            ));
            cases.push((
                "lost results",
                Box::new(
                    move |_, method, _| if method == "tasks/result" { lost() } else { state("completed", json!({})) },
                ),
                "the request failed",
                10,
            ));
            let of_call = finish.clone();
            cases.push((
                "results that are lost while the user thinks",
                Box::new(move |number, method, _| match (number, method) {
                    (10.., _) => of_call(method),
                    (_, "tasks/result") => lost(),
                    _ => state("input_required", json!({})),
                }),
                "done",
                12,
            ));
            let of_call = finish.clone();
            cases.push((
                "a result while the user thinks",
                Box::new(move |_, method, _| match method {
                    "tasks/result" => of_call(method),
                    _ => state("input_required", json!({})),
                }),
                "done",
                2,
            ));
            let finish = finish.clone();
            cases.push((
                "a result that does not wait",
                Box::new(move |number, method, _| match (number, method) {
                    (0, _) => state("input_required", json!({})),
                    (1, _) => Reply::Error(json!({"code": -32602, "message": "not completed"})),
                    _ => finish(method),
                }),
                "done",
                4,
            ));
        }
        let mut ended = Vec::new();
        for (case, poll, expected, polls) in cases {
            let limit = Duration::from_secs(if case.starts_with("the end of its time") { 3 } else { 60 });
            let case = format!("{case}, stateless: {is_stateless}");
            let fake = lying(is_stateless, |_, result| Reply::Result(result), poll).await;
            let upstream = Upstream::http(url(&fake.address))
                .headers_for(|_| async { Ok::<_, std::convert::Infallible>(http::HeaderMap::new()) });
            let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().timeout(limit);
            let mut client =
                server.test_client(Revision::V2025_06_18).answering(|_| json!({"action": "accept", "content": {}}));
            let text = format!("{:?}", client.call("up_a", ()).await);
            assert!(text.contains(expected), "{case}: {text}");
            let asked =
                ["get", "update", "result"].map(|method| fake.count(&format!("tasks/{method}"))).iter().sum::<usize>();
            assert!(asked >= polls && asked < 100, "{case}: {asked} requests");
            for (limited, method, times) in [("failures of HTTP", "get", 5), ("a question for ever", "update", 16)] {
                let is_expected = fake.count(&format!("tasks/{method}")) == times;
                assert!(is_expected || !case.starts_with(limited), "{case}: {asked} requests");
            }
            assert_eq!(fake.count("tools/call"), 1 + usize::from(is_stateless), "{case}: the call is not repeated");
            ended.extend((expected == "done").then_some((case, fake)));
        }
        for (case, fake) in ended {
            assert_eq!(fake.count("tasks/cancel"), 0, "{case}: the task has ended");
        }
    }
}
