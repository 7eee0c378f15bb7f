//! Building a server: supported configurations, the order of lists, and build errors.

mod connections;
mod errors;
mod lists;
mod schemas;

use std::{sync::Arc, time::Duration};

use mcp_runtime::{
    Context, Fault, Handle, ResourceLink, Revision, Server,
    backend::{Backend, MemoryBackend, RecordCondition, Records as _},
    resource, tool,
};

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
    let source = include_str!("mod.rs");
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

#[tokio::test]
async fn state_can_be_a_trait_object() {
    let clock: Arc<dyn Clock> = Arc::new(Stopped);
    let mut client = empty().with::<time>().with_shared(clock).test_client(Revision::V2025_11_25);
    assert_eq!(client.call("time", ()).await.unwrap().text(), "7");
}

/// Takes the key.
#[tool]
async fn take_key(backend: &dyn Backend) -> Result<bool, Fault> {
    let taken = backend.set("house/key", RecordCondition::Absent, Vec::new(), Duration::from_secs(60)).await?;
    Ok(taken.is_some())
}

/// Gives the key back, even if the call is cancelled.
#[tool]
async fn return_key(backend: &Arc<dyn Backend>) -> Result<bool, Fault> {
    let backend = Arc::clone(backend);
    let returned = tokio::spawn(async move { backend.delete("house/key", RecordCondition::Always).await });
    Ok(returned.await.unwrap()?)
}

#[tokio::test]
async fn functions_receive_the_backend_of_their_server() {
    let (house, other) = (Arc::new(MemoryBackend::default()), Arc::new(MemoryBackend::default()));
    let functions = || empty().with::<take_key>().with::<return_key>();
    let alone = functions().build().unwrap();
    let on = |backend: &Arc<MemoryBackend>| functions().backend(Arc::clone(backend)).build().unwrap();
    for (server, tool, expected) in [
        (&alone, "take_key", true),
        (&alone, "take_key", false),
        (&on(&house), "take_key", true),
        (&on(&house), "take_key", false),
        (&on(&other), "take_key", true),
        (&on(&house), "return_key", true),
        (&on(&house), "take_key", true),
    ] {
        let mut client = server.test_client(Revision::V2026_07_28);
        assert_eq!(client.call(tool, ()).await.unwrap().text(), expected.to_string(), "{tool}");
    }
}

#[test]
fn builtin_values_cannot_be_replaced() {
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::default());
    let handle: Handle = empty().handle();
    let error = empty().with_state(backend).with_state(handle).check().unwrap_err();
    let problem = |name: &str| {
        format!(
            "state of type `{name}` cannot be added: it is built in\nhelp: remove it, or wrap a different value in a newtype"
        )
    };
    let names = ["mcp_runtime::handle::Handle", "alloc::sync::Arc<dyn mcp_runtime::backend::Backend>"];
    assert_eq!(error.problems(), names.map(problem));
}
