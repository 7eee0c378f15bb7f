//! Until the first release, no page, message or new package names a command that installs one of the packages from the registry, where
//! another owner may hold the name. Each says how to use a checkout instead.

use std::{path::Path, process::Command};

/// Returns why a line would install a package from the registry.
fn mistake(line: &str) -> Option<&'static str> {
    let ours = |word: &str| {
        let name = word.trim_matches(|letter: char| !letter.is_alphanumeric());
        let name = name.split('@').next().unwrap_or_default();
        name.starts_with("mcp-runtime")
            || [
                "cargo-mcp",
                "mcp-auth",
                "mcp-redis",
                "mcp-otel",
                "mcp-process",
                "mcp-clap",
                "mcp-proxy",
                "mcp-openapi",
                "mcp-openapi-macros",
                "mcp-config",
                "mcp-macros",
                "mcp-lock",
                "mcp-page",
                "mcp-schema",
                "mcp-uri-template",
            ]
            .contains(&name)
    };
    // With `--features`, `cargo add` keeps the source of a dependency that exists, and compile errors name it only then.
    let is_local =
        ["path", "--git", "git =", "cargo add mcp-runtime --features"].iter().any(|source| line.contains(source));
    for command in ["cargo install ", "cargo add ", "cargo binstall "] {
        if let Some((_, arguments)) = line.split_once(command)
            && !is_local
            && arguments.split_whitespace().any(ours)
        {
            return Some("a command without `--path`");
        }
    }
    let (name, source) = line.trim_start_matches(['/', '!', ' ']).split_once(" = ")?;
    let is_version =
        source.starts_with("\"") && source.trim_matches('"').starts_with(|first: char| first.is_ascii_digit());
    (ours(name) && !name.contains(' ') && !is_local && (is_version || source.contains("version =")))
        .then_some("a dependency without `path`")
}

#[test]
fn nothing_installs_a_package_from_the_registry() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the repository");
    let listed = Command::new("git").args(["ls-files", "*.md", "*.rs", "*.toml", "*.yml"]).current_dir(root).output();
    let listed = String::from_utf8(listed.expect("git starts").stdout).expect("paths are UTF-8");
    assert!(listed.lines().count() > 100, "{listed}");
    let mut found = Vec::new();
    for path in listed.lines().filter(|path| !path.ends_with("tests/it/installation.rs")) {
        let Ok(text) = std::fs::read_to_string(root.join(path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            if let Some(why) = mistake(line) {
                found.push(format!("{path}:{}: {why}: {line}", number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn commands_and_dependencies_are_recognized() {
    for (line, is_mistake) in [
        ("$ cargo install cargo-mcp", true),
        ("Run `cargo install mcp-runtime-cli --locked`.", true),
        ("$ cargo add mcp-runtime", true),
        ("help: run `cargo add mcp-runtime --features http`", false),
        ("/// help: run `cargo add mcp-runtime@0.1`", true),
        ("mcp-runtime = \"0.1\"", true),
        ("//! mcp-runtime = { version = \"0.1\", features = [\"http\"] }", true),
        ("$ cargo install --path cargo-mcp", false),
        ("$ cargo add mcp-runtime --path ../mcp-runtime", false),
        ("$ cargo install --git https://example.com/mcp-runtime mcp-runtime-cli", false),
        ("$ cargo install cargo-hack", false),
        ("mcp-runtime = { path = \"mcp-runtime\", version = \"0.1.0\" }", false),
        ("mcp-runtime.workspace = true", false),
        ("tokio = \"1\"", false),
    ] {
        assert_eq!(mistake(line).is_some(), is_mistake, "{line}");
    }
}
