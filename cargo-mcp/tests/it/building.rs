//! Builds of a server: what is shown of them, and what cargo is asked.

use std::{fs, process::Command};

use tempfile::TempDir;

use crate::common::{CommandOutput, cargo_mcp};

/// A package with an empty crate in place of the framework, which takes long to compile.
pub(crate) struct Package(TempDir);

impl Package {
    pub(crate) fn new() -> Self {
        let package = Self(tempfile::tempdir().expect("a directory"));
        package.write(
            "runtime/Cargo.toml",
            "[package]\nname = \"mcp-runtime\"\nversion = \"0.0.0\"\nedition = \"2024\"\n",
        );
        package.write("runtime/src/lib.rs", "");
        package.write(
            "Cargo.toml",
            "[package]\nname = \"small\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
             [dependencies]\nmcp-runtime = { path = \"runtime\" }\n[workspace]\n",
        );
        package
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    /// Writes a script that takes the place of cargo, but leaves it the metadata. Returns its path.
    #[cfg(unix)]
    pub(crate) fn write_cargo(&self, script: &str) -> std::path::PathBuf {
        use std::os::unix::fs::PermissionsExt as _;

        self.write("cargo", &format!("#!/bin/sh\n{script}\n[ $1 = metadata ] && exec {} \"$@\"\n", env!("CARGO")));
        let cargo = self.0.path().join("cargo");
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("the script is executable");
        cargo
    }

    /// Returns a command in the directory of the package.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = cargo_mcp(args);
        command.current_dir(self.0.path()).env("CARGO_TARGET_DIR", self.0.path().join("target"));
        command
    }

    /// Runs a command that fails because the program is not a server, and returns what it printed.
    fn run(&self, args: &[&str]) -> String {
        let output = self.command(args).output().expect("cargo-mcp starts");
        CommandOutput::from(output).expect_failure(3)
    }
}

/// Cargo repeats warnings in every build. They are shown only if the build fails.
#[test]
fn warnings_are_shown_only_with_errors() {
    let package = Package::new();
    for (main, shown) in [
        ("fn main() { let unused = 5; }", false),
        ("#![deny(unused_mut)] fn main() { let unused = 5; let mut other = 6; drop(other); }", true),
        ("fn main() { let unused = 6; }", false),
    ] {
        package.write("src/main.rs", main);
        for _ in 0..2 {
            let stderr = package.run(&["list", "small"]);
            assert_eq!(stderr.contains("unused variable: `unused`"), shown, "{stderr}");
            assert_eq!(stderr.contains("variable does not need to be mutable"), shown, "{stderr}");
        }
    }
}

/// Options after `--` belong to the server of the package, and anything else is a command.
#[test]
fn options_after_two_dashes_are_passed_to_the_server() {
    let package = Package::new();
    package.write("src/main.rs", r#"fn main() { eprintln!("{:?}", std::env::args().skip(1).collect::<Vec<_>>()) }"#);
    for (args, shown) in [
        (&["list", "--", "--db", "a b"][..], r#"["--db", "a b"]"#),
        (&["list", "small", "--", "-v"], r#"["-v"]"#),
        (&["call", "small", "tool", "x=1", "--", "--db=a", "more"], r#"["--db=a", "more"]"#),
        (&["list", "--", "target/debug/small", "--db"], r#"["--db"]"#),
    ] {
        let stderr = package.run(args);
        assert_eq!(stderr.lines().next(), Some(shown), "{args:?}: {stderr}");
    }
}

/// The package is that of the current directory, even inside of another one.
#[test]
fn the_innermost_package_and_its_default_program_are_run() {
    let package = Package::new();
    package.write("src/main.rs", "fn main() { eprintln!(\"outer\") }");
    package.write(
        "in/Cargo.toml",
        "[package]\nname = \"inner\"\nversion = \"0.0.0\"\nedition = \"2024\"\ndefault-run = \"second\"\n\
         [dependencies]\nmcp-runtime = { path = \"../runtime\" }\n",
    );
    for name in ["first", "second"] {
        package.write(&format!("in/src/bin/{name}.rs"), &format!("fn main() {{ eprintln!(\"{name}\") }}"));
    }
    let manifest = fs::read_to_string(package.0.path().join("Cargo.toml")).expect("a file");
    package.write("Cargo.toml", &manifest.replace("[workspace]", "[workspace]\nmembers = [\"in\"]"));
    for (directory, shown) in [("src", "outer"), ("in/src", "second")] {
        let mut command = package.command(&["list"]);
        let output = command.current_dir(package.0.path().join(directory)).output().expect("cargo-mcp starts");
        let stderr = CommandOutput::from(output).expect_failure(3);
        assert_eq!(stderr.lines().next(), Some(shown), "{directory}: {stderr}");
    }
}

#[test]
fn the_program_and_its_features_can_be_selected() {
    let package = Package::new();
    let manifest = fs::read_to_string(package.0.path().join("Cargo.toml")).expect("a file");
    package.write("Cargo.toml", &manifest.replace("[workspace]", "[features]\none = []\ntwo = []\n[workspace]"));
    for name in ["first", "second"] {
        let print = format!("eprintln!(\"{name} {{}} {{}}\", cfg!(feature = \"one\"), cfg!(feature = \"two\"))");
        package.write(&format!("src/bin/{name}.rs"), &format!("fn main() {{ {print} }}"));
    }
    for (options, shown) in [
        (&["--bin", "second"][..], "second false false"),
        (&["--bin", "first", "--features", "one", "-F", "two"], "first true true"),
    ] {
        let stderr = package.run(&[&["list", "small"], options].concat());
        assert_eq!(stderr.lines().next(), Some(shown), "{options:?}: {stderr}");
    }
    for (options, message) in [
        (&[][..], "error: package `small` has several binaries\nhelp: select one with `--bin`: `first`, `second`\n"),
        (&["--bin", "third"], "error: package `small` has no binary `third`; available binaries: `first`, `second`\n"),
    ] {
        let output = package.command(&[&["list", "small"], options].concat()).output().expect("cargo-mcp starts");
        assert_eq!(CommandOutput::from(output).expect_failure(2), message, "{options:?}");
    }
}

/// Commands ask cargo for the workspace to recognize the name of a package in their arguments, and to build it.
#[cfg(unix)]
#[test]
fn cargo_is_asked_once_for_the_workspace() {
    let package = Package::new();
    package.write("src/main.rs", "fn main() {}");
    // Builds fail at once.
    let (cargo, log) = (package.write_cargo("echo $1 >> log"), package.0.path().join("log"));
    for (args, code, expected) in [
        (&["call", "small", "tool"][..], 3, "metadata\nbuild\n"),
        (&["prompt", "tool"], 3, "metadata\nbuild\n"),
        (&["lock", "small"], 3, "metadata\nbuild\n"),
        (&["complete", "smal", "prompt", "x", "y"], 2, "metadata\n"),
    ] {
        let output = package.command(args).env("CARGO", &cargo).output().expect("cargo-mcp starts");
        CommandOutput::from(output).expect_failure(code);
        assert_eq!(fs::read_to_string(&log).expect("cargo was started"), expected, "{args:?}");
        fs::remove_file(&log).expect("the log is removed");
    }
}
