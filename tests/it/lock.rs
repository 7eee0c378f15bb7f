//! `locked_test!`: the test fails if a server differs from its lock file.

use std::{fs, path::Path};

use mcp_runtime::{Server, tool};

mod old {
    use super::tool;

    /// Find pages.
    #[tool(read_only)]
    pub(super) fn find_pages(
        /// The text to find.
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
        /// The text to find.
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

/// Runs the test of a server in a directory, and returns its panic message.
fn locked_test(directory: &Path, server: Server) -> Result<(), String> {
    let directory = directory.to_str().expect("a path in UTF-8").to_owned();
    let run = move || mcp_runtime::__private::locked_server(&directory, server);
    let run = std::panic::AssertUnwindSafe(run);
    std::panic::catch_unwind(run).map_err(|panic| *panic.downcast::<String>().expect("a panic with a text"))
}

/// Writes the lock file of a server, as `cargo mcp lock` does.
fn write_lock(directory: &Path, server: Server) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let tools = runtime.block_on(async { server.test_client(mcp_runtime::Revision::V2026_07_28).tools().await });
    let tools = tools.expect("tools are listed").into_iter().map(|tool| tool.0).collect();
    let listing = mcp_runtime_lock::Listing { tools, ..Default::default() };
    fs::write(directory.join(mcp_runtime_lock::FILE_NAME), mcp_runtime_lock::Lock::of(&listing).to_json())
        .expect("a writable directory");
}

#[test]
fn changes_since_the_lock_file_fail() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let missing = "`mcp.lock.json` does not exist yet\nhelp: run `cargo mcp lock`, or this test with `MCP_UPDATE_LOCK=1`, to write it";
    assert_eq!(locked_test(directory, old()), Err(missing.to_owned()));
    write_lock(directory, old());
    assert_eq!(locked_test(directory, old()), Ok(()));
    assert_eq!(locked_test(directory, new()), Err(CHANGED.to_owned()));
}

#[test]
fn a_main_that_is_not_a_server_is_rejected() {
    let expected = "`main` is neither `main!()` nor a `#[server]` function\nhelp: pass the server instead: `locked_test!(Server::new(\"name\", \"1.0.0\"))`";
    for main in [|| {}, || drop(old().build())] {
        let panic = std::panic::catch_unwind(|| mcp_runtime::__private::locked_main("/nowhere", &[], main));
        let message = panic.expect_err("a panic").downcast::<String>().expect("a panic with a text");
        assert_eq!(*message, expected);
    }
}

mod server_expression {
    // The macro accepts a server. The example `notes` tests the other form, which uses `main`.
    mcp_runtime::locked_test!(super::old());
}
