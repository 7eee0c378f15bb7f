//! Reports the checks that the tests skipped because something is missing on this machine.
//!
//! Cargo hides the output of tests that pass. This target has no test harness, so its output is always visible.

use std::{fs, path::Path, process::Command};

use mcp_runtime::Revision;
use mcp_tests::schemas;

fn main() {
    // Test runners list the tests of a target first. This target has none.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let missing: Vec<_> = Revision::ALL.into_iter().filter(|revision| schemas::find(*revision).is_none()).collect();
    let has_fish = Command::new("fish").arg("--version").output().is_ok();
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    let skipped = missing.iter().map(|revision| recorded(*revision)).sum::<usize>()
        + usize::from(!has_fish)
        + usize::from(!has_curl);
    eprintln!("\nskipped checks: {skipped}");
    if !missing.is_empty() {
        let missing: Vec<_> = missing.iter().map(|revision| revision.as_str()).collect();
        eprintln!(
            "messages are not validated against the official schemas of {}\n{}",
            missing.join(", "),
            schemas::HELP
        );
    }
    if !has_fish {
        eprintln!("completions in fish are not tested\nhelp: install `fish`");
    }
    if !has_curl {
        eprintln!("TLS is not tested with curl\nhelp: install `curl`");
    }
}

/// Returns the number of recorded cases of a revision, each of which is validated against the official schema.
fn recorded(revision: Revision) -> usize {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let folders = [golden.join(revision.as_str()), golden.join("conversations").join(revision.as_str())];
    folders.iter().flat_map(fs::read_dir).map(Iterator::count).sum()
}
