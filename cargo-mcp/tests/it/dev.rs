//! `cargo mcp dev` before it builds anything.

use crate::{common::run, terminal::Terminal};

/// Addresses that other machines can reach. This machine has none of them, so nothing ever listens there.
const REMOTE: [&str; 2] = ["192.0.2.1:8080", "[2001:db8::1]:8080"];

#[test]
fn addresses_that_other_machines_can_reach_must_be_allowed() {
    for address in REMOTE {
        let refused = run(&["dev", "notes", "--http", address]).expect_failure(2);
        let expected = format!(
            "error: other machines can reach `{address}`\nhelp: `--allow-remote` listens on it without asking\n\
             help: `--http 127.0.0.1:8080` is for this machine only\n"
        );
        assert_eq!(refused, expected);
        let allowed = run(&["dev", "notes", "--http", address, "--allow-remote"]).expect_failure(3);
        assert!(allowed.starts_with(&format!("error: cannot listen on `{address}`: ")), "{allowed}");
    }
    // A loopback address needs no permission.
    let loopback = run(&["dev", "notes", "--http", "127.0.0.1:0", "--watch", "/no/such/path"]).expect_failure(2);
    assert!(!loopback.contains("other machines"), "{loopback}");
}

#[test]
fn a_terminal_asks_before_other_machines_can_connect() {
    for (answer, code) in [("n\r", 130), ("\r", 130), ("y\r", 3)] {
        let mut terminal = Terminal::start(&["dev", "notes", "--http", REMOTE[0]]);
        terminal.wait_for("Other machines can reach `192.0.2.1:8080`. Allow them to use the server?");
        terminal.send_keys(answer);
        assert_eq!(terminal.exit_code(), code, "{answer:?}");
    }
}
