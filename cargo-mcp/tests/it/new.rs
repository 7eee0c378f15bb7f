//! `cargo mcp new`: packages from each example, their location, and rejected command lines.

use std::{
    fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use crate::common::{
    CommandOutput,
    packages::{cargo, empty_directory, examples, new_in, read},
    repository, run,
};

#[test]
fn examples_are_listed_with_descriptions() {
    let listed = run(&["new", "--list"]).expect_success();
    let width = examples().iter().map(String::len).max().expect("there are examples") + 2;
    for name in examples() {
        let manifest = read(repository().join("examples").join(&name).join("Cargo.toml"));
        let description = manifest.lines().find_map(|line| line.strip_prefix("description = ")).expect("a description");
        let line = format!("{name:width$}{}\n", description.trim_matches('"'));
        assert!(listed.contains(&line), "{line} is missing from\n{listed}");
    }
    let entries = fs::read_dir(repository().join("examples")).expect("there are examples").flatten();
    assert_eq!(examples().len(), entries.count());
}

#[test]
fn the_path_of_a_package_is_quoted_for_the_shell() {
    let top = empty_directory();
    let made = new_in(top.path(), &["my servers/weather"]);
    assert!(made.stderr.contains("\n  cd 'my servers/weather'\n"), "{}", made.stderr);
}

#[test]
fn a_package_is_created_with_instructions() {
    let top = empty_directory();
    let made = new_in(top.path(), &["servers/my-weather"]);
    let output = made.stderr.clone();
    assert_eq!(made.expect_success(), "");
    let runtime = repository().join("mcp-runtime").canonicalize().expect("the path exists");
    let expected = format!(
        "created package `my-weather` in `servers/my-weather` from example `hello`\n\
         using `mcp-runtime` from `{}`\n\n\
         next steps:\n  \
           cd servers/my-weather\n  \
           cargo test                              run the tests\n  \
           cargo run -- --list                     list tools, resources and prompts\n  \
           cargo mcp install --client claude-code  connect a client\n\
         see `README.md` for other clients\n",
        runtime.display()
    );
    assert_eq!(output, expected);
    let project = top.path().join("servers/my-weather");
    assert_eq!(read(project.join(".gitignore")), "/target\n*.mcpb\n");
    assert!(project.join(".git").is_dir());
    assert_eq!(
        read(project.join("Cargo.toml")),
        format!(
            "[package]\n\
             name = \"my-weather\"\n\
             version = \"0.1.0\"\n\
             edition = \"2024\"\n\
             rust-version = \"1.88\"\n\
             \n\
             [dependencies]\n\
             mcp-runtime = {{ path = \"{}\" }}\n\
             \n\
             [dev-dependencies]\n\
             mcp-runtime = {{ path = \"{}\", features = [\"testing\"] }}\n\
             serde_json = {{ version = \"1.0.145\", features = [\"preserve_order\", \"raw_value\"] }}\n\
             tokio = {{ version = \"1.48\", features = [\"macros\", \"rt\"] }}\n\
             \n\
             # A server on stdio must write nothing but protocol messages to stdout.\n\
             [lints.clippy]\n\
             print_stdout = \"warn\"\n",
            runtime.display(),
            runtime.display()
        )
    );
    assert!(read(project.join("src/main.rs")).contains("Server::new(\"my-weather\", \"0.1.0\")"));
    let readme = read(project.join("README.md"));
    for part in [
        "# my-weather\n",
        "cargo run -- --list",
        "cargo test",
        "cargo mcp install --client claude-code",
        "claude mcp add my-weather -- /path/to/my-weather",
        "Claude Desktop",
        "~/.cursor/mcp.json",
        "code --add-mcp '{\"name\":\"my-weather\",\"command\":\"/path/to/my-weather\"}'",
        "{ \"mcpServers\": { \"my-weather\": { \"command\": \"/path/to/my-weather\" } } }",
    ] {
        assert!(readme.contains(part), "{part} is missing from\n{readme}");
    }
    assert!(!readme.contains("http://127"), "{readme}");
}

#[test]
fn the_readme_contains_the_url_if_the_server_supports_http() {
    let top = empty_directory();
    for (args, start) in [
        (&["weather", "--http"][..], "cargo run --release -- --http 127.0.0.1:8080"),
        // The example supports HTTP by default.
        (&["diary", "--from", "notes"], "cargo run --release -- --http 127.0.0.1:8080"),
        (&["tea", "--from", "mount_axum"], "Start the server with `cargo run --release`"),
    ] {
        let output = new_in(top.path(), args).stderr;
        let project = top.path().join(args[0]);
        let manifest = read(project.join("Cargo.toml"));
        let runtime = manifest.lines().find(|line| line.starts_with("mcp-runtime")).expect("a dependency");
        assert!(runtime.contains("features = [\"http\""), "{runtime}");
        let readme = read(project.join("README.md"));
        let connect = format!("claude mcp add --transport http {} http://127.0.0.1:8080/mcp", args[0]);
        let json = format!("{{ \"mcpServers\": {{ \"{}\": {{ \"url\": \"http://127.0.0.1:8080/mcp\" }} }} }}", args[0]);
        for part in [start, &connect, &json] {
            assert!(readme.contains(part), "{part} is missing from\n{readme}");
        }
        assert_eq!(output.contains("cargo mcp install"), args[0] != "tea", "{output}");
        assert!(output.contains("serve HTTP"), "{output}");
    }
}

#[test]
fn the_framework_can_come_from_a_path() {
    let top = empty_directory();
    let runtime = top.path().join("framework/mcp-runtime");
    fs::create_dir_all(&runtime).expect("a directory");
    fs::write(runtime.join("Cargo.toml"), "[package]\nname = \"mcp-runtime\"\n").expect("the file is written");
    let whole = runtime.canonicalize().expect("the path exists");
    // The root of the checkout works as well.
    for (name, path) in [("one", "framework/mcp-runtime"), ("two", "framework")] {
        new_in(top.path(), &[name, "--runtime-path", path]).expect_success();
        let manifest = read(top.path().join(name).join("Cargo.toml"));
        assert!(manifest.contains(&format!("mcp-runtime = {{ path = \"{}\" }}", whole.display())), "{manifest}");
    }
}

#[test]
fn invalid_command_lines_are_rejected_with_help() {
    let top = empty_directory();
    fs::create_dir(top.path().join("full")).expect("a directory");
    fs::write(top.path().join("full/notes.txt"), "").expect("the file is written");
    for (args, why) in [
        (
            &[][..],
            "error: the name of the package is missing\n\
             help: specify a name, such as `cargo mcp new weather`\n\
             help: `cargo mcp new --list` lists the examples to start from\n",
        ),
        (
            &["My Server"],
            "error: invalid package name `My Server`: it contains characters other than letters, digits, `-` and `_`\n\
             help: use `my-server` instead\n",
        ),
        (
            &["servers/3d"],
            "error: invalid package name `3d`: it starts with a digit\n\
             help: use `server-3d` instead\n",
        ),
        (
            &["async"],
            "error: invalid package name `async`: it is a Rust keyword\n\
             help: use `async-server` instead\n",
        ),
        (
            &["test"],
            "error: invalid package name `test`: it is the name of a standard library crate\n\
             help: use `test-server` instead\n",
        ),
        (
            &["tokio"],
            "error: invalid package name `tokio`: it is the name of a dependency\n\
             help: use `tokio-server` instead\n",
        ),
        (
            &["weather", "--from", "note"],
            "error: unknown example `note`\n\
             help: did you mean `notes`?\n\
             help: `cargo mcp new --list` describes the examples\n",
        ),
        (
            &["weather", "--from", "cobol"],
            "error: unknown example `cobol`\n\
             help: available examples: `ask`, `cluster`, `dashboard`, `everything`, `files`, `gateway`, `hello`, `jobs`, `mount_axum`, `notes`, `observability`, `protected`\n\
             help: `cargo mcp new --list` describes the examples\n",
        ),
        (
            &["full"],
            "error: the directory `full` is not empty: it contains `notes.txt`\n\
             help: choose another name, or move the existing files\n",
        ),
        (
            &["weather", "--runtime-path", "full"],
            "error: `full` is not the package `mcp-runtime`\n\
             help: `--runtime-path` must be the directory of its `Cargo.toml` in a checkout of the framework\n",
        ),
        (
            &["/"],
            "error: `/` does not end with a name\n\
             help: specify a name, such as `cargo mcp new weather`\n",
        ),
    ] {
        assert_eq!(new_in(top.path(), args).expect_failure(2), why, "{args:?}");
    }
    fs::write(top.path().join("file"), "").expect("the file is written");
    assert_eq!(
        new_in(top.path(), &["file"]).expect_failure(2),
        "error: `file` exists and is not a directory\nhelp: choose another name, or move the existing files\n"
    );
    let error = new_in(top.path(), &["weather", "--list"]).expect_failure(2);
    assert!(error.starts_with("error: the argument '[NAME]' cannot be used with '--list'"), "{error}");
    let left: Vec<_> =
        fs::read_dir(top.path()).expect("the path exists").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 2, "nothing was created: {left:?}");
}

#[test]
fn an_empty_directory_or_repository_is_used() {
    let top = empty_directory();
    for (name, has_repository) in [("empty", false), ("cloned", true)] {
        let directory = top.path().join(name);
        fs::create_dir(&directory).expect("a directory");
        if has_repository {
            git(&directory, &["init", "--quiet"]);
        }
        let output = new_in(&directory, &["."]).stderr;
        assert!(
            output.starts_with(&format!("created package `{name}` in `.`")) && !output.contains("  cd "),
            "{output}"
        );
        assert!(read(directory.join("Cargo.toml")).contains(&format!("name = \"{name}\"")));
    }
}

fn git(directory: &Path, args: &[&str]) {
    let done = Command::new("git").args(args).current_dir(directory).output().expect("git starts");
    CommandOutput::from(done).expect_success();
}

#[test]
fn a_repository_is_initialized_unless_there_is_one() {
    let top = empty_directory();
    fs::create_dir(top.path().join("inside")).expect("a directory");
    git(&top.path().join("inside"), &["init", "--quiet"]);
    for (path, options, made) in [
        ("outside", &[][..], true),
        ("without", &["--vcs", "none"], false),
        ("inside/one", &[], false),
        ("inside/two", &["--vcs", "git"], true),
    ] {
        new_in(top.path(), &[&[path], options].concat()).expect_success();
        assert_eq!(top.path().join(path).join(".git").exists(), made, "{path}");
    }
}

#[test]
fn the_package_is_added_to_the_workspace() {
    for (what, before, after) in [
        ("a pattern", "[workspace]\nmembers = [\"servers/*\"]\n", None),
        ("an exclusion", "[workspace]\nmembers = [\"app\"]\nexclude = [\"servers\"]\n", None),
        ("a package", "[package]\nname = \"top\"\nversion = \"0.1.0\"\nedition = \"2024\"\n", None),
        (
            "no members",
            "[workspace]\nresolver = \"3\"\n",
            Some("[workspace]\nresolver = \"3\"\nmembers = [\"servers/weather\"]\n"),
        ),
        (
            "a line in order",
            "[workspace]\nmembers = [\"app\", \"tools\"] # mine\n",
            Some("[workspace]\nmembers = [\"app\", \"servers/weather\", \"tools\"] # mine\n"),
        ),
        (
            "a line not in order",
            "[workspace]\nmembers = [\"tools\", \"app\"]\n",
            Some("[workspace]\nmembers = [\"tools\", \"app\", \"servers/weather\"]\n"),
        ),
        (
            "a line to prepend to",
            "[workspace]\nmembers = [\"tools\"]\n",
            Some("[workspace]\nmembers = [\"servers/weather\", \"tools\"]\n"),
        ),
        (
            "lines",
            "[workspace]\nmembers = [\n    \"app\",\n    # for builds\n    \"tools\",\n]\n",
            Some(
                "[workspace]\nmembers = [\n    \"app\",\n    \"servers/weather\",\n    # for builds\n    \"tools\",\n]\n",
            ),
        ),
    ] {
        let top = empty_directory();
        fs::write(top.path().join("Cargo.toml"), before).expect("the file is written");
        for package in ["app", "tools"].into_iter().filter(|package| before.contains(package)) {
            cargo(top.path(), &["new", "--quiet", "--vcs", "none", "--lib", package]).expect_success();
        }
        fs::create_dir(top.path().join("src")).expect("a directory");
        fs::write(top.path().join("src/lib.rs"), "").expect("the file is written");
        fs::write(top.path().join("Cargo.toml"), before).expect("the manifest is restored after `cargo new`");

        let made = new_in(top.path(), &["servers/weather"]);
        let whole = top.path().canonicalize().expect("the path exists").join("Cargo.toml");
        let added = format!("added the package to `members` in `{}`\n", whole.display());
        assert_eq!(made.stderr.contains(&added), after.is_some(), "{what}: {}", made.stderr);
        made.expect_success();
        assert_eq!(read(top.path().join("Cargo.toml")), after.unwrap_or(before), "{what}");
        let project = top.path().join("servers/weather");
        cargo(&project, &["metadata", "--no-deps", "--format-version", "1"]).expect_success();
    }
}

#[test]
fn an_invalid_workspace_is_reported() {
    let top = empty_directory();
    fs::write(top.path().join("Cargo.toml"), "[workspace]\nmembers = [\"gone\"]\n").expect("the file is written");
    let output = new_in(top.path(), &["weather"]).expect_failure(2);
    assert!(
        output.starts_with("error: the package was created, but cargo rejects it: failed to load manifest"),
        "{output}"
    );
    assert_eq!(read(top.path().join("Cargo.toml")), "[workspace]\nmembers = [\"gone\"]\n", "the manifest is unchanged");
}

#[test]
fn templates_are_in_the_published_package() {
    let listed = cargo(repository(), &["package", "-p", "mcp-runtime-cli", "--list", "--allow-dirty"]).expect_success();
    for example in examples() {
        for file in ["manifest.toml", "src/main.rs"] {
            let path = format!("templates/{example}/{file}");
            assert!(listed.lines().any(|line| line == path), "{path} is missing from\n{listed}");
        }
    }
    for file in ["workspace.toml", "protected/demo.sh", "protected/authorization_server.mjs"] {
        let path = format!("templates/{file}");
        assert!(listed.lines().any(|line| line == path), "{path} is missing from\n{listed}");
    }
}

/// Runs `cargo mcp new` in a terminal and types each answer after its question. Returns the whole output.
fn in_a_terminal(directory: &Path, dialogue: &[(&str, &str)]) -> String {
    let command = format!("{} new", env!("CARGO_BIN_EXE_cargo-mcp"));
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(directory).env("TERM", "xterm");
    let script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut script = script.expect("`script` of util-linux must be installed");
    let mut keys = script.stdin.take().expect("a pipe");
    let mut screen = script.stdout.take().expect("a pipe");
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut bytes) {
            let _ = send.send(bytes[..count].to_owned());
        }
    });
    let mut shown = String::new();
    let mut seen = 0;
    for (question, answer) in dialogue {
        while !shown[seen..].contains(question) {
            match receive.recv_timeout(Duration::from_secs(60)) {
                Ok(bytes) => shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => {
                    let _ = script.kill();
                    panic!("{question}: {error}\n{shown}");
                }
            }
        }
        seen = shown.len();
        keys.write_all(answer.as_bytes()).expect("the terminal accepts input");
    }
    while let Ok(bytes) = receive.recv_timeout(Duration::from_secs(60)) {
        shown.push_str(&String::from_utf8_lossy(&bytes));
    }
    let _ = script.kill();
    script.wait().expect("the process exits");
    shown
}

#[test]
fn missing_arguments_are_prompted_for() {
    let top = empty_directory();
    let dialogue = [
        ("Name of the package:", "3d\r"),
        ("it starts with a digit; try `server-3d`", "\x7f\x7fviewer \r"),
        ("Example to start from:", "files\r"),
        ("Support HTTP as well?", "y\r"),
    ];
    let shown = in_a_terminal(top.path(), &dialogue);
    assert!(shown.contains("created package `viewer` in `viewer` from example `files`"), "{shown}");
    let manifest = read(top.path().join("viewer/Cargo.toml"));
    assert!(manifest.contains("cap-std") && manifest.contains("features = [\"http\"]"), "{manifest}");
}

#[test]
fn ctrl_c_in_a_prompt_creates_nothing() {
    let top = empty_directory();
    let shown = in_a_terminal(top.path(), &[("Name of the package:", "\x03")]);
    assert!(shown.contains("cancelled, nothing was created"), "{shown}");
    let left: Vec<PathBuf> = fs::read_dir(top.path()).expect("the path exists").flatten().map(|it| it.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}
