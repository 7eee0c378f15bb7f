//! `cargo mcp completions`, tested with the real shells.

use std::{fs, process::Command};

use crate::common::{CommandOutput, run};

#[test]
fn every_shell_is_supported() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run(&["completions", shell]).expect_success();
        for part in ["cargo-mcp", "completions", "runtime-path"] {
            assert!(script.contains(part), "{part} is missing from the script for {shell}");
        }
    }
    let error = run(&["completions", "tcsh"]).expect_failure(2);
    assert!(error.contains("[possible values: bash, elvish, fish, powershell, zsh]"), "{error}");
    let help = run(&["completions", "--help"]).expect_success();
    for part in
        ["source <(cargo-mcp completions bash)", "~/.zfunc/_cargo-mcp", "conf.d/cargo-mcp.fish", "$PROFILE", "rc.elv"]
    {
        assert!(help.contains(part), "{part} is missing from {help}");
    }
}

/// A script that prints the completions that bash offers for the last word.
const COMPLETE_IN_BASH: &str = r#"
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
function=$(complete -p "$1" | sed -n 's/.* -F \([^ ]*\) .*/\1/p')
"$function" "$1" "${!#}" "${@: -2:1}"
echo "${COMPREPLY[*]}"
"#;

#[test]
fn bash_completes_both_forms() {
    let top = tempfile::tempdir().expect("a directory");
    let script = top.path().join("script");
    fs::write(&script, run(&["completions", "bash"]).expect_success()).expect("the file is written");
    // A user with completions for `cargo`.
    let with_cargo = top.path().join("with-cargo");
    let cargo = "_mine() { COMPREPLY=(build); }\ncomplete -F _mine cargo\n";
    fs::write(&with_cargo, format!("{cargo}source {0}\nsource {0}\n", script.display())).expect("the file is written");
    for (source, args, expected) in [
        (&script, &["cargo-mcp", "ne"][..], "new"),
        (&script, &["cargo-mcp", "new", "--fr"], "--from"),
        (&script, &["cargo-mcp", "new", "--vcs", ""], "git none"),
        (&script, &["cargo", "mcp", "ne"], "new"),
        (&script, &["cargo", "+stable", "mcp", "bund"], "bundle"),
        (&script, &["cargo", "mcp", "new", "--vcs", "n"], "none"),
        (&script, &["cargo", "mcp", "completions", "z"], "zsh"),
        (&script, &["cargo", "mc"], "mcp"),
        (&with_cargo, &["cargo", "mcp", "ne"], "new"),
        (&with_cargo, &["cargo", "bu"], "build"),
    ] {
        let output =
            Command::new("bash").args(["--norc", "-c", COMPLETE_IN_BASH, "bash"]).arg(source).args(args).output();
        assert_eq!(CommandOutput::from(output.expect("bash starts")).expect_success().trim_end(), expected, "{args:?}");
    }
}

#[test]
fn fish_completes_both_forms() {
    let top = tempfile::tempdir().expect("a directory");
    let script = top.path().join("script.fish");
    fs::write(&script, run(&["completions", "fish"]).expect_success()).expect("the file is written");
    for (line, expected) in [
        ("cargo-mcp ne", "new\t"),
        ("cargo mcp ne", "new\t"),
        ("cargo mcp new --fr", "--from\t"),
        ("cargo mcp new --vcs n", "none\t"),
        ("cargo mc", "mcp\t"),
    ] {
        let command = format!("source {}; complete -C '{line}'", script.display());
        let mut fish = Command::new("fish");
        let Ok(output) = fish.args(["--no-config", "-c", &command]).env("HOME", top.path()).output() else {
            // Reported by the test target `skipped`.
            return;
        };
        let completions = CommandOutput::from(output).expect_success();
        assert!(completions.starts_with(expected), "{line}: {completions}");
    }
}
