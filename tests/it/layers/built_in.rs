//! The built-in layers.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_runtime::{
    BuildError, Context, Fault, Handle, Revision, Server,
    auth::{Identity, Principal},
    layers::{CacheReadOnly, LogCalls, MaskErrors, Next, RateLimit, from_fn},
    prompt,
    telemetry::Telemetry,
    tool,
};
use serde_json::{Value, json};

use super::{
    Runs,
    log::{Log, set_default},
    server, text,
};
use crate::http::refusals;

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn calls_are_logged_without_their_contents() {
    let (log, _guard) = Log::listen();
    let calls = [
        ("tools/call", json!({"name": "double", "arguments": {"number": 2}}), "double", "tool", "success"),
        ("tools/call", json!({"name": "later", "arguments": {"number": 2}}), "later", "tool", "success"),
        ("tools/call", json!({"name": "fails"}), "fails", "tool", "tool_error"),
        ("tools/call", json!({"name": "panics"}), "panics", "tool", "fault"),
        ("tools/call", json!({"name": "not_long"}), "not_long", "tool", "dropped"),
        ("resources/read", json!({"uri": "pages://1"}), "pages://1", "resource", "success"),
        ("prompts/get", json!({"name": "greeting", "arguments": {}}), "greeting", "prompt", "fault"),
    ];
    let mut client = server().1.layer(LogCalls::new()).test_client(Revision::V2025_11_25);
    for (id, (method, params, name, kind, outcome)) in (1..).zip(calls) {
        let _ = client.request(method, params).await;
        let lines = log.take("call finished name");
        let expected = format!("call finished name={name:?} kind={kind:?} id=\"{id}\" outcome={outcome:?} bytes=");
        assert_eq!(lines.len(), 1, "{lines:?}");
        let rest = lines[0].strip_prefix(&expected).unwrap_or_else(|| panic!("{lines:?}"));
        let bytes: usize = rest.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(bytes > 0, ["success", "tool_error"].contains(&outcome), "{lines:?}");
    }
    let (_, server) = server();
    let mut client = server.layer(LogCalls::new().with_arguments()).test_client(Revision::V2026_07_28);
    client.call("double", json!({"number": 2})).await.unwrap();
    let lines = log.take("call finished name");
    assert!(lines[0].contains(r#" arguments="{\"number\":2}" outcome="success""#), "{lines:?}");
}

/// Telemetry whose spans hide users, and whether the log names them.
struct Hiding(bool);

impl Telemetry for Hiding {
    fn names_users_in_log(&self) -> bool {
        self.0
    }
}

/// Subjects are text of the issuer: they must neither add a line to the log nor fill it. Spans may leave the machine, and
/// name no user unless the telemetry allows it; the access log stays there.
#[tokio::test]
async fn the_log_names_the_principal() {
    let (log, _guard) = Log::listen();
    let issuer = "https://id.example.com";
    let long = "x".repeat(10_000);
    for (subject, expected, names_users_in_log) in [
        ("ada", format!("{issuer}#ada"), None),
        ("ada", format!("{issuer}#ada"), Some(false)),
        ("ada", format!("{issuer}#ada"), Some(true)),
        ("ada\nERROR \"outcome\"=\u{1b}[2J", format!("{issuer}#ada\nERROR \"outcome\"=\u{1b}[2J"), None),
        (&*long, format!("{issuer}#{}…", &long[..200 - issuer.len() - 1]), None),
    ] {
        let server = server().1.layer(LogCalls::new());
        let server = match names_users_in_log {
            Some(in_log) => server.telemetry(Hiding(in_log)),
            None => server,
        };
        let mut client = server
            .test_client(Revision::V2025_11_25)
            .with_extension(Identity::new(Principal::of_subject(issuer, subject)));
        client.call("double", json!({"number": 2})).await.unwrap();
        let (lines, is_hidden) = (log.take(""), names_users_in_log.is_some());
        let fields = ["principal", "enduser.id"].map(|name| format!(" {name}={expected:?}"));
        let is_named = |line: &&String| fields.iter().any(|field| line.contains(field));
        let mut logged: Vec<&String> = lines.iter().filter(is_named).collect();
        assert!(logged.iter().all(|line| !line.contains(['\n', '\u{1b}'])), "{logged:?}");
        let spans: Vec<_> = logged.extract_if(.., |line| line.starts_with("mcp.request mcp.method.name=")).collect();
        let is_call = |span: &&&String| span.contains(r#"mcp.method.name="tools/call""#);
        assert_eq!(spans.last().filter(is_call).is_none(), is_hidden, "{lines:?}");
        assert!(spans.is_empty() || !is_hidden, "{lines:?}");
        // The span that is not exported names it instead.
        let callers = logged.extract_if(.., |line| line.starts_with("mcp.caller ")).count();
        assert_eq!(callers > 0, names_users_in_log == Some(true), "{lines:?}");
        assert!(logged.len() == 2 && logged[0].starts_with("session opened"), "{lines:?}");
        assert!(logged[1].starts_with("call finished"), "{logged:?}");
    }
}

/// Log, and fail with a secret.
#[tool]
fn logs() -> Result<(), String> {
    tracing::info!("from the function");
    Err("password=hunter2".to_owned())
}

/// Events of functions are forwarded to clients. Events of layers are not: they contain what clients must not see.
#[tokio::test]
async fn the_log_of_layers_is_not_forwarded() {
    use tracing_subscriber::layer::SubscriberExt as _;

    let _guard = set_default(tracing_subscriber::registry().with(mcp_runtime::forward_log_layer()));
    let server = Server::empty("layers", "1.0.0").with::<logs>().forward_log();
    let mut client = server
        .layer(LogCalls::new().with_arguments())
        .layer(MaskErrors::new())
        .layer(from_fn(|call, next: Next| async move {
            tracing::error!("from a layer");
            next.run(call).await
        }))
        .test_client(Revision::V2025_11_25);
    assert!(client.call("logs", ()).await.unwrap().is_error());
    let notifications = client.notifications();
    let shown = Value::Array(notifications.clone()).to_string();
    assert_eq!(notifications.len(), 1, "{shown}");
    assert!(shown.contains("from the function"), "{shown}");
}

/// Log as several modules.
#[tool]
fn logs_as_others() {
    tracing::info!("own");
    tracing::info!(target: "it", "root");
    tracing::info!(target: "other", "other");
    tracing::info!(target: "other::inner", "inner");
    tracing::info!(target: "others", "similar");
    tracing::info!(target: "others::inner", "similar");
    tracing::info!(target: "mcp_runtime::engine", "runtime");
    // This crate defines no functions of a server.
    tracing::info!(target: "hyper", "dependency");
}

/// Events of libraries may contain what clients must not see.
#[tokio::test]
async fn only_events_of_own_and_named_targets_are_forwarded() {
    use tracing_subscriber::{Layer as _, filter::LevelFilter, layer::SubscriberExt as _};

    let empty = || Server::empty("layers", "1.0.0").with::<logs_as_others>();
    for (server, level, expected) in [
        (empty(), LevelFilter::INFO, &[][..]),
        (empty().forward_log(), LevelFilter::INFO, &["own", "root"]),
        (empty().forward_log(), LevelFilter::WARN, &[]),
        (empty().forward_log_targets(["other"]), LevelFilter::INFO, &["own", "root", "other", "inner"]),
        (
            empty().forward_log_targets(["other::inner", "hyper"]),
            LevelFilter::INFO,
            &["own", "root", "inner", "dependency"],
        ),
        (
            empty().forward_log_targets(["other::inner"]).forward_log_targets(["hyper"]).forward_log(),
            LevelFilter::INFO,
            &["own", "root", "inner", "dependency"],
        ),
    ] {
        let forwarding = mcp_runtime::forward_log_layer().with_filter(level);
        let _guard = set_default(tracing_subscriber::registry().with(forwarding));
        let mut client = server.test_client(Revision::V2025_11_25);
        client.call("logs_as_others", ()).await.unwrap();
        let notifications = client.notifications();
        let messages: Vec<_> = notifications.iter().map(|it| it["params"]["data"].as_str().unwrap()).collect();
        assert_eq!(messages, expected, "{level}");
    }
}

/// Log, then wait.
#[tool]
async fn logs_and_waits() {
    tracing::info!("inside");
    std::future::pending::<()>().await;
}

/// An event is forwarded only to the client whose call has caused it.
#[tokio::test]
async fn events_outside_of_a_waiting_call_are_not_forwarded() {
    use tracing_subscriber::layer::SubscriberExt as _;

    let _guard = set_default(tracing_subscriber::registry().with(mcp_runtime::forward_log_layer()));
    let server = Server::empty("layers", "1.0.0").with::<logs_and_waits>().forward_log();
    let mut client = server.test_client(Revision::V2025_11_25);
    client.send_request("tools/call", json!({"name": "logs_and_waits"}));
    tokio::task::yield_now().await;
    assert_eq!(client.in_flight(), 1);
    tracing::info!("outside");
    let notifications = client.notifications();
    let messages: Vec<_> = notifications.iter().map(|it| &it["params"]["data"]).collect();
    assert_eq!(messages, ["inside"]);
}

/// Log on a thread that has no other subscriber.
#[tool(blocking)]
fn logs_on_a_thread() {
    use tracing_subscriber::layer::SubscriberExt as _;

    let forwarding = tracing_subscriber::registry().with(mcp_runtime::forward_log_layer());
    tracing::subscriber::with_default(forwarding, || tracing::info!("on a thread"));
}

#[tokio::test]
async fn events_of_blocking_functions_are_forwarded() {
    let server = Server::empty("layers", "1.0.0").with::<logs_on_a_thread>().forward_log();
    let mut client = server.test_client(Revision::V2025_11_25);
    client.call("logs_on_a_thread", ()).await.unwrap();
    let notifications = client.notifications();
    let messages: Vec<_> = notifications.iter().map(|it| &it["params"]["data"]).collect();
    assert_eq!(messages, ["on a thread"]);
}

/// Log values of every type.
#[tool]
fn logs_values() {
    tracing::info!(text = "a", yes = true, below = -1, large = u64::MAX, half = 0.5, debug = ?Some(1));
}

#[tokio::test]
async fn the_values_of_an_event_keep_their_types() {
    use tracing_subscriber::layer::SubscriberExt as _;

    let _guard = set_default(tracing_subscriber::registry().with(mcp_runtime::forward_log_layer()));
    let server = Server::empty("layers", "1.0.0").with::<logs_values>().forward_log();
    let mut client = server.test_client(Revision::V2025_11_25);
    client.call("logs_values", ()).await.unwrap();
    let expected = json!({"text": "a", "yes": true, "below": -1, "large": u64::MAX, "half": 0.5, "debug": "Some(1)"});
    assert_eq!(client.notifications()[0]["params"]["data"], expected);
}

#[derive(Debug)]
struct OutOfPaper;

impl fmt::Display for OutOfPaper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of paper")
    }
}

/// Print.
#[tool]
fn prints(runs: &Runs) -> Result<(), OutOfPaper> {
    runs.count();
    Err(OutOfPaper)
}

#[tokio::test]
async fn errors_are_masked_and_logged() {
    let (log, _guard) = Log::listen();
    for revision in Revision::ALL {
        let (_, server) = server();
        let server = server.with::<prints>().layer(MaskErrors::new());
        let mut client = server.test_client(revision);
        let page = client.read("pages://0").await.unwrap_err();
        for (name, answer) in [
            ("fails", text(&mut client, "fails", json!({})).await),
            ("prints", text(&mut client, "prints", json!({})).await),
            ("page", page.message),
        ] {
            let rest = answer.strip_prefix("error: ").unwrap_or(&answer);
            let reference = rest.strip_prefix(&format!("`{name}` failed; see the server log, reference ")).unwrap();
            assert_eq!(reference.len(), 12, "{answer}");
        }
        let logged = log.take("function failed name");
        let secrets = logged.iter().filter(|line| line.contains("hunter2")).count();
        assert_eq!((logged.len(), secrets), (3, 2), "{logged:?}");

        assert_eq!(text(&mut client, "refuses", json!({})).await, "error: not today");
        assert_eq!(text(&mut client, "faults", json!({})).await, "7 out of paper");
        assert_eq!(text(&mut client, "double", json!({"number": 1})).await, "2");
        assert!(text(&mut client, "double", json!({})).await.contains("is required"));
        assert_eq!(log.take("function failed name"), Vec::<String>::new());
    }
}

#[tokio::test]
async fn the_log_contains_the_reference_sent_to_the_client() {
    let (log, _guard) = Log::listen();
    let mut client = server().1.layer(MaskErrors::new()).test_client(Revision::V2026_07_28);
    let answer = text(&mut client, "fails", json!({})).await;
    let reference = answer.rsplit(' ').next().unwrap();
    let logged = log.take("function failed name");
    assert!(logged[0].contains(&format!(" reference={reference:?} reason=\"password=hunter2\"")), "{logged:?}");
    let other = text(&mut client, "fails", json!({})).await;
    assert!(!other.ends_with(reference));
}

#[tokio::test]
async fn errors_of_allowed_types_are_not_masked() {
    let (_, server) = server();
    let mut client =
        server.with::<prints>().layer(MaskErrors::new().show::<OutOfPaper>()).test_client(Revision::V2026_07_28);
    assert_eq!(text(&mut client, "prints", json!({})).await, "error: out of paper");
    assert!(!text(&mut client, "fails", json!({})).await.contains("hunter2"));
}

#[tokio::test(start_paused = true)]
async fn calls_over_the_rate_limit_are_rejected() {
    for revision in Revision::ALL {
        let (runs, server) = server();
        let limit = RateLimit::new(4, Duration::from_secs(2));
        let mut client = server.layer(limit).test_client(revision);
        for _ in 0..4 {
            assert_eq!(text(&mut client, "double", json!({"number": 1})).await, "2");
        }
        let refused = "rate limit of all calls of this server exceeded: retry in 500ms";
        assert_eq!(text(&mut client, "double", json!({"number": 1})).await, format!("error: {refused}"));
        let error = client.prompt("greeting", ()).await.unwrap_err();
        assert_eq!(error.message, refused);
        assert_eq!((error.code, error.data), (429, Some(json!({"retryAfterMs": 500}))));
        tokio::time::advance(Duration::from_millis(499)).await;
        assert!(text(&mut client, "double", json!({"number": 1})).await.ends_with("retry in 1ms"));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(text(&mut client, "double", json!({"number": 1})).await, "2");
        assert!(client.read("pages://1").await.is_err());
        assert_eq!(runs.total(), 5);
        assert!(client.tools().await.is_ok());
    }
}

#[tokio::test]
async fn calls_over_the_rate_limit_are_counted_as_refusals() {
    let server = server().1.layer(RateLimit::new(1, HOUR)).build().unwrap();
    let (before, mut client) = (refusals("rate"), server.test_client(Revision::V2026_07_28));
    for _ in 0..=100 {
        text(&mut client, "double", json!({"number": 1})).await;
    }
    let refused = refusals("rate") - before;
    assert!(refused >= 100, "{refused}");
}

/// A caller that waits for as long as it is told is admitted.
#[tokio::test(start_paused = true)]
async fn the_time_to_wait_is_rounded_up() {
    let limit = RateLimit::new(3, Duration::from_secs(2)).burst(1);
    let mut client = server().1.layer(limit).test_client(Revision::V2026_07_28);
    assert_eq!(text(&mut client, "double", json!({"number": 1})).await, "2");
    let refused = text(&mut client, "double", json!({"number": 1})).await;
    assert!(refused.ends_with("retry in 667ms"), "{refused}");
}

/// Returns how many of ten calls of each of two tools succeed.
async fn passed(limit: RateLimit) -> [usize; 2] {
    let (_, server) = server();
    let mut client = server.layer(limit).test_client(Revision::V2026_07_28);
    let mut passed = [0; 2];
    for (name, passed) in ["double", "later"].into_iter().zip(&mut passed) {
        for number in 0..10 {
            *passed +=
                usize::from(text(&mut client, name, json!({ "number": number })).await == (number * 2).to_string());
        }
    }
    passed
}

#[tokio::test(start_paused = true)]
async fn rates_are_limited_by_key() {
    let limit = |calls| RateLimit::new(calls, HOUR);
    let number =
        |call: &mcp_runtime::layers::Call| (call.argument("number").unwrap().as_u64().unwrap() % 2).to_string();
    for (limit, expected) in [
        (limit(3), [3, 0]),
        (limit(0), [1, 0]),
        (limit(3).burst(2), [2, 0]),
        (limit(3).burst(0), [1, 0]),
        (limit(3).per_function(), [3, 3]),
        (limit(3).max_keys(1), [3, 0]),
        (limit(3).max_keys(1).per_function(), [3, 3]),
        (limit(3).max_keys(0).per_function(), [3, 3]),
        (limit(3).per_caller(), [3, 0]),
        (limit(3).per_key(number), [6, 0]),
        (limit(3).per_key(number).per_function(), [6, 6]),
        (limit(u32::MAX), [10, 10]),
        (RateLimit::new(3, Duration::ZERO).burst(3), [3, 0]),
    ] {
        let shown = format!("{limit:?}");
        assert_eq!(passed(limit).await, expected, "{shown}");
    }
}

/// Double a number.
#[prompt(name = "double")]
fn double_prompt() -> &'static str {
    "What is twice the number?"
}

#[tokio::test(start_paused = true)]
async fn a_tool_and_a_prompt_with_one_name_have_rates_of_their_own() {
    let server = server().1.with::<double_prompt>().layer(RateLimit::new(1, HOUR).per_function());
    let mut client = server.test_client(Revision::V2026_07_28);
    assert_eq!(text(&mut client, "double", json!({"number": 1})).await, "2");
    assert!(client.prompt("double", ()).await.is_ok());
    assert!(client.prompt("double", ()).await.is_err());
}

/// A model that reads that one tool is limited tries another one.
#[tokio::test(start_paused = true)]
async fn a_rejection_names_everything_that_is_limited() {
    fn limit() -> RateLimit {
        RateLimit::new(1, HOUR)
    }
    for (limited, expected) in [
        ((|server| server.layer(limit())) as fn(Server) -> Server, "all calls of this server"),
        (|server| server.layer(limit().per_caller()), "all calls of this caller"),
        (|server| server.layer(limit().per_function()), "`double`"),
        (|server| server.layer(limit().per_caller().per_function()), "`double`"),
        (|server| server.layer(limit().per_key(|_| String::new())), "calls like this one"),
        (
            |server| server.layer_for(|entry| entry.name == "double", limit()),
            "`double` and the functions that share its limit",
        ),
    ] {
        let mut client = limited(server().1).test_client(Revision::V2026_07_28);
        text(&mut client, "double", json!({"number": 1})).await;
        let refused = text(&mut client, "double", json!({"number": 1})).await;
        assert_eq!(refused, format!("error: rate limit of {expected} exceeded: retry in 3600s"));
    }
}

/// The number of keys is bounded, and evicting keys does not reset the others.
#[tokio::test(start_paused = true)]
async fn keys_are_bounded() {
    let keys = Arc::new(AtomicUsize::new(0));
    let (_, server) = server();
    let key = Arc::clone(&keys);
    let limit = RateLimit::new(1, HOUR).per_key(move |_| key.load(Ordering::SeqCst).to_string()).max_keys(8);
    let mut client = server.layer(limit).test_client(Revision::V2026_07_28);
    let mut call = async |key: usize| {
        keys.store(key, Ordering::SeqCst);
        text(&mut client, "double", json!({"number": 1})).await == "2"
    };
    for key in 0..20 {
        assert!(call(key).await, "{key}");
        assert!(!call(key).await, "{key}");
    }
    for (key, passes) in [(19, false), (12, false), (11, true), (11, false), (12, false), (13, true)] {
        assert_eq!(call(key).await, passes, "{key}");
    }
}

/// Count the calls with these arguments.
#[tool(read_only)]
fn counts(runs: &Runs, #[arg(default)] what: Value) -> String {
    runs.count();
    format!("{what} {}", runs.total())
}

/// Count, and change something.
#[tool]
fn changes(runs: &Runs) -> usize {
    runs.count();
    runs.total()
}

/// Count, as a function that depends on the outside world.
#[tool(read_only, open_world)]
fn counts_open_world(runs: &Runs) -> usize {
    runs.count();
    runs.total()
}

/// Count, and return a member of `_meta`.
#[tool(read_only)]
async fn counts_for(ctx: &Context, runs: &Runs) -> String {
    runs.count();
    format!("{:?}", ctx.meta("who"))
}

/// Fail on the first call only.
#[tool(read_only)]
fn fails_at_first(runs: &Runs) -> Result<usize, Fault> {
    runs.count();
    match runs.total() {
        1 => Err(Fault::internal("not yet")),
        total => Ok(total),
    }
}

fn counting() -> (Arc<Runs>, Server) {
    let runs = Arc::new(Runs::default());
    let server = Server::empty("cache", "1.0.0")
        .with::<counts>()
        .with::<changes>()
        .with::<counts_open_world>()
        .with::<counts_for>()
        .with::<fails_at_first>()
        .with_shared(Arc::clone(&runs));
    (runs, server)
}

#[tokio::test(start_paused = true)]
async fn results_are_cached_until_they_expire() {
    for revision in Revision::ALL {
        let (runs, server) = counting();
        let mut client = server.layer(CacheReadOnly::new(HOUR)).test_client(revision);
        let first = client.call("counts", json!({"what": {"a": 1, "b": [2]}})).await.unwrap();
        for arguments in [r#"{"what":{"a":1,"b":[2]}}"#, r#"{ "what": {"b": [2], "\u0061": 1} }"#] {
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            assert_eq!(client.call("counts", arguments).await.unwrap(), first);
        }
        assert_eq!(runs.total(), 1);
        assert_ne!(client.call("counts", json!({"what": {"a": 1, "b": [3]}})).await.unwrap(), first);
        tokio::time::advance(HOUR - Duration::from_millis(1)).await;
        assert_eq!(client.call("counts", json!({"what": {"a": 1, "b": [2]}})).await.unwrap(), first);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_ne!(client.call("counts", json!({"what": {"a": 1, "b": [2]}})).await.unwrap(), first);
        assert_eq!(runs.total(), 3);
    }
}

/// Count, and take some time.
#[tool(read_only)]
async fn counts_slowly(runs: &Runs) -> usize {
    runs.count();
    let total = runs.total();
    tokio::time::sleep(Duration::from_secs(100)).await;
    total
}

/// A function may have read what has changed while it ran.
#[tokio::test(start_paused = true)]
async fn the_age_of_a_result_counts_from_the_start_of_its_call() {
    let server = Server::empty("cache", "1.0.0").with::<counts_slowly>().with_shared(Arc::<Runs>::default());
    let cache = CacheReadOnly::new(Duration::from_secs(200));
    let mut client = server.layer(cache).test_client(Revision::V2026_07_28);
    for (pause, expected) in [(0, "1"), (90, "1"), (20, "2")] {
        tokio::time::advance(Duration::from_secs(pause)).await;
        assert_eq!(text(&mut client, "counts_slowly", json!({})).await, expected, "{pause}");
    }
}

/// Each function is called three times. The table contains the expected number of runs.
#[tokio::test]
async fn only_cacheable_results_are_cached() {
    let cache = || CacheReadOnly::new(HOUR);
    for (cache, name, ran) in [
        (cache(), "counts", 1),
        (cache(), "changes", 3),
        (cache(), "counts_open_world", 3),
        (cache(), "counts_for", 3),
        (cache().per_key(|_| String::new()), "counts_for", 1),
        (cache().per_key(|call| call.request_id().to_owned()), "counts_for", 3),
        (cache().per_key(|call| call.request_id().to_owned()), "counts", 3),
        (cache().per_key(|_| String::new()), "changes", 3),
        (cache(), "fails_at_first", 2),
        (cache().max_bytes(0), "counts", 3),
        (CacheReadOnly::new(Duration::ZERO), "counts", 3),
    ] {
        let (runs, server) = counting();
        let shown = format!("{name} {cache:?}");
        let mut client = server.layer(cache).test_client(Revision::V2026_07_28);
        for _ in 0..3 {
            let _ = client.call(name, ()).await;
        }
        assert_eq!(runs.total(), ran, "{shown}");
    }
    for (name, ran) in [("fails", 3), ("refuses", 3), ("faults", 3), ("aside", 1), ("later", 1)] {
        let (runs, server) = server();
        let mut client = server.layer(cache()).test_client(Revision::V2026_07_28);
        for _ in 0..3 {
            // One of these calls has the wrong arguments, so it is rejected before the function runs.
            let _ = client.call(name, json!({"number": 1})).await;
            let _ = client.call(name, ()).await;
        }
        assert_eq!(runs.total(), ran, "{name}");
    }
}

/// Revisions encode results differently, so results are cached per revision.
#[tokio::test]
async fn results_are_cached_per_revision() {
    let (runs, server) = server();
    let server = server.layer(CacheReadOnly::new(HOUR)).build().unwrap();
    for revision in Revision::ALL {
        for _ in 0..2 {
            let mut client = server.test_client(revision);
            let bare = super::server().1.test_client(revision).call("later", json!({"number": 2})).await;
            assert_eq!(client.call("later", json!({"number": 2})).await, bare);
        }
    }
    assert_eq!(runs.total(), Revision::ALL.len());
}

#[tokio::test]
async fn a_shared_cache_can_be_cleared() {
    let (runs, server) = counting();
    let cache = Arc::new(CacheReadOnly::new(HOUR));
    let mut client = server.layer(Arc::clone(&cache)).test_client(Revision::V2025_11_25);
    for _ in 0..2 {
        client.call("counts", ()).await.unwrap();
        assert_eq!(runs.total(), 1);
    }
    cache.clear();
    client.call("counts", ()).await.unwrap();
    assert_eq!(runs.total(), 2);
}

/// A function may have read what has changed since.
#[tokio::test]
async fn the_result_of_a_call_that_runs_while_the_cache_is_cleared_is_not_cached() {
    let (runs, server) = counting();
    let cache = Arc::new(CacheReadOnly::new(HOUR));
    let (shared, pending) = (Arc::clone(&cache), AtomicUsize::new(1));
    let clear = from_fn(move |call, next: Next| {
        if pending.swap(0, Ordering::SeqCst) > 0 {
            shared.clear();
        }
        next.run(call)
    });
    let mut client = server.layer(cache).layer(clear).test_client(Revision::V2026_07_28);
    for total in [1, 2, 2] {
        client.call("counts", ()).await.unwrap();
        assert_eq!(runs.total(), total);
    }
}

mod other {
    use super::Runs;

    /// Another function of the same name.
    #[mcp_runtime::tool(read_only)]
    pub(super) fn counts(runs: &Runs) -> &'static str {
        runs.count();
        "another"
    }
}

#[tokio::test]
async fn functions_of_the_same_name_do_not_share_cached_results() {
    let (_, server) = counting();
    let handle: Handle = server.handle();
    let mut client = server.layer(CacheReadOnly::new(HOUR)).test_client(Revision::V2025_11_25);
    assert_eq!(text(&mut client, "counts", json!({})).await, "null 1");
    handle.remove::<counts>();
    let added: Result<_, BuildError> = handle.add::<other::counts>();
    added.unwrap();
    assert_eq!(text(&mut client, "counts", json!({})).await, "another");
}

#[tokio::test]
async fn cached_results_bypass_inner_layers_only() {
    let (_, server) = counting();
    let limit = RateLimit::new(1, HOUR);
    let pass = from_fn(|call, next: Next| async move { next.run(call).await });
    let server = server.layer(pass).layer(CacheReadOnly::new(HOUR)).layer(limit);
    let mut client = server.test_client(Revision::V2026_07_28);
    for what in [1, 1, 1] {
        assert_eq!(text(&mut client, "counts", json!({ "what": what })).await, "1 1");
    }
    assert!(text(&mut client, "counts", json!({"what": 2})).await.contains("rate limit"));
    // Rejections are not cached either.
    assert!(text(&mut client, "counts", json!({"what": 2})).await.contains("rate limit"));
}
