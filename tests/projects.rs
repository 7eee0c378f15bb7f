//! Programs that the macros accept, and programs that they reject with exact error messages.
//!
//! Each program is compiled as a package of its own, which takes a minute, so only `cargo test --workspace --test projects`
//! runs this test. The `.stderr` files are user interface. `TRYBUILD=overwrite` regenerates them.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

#[test]
fn macros_report_mistakes() {
    let cases = trybuild::TestCases::new();
    cases.pass("ui/*/pass/*.rs");
    cases.compile_fail("ui/*/fail/*.rs");
}

#[test]
fn errors_about_what_a_feature_adds_name_the_missing_feature() {
    // The compiler reports errors of types only if all names are found, so there are two programs.
    for (features, rows) in [
        (
            &[][..],
            &[
                ("pub use mcp_runtime::Session;", "ask"),
                ("pub use mcp_runtime::ask::Answer;", "ask"),
                ("#[derive(mcp_runtime::Elicit)] pub struct Confirm { pub sure: bool }", "ask"),
                ("pub use mcp_runtime::HttpOptions;", "http"),
                ("pub use mcp_runtime::auth::{Authenticator, TokenFile};", "http"),
                ("pub fn f(_: mcp_runtime::http::HttpService) {}", "http"),
                ("pub use mcp_runtime::layers::RateLimit;", "rate-limit"),
                ("pub use mcp_runtime::layers::CacheReadOnly;", "cache"),
                ("pub use mcp_runtime::forward_log_layer;", "log"),
                ("mcp_runtime::locked_test!();", "testing"),
                ("pub use mcp_runtime::testing::TestClient;", "testing"),
                ("pub use mcp_runtime::function::TaskStatus;", "tasks"),
                ("/** Work. */ #[mcp_runtime::tool(task)] pub async fn work() {}", "tasks"),
                ("pub use mcp_runtime::ui;", "ui"),
                ("pub use mcp_runtime::function::PageOutput;", "ui"),
                ("/** Work. */ #[mcp_runtime::tool(ui = page)] pub fn show() -> u8 { 1 }", "ui"),
                ("/** Work. */ #[mcp_runtime::tool(visibility = [app])] pub fn refresh() {}", "ui"),
            ][..],
        ),
        (
            &[],
            &[
                ("pub async fn f(ctx: &mcp_runtime::Context) { drop(ctx.elicit::<u8>(\"a\", \"b\").await); }", "ask"),
                ("pub async fn f(ctx: &mcp_runtime::Context) { drop(ctx.roots().await); }", "ask"),
                ("pub fn f(ctx: &mcp_runtime::Context) { if ctx.supports(1) {} }", "ask"),
                (
                    "pub fn f(ctx: &mcp_runtime::Context) -> Result<(), mcp_runtime::Fault> { ctx.session()?; Ok(()) }",
                    "ask",
                ),
                ("pub fn f(handle: &mcp_runtime::Handle) { for _ in handle.sessions() {} }", "ask"),
                ("pub fn f(server: mcp_runtime::Server) { server.on_roots_changed(1); }", "ask"),
                (
                    "pub fn f(ctx: &mcp_runtime::Context) -> Option<&str> { ctx.headers()?.get(\"accept\")?.to_str().ok() }",
                    "http",
                ),
                ("pub fn f(ctx: &mcp_runtime::Context) -> bool { ctx.extension::<u8>().is_some() }", "http"),
                ("pub fn f(ctx: &mcp_runtime::Context) -> bool { ctx.peer_addr().is_some() }", "http"),
                ("pub fn f(caller: &mcp_runtime::Caller) -> bool { caller.headers().is_some() }", "http"),
                ("pub fn f(server: mcp_runtime::Server) { server.authenticate(1); }", "http"),
                (
                    "pub fn f(server: mcp_runtime::BuiltServer) { server.into_http_service(Default::default()); }",
                    "http",
                ),
                ("pub fn f(server: mcp_runtime::Server) { server.with_skills(\"skills\"); }", "skills"),
                ("pub fn f(server: mcp_runtime::Server) { server.forward_log(); }", "log"),
                (
                    "pub fn f(server: mcp_runtime::Server) { server.test_client(mcp_runtime::Revision::ALL[0]); }",
                    "testing",
                ),
                (
                    "pub fn f(server: &mcp_runtime::BuiltServer) { server.test_client(mcp_runtime::Revision::ALL[0]); }",
                    "testing",
                ),
                ("pub fn f() -> mcp_runtime::Context { mcp_runtime::Context::for_test() }", "testing"),
            ],
        ),
        (
            &["testing"],
            &[
                ("pub fn f(client: mcp_runtime::testing::TestClient) { client.with_extension(1); }", "http"),
                (
                    "pub fn f(client: mcp_runtime::testing::TestClient) { client.with_header(\"accept\", \"*\"); }",
                    "http",
                ),
                (
                    "pub async fn f(client: &mut mcp_runtime::testing::TestClient) { drop(client.start_task(\"a\", ()).await); }",
                    "tasks",
                ),
            ],
        ),
    ] {
        let errors = errors_with_features(features, rows.iter().map(|(code, _)| *code));
        for (index, (code, feature)) in rows.iter().enumerate() {
            let found: Vec<_> = errors.iter().filter(|(line, _)| *line == index + 1).map(|(_, text)| text).collect();
            let [error] = *found else { panic!("expected one error about {code}, found {found:#?}") };
            assert!(
                error.contains(&format!("feature `{feature}`")) || error.contains(&format!("`{feature}` feature")),
                "{error}"
            );
        }
        assert_eq!(errors.len(), rows.len(), "{errors:#?}");
    }
}

/// Compiles a package that depends on `mcp-runtime` with these features, with a module on each line. Returns the lines and
/// texts of its errors.
fn errors_with_features<'a>(features: &[&str], modules: impl Iterator<Item = &'a str>) -> Vec<(usize, String)> {
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("missing-features");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    fs::create_dir_all(package.join("src")).expect("a directory");
    let manifest = format!(
        "[package]\nname = \"missing-features\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         mcp-runtime = {{ path = {:?}, default-features = false, features = {features:?} }}\n",
        repository.join("mcp-runtime")
    );
    fs::write(package.join("Cargo.toml"), manifest).expect("a manifest");
    fs::copy(repository.join("Cargo.lock"), package.join("Cargo.lock")).expect("a lock file");
    let source = modules.enumerate().map(|(index, module)| format!("pub mod m{index} {{ {module} }}\n"));
    fs::write(package.join("src/lib.rs"), source.collect::<String>()).expect("a program");

    let output = Command::new(env!("CARGO"))
        .args(["check", "--quiet", "--message-format", "json"])
        .current_dir(&package)
        .env("CARGO_TARGET_DIR", package.join("target"))
        .output()
        .expect("cargo starts");
    let messages = output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let errors: Vec<_> = messages.filter_map(|message: Value| error(&message["message"])).collect();
    assert!(!errors.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    errors
}

/// Returns the line and the text of an error in the source.
fn error(message: &Value) -> Option<(usize, String)> {
    let span = message["spans"].as_array()?.iter().find(|span| span["is_primary"] == true)?;
    // Errors in the expansion of a macro are on the line of its call.
    let span = if span["expansion"].is_null() { span } else { &span["expansion"]["span"] };
    let line = usize::try_from(span["line_start"].as_u64()?).ok()?;
    (message["level"] == "error").then(|| (line, message["rendered"].as_str().unwrap_or_default().to_owned()))
}
