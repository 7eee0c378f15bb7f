//! Changes of lists and resources, also while an upstream restarts or does not respond.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_proxy::Upstream;
use mcp_runtime::{BuiltServer, Context, PromptMessage, Revision, Server, function::ToolEntry, prompt};
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, watch};

use crate::{
    behaviour::{greet, note, upstream, wait},
    connections::respond,
    eventually,
    fake::{self, Reply, lists, tool},
    gateway, legacy, of_each_revision, restarting, serve, url,
};

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_lists_and_resources_pass() {
    let (server, _) = upstream();
    let handle = server.handle();
    for (number, (_, address)) in of_each_revision(&server).await.into_iter().enumerate() {
        let gateway = gateway(&address).await;
        let mut client = gateway.test_client(Revision::V2025_11_25);
        client.tools().await.unwrap();
        let name = format!("new_{number}");
        let entry =
            ToolEntry::new(name.clone(), json!({"type": "object"}), async |_: Map<String, Value>, _: Context| "new");
        handle.add_entries([entry.description("New.")]).unwrap();
        let name = format!("up_{name}");
        eventually!(client.tools().await.unwrap().iter().any(|tool| tool.name() == name));
        assert_eq!(client.call(&name, ()).await.unwrap().text(), "new");
        let is_announced = |message: &Value| message["method"] == "notifications/tools/list_changed";
        eventually!(client.notifications().iter().any(is_announced));

        client.subscribe("up+notes://7").await.unwrap();
        eventually!({
            handle.resource_updated("notes://7");
            client.updated_resources().contains(&"up+notes://7".to_owned())
        });
    }
}

/// The connection over HTTP survives, or the session has expired, and subscriptions are gone.
#[tokio::test(flavor = "multi_thread")]
async fn changes_pass_after_an_upstream_has_restarted() {
    // A call finds out that a session has expired, or else a check does.
    let restarts = [(false, false), (true, false), (true, true)].map(|(is_legacy, calls)| async move {
        let case = format!("legacy: {is_legacy}, calls: {calls}");
        let start = async |server: &BuiltServer| {
            let address = serve(server).await;
            if is_legacy { legacy(address, Revision::V2025_11_25).await } else { address }
        };
        // Without a prompt, the old one has no such capability.
        let old = Server::empty("upstream", "1.0.0").with::<wait>().with::<note>().with_state(AtomicUsize::new(0));
        let old = old.build().unwrap();
        let (current, servers) = watch::channel(start(&old).await);
        let gateway = gateway(&restarting(servers).await).await.build().unwrap();
        let mut client = gateway.test_client(Revision::V2025_11_25);
        let handle = old.handle();
        for uri in ["up+notes://7", "up+notes://8"] {
            client.subscribe(uri).await.unwrap();
        }
        eventually!({
            handle.resource_updated("notes://7");
            client.updated_resources().contains(&"up+notes://7".to_owned())
        });

        let (new, _) = upstream();
        let handle = new.handle();
        let entry = ToolEntry::new("new", json!({"type": "object"}), async |_: Map<String, Value>, _: Context| "new");
        handle.add_entries([entry.description("New.")]).unwrap();
        current.send(start(&new).await).unwrap();
        if calls {
            // The call may take a connection that is just being closed.
            eventually!(client.read("up+notes://7").await.is_ok());
        }
        eventually!(client.tools().await.unwrap().iter().any(|tool| tool.name() == "up_new"));
        assert_eq!(client.call("up_new", ()).await.unwrap().text(), "new", "{case}");
        // New capabilities.
        let mut late = gateway.test_client(Revision::V2026_07_28);
        eventually!(late.prompts().await.is_ok_and(|prompts| prompts.iter().any(|prompt| prompt.name() == "up_greet")));
        for uri in ["up+notes://8", "up+notes://7"] {
            eventually!({
                handle.resource_updated(&uri[3..]);
                client.updated_resources().contains(&uri.to_owned())
            });
        }
    });
    for restarted in restarts.map(tokio::spawn) {
        restarted.await.unwrap();
    }
}

/// Greet.
#[prompt(name = "greet")]
fn greet_plainly(style: String, name: Option<String>) -> PromptMessage {
    PromptMessage::user(format!("{style} {name:?}"))
}

/// The lists are equal, and only the capability differs.
#[tokio::test(flavor = "multi_thread")]
async fn completions_pass_after_an_upstream_has_restarted_with_them() {
    let start = || Server::empty("upstream", "1.0.0").with::<wait>().with_state(AtomicUsize::new(0));
    let (old, new) = (start().with::<greet_plainly>().build().unwrap(), start().with::<greet>().build().unwrap());
    let (current, servers) = watch::channel(serve(&old).await);
    let mut client = gateway(&restarting(servers).await).await.test_client(Revision::V2025_11_25);
    let reference = json!({"type": "ref/prompt", "name": "up_greet"});
    let params = json!({"ref": reference, "argument": {"name": "style", "value": "s"}});
    client.request("completion/complete", params.clone()).await.unwrap_err();
    current.send(serve(&new).await).unwrap();
    eventually!(
        client
            .request("completion/complete", params.clone())
            .await
            .is_ok_and(|it| it["completion"]["values"] == json!(["s!"]))
    );
}

/// An upstream is unsubscribed from when no client is subscribed any more, so that other resources find room.
#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_is_subscribed_to_while_clients_are() {
    let events = Arc::<Mutex<Vec<String>>>::default();
    let (seen, refused) = (Arc::clone(&events), AtomicUsize::new(0));
    let fake = fake::start(move |method, params| match method {
        "resources/subscribe" if params["uri"] == "item://late" && refused.fetch_add(1, Ordering::Relaxed) < 2 => {
            Reply::Error(json!({"code": -32000, "message": "later"}))
        }
        "resources/subscribe" | "resources/unsubscribe" => {
            let method = method.trim_start_matches("resources/");
            seen.lock().unwrap().push(format!("{method} {}", params["uri"].as_str().unwrap()));
            Reply::Result(json!({}))
        }
        "resources/templates/list" => {
            Reply::Result(json!({"resourceTemplates": [{"name": "item", "uriTemplate": "item://{id}"}]}))
        }
        _ => respond(method),
    })
    .await;
    let server = gateway(&fake.address).await.build().unwrap();
    let mut first = server.test_client(Revision::V2025_11_25);
    let mut second = server.test_client(Revision::V2025_11_25);
    let take = || std::mem::take(&mut *events.lock().unwrap());
    first.subscribe("up+item://1").await.unwrap();
    second.subscribe("up+item://1").await.unwrap();
    eventually!(events.lock().unwrap().len() == 1);
    first.request("resources/unsubscribe", json!({"uri": "up+item://1"})).await.unwrap();
    first.subscribe("up+item://2").await.unwrap();
    eventually!(events.lock().unwrap().len() == 2);
    assert_eq!(take(), ["subscribe item://1", "subscribe item://2"], "another client wants the first one");
    drop(second);
    eventually!(take() == ["unsubscribe item://1"]);
    // More than an upstream may have at the same time, one after the other.
    for id in 0..300 {
        let uri = format!("up+item://{id}");
        first.subscribe(&uri).await.unwrap();
        first.request("resources/unsubscribe", json!({ "uri": uri })).await.unwrap();
    }
    first.subscribe("up+item://last").await.unwrap();
    eventually!(events.lock().unwrap().contains(&"subscribe item://last".to_owned()));
    // Without another change.
    first.subscribe("up+item://late").await.unwrap();
    eventually!(events.lock().unwrap().contains(&"subscribe item://late".to_owned()));
    // Updates may have been lost.
    eventually!(first.updated_resources() == ["up+item://late"]);
    // A subscription waits until there is room.
    let mut third = server.test_client(Revision::V2025_11_25);
    for id in 1000..1300 {
        third.subscribe(&format!("up+item://{id}")).await.unwrap();
    }
    eventually!(events.lock().unwrap().contains(&"subscribe item://1253".to_owned()));
    for id in 1000..1046 {
        let uri = format!("up+item://{id}");
        assert!(!events.lock().unwrap().contains(&"subscribe item://1299".to_owned()));
        third.request("resources/unsubscribe", json!({ "uri": uri })).await.unwrap();
    }
    eventually!(events.lock().unwrap().contains(&"subscribe item://1299".to_owned()));
    let (mut subscribed, mut most) = (0, 0);
    for event in &*events.lock().unwrap() {
        subscribed = if event.starts_with("subscribe") { subscribed + 1 } else { subscribed - 1 };
        most = most.max(subscribed);
    }
    assert!((250..=256).contains(&most), "{most} at the same time");
}

/// It does not know the method, and will not.
#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_without_subscriptions_is_asked_once() {
    let fake = fake::start_stateless(|method, _| lists(method, json!([tool("a")]))).await;
    let _server = gateway(&fake.address).await.build().unwrap();
    eventually!(fake.count("subscriptions/listen") == 1);
    // Longer than the first pause between attempts.
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert_eq!(fake.count("subscriptions/listen"), 1);
}

/// The first replies of a stateless upstream to attempts to subscribe to its lists, and to read its capabilities again, and how
/// many of these attempts there are. Later ones succeed, and the upstream has a prompt then.
#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_is_subscribed_to_when_it_responds() {
    type Replies = &'static [fn() -> Reply];
    const LATER: fn() -> Reply = || Reply::Error(json!({"code": -32000, "message": "later"}));
    const UNKNOWN: fn() -> Reply = || Reply::Error(json!({"code": -32601, "message": "unknown"}));
    const HANG: fn() -> Reply = || Reply::Hang;
    type Case = (&'static str, Replies, Replies, (usize, usize), bool);
    let cases: [Case; 4] = [
        ("a restart before the subscription", &[], &[], (1, 1), true),
        ("no acknowledgement", &[HANG], &[], (2, 1), true),
        ("no capabilities", &[LATER], &[LATER, HANG], (2, 3), true),
        ("no method for capabilities", &[LATER], &[UNKNOWN], (2, 1), false),
    ];
    for (case, listens, discoveries, (listening, discovering), has_prompt) in cases {
        let (listened, discovered) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let fake = fake::start(move |method, _| match method {
            "subscriptions/listen" => match listens.get(listened.fetch_add(1, Ordering::Relaxed)) {
                Some(reply) => reply(),
                None => Reply::Subscribed,
            },
            // The first one opens the connection.
            "server/discover" => match discovered.fetch_add(1, Ordering::Relaxed) {
                0 => fake::discovered(json!({"tools": {}})),
                number => match discoveries.get(number - 1) {
                    Some(reply) => reply(),
                    None => fake::discovered(json!({"tools": {}, "prompts": {}})),
                },
            },
            _ => Reply::Result(json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "tools": [tool("a")], "prompts": [{"name": "b"}],
            })),
        })
        .await;
        let upstream = Upstream::http(url(&fake.address)).timeout(Duration::from_secs(2));
        let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
        let mut client = server.test_client(Revision::V2026_07_28);
        eventually!(fake.count("server/discover") == 1 + discovering);
        if has_prompt {
            eventually!(client.prompts().await.is_ok_and(|prompts| prompts.len() == 1));
        }
        // More than the next pause.
        tokio::time::sleep(Duration::from_millis(1200)).await;
        let counts = (fake.count("subscriptions/listen"), fake.count("server/discover"));
        assert_eq!(counts, (listening, 1 + discovering), "{case}");
    }
}

/// Announcements may be lost while no stream is open: when a session begins, and between two streams.
#[tokio::test(flavor = "multi_thread")]
async fn changes_before_a_stream_opens_are_noticed() {
    let (opened, has_changed) = (Arc::new(Semaphore::new(0)), Arc::<AtomicBool>::default());
    let (signal, changed) = (Arc::clone(&opened), Arc::clone(&has_changed));
    let fake = fake::start(move |method, _| match method {
        "GET" => Reply::Stream(Arc::clone(&signal)),
        "resources/list" => Reply::Result(json!({"resources": [{"uri": "item://1", "name": "one"}]})),
        _ if changed.load(Ordering::SeqCst) => lists(method, json!([tool("a"), tool("b")])),
        _ => lists(method, json!([tool("a")])),
    })
    .await;
    let mut client = gateway(&fake.address).await.test_client(Revision::V2025_11_25);
    client.subscribe("up+item://1").await.unwrap();
    eventually!(fake.count("resources/subscribe") == 1);
    has_changed.store(true, Ordering::SeqCst);
    opened.add_permits(1);
    eventually!(client.tools().await.unwrap().iter().any(|tool| tool.name() == "up_b"));
    eventually!(client.updated_resources().contains(&"up+item://1".to_owned()));
}

/// The events of the stream that has ended are not lost.
#[tokio::test(flavor = "multi_thread")]
async fn lists_are_not_read_again_if_a_stream_is_resumed() {
    let opened = Arc::new(Semaphore::new(0));
    let signal = Arc::clone(&opened);
    let fake = fake::start(move |method, _| match method {
        "GET" => Reply::Resumable(Arc::clone(&signal)),
        _ => lists(method, json!([tool("a")])),
    })
    .await;
    let _client = gateway(&fake.address).await.test_client(Revision::V2025_11_25);
    opened.add_permits(1);
    let resumed = || fake.heads.lock().unwrap().iter().filter(|head| head.contains("last-event-id: 1")).count();
    // The list is read after the handshake and when the stream opens.
    eventually!(fake.count("tools/list") == 2);
    opened.add_permits(2);
    eventually!(resumed() == 3);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fake.count("tools/list"), 2);
}

/// The second stream opens too soon after the first one for another update, which follows.
#[tokio::test(flavor = "multi_thread")]
async fn updates_are_announced_after_a_stream_that_ends_soon() {
    let (opened, replies) = (Arc::new(Semaphore::new(0)), AtomicUsize::new(0));
    let signal = Arc::clone(&opened);
    let fake = fake::start(move |method, _| match method {
        // Without a reply of this kind to a GET request, there is no session.
        "GET" if replies.fetch_add(1, Ordering::Relaxed) < 2 => Reply::Ended(Arc::clone(&signal)),
        "GET" => Reply::Stream(Arc::clone(&signal)),
        "resources/list" => Reply::Result(json!({"resources": [{"uri": "item://1", "name": "one"}]})),
        _ => lists(method, json!([tool("a")])),
    })
    .await;
    let mut client = gateway(&fake.address).await.test_client(Revision::V2025_11_25);
    client.subscribe("up+item://1").await.unwrap();
    eventually!(fake.count("resources/subscribe") == 1);
    // Other events would cause updates, too.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let checks = fake.count("ping");
    for _ in 0..2 {
        opened.add_permits(1);
        eventually!(!client.updated_resources().is_empty());
    }
    assert_eq!(fake.count("ping"), checks, "before the next check of the session");
}

/// An announcement for any of the lists, on the stream of a call.
#[tokio::test(flavor = "multi_thread")]
async fn lists_are_read_again_when_one_of_them_changes() {
    for (list, hangs) in [("tools", false), ("resources", false), ("prompts", false), ("tools", true)] {
        let has_changed = Arc::<AtomicBool>::default();
        let changed = Arc::clone(&has_changed);
        let hanging = AtomicBool::new(hangs);
        let fake = fake::start(move |method, _| match method {
            "tools/call" => {
                changed.store(true, Ordering::SeqCst);
                let announced = json!({"jsonrpc": "2.0", "method": format!("notifications/{list}/list_changed")});
                Reply::Events(vec![announced], json!({"content": []}))
            }
            _ if !changed.load(Ordering::SeqCst) => lists(method, json!([tool("a")])),
            "tools/list" if hanging.swap(false, Ordering::SeqCst) => Reply::Hang,
            _ => lists(method, json!([tool("a"), tool("b")])),
        })
        .await;
        let upstream = Upstream::http(url(&fake.address)).timeout(Duration::from_secs(2));
        let server = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap();
        let mut client = server.test_client(Revision::V2025_11_25);
        client.call("up_a", ()).await.unwrap();
        eventually!(client.tools().await.unwrap().iter().any(|tool| tool.name() == "up_b"));
        assert_eq!(fake.count("tools/list"), if hangs { 3 } else { 2 }, "{list}");
    }
}

/// The second reading finds the same entries as the first one, without an error. The third one fails.
#[tokio::test(flavor = "multi_thread")]
async fn lists_that_have_become_complete_are_not_replaced_by_incomplete_ones() {
    let calls = Arc::<AtomicUsize>::default();
    let called = Arc::clone(&calls);
    let failed = || Reply::Error(json!({"code": -32000, "message": "later"}));
    let fake = fake::start(move |method, _| match (method, called.load(Ordering::SeqCst)) {
        ("tools/call", _) => {
            called.fetch_add(1, Ordering::SeqCst);
            let announced = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            Reply::Events(vec![announced], json!({"content": []}))
        }
        ("prompts/list", 0) | ("tools/list", 2) => failed(),
        _ => lists(method, json!([tool("a")])),
    })
    .await;
    let mut client = gateway(&fake.address).await.test_client(Revision::V2025_11_25);
    // Prompts are the last list.
    for readings in [2, 3] {
        client.call("up_a", ()).await.unwrap();
        eventually!(fake.count("prompts/list") >= readings);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(client.tools().await.unwrap().iter().any(|tool| tool.name() == "up_a"));
}

/// Every ten seconds, a session over HTTP is checked. A stateless upstream has none.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_upstream_knows_remains() {
    let stateless = fake::start_stateless(|_, _| {
        Reply::Result(json!({"resultType": "complete", "tools": [tool("a")], "ttlMs": 0, "cacheScope": "private"}))
    })
    .await;
    let _stateless_gateway = gateway(&stateless.address).await.build().unwrap();
    let fake = fake::start(|method, _| match method {
        "resources/list" => Reply::Result(json!({"resources": [{"uri": "item://1", "name": "one"}]})),
        _ => respond(method),
    })
    .await;
    let mut client = gateway(&fake.address).await.test_client(Revision::V2025_11_25);
    eventually!(fake.count("ping") == 1);
    tokio::time::sleep(Duration::from_millis(1000)).await;
    // Other events do not cause a check.
    client.subscribe("up+item://1").await.unwrap();
    eventually!(fake.count("resources/subscribe") == 1);
    assert_eq!((fake.count("ping"), fake.count("initialize")), (1, 1));
    assert_eq!(stateless.count("ping"), 0);
}

/// Only the upstream removes tools, and not its failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_without_its_last_page_removes_nothing() {
    let (opened, is_failing) = (Arc::new(Semaphore::new(0)), Arc::<AtomicBool>::default());
    let (signal, failing) = (Arc::clone(&opened), Arc::clone(&is_failing));
    let fake = fake::start(move |method, params| match method {
        "GET" => Reply::Stream(Arc::clone(&signal)),
        "tools/list" if params["cursor"].is_null() => Reply::Result(json!({"tools": [tool("a")], "nextCursor": "2"})),
        "tools/list" if failing.load(Ordering::SeqCst) => Reply::Error(json!({"code": -32000, "message": "later"})),
        _ => lists(method, json!([tool("b")])),
    })
    .await;
    let mut client = gateway(&fake.address).await.test_client(Revision::V2025_11_25);
    is_failing.store(true, Ordering::SeqCst);
    opened.add_permits(1);
    eventually!(fake.count("tools/list") >= 4);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let tools = client.tools().await.unwrap();
    for name in ["up_a", "up_b"] {
        assert!(tools.iter().any(|tool| tool.name() == name), "{name}");
    }
}
