//! What is shown of the build of a server.

use std::fs;

use crate::common::{CommandOutput, cargo_mcp};

/// Cargo repeats warnings in every build. They are shown only if the build fails.
#[test]
fn warnings_are_shown_only_with_errors() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |path: &str, text: &str| {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    };
    // An empty crate in place of the framework, which takes long to compile.
    write("runtime/Cargo.toml", "[package]\nname = \"mcp-runtime\"\nversion = \"0.0.0\"\nedition = \"2024\"\n");
    write("runtime/src/lib.rs", "");
    write(
        "Cargo.toml",
        "[package]\nname = \"warns\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [dependencies]\nmcp-runtime = { path = \"runtime\" }\n[workspace]\n",
    );
    for (main, shown) in [
        ("fn main() { let unused = 5; }", false),
        ("#![deny(unused_mut)] fn main() { let unused = 5; let mut other = 6; drop(other); }", true),
        ("fn main() { let unused = 6; }", false),
    ] {
        write("src/main.rs", main);
        for _ in 0..2 {
            let output = cargo_mcp(&["list", "warns"])
                .current_dir(directory.path())
                .env("CARGO_TARGET_DIR", directory.path().join("target"))
                .output()
                .expect("cargo-mcp starts");
            let stderr = CommandOutput::from(output).expect_failure(3);
            assert_eq!(stderr.contains("unused variable: `unused`"), shown, "{stderr}");
            assert_eq!(stderr.contains("variable does not need to be mutable"), shown, "{stderr}");
        }
    }
}
