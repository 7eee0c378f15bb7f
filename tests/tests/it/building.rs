//! Building a server: supported configurations, the order of lists, and build errors.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use mcp_runtime::{Context, Json, ResourceLink, Revision, Server, TestClient, resource, tool};
use serde_json::{Value, json};

mod one {
    /// The first.
    #[mcp_runtime::tool(tags("blue", "red"))]
    pub(super) fn same() {}
}

mod two {
    /// The second.
    #[mcp_runtime::tool(tags("red"))]
    pub(super) fn same() {}

    /// Another.
    #[mcp_runtime::tool]
    pub(super) fn zebra() {}

    /// Another.
    #[mcp_runtime::tool]
    pub(super) fn aardvark() {}
}

/// State.
struct Db;

trait Clock: Send + Sync {
    fn now(&self) -> u64;
}

/// A clock that never advances.
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> u64 {
        7
    }
}

/// Needs state.
#[tool]
fn needs_db(_db: &Db, _ctx: &Context) {}

/// Needs a trait object.
#[tool]
fn time(clock: &dyn Clock) -> u64 {
    clock.now()
}

/// A default that only `build` can check.
#[tool]
fn out_of_range(#[arg(default = u8::MAX, range = 1..=9)] _number: u8) {}

/// A string with an invalid pattern.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Odd(
    #[allow(dead_code)]
    #[schemars(regex(pattern = "("))]
    String,
);

/// Has a broken schema.
#[tool]
fn odd(_odd: Odd) {}

/// A template whose list and completion need state.
#[resource("many://{id}", list = many, complete(id = ids))]
fn listed(id: u32) -> String {
    id.to_string()
}

fn many(_: &Db) -> Vec<ResourceLink> {
    (0..5).map(|id| ResourceLink::new(format!("many://{id}"), id.to_string())).collect()
}

fn ids(_: &Db, _: &str) -> Vec<String> {
    Vec::new()
}

mod conflicting {
    /// The list function has a parameter that only completions receive.
    #[mcp_runtime::resource("conflicting://{id}", list = listed)]
    pub(super) fn first(id: String) -> String {
        id
    }

    fn listed(_: &str) -> Vec<mcp_runtime::ResourceLink> {
        Vec::new()
    }

    /// Matches the same URIs as `first`.
    #[mcp_runtime::resource("conflicting://{name}")]
    pub(super) fn second(name: String) -> String {
        name
    }
}

/// Never returns.
#[tool]
async fn forever() -> Json<Option<u8>> {
    std::future::pending().await
}

fn empty() -> Server {
    Server::empty("test", "1.0.0")
}

#[test]
fn all_errors_are_reported_with_their_source_location() {
    let server = empty()
        .with::<one::same>()
        .with::<two::same>()
        .with::<needs_db>()
        .with::<out_of_range>()
        .with::<odd>()
        .with::<listed>()
        .with_state(7u8)
        .with_state(8u8);
    let error = server.check().unwrap_err();
    let here = |line: usize| format!("({}:{line}, crate `mcp-tests`)", file!());
    let problems = error.problems();
    let source = include_str!("building.rs");
    let line_of = |at: Option<usize>| source[..at.unwrap()].matches('\n').count() + 1;
    let line_of_fn = |name: &str| line_of(source.find(&format!("fn {name}(")));
    let remedy = "the server has only `u8`\nhelp: add `.with_state(…)`";
    let parameter = "; if `_db` is an argument, take it by value";
    let mut same = source.match_indices("fn same(").map(|(at, _)| line_of(Some(at)));
    let (first, second) = (same.next().unwrap(), same.next().unwrap());
    let expected = [
        "duplicate state of type `u8`\nhelp: wrap one of the values in a newtype".to_owned(),
        format!(
            "`needs_db` {} needs `&it::building::Db` for its parameter `_db`, but {remedy}{parameter}",
            here(line_of_fn("needs_db"))
        ),
        format!(
            "the schema of `out_of_range` {} is invalid: argument `_number`: its `default` does not match its schema: 255 must be at least 1 and at most 9",
            here(line_of_fn("out_of_range"))
        ),
        format!("the schema of `odd` {} is invalid", here(line_of_fn("odd"))),
        format!(
            "`listed` {} needs `&it::building::Db` for its function `many`, but {remedy}",
            here(line_of_fn("listed"))
        ),
        format!(
            "`listed` {} needs `&it::building::Db` for its function `ids`, but {remedy}",
            here(line_of_fn("listed"))
        ),
        format!("two tools are named `same`: `same` {} and `same` {}", here(first), here(second)),
    ];
    for expected in &expected {
        assert!(problems.iter().any(|problem| problem.starts_with(expected)), "{expected}\nis not among\n{error}");
    }
    assert_eq!(problems.len(), expected.len(), "{error}");
    assert!(error.to_string().starts_with("the server cannot be built, 7 problems found:\n  - "));
}

#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize, schemars::JsonSchema)]
struct Point {
    x: u8,
}

#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize, schemars::JsonSchema)]
enum Color {
    Red,
    Green,
}

/// The alias hides the type from the macro.
type Small = u8;

/// Functions with mistakes that only `build` can see.
mod mistakes {
    use super::*;

    /// A range that is larger than the type.
    #[tool]
    pub(super) fn range(#[arg(range = 1..=1000)] _small: Small) {}

    /// A map whose keys cannot be strings.
    #[tool]
    pub(super) fn keys(_weights: Option<HashMap<Point, f64>>) {}

    /// State in an `Arc`.
    #[tool]
    pub(super) fn arc(_db: &Arc<Db>) {}

    /// A structured argument.
    #[mcp_runtime::prompt]
    pub(super) fn object(_who: Point, _color: Option<Color>, _count: u8) -> String {
        String::new()
    }

    /// A list.
    #[mcp_runtime::prompt]
    pub(super) fn list(_names: Option<Vec<String>>) -> String {
        String::new()
    }
}

#[test]
fn mistakes_that_only_the_whole_program_reveals_have_a_remedy() {
    let with_db = || empty().with_state(Db);
    for (server, function, expected) in [
        (
            empty().with::<mistakes::range>(),
            "range",
            "argument `_small`: `maximum` is 1000, but that of the type is 255",
        ),
        (
            empty().with::<mistakes::keys>(),
            "keys",
            "argument `_weights`: the keys of a JSON object are strings, but those of this map are structs or lists\n\
             help: take a list of pairs, as `Vec<(K, V)>`",
        ),
        (
            empty().with::<needs_db>().with_state(Arc::new(Db)),
            "needs_db",
            "has only `alloc::sync::Arc<it::building::Db>`\nhelp: add the `alloc::sync::Arc<it::building::Db>` with \
             `.with_shared(…)` instead of `.with_state(…)`",
        ),
        (
            with_db().with::<mistakes::arc>(),
            "arc",
            "has only `it::building::Db`\n\
             help: take `&it::building::Db`: functions take shared state without its `Arc`",
        ),
        (
            empty().with::<mistakes::object>(),
            "object",
            "is an object, but arguments of prompts are strings\n\
             help: take text, a number, a `bool` or an enum without data",
        ),
        (empty().with::<mistakes::list>(), "list", "is a list, but arguments of prompts are strings\nhelp: "),
    ] {
        let error = server.check().unwrap_err();
        let [problem] = error.problems() else { panic!("expected one problem: {error}") };
        assert!(problem.contains(expected), "{problem}");
        assert!(problem.contains(&format!("`{function}` ({}:", file!())), "{problem}");
    }
}

/// Maps with keys that are not text.
#[tool]
fn tally(counts: HashMap<u32, u8>, offsets: BTreeMap<i64, u8>, colors: BTreeMap<Color, u8>) -> String {
    format!("{counts:?} {offsets:?} {colors:?}")
}

#[tokio::test]
async fn integers_and_enums_can_be_keys() {
    let mut client = empty().with::<tally>().test_client(Revision::V2026_07_28);
    let valid = json!({"counts": {"7": 1}, "offsets": {"-3": 2}, "colors": {"Red": 3}});
    assert_eq!(client.call("tally", valid).await.unwrap().text(), "{7: 1} {-3: 2} {Red: 3}");
    let invalid = json!({"counts": {"x": 1}, "offsets": {}, "colors": {"Blue": 3}});
    let violations = client.call("tally", invalid).await.unwrap().text();
    assert!(violations.contains("`counts.x` is not a property"), "{violations}");
    assert!(violations.contains("`colors.Blue` is not a property, expected one of `Green`, `Red`"), "{violations}");
}

#[test]
fn wrong_list_parameters_and_ambiguous_templates_are_rejected() {
    let error = empty().with::<conflicting::first>().with::<conflicting::second>().check().unwrap_err();
    let problems = error.problems();
    assert!(problems[0].contains("needs `&str` for its function `listed`"), "{error}");
    assert!(problems[1].contains("the templates `conflicting://{id}` of `first`"), "{error}");
    assert!(problems[1].contains("and `conflicting://{name}` of `second`"), "{error}");
    assert_eq!(problems.len(), 2, "{error}");
}

/// Has a schema in an older dialect.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[schemars(extend("$schema" = "http://json-schema.org/draft-07/schema#"))]
struct Older {
    #[allow(dead_code)]
    number: u8,
}

/// Has a parameter with a schema in an older dialect.
#[tool]
fn older(_older: Older) {}

#[test]
fn schemas_of_other_dialects_are_rejected() {
    let error = empty().with::<older>().check().unwrap_err().to_string();
    assert!(error.contains(r##"unsupported `$schema` "http://json-schema.org/draft-07/schema#""##), "{error}");
}

/// Types whose schemas have keywords that the server does not enforce.
mod unenforced {
    use mcp_runtime::tool;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Deserialize, Serialize, JsonSchema)]
    #[schemars(extend("unevaluatedProperties" = false))]
    #[allow(dead_code)]
    pub(super) struct Closed {
        number: u8,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[schemars(extend("$schema" = "https://json-schema.org/draft/2020-12/schema", "$dynamicAnchor" = "node"))]
    #[allow(dead_code)]
    pub(super) struct Node {
        number: u8,
    }

    /// Has a parameter with an unsupported keyword.
    #[tool]
    pub(super) fn parameter(_closed: Vec<Closed>) {}

    /// Has a default, which is checked first.
    #[tool]
    pub(super) fn with_default(#[arg(default)] _closed: Vec<Closed>) {}

    /// Has a schema that is listed as written.
    #[tool]
    pub(super) fn flattened(#[arg(flatten)] _node: Node) {}
}

#[test]
fn unenforced_keywords_are_rejected() {
    let server =
        empty().with::<unenforced::parameter>().with::<unenforced::with_default>().with::<unenforced::flattened>();
    let error = server.check().unwrap_err();
    let problems = error.problems();
    for (problem, tool, place) in [
        (&problems[0], "`parameter`", "`unevaluatedProperties` at `/properties/_closed/items`"),
        (&problems[1], "`with_default`", "argument `_closed`: unsupported keyword `unevaluatedProperties` at `/items`"),
        (&problems[2], "`flattened`", "`$dynamicAnchor` at the root"),
    ] {
        assert!(problem.starts_with(&format!("the schema of {tool} (")), "{problem}");
        assert!(problem.contains(place), "{problem}");
    }
    assert_eq!(problems.len(), 3, "{error}");
}

/// Arguments that HTTP headers cannot mirror.
mod mirrored {
    use mcp_runtime::tool;
    use schemars::JsonSchema;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code)]
    pub(super) struct Item {
        #[schemars(extend("x-mcp-header" = "Item"))]
        item: String,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code)]
    pub(super) struct Share {
        #[schemars(extend("x-mcp-header" = "Share"))]
        share: f64,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code)]
    pub(super) struct Injected {
        #[schemars(extend("x-mcp-header" = "A\r\nB"))]
        injected: String,
    }

    /// A header within an array.
    #[tool]
    pub(super) fn items(_items: Vec<Item>) {}

    /// A header for a number that is not an integer.
    #[tool]
    pub(super) fn share(_share: Share) {}

    /// A header that contains a line break.
    #[tool]
    pub(super) fn injected(_injected: Injected) {}

    /// Two arguments with the same header.
    #[tool]
    pub(super) fn twice(#[arg(header = "item")] _first: String, _second: Item) {}
}

#[test]
fn arguments_that_cannot_be_mirrored_are_rejected() {
    for (server, expected) in [
        (empty().with::<mirrored::items>(), "an `x-mcp-header` is not reachable through `properties` alone"),
        (empty().with::<mirrored::share>(), "`_share.share` has a header, but is not a string, integer or boolean"),
        (empty().with::<mirrored::injected>(), "the header \"A\\r\\nB\" of `_injected.injected` is not an HTTP token"),
        (empty().with::<mirrored::twice>(), "two arguments use the header `item`"),
    ] {
        let error = server.check().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn buffered_writers_are_flushed_and_size_limits_are_exact() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, BufWriter, duplex, split};

    let server = empty().with::<two::zebra>().max_message_bytes(100).build().unwrap();
    for _ in 0..2 {
        let (near, far) = duplex(1 << 16);
        let (reader, writer) = split(far);
        let serving = tokio::spawn({
            let server = server.clone();
            async move { server.serve(reader, BufWriter::new(writer)).await }
        });
        let (reader, mut writer) = split(near);
        let mut answers = BufReader::new(reader).lines();
        for (length, answer) in [(100, "\"result\":{}"), (101, "the message is too large: the limit is 100 bytes")] {
            let mut line = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"#.to_owned();
            line.push_str(&format!(r#""p":"{}"}}}}"#, "x".repeat(length - line.len() - 8)));
            assert_eq!(line.len(), length);
            writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            let answered = answers.next_line().await.unwrap().unwrap();
            assert!(answered.contains(answer), "{answered}");
        }
        drop((writer, answers));
        assert!(serving.await.unwrap().is_ok());
    }
}

/// Blocks its thread until it is released.
#[tool]
fn held(gate: &Gate) {
    let _ = gate.0.lock().unwrap().recv();
}

struct Gate(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

/// The response to `initialize` is flushed before a function requested in the same bytes is called, even by a buffered
/// writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn initialize_is_answered_while_a_function_blocks_the_thread() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, BufWriter, duplex, split};

    let (release, gate) = std::sync::mpsc::channel();
    let server = empty().with::<held>().with_state(Gate(std::sync::Mutex::new(gate))).build().unwrap();
    let (near, far) = duplex(1 << 16);
    let (reader, writer) = split(far);
    let serving = tokio::spawn(async move { server.serve(reader, BufWriter::new(writer)).await });
    let (reader, mut writer) = split(near);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let initialize = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"#,
        r#""clientInfo":{"name":"test","version":"1"}}}"#,
    );
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"held"}}"#;
    writer.write_all(format!("{initialize}\n{call}\n").as_bytes()).await.unwrap();
    let mut answers = BufReader::new(reader).lines();
    let answered = tokio::time::timeout(Duration::from_secs(10), answers.next_line()).await;
    release.send(()).unwrap();
    assert!(answered.unwrap().unwrap().unwrap().contains(r#""id":1"#));
    assert!(answers.next_line().await.unwrap().unwrap().contains(r#""id":2"#));
    drop((writer, answers));
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn state_can_be_a_trait_object() {
    let clock: Arc<dyn Clock> = Arc::new(Stopped);
    let mut client = empty().with::<time>().with_shared(clock).test_client(Revision::V2025_11_25);
    assert_eq!(client.call("time", ()).await.unwrap().text(), "7");
}

#[tokio::test]
async fn entries_are_filtered_and_sorted() {
    let all = || empty().with::<two::zebra>().with::<one::same>().with::<two::aardvark>().with::<two::aardvark>();
    for (server, expected) in [
        (all(), &["aardvark", "same", "zebra"][..]),
        (all().only(|entry| entry.name != "same"), &["aardvark", "zebra"]),
        (all().only_tags(["blue"]), &["same"]),
        (all().only_tags(["green", "red"]), &["same"]),
        (all().only_crates(["mcp-tests"]), &["aardvark", "same", "zebra"]),
        (all().only_crates(["other"]).with::<time>().with_shared::<dyn Clock>(Arc::new(Stopped)), &["time"]),
    ] {
        let mut client = server.test_client(Revision::V2025_06_18);
        let names: Vec<_> = client.tools().await.unwrap().iter().map(|tool| tool["name"].clone()).collect();
        assert_eq!(names, expected);
    }
}

#[tokio::test]
async fn methods_of_features_that_are_not_offered_are_not_found() {
    for revision in Revision::ALL {
        let mut client = empty().test_client(revision);
        for method in [
            "tools/list",
            "tools/call",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "prompts/list",
            "prompts/get",
            "completion/complete",
            "logging/setLevel",
        ] {
            let refused = client.request(method, json!({})).await.unwrap_err();
            assert_eq!((refused.code, refused.message), (-32601, format!("method not found: {method}")));
        }
    }
}

async fn pages(client: &mut TestClient, method: &str, member: &str) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut params = json!({});
    let mut seen = Vec::new();
    loop {
        let page = client.request(method, params).await.unwrap();
        let items = page[member].as_array().unwrap();
        sizes.push(items.len());
        seen.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
        match &page["nextCursor"] {
            Value::String(cursor) => params = json!({ "cursor": cursor }),
            _ => break,
        }
    }
    let mut sorted = seen.clone();
    sorted.sort();
    assert_eq!(seen, sorted);
    sizes
}

#[tokio::test]
async fn lists_are_paginated() {
    for revision in Revision::ALL {
        let server =
            empty().with::<two::zebra>().with::<one::same>().with::<two::aardvark>().with::<listed>().with_state(Db);
        let mut client = server.page_size(2).test_client(revision);
        assert_eq!(pages(&mut client, "tools/list", "tools").await, [2, 1]);
        assert_eq!(pages(&mut client, "resources/list", "resources").await, [2, 2, 1]);
        assert_eq!(pages(&mut client, "resources/templates/list", "resourceTemplates").await, [1]);
        // In base64: "from:4" continues with the last resource, "from:5" would continue at the end of the list.
        for (cursor, expected) in [("ZnJvbTo0", Ok(1)), ("ZnJvbTo1", Err(-32602)), ("ZnJvbTo2", Err(-32602))] {
            let page = client.request("resources/list", json!({"cursor": cursor})).await;
            let size = page.map(|page| page["resources"].as_array().unwrap().len()).map_err(|error| error.code);
            assert_eq!(size, expected, "{revision}: {cursor}");
        }
    }
}

#[tokio::test]
async fn the_calls_in_flight_of_a_connection_are_limited() {
    let mut client = empty().with::<forever>().with::<two::zebra>().max_in_flight(2).test_client(Revision::V2025_11_25);
    for _ in 0..2 {
        client.send_request("tools/call", json!({"name": "forever"}));
    }
    let refused = client.call("forever", ()).await.unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (-32603, "too many requests in flight: the limit is 2"));
    client.notify("notifications/cancelled", json!({"requestId": 1}));
    assert_eq!(client.in_flight(), 1);
    assert!(client.call("zebra", ()).await.is_ok());
}
