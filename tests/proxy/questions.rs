//! Questions of upstreams, and who answers them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use mcp_proxy::Upstream;
use mcp_runtime::{
    BuiltServer, Context, Fault, Revision, Server,
    ask::{
        Answer, IncludeContext, SampleContent, SampleRequest, SampleToolResult, SampleToolUse, ToolChoice,
        UrlElicitation,
    },
    auth::Identity,
    model::{Image, Role},
    testing::ServerRequest,
    tool,
};
use serde_json::{Map, Value, json};
use tokio::sync::{Barrier, watch};

use crate::{
    behaviour::Name,
    eventually,
    fake::{self, Reply, lists, tool as listed},
    gateway, legacy, of_each_revision, serve,
};

/// Ask for a name, once two callers wait.
#[tool]
async fn meet(ctx: &Context, both: &Barrier) -> Result<String, Fault> {
    both.wait().await;
    Ok(match ctx.elicit::<Name>("name", "Your name?").await? {
        Answer::Accept(Name { name }) => name,
        _ => "declined".to_owned(),
    })
}

struct Orders(AtomicUsize);

/// Take a number, and ask for two names.
#[tool]
async fn order(ctx: &Context, orders: &Orders) -> Result<String, Fault> {
    let number = ctx.once("number", async { orders.0.fetch_add(1, Ordering::SeqCst) + 1 }).await?;
    let mut names = Vec::new();
    for key in ["first", "second"] {
        match ctx.elicit::<Name>(key, format!("{key} name of {number}?")).await? {
            Answer::Accept(Name { name }) => names.push(name),
            _ => return Ok("declined".to_owned()),
        }
    }
    Ok(format!("{} {number}", names.join(" and ")))
}

/// Both sides repeat the call with each answer, and the upstream keeps what it has done.
#[tokio::test(flavor = "multi_thread")]
async fn a_stateless_upstream_does_not_begin_again_after_a_question() {
    let orders = Arc::new(Orders(AtomicUsize::new(0)));
    let server = Server::empty("upstream", "1.0.0").with::<order>().with_shared(Arc::clone(&orders)).build().unwrap();
    let stateless = of_each_revision(&server).await.into_iter().filter(|it| it.0 == Revision::V2026_07_28);
    for (_, address) in stateless {
        let gateway = gateway(&address).await.build().unwrap();
        for revision in mcp_tests::revisions(|expected| expected.elicitation) {
            let before = orders.0.load(Ordering::SeqCst);
            let answer = |request: &ServerRequest| {
                let name = request.message().split(' ').nth(1).unwrap_or_default().to_owned();
                json!({"action": "accept", "content": {"name": name}})
            };
            let mut client = gateway.test_client(revision).answering(answer);
            let expected = format!("first and second {}", before + 1);
            assert_eq!(client.call("up_order", ()).await.unwrap().text(), expected, "{revision}");
            assert_eq!(orders.0.load(Ordering::SeqCst), before + 1, "{revision}");
        }
    }
}

/// Over HTTP, a question arrives on the stream of its call.
#[tokio::test(flavor = "multi_thread")]
async fn each_caller_answers_the_questions_of_its_own_call() {
    let server = Server::empty("upstream", "1.0.0").with::<meet>().with_state(Barrier::new(2)).build().unwrap();
    for (spoken, address) in of_each_revision(&server).await.into_iter().filter(|it| it.0 >= Revision::V2025_06_18) {
        let gateway = gateway(&address).await.build().unwrap();
        let callers = ["ada", "bob"].map(|name| {
            let gateway = gateway.clone();
            tokio::spawn(async move {
                let answer = move |_: &ServerRequest| json!({"action": "accept", "content": {"name": name}});
                let mut client = gateway.test_client(Revision::V2025_11_25).answering(answer);
                assert_eq!(client.call("up_meet", ()).await.unwrap().text(), name, "{spoken}");
            })
        });
        for caller in callers {
            caller.await.unwrap();
        }
    }
}

/// Over stdio, nothing says to which call a question belongs.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn questions_without_a_call_are_refused_while_several_callers_wait() {
    // Anonymous clients over HTTP are different callers.
    for is_anonymous in [false, true] {
        // Without the stateless revision, whose questions are results of calls.
        let script = format!("sed -u s_server/discover_server/none_ | {}", env!("CARGO_BIN_EXE_fixture"));
        let upstream = Upstream::command("sh", ["-c", &script]);
        let gateway = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
        let (asked, is_asked) = mpsc::channel();
        let (released, is_released) = mpsc::channel();
        let client = |name| {
            let client = gateway.test_client(Revision::V2025_11_25);
            if is_anonymous { client.with_header("x-a", name) } else { client.with_extension(Identity::new(name)) }
        };
        let mut first = client("ada").answering(move |_| {
            asked.send(()).unwrap();
            is_released.recv_timeout(Duration::from_secs(20)).unwrap();
            json!({"action": "accept", "content": {"sure": true}})
        });
        let first = tokio::spawn(async move { first.call("up_logs_asking", ()).await.unwrap() });
        tokio::task::spawn_blocking(move || is_asked.recv_timeout(Duration::from_secs(20)).unwrap()).await.unwrap();
        let mut second = client("bob").answering(|request| panic!("not its question: {request:?}"));
        let refused = format!("{:?}", second.call("up_logs_asking", ()).await);
        assert!(refused.contains("the request belongs to no single call"), "{refused}");
        released.send(()).unwrap();
        assert!(!first.await.unwrap().is_error());
    }
}

/// A question about a task for which no call waits may belong to a caller who has cancelled, even if another call waits.
#[tokio::test(flavor = "multi_thread")]
async fn questions_about_an_unknown_task_are_refused() {
    let task = r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"gone"}},"#;
    let adds_task = format!(r#"sed -u 's|"method":"elicitation/create","params":{{|&{task}|'"#);
    let script = format!("sed -u s_server/discover_server/none_ | {} | {adds_task}", env!("CARGO_BIN_EXE_fixture"));
    let upstream = Upstream::command("sh", ["-c", &script]);
    let gateway = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
    let mut client =
        gateway.test_client(Revision::V2025_11_25).answering(|request| panic!("not its question: {request:?}"));
    let refused = format!("{:?}", client.call("up_logs_asking", ()).await);
    assert!(refused.contains("the request belongs to no single call"), "{refused}");
}

/// Ask ten questions at once, and return how many were answered.
#[tool]
async fn survey(ctx: &Context, refused: &AtomicUsize) -> usize {
    let mut questions = tokio::task::JoinSet::new();
    for number in 0..10 {
        let ctx = ctx.clone();
        questions.spawn(async move { ctx.elicit::<Name>(number.to_string(), "Your name?").await });
    }
    let mut answered = 0;
    while let Some(answer) = questions.join_next().await {
        let is_answered = answer.is_ok_and(|answer| answer.is_ok());
        answered += usize::from(is_answered);
        refused.fetch_add(usize::from(!is_answered), Ordering::SeqCst);
    }
    answered
}

/// Four wait, and one is asked, unless all have arrived before it is.
#[tokio::test(flavor = "multi_thread")]
async fn questions_that_wait_are_limited() {
    let refused = Arc::<AtomicUsize>::default();
    let server = Server::empty("upstream", "1.0.0").with::<survey>().with_shared(Arc::clone(&refused)).build().unwrap();
    let address = legacy(serve(&server).await, Revision::V2025_11_25).await;
    let gateway = gateway(&address).await.build().unwrap();
    let mut client = gateway.test_client(Revision::V2025_11_25).answering(move |_| {
        while refused.load(Ordering::SeqCst) < 5 {
            std::thread::sleep(Duration::from_millis(10));
        }
        json!({"action": "accept", "content": {"name": "ada"}})
    });
    let result = client.call("up_survey", ()).await.unwrap();
    assert!(["4", "5"].contains(&&*result.text()), "{result:?}");
}

/// Require a page.
#[tool]
async fn connect(ctx: &Context, visited: &AtomicUsize) -> Result<&'static str, Fault> {
    if visited.load(Ordering::SeqCst) > 0 {
        return Ok("connected");
    }
    Err(ctx.url_elicitation_required([UrlElicitation::new("a", "https://example.com/connect", "Connect.")]).await)
}

/// The error is passed on to clients of the revision that has it. Stateless clients are asked, and earlier ones lack the capability.
#[tokio::test(flavor = "multi_thread")]
async fn pages_that_an_upstream_requires_reach_the_client() {
    let visited = Arc::<AtomicUsize>::default();
    let server =
        Server::empty("upstream", "1.0.0").with::<connect>().with_shared(Arc::clone(&visited)).build().unwrap();
    let address = legacy(serve(&server).await, Revision::V2025_11_25).await;
    let gateway = gateway(&address).await.build().unwrap();
    for revision in Revision::ALL {
        visited.store(0, Ordering::SeqCst);
        let visit = Arc::clone(&visited);
        let mut client = gateway.test_client(revision).answering(move |request| {
            let ServerRequest { params, .. } = request;
            assert_eq!(params["url"], "https://example.com/connect", "{request:?}");
            assert_eq!(params["message"], "up: Connect.");
            visit.fetch_add(1, Ordering::SeqCst);
            json!({"action": "accept"})
        });
        let result = client.call("up_connect", ()).await;
        match revision {
            revision if revision.is_stateless() => assert_eq!(result.unwrap().text(), "connected"),
            Revision::V2025_11_25 => {
                let error = result.unwrap_err();
                let page = &error.data.as_ref().unwrap()["elicitations"][0];
                assert_eq!((error.code, &page["mode"]), (-32042, &json!("url")), "{error:?}");
                let expected = (&json!("https://example.com/connect"), &json!("up: Connect."));
                assert_eq!((&page["url"], &page["message"]), expected);
                assert!(page["elicitationId"].is_string(), "{page}");
            }
            _ => assert!(format!("{result:?}").contains("elicitation.url"), "{revision}: {result:?}"),
        }
    }
    // The user has seen the page, and has not done what it asks for.
    let mut client = gateway.test_client(Revision::V2026_07_28).answering(|_| json!({"action": "accept"}));
    visited.store(0, Ordering::SeqCst);
    let result = client.call("up_connect", ()).await;
    assert!(format!("{result:?}").contains("is not complete"), "{result:?}");
}

/// Over stdio, the gateway has one caller, and otherwise each principal has a program.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn questions_without_a_call_reach_the_only_caller_of_a_connection() {
    let script = format!("sed -u s_server/discover_server/none_ | {}", env!("CARGO_BIN_EXE_fixture"));
    let yes = |_: &ServerRequest| json!({"action": "accept", "content": {"sure": true}});
    let start = async |upstream: Upstream| upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap();
    let upstream = Upstream::command("sh", ["-c", &script]);
    let mut client = start(upstream).await.test_client(Revision::V2025_11_25).answering(yes);
    let calls = [0, 1].map(|_| client.send_request("tools/call", json!({"name": "up_logs_asking"})));
    for call in calls {
        let result = client.response(call).await.unwrap();
        assert!(result["isError"] != true, "{result}");
    }

    let gateway = start(Upstream::command("sh", ["-c", &script]).per_caller()).await.build().unwrap();
    // Each client answers once the other one is asked, too.
    let (asked, _) = watch::channel(0);
    let clients = ["ada", "bob"].map(|name| {
        let asked = asked.clone();
        let client = gateway.test_client(Revision::V2025_11_25).with_extension(Identity::new(name));
        let mut client = client.answering(move |request| {
            asked.send_modify(|asked| *asked += 1);
            tokio::task::block_in_place(|| {
                let start = std::time::Instant::now();
                while *asked.borrow() < 2 && start.elapsed() < Duration::from_secs(20) {
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
            yes(request)
        });
        tokio::spawn(async move { client.call("up_logs_asking", ()).await.unwrap() })
    });
    for client in clients {
        let result = client.await.unwrap();
        assert!(!result.is_error(), "{}", result.text());
    }
    assert_eq!(*asked.borrow(), 2);
}

/// Starts a gateway before a program of 2025-06-18 with the tools `first` and `last`, which handles calls by these cases of a
/// shell, before its own ones, and creates the file `FILE` when the first tool is called.
#[cfg(unix)]
pub(crate) async fn before_program(cases: &str, file: &std::path::Path) -> BuiltServer {
    const PROGRAM: &str = r#"
        answer() { printf '{"jsonrpc":"2.0","id":%s,"%s":%s}\n' "$1" "$2" "$3"; }
        text() { answer "$1" result '{"content":[{"type":"text","text":"'"$2"'"}]}'; }
        question() { echo '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{"sure":{"type":"boolean"}}}}}'; }
        while read -r line; do
            id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
            case $line in
                CASES
                *server/discover*) answer "$id" error '{"code":-32601,"message":"none"}' ;;
                *'"initialize"'*) answer "$id" result '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
                *tools/list*) answer "$id" result '{"tools":[{"name":"first","inputSchema":{"type":"object"}},{"name":"last","inputSchema":{"type":"object"}}]}' ;;
            esac
        done
    "#;
    let upstream = Upstream::command("sh", ["-c", &PROGRAM.replace("CASES", cases)]).env("FILE", file);
    upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap()
}

/// Returns an answer after a while.
fn late_answer(_: &ServerRequest) -> Value {
    tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(300)));
    json!({"action": "accept", "content": {"sure": true}})
}

/// A program does not say to which call its question belongs. It goes to the last call, which ends before the client answers, and
/// then to the other one.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_question_survives_the_end_of_another_call() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("first");
    let cases = r#"
        *'"first"'*) first=$id; echo >"$FILE" ;;
        *'"last"'*) question; while [ ! -e "$FILE.asked" ]; do sleep 0.01; done; text "$id" last ;;
        *'"accept"'*) text "$first" answered ;;
        *'"q"'*) text "$first" failed ;;
    "#;
    let server = before_program(cases, &file).await;
    let asked = folder.path().join("first.asked");
    let mut client = server.test_client(Revision::V2025_11_25).answering(move |request| {
        std::fs::write(&asked, "").unwrap();
        late_answer(request)
    });
    let first = client.send_request("tools/call", json!({"name": "up_first"}));
    eventually!(file.exists());
    assert_eq!(client.call("up_last", ()).await.unwrap().text(), "last");
    assert_eq!(client.response(first).await.unwrap()["content"][0]["text"], "answered");
}

/// The call of the only caller ends without an answer to its question. Meanwhile, another caller waits.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_question_reaches_no_caller_who_came_later() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("first");
    let cases = r#"
        *'"first"'*) first=$id; question; echo >"$FILE" ;;
        *'"last"'*) last=$id; text "$first" ended ;;
        *'"accept"'*) text "$last" answered ;;
        *'"q"'*) text "$last" refused ;;
    "#;
    let server = before_program(cases, &file).await;
    let client = |name| server.test_client(Revision::V2025_11_25).with_extension(Identity::new(name));
    let mut ada = client("ada").answering(late_answer);
    let mut bob = client("bob").answering(|_| json!({"action": "accept", "content": {"sure": true}}));
    let first = tokio::spawn(async move { ada.call("up_first", ()).await.unwrap().text() });
    eventually!(file.exists());
    assert_eq!(bob.call("up_last", ()).await.unwrap().text(), "refused");
    assert_eq!(first.await.unwrap(), "ended");
}

/// A program may ask about a call after it was cancelled, as long as it has not responded to it.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_cancelled_call_reaches_no_other_caller() {
    for (ends, expected) in [("", "refused"), (r#"text "$first" ended;"#, "answered")] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("first");
        let cases = r#"
            *'"first"'*) first=$id; echo >"$FILE" ;;
            *'notifications/cancelled'*) ENDS echo >"$FILE.cancelled" ;;
            *'"last"'*) last=$id; question ;;
            *'"accept"'*) text "$last" answered ;;
            *'"q"'*) text "$last" refused ;;
        "#;
        let server = before_program(&cases.replace("ENDS", ends), &file).await;
        let accept = |_: &ServerRequest| json!({"action": "accept", "content": {"sure": true}});
        let client = |name| server.test_client(Revision::V2025_11_25).with_extension(Identity::new(name));
        let (mut ada, mut bob) = (client("ada").answering(accept), client("bob"));
        let first = bob.send_request("tools/call", json!({"name": "up_first"}));
        eventually!(file.exists());
        bob.notify("notifications/cancelled", json!({"requestId": first}));
        eventually!(folder.path().join("first.cancelled").exists());
        assert_eq!(ada.call("up_last", ()).await.unwrap().text(), expected);
    }
}

/// The question may belong to the cancelled call, so it is not passed on to another call of the same caller.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_question_ends_with_the_call_that_was_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("first");
    let cases = r#"
        *'"first"'*) first=$id; echo >"$FILE" ;;
        *'"last"'*) question ;;
        *'"accept"'*) text "$first" answered ;;
        *'"q"'*) text "$first" refused ;;
    "#;
    let server = before_program(cases, &file).await;
    let accept = |_: &ServerRequest| json!({"action": "accept", "content": {"sure": true}});
    let mut client = server.test_client(Revision::V2025_11_25).answering(accept);
    let first = client.send_request("tools/call", json!({"name": "up_first"}));
    eventually!(file.exists());
    let last = client.send_request("tools/call", json!({"name": "up_last"}));
    let asked = async { while !client.next_lines().await.iter().any(|line| line["method"] == "elicitation/create") {} };
    tokio::time::timeout(Duration::from_secs(20), asked).await.expect("no question arrives");
    client.notify("notifications/cancelled", json!({"requestId": last}));
    assert_eq!(client.response(first).await.unwrap()["content"][0]["text"], "refused");
}

/// Some programs ask for roots when they start.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_asks_for_roots_without_a_call_gets_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roots");
    let cases = r#"
        *notifications/initialized*) echo '{"jsonrpc":"2.0","id":"r","method":"roots/list"}' ;;
        *'"r"'*) echo "$line" >"$FILE" ;;
    "#;
    let _server = before_program(cases, &file).await;
    eventually!(std::fs::read_to_string(&file).is_ok_and(|line| line.contains(r#""result":{"roots":[]}"#)));
}

/// Servers of older revisions know no lists.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn the_answer_of_a_model_is_a_list_only_if_it_has_several_parts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answer");
    let cases = r#"
        *tools/call*) first=$id; echo '{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}]}}' ;;
        *'"q"'*) echo "$line" >"$FILE"; text "$first" done ;;
    "#;
    let server = before_program(cases, &file).await;
    let text = json!({"type": "text", "text": "Hi"});
    for content in [text.clone(), json!([text, text])] {
        let answer = json!({"role": "assistant", "content": content, "model": "m"});
        let mut client = server.test_client(Revision::V2025_11_25).answering(move |_| answer.clone());
        client.call("up_first", ()).await.unwrap();
        let answer: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(answer["result"]["content"], content);
    }
}

/// A model must not answer a question of which it has seen only a part.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_question_to_a_model_with_content_that_cannot_be_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answer");
    let cases = r#"
        *tools/call*) first=$id; echo '{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image","data":"?","mimeType":"image/png"}]}]}}' ;;
        *'"q"'*) echo "$line" >"$FILE"; text "$first" done ;;
    "#;
    let server = before_program(cases, &file).await;
    let client = server.test_client(Revision::V2025_11_25);
    let mut client = client.answering(|request| panic!("the client was asked: {request:?}"));
    client.call("up_first", ()).await.unwrap();
    let answer: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("the upstream sent an invalid `sampling/createMessage`"), "{answer}");
}

/// A program that names a task in its question before it has named it in a response.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_question_about_a_task_reaches_its_caller() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("first");
    let cases = r#"
        *tools/list*) answer "$id" result '{"tools":[{"name":"first","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"last","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}' ;;
        *tasks/get*) answer "$id" result "{\"taskId\":\"1\",\"status\":\"${status:-working}\",$times}" ;;
        *tasks/result*) text "$id" "$status" ;;
        *'"first"'*)
            times='"createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","ttl":null,"pollInterval":50'
            answer "$id" result "{\"task\":{\"taskId\":\"first\",\"status\":\"working\",$times}}"; echo >"$FILE" ;;
        *'"last"'*)
            question | sed 's/"params":{/&"_meta":{"io.modelcontextprotocol\/related-task":{"taskId":"last"}},/'; sleep 0.1
            answer "$id" result "{\"task\":{\"taskId\":\"last\",\"status\":\"working\",$times}}" ;;
        *'"q"'*) echo "$line" >"$FILE.answer"; status=completed ;;
    "#;
    let server = before_program(cases, &file).await;
    let client = |name, action| {
        let client = server.test_client(Revision::V2025_06_18).with_extension(Identity::new(name));
        client.answering(move |_| json!({"action": action, "content": {"sure": true}}))
    };
    let (mut ada, mut bob) = (client("ada", "decline"), client("bob", "accept"));
    tokio::spawn(async move { ada.call("up_first", ()).await });
    eventually!(file.exists());
    assert_eq!(bob.call("up_last", ()).await.unwrap().text(), "completed");
    let answer = std::fs::read_to_string(folder.path().join("first.answer")).unwrap();
    assert!(answer.contains(r#""action":"accept""#), "{answer}");
}

/// Over HTTP, a question belongs to the call on whose stream it arrives, whatever task it names.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_on_the_stream_of_a_call_reaches_its_caller() {
    let fake = fake::start(|method, _| match method {
        "tools/call" => Reply::Open(vec![json!({
            "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {
                "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "gone"}},
                "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}},
            },
        })]),
        _ => lists(method, json!([listed("a")])),
    })
    .await;
    let asked = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&asked);
    let server = gateway(&fake.address).await.timeout(Duration::from_secs(3));
    let mut client = server.test_client(Revision::V2025_11_25).answering(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        json!({"action": "decline"})
    });
    client.call("up_a", ()).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

/// Ask for a name, and return what the user has done.
#[tool]
async fn decide(ctx: &Context) -> Result<String, Fault> {
    Ok(match ctx.elicit::<Name>("name", "Your name?").await? {
        Answer::Accept(Name { name }) => name,
        Answer::Decline => "declined".to_owned(),
        Answer::Cancel => "cancelled".to_owned(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_user_does_reaches_the_upstream() {
    let server = Server::empty("upstream", "1.0.0").with::<decide>().build().unwrap();
    for (spoken, address) in of_each_revision(&server).await.into_iter().filter(|it| it.0 >= Revision::V2025_06_18) {
        let gateway = gateway(&address).await.build().unwrap();
        for (answer, expected) in [
            (json!({"action": "accept", "content": {"name": "Ada"}}), "Ada"),
            (json!({"action": "decline"}), "declined"),
            (json!({"action": "cancel"}), "cancelled"),
        ] {
            let mut client = gateway.test_client(Revision::V2025_11_25).answering(move |_| answer.clone());
            assert_eq!(client.call("up_decide", ()).await.unwrap().text(), expected, "{spoken}");
        }
    }
}

/// Ask a model and for roots, and return the answers.
#[tool]
async fn sample(ctx: &Context) -> Result<String, Fault> {
    let mut look = SampleToolUse::new("1", "look", Map::new());
    look.meta.insert("example.com/cached".to_owned(), json!(true));
    let mut dark = SampleToolResult::error("1", "It is dark.").with_meta("example.com/cached", 1);
    dark.structured = Some(json!({"lux": 0}));
    let request = SampleRequest::new("Greet.")
        .with_message(Role::Assistant, SampleContent::text("Whom?"))
        .with_message(Role::User, SampleContent::Image(Image::png(*b"png")))
        .with_message(Role::Assistant, SampleContent::ToolUse(look))
        .with_tool_results([dark])
        .system_prompt("Be brief.")
        .max_tokens(7)
        .temperature(0.7)
        .with_stop_sequence("end")
        .with_model_hint("small")
        .cost(0.1)
        .speed(0.5)
        .intelligence(0.75)
        .with_metadata("a", 1)
        .include_context(IncludeContext::AllServers)
        .with_tool("look", "Look outside.", json!({"type": "object", "properties": {"place": {"type": "string"}}}))
        .tool_choice(ToolChoice::None);
    Ok(format!("{:?} {:?}", ctx.ask(request).await?, ctx.roots().await?))
}

/// The client of the gateway sees the request of the upstream, which sees the client's result.
#[tokio::test(flavor = "multi_thread")]
async fn requests_to_a_model_pass_with_all_options() {
    let server = Server::empty("upstream", "1.0.0").with::<sample>().build().unwrap();
    let address = legacy(serve(&server).await, Revision::V2025_11_25).await;
    let gateway = gateway(&address).await.build().unwrap();
    let text = json!({"type": "text", "text": "Hi"});
    let image = json!({"type": "image", "data": "cG5n", "mimeType": "image/png"});
    let tool_use = json!({"type": "tool_use", "id": "1", "name": "look", "input": {"place": "here"}, "_meta": {"example.com/a": 1}});
    for result in [
        json!({"role": "assistant", "content": text, "model": "m", "stopReason": "maxTokens"}),
        json!({"role": "user", "content": [text, image], "model": "m"}),
        json!({"role": "assistant", "content": tool_use, "model": "m", "stopReason": "toolUse"}),
    ] {
        let ask = async |server: &BuiltServer, name| {
            let asked = Arc::<Mutex<Value>>::default();
            let (seen, result) = (Arc::clone(&asked), result.clone());
            let mut client = server.test_client(Revision::V2025_11_25).answering(move |request| {
                if request.method == "roots/list" {
                    return json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]});
                }
                *seen.lock().unwrap() = request.params.clone();
                result.clone()
            });
            let answer = client.call(name, ()).await.unwrap();
            assert!(!answer.is_error(), "{}", answer.text());
            (answer.text(), asked.lock().unwrap().take())
        };
        let asked = ask(&gateway, "up_sample").await;
        assert_eq!(asked.1["messages"][4]["content"]["structuredContent"], json!({"lux": 0}));
        assert_eq!(asked, ask(&server, "sample").await, "{result}");
    }
}
