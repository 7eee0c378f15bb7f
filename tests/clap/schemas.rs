//! Definitions in clap, and the tools that clients list.

use clap::{Arg, ArgAction, Command, builder::PossibleValue, value_parser};
use mcp_clap::Program;
use mcp_runtime::Revision;
use serde_json::{Value, json};

async fn tools(command: Command) -> Vec<Value> {
    let mut client = Program::new(command).server().test_client(Revision::V2026_07_28);
    client.tools().await.unwrap().into_iter().map(|tool| tool.0).collect()
}

async fn names(command: Command) -> Vec<String> {
    tools(command).await.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_argument_becomes_a_property() {
    let option = |name: &'static str| Arg::new(name).long(name);
    let many = || option("x").action(ArgAction::Append);
    let hidden = || [PossibleValue::new("a"), PossibleValue::new("b").hide(true)];
    let sizes = |text: &str| text.trim_end_matches('k').parse::<u64>();
    let cases = [
        (option("x"), json!({"type": "string"})),
        (option("x").help("Help").long_help("Long help"), json!({"type": "string", "description": "Long help"})),
        (Arg::new("x").help("Help"), json!({"type": "string", "description": "Help"})),
        (option("x").action(ArgAction::SetTrue), json!({"type": "boolean"})),
        (option("x").action(ArgAction::SetFalse), json!({"type": "boolean"})),
        (option("x").num_args(0).default_missing_value("a"), json!({"type": "boolean"})),
        (option("x").action(ArgAction::Count), json!({"type": "integer", "minimum": 0, "maximum": 255})),
        (option("x").value_parser(value_parser!(bool)), json!({"type": "boolean"})),
        (option("x").value_parser(["a", "b"]), json!({"type": "string", "enum": ["a", "b"]})),
        (option("x").value_parser(value_parser!(u8)), json!({"type": "integer", "minimum": 0, "maximum": 255})),
        (option("x").value_parser(value_parser!(i64)), json!({"type": "integer"})),
        (option("x").value_parser(value_parser!(u64)), json!({"type": "integer", "minimum": 0})),
        (option("x").value_parser(value_parser!(usize)), json!({"type": "integer", "minimum": 0})),
        (option("x").value_parser(value_parser!(std::num::NonZeroU32)), json!({"type": "integer", "minimum": 1})),
        (
            option("x").value_parser(value_parser!(i32).range(-5..5)),
            json!({"type": "integer", "minimum": -5, "maximum": 4}),
        ),
        (option("x").value_parser(value_parser!(u64).range(1..)), json!({"type": "integer", "minimum": 1})),
        (
            option("x").value_parser(value_parser!(u64).range(..=7)),
            json!({"type": "integer", "minimum": 0, "maximum": 7}),
        ),
        (option("x").value_parser(value_parser!(i64).range(3..)), json!({"type": "integer", "minimum": 3})),
        (option("x").value_parser(value_parser!(f32)), json!({"type": "number"})),
        (option("x").value_parser(sizes), json!({"type": "string"})),
        (option("x").value_parser(value_parser!(std::path::PathBuf)), json!({"type": "string"})),
        (option("x").default_value("a"), json!({"type": "string", "default": "a"})),
        (option("x").default_value("a").hide_default_value(true), json!({"type": "string"})),
        (
            option("x").default_value("b").value_parser(["a", "b"]),
            json!({"type": "string", "enum": ["a", "b"], "default": "b"}),
        ),
        (option("x").default_value("b").value_parser(hidden()), json!({"type": "string", "enum": ["a"]})),
        (option("x").default_values(["a", "b"]), json!({"type": "string", "default": "a"})),
        (option("x").default_value("5").value_parser(value_parser!(i64)), json!({"type": "integer", "default": 5})),
        (
            option("x").default_value("true").value_parser(value_parser!(bool)),
            json!({"type": "boolean", "default": true}),
        ),
        (many(), json!({"type": "array", "items": {"type": "string"}})),
        (many().num_args(2), json!({"type": "array", "items": {"type": "string"}})),
        (option("x").num_args(2), json!({"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2})),
        (option("x").num_args(0..=3), json!({"type": "array", "items": {"type": "string"}, "maxItems": 3})),
        (option("x").num_args(1..=3), json!({"type": "array", "items": {"type": "string"}, "maxItems": 3})),
        (option("x").num_args(2..), json!({"type": "array", "items": {"type": "string"}, "minItems": 2})),
        (Arg::new("x").num_args(1..), json!({"type": "array", "items": {"type": "string"}})),
        (
            option("x").value_delimiter(',').default_value("1,2").value_parser(value_parser!(i64)),
            json!({"type": "array", "items": {"type": "integer"}, "default": [1, 2]}),
        ),
        (
            option("x").value_parser([PossibleValue::new("a").help("First")]).help("Help"),
            json!({"type": "string", "enum": ["a"], "description": "Help\n- `a`: First"}),
        ),
        // No call could succeed without it.
        (option("x").hide(true).required(true), json!({"type": "string"})),
        (option("x").hide_short_help(true), json!({"type": "string"})),
        (option("x").hide_short_help(true).hide_long_help(true), Value::Null),
        (option("x").hide(true), Value::Null),
        (option("x").num_args(1..).allow_hyphen_values(true), Value::Null),
        (option("x").action(ArgAction::HelpShort), Value::Null),
        (option("x").action(ArgAction::HelpLong), Value::Null),
    ];
    for (arg, expected) in cases {
        let text = format!("{arg:?}");
        let tools = tools(Command::new("program").arg(arg)).await;
        assert_eq!(tools[0]["inputSchema"]["properties"].get("x").unwrap_or(&Value::Null), &expected, "{text}");
    }
}

#[tokio::test]
async fn a_command_that_can_run_becomes_a_tool() {
    let leaf = Command::new;
    let remote = || leaf("remote").subcommand(leaf("add")).subcommand(leaf("set-url"));
    let required = |arg: Arg| leaf("git").arg(arg.required(true)).subcommand(leaf("status"));
    let path = || Arg::new("path");
    let hyphens = Arg::new("x").long("x").num_args(1..).allow_hyphen_values(true);
    let cases: [(Command, &[&str]); 12] = [
        (leaf("my-program"), &["my_program"]),
        (leaf("git").subcommand_required(true).subcommand(leaf("status")), &["status"]),
        (leaf("git").subcommand(leaf("status")), &["git", "status"]),
        (leaf("git").arg_required_else_help(true).subcommand(remote()), &["remote", "remote_add", "remote_set_url"]),
        (leaf("git").subcommand(leaf("git").hide(true)), &["git"]),
        (leaf("git").subcommand(leaf("git")), &["git", "git_2"]),
        (
            leaf("git").subcommand_required(true).subcommand(remote()).subcommand(leaf("remote-add")),
            &["remote", "remote_add", "remote_add_2", "remote_set_url"],
        ),
        (leaf("git").subcommand_required(true).disable_help_subcommand(true).subcommand(leaf("help")), &["help"]),
        // Without a property for a required argument, no call could succeed.
        (required(path()), &["git"]),
        (required(path()).subcommand_negates_reqs(true), &["git", "status"]),
        (required(hyphens.clone()).subcommand_negates_reqs(true), &["status"]),
        (required(hyphens.long("y").num_args(1)), &["git", "status"]),
    ];
    for (command, expected) in cases {
        assert_eq!(names(command).await, expected);
    }
}

#[tokio::test]
async fn options_of_the_commands_above_belong_to_a_tool() {
    let command = Command::new("git")
        .subcommand_required(true)
        .version("2.0.0")
        .arg(Arg::new("dir").short('C').required(true).help("Directory"))
        .arg(Arg::new("quiet").long("quiet").global(true).action(ArgAction::SetTrue))
        .arg(Arg::new("path").index(1))
        .subcommand(
            Command::new("add")
                .about("Add")
                .long_about("Add a remote")
                .arg(Arg::new("name").required(true))
                .arg(Arg::new("other").long("name"))
                .arg(Arg::new("token").long("token-name").required(true).env("TOKEN")),
        );
    let tools = tools(command).await;
    assert_eq!(tools[0]["description"], "Add a remote");
    assert_eq!(
        tools[0]["inputSchema"],
        json!({
            "type": "object",
            "properties": {
                "dir": {"type": "string", "description": "Directory"},
                "name": {"type": "string"},
                "token_name": {"type": "string"},
                "quiet": {"type": "boolean"},
                "name_2": {"type": "string"},
            },
            "required": ["dir", "name_2"],
        })
    );
}

#[tokio::test]
async fn a_tool_has_the_longest_description_of_its_command() {
    for (command, expected) in [
        (Command::new("program").about("Short"), "Short"),
        (Command::new("program").about("Short").long_about("Long"), "Long"),
    ] {
        assert_eq!(tools(command).await[0]["description"], expected);
    }
}

#[tokio::test]
async fn requirements_that_a_subcommand_negates_are_not_required() {
    let command = Command::new("bat")
        .subcommand_negates_reqs(true)
        .args_conflicts_with_subcommands(true)
        .arg(Arg::new("file").long("file").required(true))
        .subcommand(Command::new("cache"));
    let tools = tools(command).await;
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["file"]));
    assert_eq!(tools[1]["inputSchema"]["properties"], json!({}));
}
