//! `cargo mcp bundle`. `tests/bundle` validates bundles with the official packer.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{CommandOutput, cargo_mcp, repository, run};

fn bundle(args: &[&str]) -> CommandOutput {
    run(&[&["bundle"], args].concat())
}

#[test]
fn a_bundle_contains_the_program_and_its_manifest() {
    let top = tempfile::tempdir().expect("a directory");
    let file = top.path().join("hello.mcpb");
    let icon = repository().join("examples/everything/media/pixel.png");
    let args = [
        "hello",
        "--author",
        "Ada Lovelace <ada@example.com>",
        "--icon",
        icon.to_str().expect("a path in UTF-8"),
        "--env",
        "GREETING=How people are greeted",
        "--default",
        "GREETING=Hello",
        "--env",
        "GREETER_TOKEN=Your token",
        "--env",
        "HOUSE=Where you live",
        "--secret",
        "HOUSE",
        "--output",
        file.to_str().expect("a path in UTF-8"),
    ];
    let done = bundle(&args);
    let output = done.stderr.clone();
    assert_eq!(done.expect_success(), format!("{}\n", file.display()));
    assert!(output.starts_with("building `hello` in release mode\n"), "{output}");
    assert!(output.contains("bundled `hello` with 1 tool and 0 prompts: "), "{output}");

    let first = fs::read(&file).expect("the path exists");
    bundle(&args).expect_success();
    assert_eq!(first, fs::read(&file).expect("the path exists"), "bundles are reproducible");

    let mut zip = zip::ZipArchive::new(fs::File::open(&file).expect("the path exists")).expect("a zip archive");
    let program = format!("server/hello{}", std::env::consts::EXE_SUFFIX);
    let mut files = Vec::new();
    for at in 0..zip.len() {
        let file = zip.by_index(at).expect("the path exists");
        files.push((file.name().expect("a name").into_owned(), file.unix_mode().map(|mode| mode & 0o777)));
    }
    assert_eq!(
        files,
        [("manifest.json", 0o644), (&*program, 0o755), ("icon.png", 0o644)]
            .map(|(name, mode)| (name.to_owned(), Some(mode)))
    );
    let manifest: Value =
        serde_json::from_reader(zip.by_name("manifest.json").expect("the path exists")).expect("valid JSON");
    let platform = match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let setting = |title: &str, description: &str, required, sensitive| {
        json!({
            "type": "string", "title": title, "description": description, "required": required, "sensitive": sensitive,
        })
    };
    let mut greeting = setting("Greeting", "How people are greeted", false, false);
    greeting["default"] = json!("Hello");
    assert_eq!(
        manifest,
        json!({
            "manifest_version": "0.2",
            "name": "hello",
            "version": "0.1.0",
            "description": "The smallest MCP server: one function",
            "author": { "name": "Ada Lovelace", "email": "ada@example.com" },
            "icon": "icon.png",
            "server": {
                "type": "binary",
                "entry_point": program,
                "mcp_config": {
                    "command": format!("${{__dirname}}/{program}"),
                    "args": [],
                    "env": {
                        "GREETING": "${user_config.greeting}",
                        "GREETER_TOKEN": "${user_config.greeter_token}",
                        "HOUSE": "${user_config.house}",
                    },
                },
            },
            "tools": [{ "name": "greet", "description": "Greet a person by name." }],
            "prompts": [],
            "license": "Apache-2.0 OR MIT",
            "compatibility": { "platforms": [platform] },
            "user_config": {
                "greeting": greeting,
                "greeter_token": setting("Greeter token", "Your token", true, true),
                "house": setting("House", "Where you live", true, true),
            },
        })
    );
}

/// Creates a package without dependencies, which builds quickly.
fn package(manifest: &str, main: &str) -> (TempDir, PathBuf) {
    let top = tempfile::tempdir().expect("a directory");
    fs::create_dir(top.path().join("src")).expect("a directory");
    let path = top.path().join("Cargo.toml");
    let package = format!("[package]\nname = \"bundled\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{manifest}");
    fs::write(&path, package).expect("the file is written");
    fs::write(top.path().join("src/main.rs"), main).expect("the file is written");
    (top, path)
}

/// Bundles a new package, in an environment without a git user.
fn bundle_package(manifest: &str, main: &str, args: &[&str]) -> (TempDir, CommandOutput) {
    let (top, path) = package(manifest, main);
    let path = path.to_str().expect("a path in UTF-8");
    let mut command = cargo_mcp(&[&["bundle", "--manifest-path", path], args].concat());
    command.current_dir(top.path()).env("HOME", top.path()).env("CARGO_HOME", cargo_home());
    command.env("RUSTUP_HOME", rustup_home()).env("GIT_CONFIG_NOSYSTEM", "1");
    for name in ["XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"] {
        command.env_remove(name);
    }
    let done = command.output().expect("cargo-mcp starts").into();
    (top, done)
}

fn cargo_home() -> PathBuf {
    home("CARGO_HOME", ".cargo")
}

fn rustup_home() -> PathBuf {
    home("RUSTUP_HOME", ".rustup")
}

fn home(variable: &str, directory: &str) -> PathBuf {
    let home = || std::env::home_dir().unwrap_or_default().join(directory);
    std::env::var_os(variable).map_or_else(home, PathBuf::from)
}

const DESCRIBED: &str = "description = \"A server\"\nauthors = [\"Ada\"]\n";

#[test]
fn missing_manifest_values_are_rejected() {
    let (top, done) = bundle_package("", "fn main() {}", &[]);
    let manifest = top.path().canonicalize().expect("the path exists").join("Cargo.toml");
    assert_eq!(
        done.expect_failure(2),
        format!(
            "error: package `bundled` has no description, which bundles require\n\
             help: add `description = \"…\"` to `{}`\n",
            manifest.display()
        )
    );
    let (top, done) = bundle_package("description = \"A server\"\n", "fn main() {}", &[]);
    let manifest = top.path().canonicalize().expect("the path exists").join("Cargo.toml");
    assert_eq!(
        done.expect_failure(2),
        format!(
            "error: package `bundled` has no author, which bundles require\n\
             help: add `authors = [\"…\"]` to `{}`, or use `--author`\n",
            manifest.display()
        )
    );
}

#[test]
fn a_server_that_does_not_start_is_not_bundled() {
    let (top, done) = bundle_package(DESCRIBED, "fn main() { std::process::exit(1) }", &[]);
    let output = done.expect_failure(3);
    assert!(output.contains("\nerror: `bundled` "), "{output}");
    let help = "help: a bundle lists the tools of its server; set the environment variables that it needs to start\n";
    assert!(output.ends_with(help), "{output}");
    assert!(!top.path().join("bundled.mcpb").exists());

    let (_top, done) = bundle_package(DESCRIBED, "fn main() { nothing() }", &[]);
    assert!(done.expect_failure(3).ends_with("error: package `bundled` failed to build\n"));

    let main = "fn main() { std::thread::sleep(std::time::Duration::from_secs(20)) }";
    let (_top, done) = bundle_package(DESCRIBED, main, &["--connect-timeout", "1"]);
    let output = done.expect_failure(3);
    assert!(output.contains("\nerror: `bundled` did not answer the handshake within 1 s\n"), "{output}");
}

#[test]
fn mistakes_are_reported_before_the_build() {
    let top = tempfile::tempdir().expect("a directory");
    let text = top.path().join("icon.txt");
    fs::write(&text, "no picture").expect("the file is written");
    let (text, directory) = (text.display().to_string(), top.path().display().to_string());
    for (args, why) in [
        (&["helo"][..], "error: no package `helo` in this workspace\nhelp: did you mean `hello`?\n".to_owned()),
        (
            &["hello", "--icon", &text],
            format!(
                "error: the icon `{text}` is not a PNG image\nhelp: clients support only PNG, ideally 512 by 512 pixels\n"
            ),
        ),
        (
            &["hello", "--author", "Ada", "--output", &directory],
            format!(
                "error: `{directory}` is a directory\nhelp: specify a file in it, such as `{}`\n",
                Path::new(&directory).join("hello.mcpb").display()
            ),
        ),
        (
            &["hello", "--secret", "API_KEY"],
            "error: `--secret API_KEY`: unknown variable `API_KEY`\nhelp: declare it with `--env 'API_KEY=DESCRIPTION'`\n"
                .to_owned(),
        ),
        (
            &["hello", "--env", "API_KEY=Your key", "--default", "API_KYE=1"],
            "error: `--default API_KYE`: unknown variable `API_KYE`\nhelp: did you mean `API_KEY`?\n"
                .to_owned(),
        ),
        (
            &["hello", "--env", "KEY=Your key", "--env", "KEY=Another"],
            "error: duplicate `--env` for `KEY`\nhelp: use one `--env` per variable\n".to_owned(),
        ),
    ] {
        assert_eq!(bundle(args).expect_failure(2), why, "{args:?}");
    }
    for (setting, why) in [
        ("API_KEY", "expected NAME=DESCRIPTION, as in `API_KEY=Your key`; the user sees the description"),
        ("API_KEY=", "expected NAME=DESCRIPTION, as in `API_KEY=Your key`; the user sees the description"),
        ("1ST=One", "invalid variable name `1ST`: expected letters, digits and `_`, as in `API_KEY=Your key`"),
        ("MY KEY=One", "invalid variable name `MY KEY`: expected letters, digits and `_`, as in `API_KEY=Your key`"),
    ] {
        let output = bundle(&["hello", "--env", setting]).expect_failure(2);
        assert!(output.contains(why), "{setting}: {output}");
    }
}
