//! Mistakes that `cargo mcp bundle` reports before it builds the server, and how it builds and starts the server.

use std::{fs, path::Path};

use crate::common::bundle::{bundle, bundle_package};

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
            &["hello", "--env", "KEY=Your key, as in a=b", "--env", "KEY=Another"],
            "error: duplicate `--env` for `KEY`\nhelp: use one `--env` per variable\n".to_owned(),
        ),
        // The names of settings are in lower case.
        (
            &["hello", "--env", "KEY=Your key", "--env", "key=Another"],
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

/// A client starts it elsewhere, with the defaults of its settings.
#[test]
fn the_server_is_optimized_and_started_as_by_a_client() {
    let main = r#"fn main() {
        let files = std::fs::read_dir(".").unwrap().count();
        let is_optimized = !cfg!(debug_assertions);
        eprintln!("files: {files}, optimized: {is_optimized}, greeting: {:?}", std::env::var("GREETING").ok());
        std::process::exit(1);
    }"#;
    let settings = ["--env", "GREETING=How people are greeted", "--default", "GREETING=Hello"];
    let (_top, done) = bundle_package("description = \"A server\"\nauthors = [\"Ada\"]\n", main, &settings);
    let output = done.expect_failure(3);
    let expected = "files: 0, optimized: true, greeting: Some(\"Hello\")";
    assert!(output.lines().any(|line| line == expected), "{output}");
}
