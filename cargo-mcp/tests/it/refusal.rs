//! Requests that a protected server refuses although the command line contains a token.

use crate::{
    common::run,
    protected::{Behaviour, ProtectedServer},
};

/// Commands, the methods that the server refuses them, the subject of the message, and the exit code.
const REFUSED: [(&[&str], &[&str], &str, i32); 6] = [
    (&["call", "{url}", "write"], &[], "`write`", 1),
    (&["read", "{url}", "notes://1"], &["resources/read"], "`notes://1`", 1),
    (&["prompt", "{url}", "greet"], &["prompts/get"], "prompt `greet`", 1),
    (&["complete", "{url}", "prompt", "greet", "whom", "x"], &["completion/complete"], "completion/complete", 1),
    (&["list", "{url}", "--prompts"], &["prompts/list"], "prompts/list", 1),
    (&["list", "{url}"], &["initialize", "server/discover"], "`{url}`", 3),
];

const TOKENS: [[&str; 2]; 2] = [["--bearer", "valid"], ["--header", "authorization: Bearer valid"]];

fn check(behaviour: &Behaviour, options: &[&str], expected: impl Fn(&str, &str) -> String) {
    for (command, restricted, subject, code) in REFUSED {
        let server = ProtectedServer::start(Behaviour { restricted, ..behaviour.clone() });
        let url = server.url();
        let command: Vec<String> = command.iter().map(|word| word.replace("{url}", &url)).collect();
        let args: Vec<&str> = command.iter().map(String::as_str).chain(options.iter().copied()).collect();
        let message = run(&args).expect_failure(code);
        assert_eq!(message, expected(&subject.replace("{url}", &url), &url), "{args:?}");
    }
}

#[test]
fn a_missing_scope_is_named_with_the_way_to_get_it() {
    for token in TOKENS {
        for revision in [&[][..], &["--revision", "2025-11-25"]] {
            check(&Behaviour::default(), &[&token, revision].concat(), |subject, url| {
                format!(
                    "error: {subject} requires the scope `notes:write`, which the token does not have (HTTP 403)\n\
                     help: log in with `cargo mcp login {url} --scope notes:write` and omit the token, or send a token \
                     that has the scope\n"
                )
            });
        }
    }
}

/// Text of the server is trusted neither in a terminal nor in a command that the user copies.
#[test]
fn the_scopes_of_a_challenge_are_quoted() {
    for (challenge, scopes, options) in [
        ("Bearer scope=\"a b:c\"", "scopes `a`, `b:c`", "--scope a --scope b:c"),
        ("Bearer scope=\"a;reboot\"", "scope `a;reboot`", "--scope 'a;reboot'"),
        ("Bearer scope=\"'$(x)\"", "scope `'$(x)`", r"--scope ''\''$(x)'"),
    ] {
        let behaviour = Behaviour { restriction: (403, Some(challenge)), ..Behaviour::default() };
        let server = ProtectedServer::start(behaviour);
        let url = server.url();
        let message = run(&["call", &url, "write", "--bearer", "valid"]).expect_failure(1);
        assert!(message.contains(&format!("`write` requires the {scopes}, which")), "{message}");
        assert!(message.contains(&format!("`cargo mcp login {url} {options}`")), "{message}");
    }
}

#[test]
fn a_refusal_without_scopes_is_no_lost_connection() {
    let help = "help: check that the server allows this host and that the token has permission; `--header` sends another token\n";
    for (challenge, sent) in [
        (None, ""),
        (
            Some("Bearer error=\"access_denied\""),
            "help: the server sent `WWW-Authenticate: Bearer error=\"access_denied\"`\n",
        ),
    ] {
        let behaviour = Behaviour { restriction: (403, challenge), ..Behaviour::default() };
        check(&behaviour, &TOKENS[0], |subject, _| {
            format!("error: access to {subject} is forbidden (HTTP 403)\n{sent}{help}")
        });
    }
}

/// A token that expires during a command, or that the server has never accepted.
#[test]
fn a_token_that_is_not_accepted_is_reported_as_such() {
    for (challenge, sent) in [
        (None, ""),
        (
            Some("Bearer error=\"invalid_token\""),
            "help: the server sent `WWW-Authenticate: Bearer error=\"invalid_token\"`\n",
        ),
    ] {
        let behaviour = Behaviour { restriction: (401, challenge), ..Behaviour::default() };
        check(&behaviour, &TOKENS[1], |subject, url| {
            format!(
                "error: {subject}: the server does not accept the token (HTTP 401)\n{sent}\
                 help: log in with `cargo mcp login {url}` and omit the token, or send a valid one\n"
            )
        });
    }
}
