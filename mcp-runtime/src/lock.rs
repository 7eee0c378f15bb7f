//! Comparing a server with the lock file of its package, in a test of the author's: no process, no port.

use std::{cell::RefCell, ffi::OsString, fs, path::Path};

use mcp_lock::{FILE_NAME, Listing, Lock};
use serde_json::json;

use crate::{BuiltServer, Revision, Server, testing::TestClient};

/// The variable that has tests write the file.
const UPDATE: &str = "MCP_UPDATE_LOCK";

/// What is said of a `main` that is none of ours.
const STRANGER: &str = "`main` is neither `main!()` nor a `#[server]`: give the server itself, as in \
                        `locked_test!(Server::new(\"name\", \"1.0.0\"))`";

thread_local! {
    /// What a test wants of the `main` that it calls on this thread.
    static LOAN: RefCell<Option<Loan>> = const { RefCell::new(None) };
}

enum Loan {
    /// The words of the command line that `main` is to read.
    Asked(Vec<OsString>),
    /// The server that it would have served.
    Given(Result<Lock, String>),
}

/// Writes a test that fails if the server is not what `mcp.lock.json`, beside the package's `Cargo.toml`, says that it is.
///
/// `cargo mcp lock` writes that file, and so does this test where `MCP_UPDATE_LOCK=1` is in the environment; `cargo mcp check --locked`
/// makes the same comparison. The test says of each change whether it breaks callers. It needs the feature `lock`, which a test gets by
/// `cargo add --dev mcp-runtime --features lock`.
///
/// In a program with `main!()` or `#[server]` it looks at the server that `main` would serve, without serving it:
///
/// ```
/// # use mcp_runtime::tool;
/// # /// Add two numbers.
/// # #[tool]
/// # fn add(a: f64, b: f64) -> f64 { a + b }
/// # mod as_a_program {
/// mcp_runtime::main!();
///
/// #[cfg(test)]
/// mod tests {
///     mcp_runtime::locked_test!();
/// }
/// # }
/// ```
///
/// The words of its command line stand in brackets: `locked_test!(["--db", ":memory:"])`. A server from anywhere else is given itself:
/// `locked_test!(Server::new("notes", "1.0.0").with_state(store()))`.
#[macro_export]
// `crate::main` is the author's own.
#[allow(clippy::crate_in_macro_def)]
macro_rules! locked_test {
    () => {
        $crate::locked_test!([]);
    };
    ([$($word:expr),* $(,)?]) => {
        /// The server is what the lock file says.
        #[test]
        fn mcp_lock() {
            let main = || {
                let _ = crate::main();
            };
            $crate::__private::locked_main(::core::env!("CARGO_MANIFEST_DIR"), &[$($word),*], main);
        }
    };
    ($server:expr) => {
        /// The server is what the lock file says.
        #[test]
        fn mcp_lock() {
            $crate::__private::locked_server(::core::env!("CARGO_MANIFEST_DIR"), $server);
        }
    };
}

/// Compares the server that a `main` would serve.
///
/// # Panics
///
/// Panics if it is another one than the file says, or if there is none.
#[track_caller]
pub fn locked_main(directory: &str, words: &[&str], main: impl FnOnce()) {
    LOAN.set(Some(Loan::Asked(words.iter().map(OsString::from).collect())));
    main();
    match LOAN.take() {
        Some(Loan::Given(Ok(lock))) => check(directory, &lock),
        Some(Loan::Given(Err(why))) => panic!("{why}"),
        Some(Loan::Asked(_)) | None => panic!("{STRANGER}"),
    }
}

/// Compares a server.
///
/// # Panics
///
/// Panics if it is another one than the file says, or if it cannot be built.
#[track_caller]
pub fn locked_server(directory: &str, server: Server) {
    let server = server.build().unwrap_or_else(|error| panic!("{error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let lock = runtime.unwrap_or_else(|error| panic!("{error}")).block_on(lock(&server));
    check(directory, &lock.unwrap_or_else(|why| panic!("{why}")));
}

/// Stops a `main` that builds a server by itself, and would serve it to nobody for ever.
///
/// # Panics
///
/// Panics if a test called `main` on this thread.
pub(crate) fn refuse_strangers() {
    let is_borrowed = LOAN.with_borrow(Option::is_some);
    assert!(!is_borrowed, "{STRANGER}");
}

/// Gives a test what it asked `main` for; false if nobody asked.
pub(crate) fn lend(server: impl FnOnce(Vec<OsString>) -> Result<Lock, String>) -> bool {
    match LOAN.take() {
        Some(Loan::Asked(words)) => {
            let lock = server(words);
            LOAN.set(Some(Loan::Given(lock)));
            true
        }
        other => {
            LOAN.set(other);
            false
        }
    }
}

/// Reads what a server lists, in the newest revision, which says the most.
///
/// # Errors
///
/// A function that lists resources failed.
pub(crate) async fn lock(server: &BuiltServer) -> Result<Lock, String> {
    let mut client = server.test_client(Revision::LATEST);
    let told =
        client.request("server/discover", json!({})).await.map_err(|error| format!("server/discover: {error}"))?;
    Ok(Lock::of(&Listing {
        instructions: told["instructions"].as_str().map(str::to_owned),
        tools: list(&mut client, "tools/list", "tools").await?,
        resources: list(&mut client, "resources/list", "resources").await?,
        resource_templates: list(&mut client, "resources/templates/list", "resourceTemplates").await?,
        prompts: list(&mut client, "prompts/list", "prompts").await?,
    }))
}

async fn list(client: &mut TestClient, method: &str, member: &str) -> Result<Vec<serde_json::Value>, String> {
    match client.list(method, member).await {
        Ok(items) => Ok(items),
        // Nothing of the kind is offered.
        Err(error) if error.code == -32601 => Ok(Vec::new()),
        Err(error) => Err(format!("{method}: {error}")),
    }
}

#[track_caller]
fn check(directory: &str, now: &Lock) {
    let path = Path::new(directory).join(FILE_NAME);
    if std::env::var_os(UPDATE).is_some_and(|value| !value.is_empty() && value != "0") {
        return fs::write(&path, now.write()).unwrap_or_else(|error| panic!("`{}`: {error}", path.display()));
    }
    if let Err(why) = compared(&path, now) {
        panic!("{why}");
    }
}

/// Compares a lock with a file.
fn compared(path: &Path, now: &Lock) -> Result<(), String> {
    let accept = format!("run `cargo mcp lock`, or this test with `{UPDATE}=1`");
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("there is no `{FILE_NAME}` yet\nhelp: {accept}, to write it"));
        }
        Err(error) => return Err(format!("`{}` cannot be read: {error}", path.display())),
    };
    let old =
        Lock::read(&text).map_err(|why| format!("`{}`: {why}\nhelp: {accept}, to write it anew", path.display()))?;
    let changes = old.changes(now);
    match &*changes {
        [] => Ok(()),
        changes => Err(format!("{}\nhelp: {accept}, to accept", mcp_lock::report(changes))),
    }
}
