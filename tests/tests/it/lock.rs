//! `locked_test!`: a server is what its lock file says, or the test says what it is not.

use std::{fs, path::Path};

use mcp_runtime::{Server, tool};

mod old {
    use super::tool;

    /// Find pages.
    #[tool(read_only)]
    pub(super) fn find_pages(
        /// What to find.
        query: String,
        /// How many to return.
        #[arg(default = 10, range = 1..=100)]
        limit: u32,
    ) -> String {
        format!("{query} {limit}")
    }
}

mod new {
    use super::tool;

    /// Find pages, the newest first.
    #[tool]
    pub(super) fn find_pages(
        /// What to find.
        query: String,
        /// How many to return.
        #[arg(default = 10, range = 1..=50)]
        limit: u32,
        /// Which language they are in.
        language: String,
        /// Whether drafts are found as well.
        drafts: Option<bool>,
    ) -> String {
        format!("{query} {limit} {language} {drafts:?}")
    }
}

const CHANGED: &str = "\
breaking    tool `find_pages`: argument `limit`: `maximum` changed from 100 to 50
breaking    tool `find_pages`: argument `language` is new and required
breaking    tool `find_pages`: no longer read-only (`readOnlyHint`)
breaking    tool `find_pages`: no longer non-destructive (`destructiveHint`)
breaking    tool `find_pages`: no longer idempotent (`idempotentHint`)
compatible  tool `find_pages`: the description changed
compatible  tool `find_pages`: argument `drafts` is new and optional

the server does not match `mcp.lock.json`: 5 breaking changes and 2 compatible changes
help: run `cargo mcp lock`, or this test with `MCP_UPDATE_LOCK=1`, to accept the changes";

fn old() -> Server {
    Server::empty("pages", "1.0.0").with::<old::find_pages>()
}

fn new() -> Server {
    Server::empty("pages", "2.0.0").with::<new::find_pages>()
}

/// What the test of a server says in a directory.
fn said(directory: &Path, server: Server) -> Result<(), String> {
    let directory = directory.to_str().expect("a path in UTF-8").to_owned();
    let test = move || mcp_runtime::__private::locked_server(&directory, server);
    let test = std::panic::AssertUnwindSafe(test);
    std::panic::catch_unwind(test).map_err(|panic| *panic.downcast::<String>().expect("a panic with a text"))
}

/// A lock file as `cargo mcp lock` writes it: what the client of tests lists.
fn write(directory: &Path, server: Server) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let tools = runtime.block_on(async { server.test_client(mcp_runtime::Revision::V2026_07_28).tools().await });
    let listing = mcp_lock::Listing { tools: tools.expect("tools are listed"), ..Default::default() };
    fs::write(directory.join(mcp_lock::FILE_NAME), mcp_lock::Lock::of(&listing).to_json()).expect("it is written");
}

#[test]
fn changes_since_the_lock_file_fail() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let none = "`mcp.lock.json` does not exist yet\nhelp: run `cargo mcp lock`, or this test with `MCP_UPDATE_LOCK=1`, to write it";
    assert_eq!(said(directory, old()), Err(none.to_owned()));
    write(directory, old());
    assert_eq!(said(directory, old()), Ok(()));
    assert_eq!(said(directory, new()), Err(CHANGED.to_owned()));
}

#[test]
fn a_main_that_is_not_a_server_is_rejected() {
    let expected = "`main` is neither `main!()` nor a `#[server]` function\nhelp: pass the server instead: `locked_test!(Server::new(\"name\", \"1.0.0\"))`";
    for main in [|| {}, || drop(old().build())] {
        let said = std::panic::catch_unwind(|| mcp_runtime::__private::locked_main("/nowhere", &[], main));
        let said = said.expect_err("it panics").downcast::<String>().expect("a panic with a text");
        assert_eq!(*said, expected);
    }
}

mod given {
    // A server that is given itself; `main` is what the example `notes` tests.
    mcp_runtime::locked_test!(super::old());
}
