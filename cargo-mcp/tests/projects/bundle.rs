//! `cargo mcp bundle`. `tests/bundle` validates bundles with the official packer.

use std::fs;

use serde_json::{Value, json};

use crate::{
    common::{
        bundle::{bundle, bundle_package},
        repository,
    },
    turn::Turn,
};

#[test]
fn a_bundle_contains_the_program_and_its_manifest() {
    let _turn = Turn::take();
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

const DESCRIBED: &str = "description = \"A server\"\nauthors = [\"Ada\"]\n";

#[test]
fn a_server_that_does_not_start_is_not_bundled() {
    let _turn = Turn::take();
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
