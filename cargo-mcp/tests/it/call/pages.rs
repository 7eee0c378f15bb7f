//! Pages that a server asks the user to visit.

use crate::{
    common::run,
    servers::{modern_script, script},
    terminal::{DOWN, ENTER, ESCAPE, Terminal},
};

/// Returns servers that ask the user to visit a page and return the reply, one per revision.
fn url_elicitation_scripts(url: &str) -> [Vec<String>; 2] {
    let page = format!(r#"{{"mode":"url","message":"Sign in","url":"{url}","elicitationId":"1"}}"#);
    let request =
        format!(r#"echo '{{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{page}}}'; read a; "#);
    let result = format!(
        r#"echo '{{"jsonrpc":"2.0","id":2,"result":{{"resultType":"input_required","inputRequests":{{"page":{{"method":"elicitation/create","params":{page}}}}}}}}}'; read a; "#
    );
    let respond = |id: u32| {
        let choose = r#"case "$a" in *'"accept"'*) t=accept;; *'"decline"'*) t=decline;; *) t=cancel;; esac; "#;
        let echo = format!(
            r#"echo "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"$t\"}}]}}}}"; read l"#
        );
        format!("{choose}{echo}")
    };
    [script(&format!("{request}{}", respond(2))), modern_script(&format!("{result}{}", respond(3)))]
}

#[test]
fn a_page_is_visited_only_with_consent() {
    for script in url_elicitation_scripts("https://example.com/a?b=c") {
        let script: Vec<&str> = script.iter().map(String::as_str).collect();
        let args = |options: &[&'static str]| [&["call", "it"], options, &script].concat();
        let page = "script asks: Sign in\n  https://example.com/a?b=c\n  at example.com\n";
        for (answer, expected, shown) in
            [("{}", "accept\n", page), ("decline", "decline\n", ""), ("cancel", "cancel\n", "")]
        {
            let done = run(&args(&["--answer-json", answer]));
            assert_eq!((&*done.stdout, &*done.stderr), (expected, shown));
        }
        for options in [&["--answer-json", r#"{"name": "Ann"}"#][..], &[]] {
            assert_eq!(
                run(&args(options)).expect_failure(2),
                "error: the server asks the user to visit `https://example.com/a?b=c`: Sign in\n\
                 help: visit it and add `--answer-json '{}'`, or add `--answer-json decline`\n"
            );
        }
        // The answer to a form is kept for a form.
        let mut terminal = Terminal::start(&args(&["--answer-json", r#"{"name": "Ann"}"#]));
        terminal.wait_for("https://example.com/a?b=c");
        terminal.wait_for("Open it in the browser");
        terminal.send_keys(&format!("{DOWN}{ENTER}"));
        terminal.wait_for("note: `the last 1 of --answer-json` was not used");
        terminal.wait_for("accept");
        assert_eq!(terminal.exit_code(), 0);
        for (keys, expected) in [(DOWN.to_owned(), "accept"), (DOWN.repeat(2), "decline"), (DOWN.repeat(3), "cancel")] {
            let mut terminal = Terminal::start(&args(&[]));
            terminal.wait_for("script asks: Sign in");
            terminal.wait_for("https://example.com/a?b=c");
            terminal.wait_for("Open it in the browser");
            terminal.send_keys(&keys);
            terminal.send_keys(ENTER);
            terminal.wait_for(expected);
            assert_eq!(terminal.exit_code(), 0);
        }
    }
}

/// A server could otherwise open files and start programs of this machine.
#[test]
fn only_websites_can_be_opened() {
    let page = r#"{"mode":"url","message":"Sign in","url":"file:///etc/hosts","elicitationId":"1"}"#;
    let script =
        script(&format!(r#"echo '{{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{page}}}'; read a"#));
    let args: Vec<&str> = ["call", "it"].into_iter().chain(script.iter().map(String::as_str)).collect();
    let mut terminal = Terminal::start(&args);
    terminal.wait_for("file:///etc/hosts");
    let before = terminal.wait_for("I will open it myself");
    assert!(!before.contains("Open it in the browser"), "{before}");
    terminal.send_keys(ESCAPE);
    terminal.wait_for("the server exited");
}

#[test]
fn a_call_is_retried_only_with_consent_to_each_page() {
    let page = |id: u32| {
        format!(r#"{{"mode":"url","message":"Sign in","url":"https://example.com/{id}","elicitationId":"{id}"}}"#)
    };
    let pages = format!("{},{}", page(1), page(2));
    let error = format!(
        r#"echo '{{"jsonrpc":"2.0","id":2,"error":{{"code":-32042,"message":"visit them","data":{{"elicitations":[{pages}]}}}}}}'; read l; "#
    );
    let then = r#"echo '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"thank you"}]}}'; read l"#;
    let script = script(&format!("{error}{then}"));
    for (first, second, code) in
        [("{}", "{}", 0), ("{}", "decline", 1), ("decline", "{}", 1), ("cancel", "{}", 1), ("decline", "decline", 1)]
    {
        let done = super::call_script(&script, &["--answer-json", first, "--answer-json", second]);
        assert_eq!(done.code, Some(code), "{first} {second}: {done:?}");
    }
}

#[test]
fn a_host_that_may_deceive_is_marked_before_consent() {
    let url = "https://example.com@xn--80a3b.com/";
    let warning = "the host `xn--80a3b.com` contains characters that may look like others\n";
    for script in url_elicitation_scripts(url) {
        let script: Vec<&str> = script.iter().map(String::as_str).collect();
        let consented = run(&[&["call", "it", "--answer-json", "{}"][..], &script].concat());
        assert_eq!(
            consented.stderr,
            format!("script asks: Sign in\n  {url}\n  at xn--80a3b.com\n  warning: {warning}")
        );
        let asked = run(&[&["call", "it"][..], &script].concat()).expect_failure(2);
        assert!(asked.contains(&format!("help: {warning}")), "{asked}");
    }
}

#[test]
fn a_call_is_retried_after_the_user_visits_a_page() {
    let page = r#"{"mode":"url","message":"Sign in","url":"https://example.com/a","elicitationId":"1"}"#;
    let error = format!(
        r#"echo '{{"jsonrpc":"2.0","id":2,"error":{{"code":-32042,"message":"visit it","data":{{"elicitations":[{page}]}}}}}}'; read l; "#
    );
    let then = r#"echo '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"thank you"}]}}'; read l"#;
    let script = script(&format!("{error}{then}"));
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    let args = |options: &[&'static str]| [&["call", "it"], options, &script].concat();
    assert_eq!(run(&args(&["--answer-json", "{}"])).expect_success(), "thank you\n");
    let message = run(&args(&["--answer-json", "decline"])).expect_failure(1);
    assert!(message.starts_with("error: `it`: visit it (code -32042)\n"), "{message}");

    // An error without pages is not repeated.
    let error = r#"echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32042,"message":"visit it"}}'; read l"#;
    let without = self::script(error);
    let without: Vec<&str> = ["call", "it"].into_iter().chain(without.iter().map(String::as_str)).collect();
    assert_eq!(run(&without).expect_failure(1), "error: `it`: visit it (code -32042)\n");

    let mut terminal = Terminal::start(&args(&[]));
    terminal.wait_for("script asks: Sign in");
    terminal.wait_for("Open it in the browser");
    terminal.send_keys(&format!("{DOWN}{ENTER}"));
    terminal.wait_for("Done, continue");
    terminal.send_keys(ENTER);
    terminal.wait_for("thank you");
    assert_eq!(terminal.exit_code(), 0);
}
