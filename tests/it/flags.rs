//! The flags of a `#[server]` function, which behave as those of clap.

use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flags"));
    command.args(arguments).env("RUST_LOG", "off");
    for variable in ["FLAGS_DB", "FLAGS_VERBOSE", "FLAGS_PORTS", "MCP_BACKEND"] {
        command.env_remove(variable);
    }
    command.envs(environment.iter().copied()).output().unwrap()
}

/// Starts the server with these flags, and returns them as the function received them.
fn given(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = run(&[arguments, &["--call", "given"]].concat(), environment);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8(output.stdout).unwrap();
    let (_, response) = messages.rsplit_once("<- ").unwrap();
    let response: Value = serde_json::from_str(response).unwrap();
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{messages}")).to_owned()
}

const DB: [&str; 4] = ["--db", "a.db", "--max-connections", "5"];

#[test]
fn flags_are_parsed_by_their_types() {
    for (arguments, expected) in [
        (&[][..], "a.db 5 false [] [] 3 None None"),
        (&["--verbose"], "a.db 5 true [] [] 3 None None"),
        (&["--verbose=false"], "a.db 5 false [] [] 3 None None"),
        (&["--verbose=on"], "a.db 5 true [] [] 3 None None"),
        (&["--verbose=Yes"], "a.db 5 true [] [] 3 None None"),
        (&["--labels", "a", "--labels=b c", "--labels", "5"], r#"a.db 5 false ["a", "b c", "5"] [] 3 None None"#),
        (&["--labels", r#"["a","b"]"#], r#"a.db 5 false ["a", "b"] [] 3 None None"#),
        (&["--ports", "80", "--verbose", "--ports=443"], "a.db 5 true [] [80, 443] 3 None None"),
        (&["--labels=a=b"], r#"a.db 5 false ["a=b"] [] 3 None None"#),
        (&["--retries=0"], "a.db 5 false [] [] 0 None None"),
        (&["--cache"], "a.db 5 false [] [] 3 Some(true) None"),
        (&["--cache=no"], "a.db 5 false [] [] 3 Some(false) None"),
        (&["--detail", "full"], "a.db 5 false [] [] 3 None Some(Full)"),
    ] {
        assert_eq!(given(&[&DB, arguments].concat(), &[]), expected, "{arguments:?}");
    }
    // The title of the server consists of flags with defaults.
    for (arguments, title) in [
        (&[][..], "a b true false"),
        (&["--hosts=c", "--color=no", "--quiet"], "c false true"),
        (&["--hosts=[]", "--color"], " true false"),
    ] {
        let output = run(&[&DB, arguments, &["--schema"]].concat(), &[]);
        let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(schema["server"]["title"], title, "{arguments:?}");
    }
    // A single dash is no option.
    assert_eq!(given(&["--db", "-", "--max-connections=7"], &[]), "- 7 false [] [] 3 None None");
    // Neither is a negative number.
    assert_eq!(given(&["--db", "-1.5", "--max-connections=7"], &[]), "-1.5 7 false [] [] 3 None None");
    // The name in the code is accepted as well.
    assert_eq!(given(&["--db=x", "--max_connections=7"], &[]), "x 7 false [] [] 3 None None");
}

#[test]
fn the_environment_provides_missing_flags() {
    for (arguments, environment, expected) in [
        (&[][..], &[("FLAGS_DB", "e.db")][..], "e.db 5 false [] [] 3 None None"),
        (&["--db=a.db"], &[("FLAGS_DB", "e.db")], "a.db 5 false [] [] 3 None None"),
        (&["--db=a.db"], &[("FLAGS_VERBOSE", "1"), ("FLAGS_PORTS", "80")], "a.db 5 true [] [80] 3 None None"),
        (&["--db=a.db"], &[("FLAGS_VERBOSE", "off"), ("FLAGS_PORTS", "[1,2]")], "a.db 5 false [] [1, 2] 3 None None"),
        (&["--db=a.db"], &[("FLAGS_VERBOSE", ""), ("FLAGS_PORTS", "")], "a.db 5 false [] [] 3 None None"),
        (&["--db=a.db", "--verbose=false"], &[("FLAGS_VERBOSE", "1")], "a.db 5 false [] [] 3 None None"),
    ] {
        let arguments = [arguments, &["--max-connections=5"]].concat();
        assert_eq!(given(&arguments, environment), expected, "{arguments:?} {environment:?}");
    }
}

#[test]
fn invalid_flags_are_explained_as_clap_does() {
    let end = "\n\nUsage: flags [OPTIONS] --db <DB> --max-connections <MAX_CONNECTIONS>\n\n\
               for more information, try `flags --help`\n";
    for (arguments, environment, why) in [
        (
            &[][..],
            &[][..],
            "the following required options were not provided:\n  --db <DB>\n  --max-connections <MAX_CONNECTIONS>",
        ),
        (
            &["--db", "x"],
            &[],
            "the following required options were not provided:\n  --max-connections <MAX_CONNECTIONS>",
        ),
        (&["--db"], &[], "missing value for `--db`, expected a value"),
        (&["--db", "--verbose"], &[], "missing value for `--db`, expected a value"),
        (&["--db", "-x"], &[], "missing value for `--db`, expected a value"),
        (&["--db=x", "--max-connections", "-5"], &[], "`--max-connections`: -5 must be at least 1 and at most 100"),
        (&["--db=x", "--db=y"], &[], "the option `--db <DB>` cannot be used multiple times"),
        (&["--verbose", "--verbose"], &[], "the option `--verbose` cannot be used multiple times"),
        (
            &["--db=x", "--max-connections=0", "--ports=-1", "--ports=1", "--retries=many"],
            &[],
            "`--max-connections`: 0 must be at least 1 and at most 100\n\
             `--ports[0]`: -1 must be at least 0 and at most 65535\n\
             `--retries`: \"many\" must be an integer",
        ),
        (
            &["--db=x", "--max-connections=5", "--verbose=maybe"],
            &[],
            "invalid value `maybe` for `--verbose`, expected `true` or `false`",
        ),
        (
            &["--db=x", "--max-connections=5"],
            &[("FLAGS_VERBOSE", "maybe")],
            "invalid value `maybe` for `FLAGS_VERBOSE`, expected `true` or `false`",
        ),
        (
            &["--db=x", "--max-connections=5", "--verbose=maybe"],
            &[("FLAGS_VERBOSE", "1")],
            "invalid value `maybe` for `--verbose`, expected `true` or `false`",
        ),
        (
            &["--db=x", "--max-connections=5", "--retries=many"],
            &[("FLAGS_PORTS", "[-1]")],
            "`FLAGS_PORTS[0]`: -1 must be at least 0 and at most 65535\n\
             `--retries`: \"many\" must be an integer",
        ),
    ] {
        let output = run(&[arguments, &["--list"]].concat(), environment);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        let message = stderr.strip_suffix(end).unwrap_or_else(|| panic!("{stderr}"));
        assert_eq!(message.split_once(": ").unwrap().1, why, "{arguments:?}");
    }
}

#[test]
fn help_has_the_layout_of_clap() {
    let output = run(&["--help"], &[("FLAGS_DB", "a secret")]);
    let help = String::from_utf8(output.stdout).unwrap();
    let expected = "\
Usage: flags [OPTIONS] --db <DB> --max-connections <MAX_CONNECTIONS>

Options:
      --db <DB>                 The database [env: FLAGS_DB]
      --max-connections <MAX_CONNECTIONS>
                                The largest number of connections
      --verbose                 Whether to explain everything [env: FLAGS_VERBOSE]
      --labels <LABELS>         A label; may be repeated
      --ports <PORTS>           May be repeated [env: FLAGS_PORTS]
      --retries <RETRIES>       [default: 3]
      --hosts <HOSTS>           Hosts; may be repeated [default: a b]
      --cache
      --detail <DETAIL>         [possible values: brief, full]
      --color                   [default: true]
      --quiet
";
    let shown: String = help.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    assert!(shown.contains(expected), "{help}");
    assert!(!help.contains("a secret"), "the values of variables may be secrets");
}

#[test]
fn a_url_names_the_backend() {
    for (arguments, environment, code, why) in [
        (&["--backend", "test://up"][..], &[][..], 0, ""),
        (&["--backend=TESTS://up"], &[("MCP_BACKEND", "other://up")], 0, ""),
        (&[], &[("MCP_BACKEND", "test://up")], 0, ""),
        (&[], &[("MCP_BACKEND", "")], 0, ""),
        (&["--backend=test://down"], &[], 1, "mcp-tests: cannot connect to the backend: down for mcp-tests\n"),
        (&[], &[("MCP_BACKEND", "test://down")], 1, "mcp-tests: cannot connect to the backend: down for mcp-tests\n"),
        (
            &["--backend=redis://user:secret@host"],
            &[],
            2,
            "mcp-tests: this program contains no backend for `redis` URLs\n\
             help: add the crate `mcp-runtime-redis` to `[dependencies]`, and `use mcp_redis as _;` to the file with `main`\n\n",
        ),
        (
            &["--backend=other://user:secret@host"],
            &[],
            2,
            "mcp-tests: unknown backend `other`, expected a URL with `test` or `tests`\n\n",
        ),
        (
            &["--backend=host:secret"],
            &[],
            2,
            "mcp-tests: invalid URL of a backend, expected a scheme, such as `redis://127.0.0.1:6379`\n\n",
        ),
        (
            &["--backend"],
            &[],
            2,
            "mcp-tests: missing value for `--backend`, expected a URL, such as redis://127.0.0.1:6379\n\n",
        ),
    ] {
        let output = run(&[&DB[..], &["--call", "given"], arguments].concat(), environment);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?} {environment:?}: {stderr}");
        assert!(stderr.starts_with(why) && !stderr.contains("secret"), "{arguments:?}: {stderr}");
    }
    // Lists and schemas need no backend.
    for mode in ["--list", "--schema"] {
        let output = run(&[&DB[..], &[mode, "--backend=test://down"]].concat(), &[]);
        assert!(output.status.success(), "{output:?}");
    }
}

/// Keys of the command line replace those of the environment, which are not even read.
#[test]
fn the_environment_provides_missing_state_keys() {
    let key = "ab".repeat(32);
    for (arguments, variable, code) in
        [(&[][..], "", 0), (&[], &*key, 0), (&[], "short", 2), (&["--state-key", &key], "short", 0)]
    {
        let output = run(&[&DB[..], &["--list"], arguments].concat(), &[("MCP_STATE_KEY", variable)]);
        assert_eq!(output.status.code(), Some(code), "{arguments:?} {variable:?}: {output:?}");
    }
}
