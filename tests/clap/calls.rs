//! Calls of `program.rs`, which prints what clap has parsed.

use clap::{Arg, ArgAction, Command, CommandFactory as _};
use mcp_clap::Program;
use mcp_runtime::{Revision, testing::TestClient};
use serde_json::json;

use crate::cli::Cli;

pub(crate) fn program() -> Program {
    Program::new(Cli::command()).path(env!("CARGO_BIN_EXE_clap-program"))
}

fn client() -> TestClient {
    program().server().test_client(Revision::V2026_07_28)
}

#[tokio::test]
async fn arguments_arrive_as_they_are() {
    let cases = [
        ("print", json!({"first": "a", "rest": ["b", "c"]}), r#"first: Some("a"), rest: ["b", "c"]"#),
        ("print", json!({"text": "a b"}), r#"text: Some("a b")"#),
        ("print", json!({"short": "x"}), r#"short: Some("x")"#),
        ("print", json!({"verbose": 3}), "verbose: 3,"),
        ("print", json!({"verbose": 3.0}), "verbose: 3,"),
        ("print", json!({"flag": true}), "flag: true"),
        ("print", json!({"flag": false}), "flag: false"),
        ("print", json!({"switch": false}), "switch: Some(false)"),
        ("print", json!({"color": "never"}), "color: Some(Never)"),
        ("print", json!({"level": 9}), "level: Some(9)"),
        ("print", json!({"level": 9.0}), "level: Some(9)"),
        ("print", json!({"ratio": 1.5}), "ratio: Some(1.5)"),
        ("print", json!({"number": -7}), "number: Some(-7)"),
        ("print", json!({"number": 1e16}), "number: Some(10000000000000000)"),
        ("print", json!({"each": ["a", "-b", "", "c,d"]}), r#"each: ["a", "-b", "", "c,d"]"#),
        ("print", json!({"each": []}), "each: []"),
        ("print", json!({"joined": ["a", "-b"]}), r#"joined: ["a", "-b"]"#),
        ("print", json!({"joined": []}), "joined: []"),
        ("print", json!({"joined": ["a,b"]}), "error: `joined`: \"a,b\" contains `,`, which separates values"),
        ("print", json!({"pairs": ["a", "b", "c", "d"]}), r#"pairs: ["a", "b", "c", "d"]"#),
        ("print", json!({"pairs": ["a-b", "-"]}), r#"pairs: ["a-b", "-"]"#),
        (
            "print",
            json!({"pairs": ["a", "--flag"]}),
            "error: `pairs`: \"--flag\" begins with `-`, which is not possible in a value of this argument",
        ),
        ("print", json!({"exec": ["ls", "-l", "--flag"], "text": "t"}), r#"exec: ["ls", "-l", "--flag"]"#),
        ("print", json!({"exec": ["ls", ";", "--flag"]}), "error: `exec`: \";\" ends the values of this argument"),
        ("print", json!({"rest": ["b"]}), "error: `rest` can only be given together with `first`"),
        ("print", json!({"directory": "/", "quiet": true}), r#"directory: Some("/"), quiet: true"#),
        ("copy", json!({"from": ["a", "b"], "to": "c"}), r#"from: ["a", "b"], to: "c""#),
        ("copy", json!({"from": [], "to": "c"}), "error: `to` can only be given together with `from`"),
        ("run", json!({"name": "a", "command": ["ls", "-l"]}), r#"name: Some("a"), command: ["ls", "-l"]"#),
        ("run", json!({"command": ["--help"]}), r#"name: None, command: ["--help"]"#),
        ("run", json!({"name": "--help"}), "error: `name`: \"--help\" begins with `-`"),
        ("remote_add", json!({"name": "a", "force": true}), r#"Add { name: "a", force: true }"#),
        ("stdin", json!({}), "0 bytes"),
        ("bytes", json!({}), "\u{fffd}\u{1b}[1m\0"),
        // Clap rejects these. It takes the word before one that begins with `-` for the last argument here, even after `--`.
        ("copy", json!({"from": ["a"], "to": "--c"}), "error: exit status: 2\nerror: unexpected argument '--c' found"),
        (
            "print",
            json!({"text": "a", "other": true}),
            "error: exit status: 2\nerror: the argument '--text <TEXT>' cannot be used with '--other'",
        ),
        ("exit", json!({"code": 3}), "error: exit status: 3\nerror: code 3\nbefore the end"),
    ];
    for (name, arguments, expected) in cases {
        let result = client().call(name, &arguments).await.unwrap();
        let text = format!("{}{}", if result.is_error() { "error: " } else { "" }, result.text());
        assert!(!result.is_error() || !text.ends_with('\n'), "{text:?}");
        let found = if expected.starts_with("error: ") {
            text.starts_with(expected)
        } else {
            text.contains(expected) && !result.is_error()
        };
        assert!(found, "{name} {arguments}: expected {expected:?}, found {text:?}");
    }
}

#[tokio::test]
async fn values_stay_values() {
    let texts = [
        "",
        "-",
        "--",
        "-x",
        "--help",
        "--version",
        "--mcp",
        "--flag",
        "--text=b",
        "$(id)",
        "`id`",
        ";id",
        "a\nb",
        "a\"b'c\\",
        "=",
        "=a",
        "remote",
        "secret",
        "@file",
        "*",
        "é\u{202e}",
    ];
    let mut client = client();
    for text in texts {
        for (property, value) in [
            ("first", json!(text)),
            ("rest", json!([text])),
            ("text", json!(text)),
            ("short", json!(text)),
            ("each", json!([text])),
            ("exec", json!([text])),
        ] {
            let mut arguments = json!({property: value});
            if property == "rest" {
                arguments["first"] = "a".into();
            }
            if text == ";" && property == "exec" {
                continue;
            }
            let result = client.call("print", &arguments).await.unwrap();
            let expected = match property {
                "rest" | "each" | "exec" => format!("{property}: [{text:?}]"),
                _ => format!("{property}: Some({text:?})"),
            };
            assert!(!result.is_error() && result.text().contains(&expected), "{arguments}: {}", result.text());
        }
    }
    for (property, value) in [("first", json!("a\0b")), ("each", json!(["\0"]))] {
        let result = client.call("print", json!({property: value})).await.unwrap();
        assert_eq!((result.is_error(), result.text()), (true, format!("`{property}` contains a NUL character")));
    }
}

#[tokio::test]
async fn invalid_arguments_do_not_start_the_program() {
    let cases = [
        json!({"level": 10}),
        json!({"color": "red"}),
        json!({"flag": "--help"}),
        json!({"unknown": 1}),
        json!({"each": [{}]}),
        json!({"verbose": 256}),
    ];
    for arguments in cases {
        let result = client().call("print", &arguments).await.unwrap();
        assert!(result.is_error() && !result.text().contains("exit status"), "{arguments}: {}", result.text());
    }
}

#[tokio::test]
async fn at_least_one_process_runs() {
    let mut client = program().max_processes(0).server().test_client(Revision::V2026_07_28);
    assert_eq!(client.call("stdin", ()).await.unwrap().text(), "0 bytes");
}

#[tokio::test]
async fn output_is_limited() {
    let mut client = program().output_limit(1000).server().test_client(Revision::V2026_07_28);
    let result = client.call("flood", json!({"bytes": 1000})).await.unwrap();
    assert_eq!(result.text(), "x".repeat(1000));
    let result = client.call("flood", json!({"bytes": 10_000_000})).await.unwrap();
    assert_eq!(result.text(), format!("{}\n[truncated: 9999000 more bytes than the limit of 1000]", "x".repeat(1000)));
    let result = self::client().call("flood", json!({"bytes": 1_000_000})).await.unwrap();
    assert!(result.text().ends_with("\n[truncated: 737856 more bytes than the limit of 262144]"));
    // A program without output on stdout.
    assert_eq!(client.call("flood", json!({"bytes": 0})).await.unwrap().text(), "done\n");
    // Each byte that is not UTF-8 becomes three.
    let mut client = program().output_limit(4).server().test_client(Revision::V2026_07_28);
    let result = client.call("bytes", json!({})).await.unwrap();
    assert_eq!(result.text(), "\u{fffd}\u{1b}\n[truncated: 4 more bytes than the limit of 4]");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_program_that_cannot_start_is_an_error_of_the_tool() {
    let cases = [
        ("/none/none", 1, "the program cannot be started: entity not found"),
        ("/bin/echo", 200_000, "the program cannot be started: argument list too long"),
    ];
    for (path, length, expected) in cases {
        let server = Program::new(Command::new("echo").arg(Arg::new("a").long("a"))).path(path).server();
        let mut client = server.test_client(Revision::V2026_07_28);
        let result = client.call("echo", json!({"a": "x".repeat(length)})).await.unwrap();
        assert_eq!((result.is_error(), &*result.text()), (true, expected));
    }
}

/// `echo` prints the command line, which clap parses again.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_value_is_taken_for_something_else() {
    let leaf = |args: Vec<Arg>| Command::new("tool").args(args);
    let parent = |arg: Arg| Command::new("parent").subcommand_required(true).arg(arg).subcommand(leaf(vec![]));
    let option = |range: &str| {
        let arg = Arg::new("x").long("x");
        match range {
            "2" => arg.num_args(2),
            "2..=3" => arg.num_args(2..=3),
            "1..=2" => arg.num_args(1..=2),
            _ => arg.num_args(1..),
        }
    };
    let pairs = || option("2").action(ArgAction::Append);
    let command = || Arg::new("command").num_args(1..).allow_hyphen_values(true);
    let user = || Arg::new("user").short('u');
    let unknown = "error: ";
    let cases = [
        (parent(option("2")), json!({"x": ["a", "b"]}), "--x a b tool"),
        (parent(option("2")), json!({"x": ["a"]}), "error: invalid arguments"),
        (parent(option("2")), json!({"x": ["a", "b", "c"]}), "error: invalid arguments"),
        (parent(pairs()), json!({"x": ["a", "b", "c", "d"]}), "--x a b --x c d tool"),
        (parent(pairs()), json!({"x": ["a"]}), "error: `x`: expected 2 values for each occurrence, found 1"),
        (parent(pairs()), json!({"x": ["a", "b", "c"]}), "error: `x`: expected 2 values for each occurrence, found 1"),
        (
            parent(pairs().allow_hyphen_values(true)),
            json!({"x": ["a", "-b", "c"]}),
            "error: `x`: expected 2 values for each occurrence, found 1",
        ),
        (parent(option("2..=3").action(ArgAction::Append)), json!({"x": ["a", "b"]}), unknown),
        (leaf(vec![pairs(), Arg::new("y")]), json!({"x": ["a"], "y": "--x"}), "error: `x`: expected 2 values"),
        (
            leaf(vec![option("2..=3").action(ArgAction::Append), Arg::new("y")]),
            json!({"x": ["a", "b", "c", "d", "e"], "y": "z"}),
            "--x a b c --x d e -- z",
        ),
        (
            leaf(vec![option("2..=3").action(ArgAction::Append)]),
            json!({"x": ["a", "b", "c", "d"]}),
            "error: `x`: expected 2 to 3 values for each occurrence, found 1",
        ),
        (leaf(vec![option("1..").require_equals(true)]), json!({"x": ["a"]}), unknown),
        // Unescaped positional arguments follow.
        (leaf(vec![option("1.."), Arg::new("y"), Arg::new("z").last(true)]), json!({"x": ["a"], "y": "b"}), unknown),
        (leaf(vec![option("1.."), Arg::new("z").last(true)]), json!({"x": ["a"], "z": "b"}), "--x a -- b"),
        (
            leaf(vec![Arg::new("x").action(ArgAction::Append).value_terminator(";"), Arg::new("y")]),
            json!({"x": ["a", "b"], "y": "c"}),
            "-- a b ; c",
        ),
        (
            leaf(vec![Arg::new("x").action(ArgAction::Append).value_terminator("--"), Arg::new("y")]),
            json!({"x": ["a", "b"], "y": "-c"}),
            "a b -- -c",
        ),
        // A delimiter within a value.
        (
            leaf(vec![option("1..").action(ArgAction::Append).value_delimiter(',')]),
            json!({"x": ["a,b"]}),
            "error: `x`: \"a,b\" contains `,`, which separates values",
        ),
        (
            leaf(vec![Arg::new("x").num_args(1..).value_delimiter(':')]),
            json!({"x": ["a", "b:c"]}),
            "error: `x`: \"b:c\" contains `:`, which separates values",
        ),
        // clap takes `-u=root` for the command.
        (leaf(vec![user(), command().trailing_var_arg(true)]), json!({"user": "root", "command": ["id"]}), unknown),
        (leaf(vec![user(), command()]), json!({"command": ["id", "-u"]}), "-- id -u"),
        (leaf(vec![user().long("user"), command()]), json!({"user": "root", "command": ["id"]}), "--user=root -- id"),
        (leaf(vec![user(), command().last(true)]), json!({"user": "root", "command": ["id"]}), "-u=root -- id"),
        // Values that are complete need no terminator.
        (leaf(vec![option("1..=2").value_terminator(";")]), json!({"x": ["a"]}), "--x a ;"),
        (leaf(vec![option("1..=2").value_terminator(";")]), json!({"x": ["a", "b"]}), "--x a b"),
        (leaf(vec![Arg::new("x").value_terminator(";"), Arg::new("y")]), json!({"x": "a", "y": "b"}), "-- a b"),
    ];
    for (command, arguments, expected) in cases {
        let mut client = Program::new(command.clone()).path("/bin/echo").server().test_client(Revision::V2026_07_28);
        let result = client.call("tool", &arguments).await.unwrap();
        let text = format!("{}{}", if result.is_error() { "error: " } else { "" }, result.text());
        if expected.starts_with("error: ") {
            assert!(text.starts_with(expected), "{arguments}: expected {expected:?}, found {text:?}");
        } else {
            assert_eq!(text.trim_end(), expected, "{arguments}");
            let matches = command.clone().no_binary_name(true).try_get_matches_from(expected.split(' ')).unwrap();
            assert_eq!(matches.subcommand_name().is_some(), command.has_subcommands(), "{arguments}");
        }
    }
}

#[tokio::test]
async fn tools_can_be_described_and_left_out() {
    let program = program().configure(|tool, command| match command.get_bin_name()? {
        "clap-program remote add" => Some(tool.title("Add").scopes("remotes:write")),
        _ => None,
    });
    let tools = program.server().test_client(Revision::V2026_07_28).tools().await.unwrap();
    let found: Vec<_> = tools.iter().map(|tool| (tool.name(), tool.title())).collect();
    assert_eq!(found, [("remote_add", Some("Add"))]);
}
