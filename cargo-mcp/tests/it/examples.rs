//! The programs that the tests start: the examples of the repository, and a server whose lists come from a file.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::common::{command, repository};

/// The examples that tests use.
const EXAMPLES: [&str; 7] = ["hello", "notes", "files", "ask", "jobs", "everything", "mount_axum"];

/// Returns the path of an example's executable.
///
/// The path is another link to the executable, or a copy of it, because a later build of a single package could replace
/// the one in the target directory with an executable that has fewer features.
pub(crate) fn example(name: &str) -> PathBuf {
    static LINKS: OnceLock<PathBuf> = OnceLock::new();
    let links = LINKS.get_or_init(|| {
        let built = programs();
        let links = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples");
        fs::create_dir_all(&links).expect("a directory");
        for name in EXAMPLES {
            let (program, link) = (built.join(name), links.join(name));
            // A running program cannot be overwritten.
            let _ = fs::remove_file(&link);
            fs::hard_link(&program, &link)
                .or_else(|_| fs::copy(&program, &link).map(drop))
                .expect("a program is linked or copied");
        }
        links
    });
    links.join(name)
}

/// Returns the path of the server of `tests/servers/listed.rs`.
pub(crate) fn listed_server() -> &'static str {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| programs().join("examples/listed")).to_str().expect("a path in UTF-8")
}

/// Builds the programs of the workspace once, and returns their directory.
///
/// Like `cargo test --workspace`, this selects all packages and the features of their tests. It therefore compiles
/// nothing but the programs themselves.
fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let built = command(env!("CARGO"))
            .args(["build", "--quiet", "--workspace", "--example", "listed"])
            .args(EXAMPLES.iter().flat_map(|name| ["--bin", name]))
            .current_dir(repository())
            .status()
            .expect("cargo starts");
        assert!(built.success(), "the programs build");
        Path::new(env!("CARGO_BIN_EXE_cargo-mcp")).parent().expect("a program is in a directory").to_owned()
    })
}
