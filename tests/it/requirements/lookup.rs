//! Looks up the tests that the table names.

use std::{
    fs,
    path::{Path, PathBuf},
};

use mcp_runtime::Revision;

use super::FOLDER;

/// Returns whether a test of this name exists. A golden case must exist in every revision of its row.
pub(super) fn exists(test: &str, revisions: &[Revision]) -> bool {
    let folder = Path::new(FOLDER);
    match test.split_once(": ") {
        None => has_function(&folder.join("it"), test),
        Some(("golden", case)) => revisions.iter().all(|revision| {
            let file = PathBuf::from(revision.as_str()).join(format!("{case}.json"));
            ["golden", "golden/conversations"].iter().any(|golden| folder.join(golden).join(&file).is_file())
        }),
        Some(("ui", case)) => folder.join("ui").join(format!("{case}.stderr")).is_file(),
        Some((
            name @ ("mcp-runtime" | "mcp-auth" | "mcp-redis" | "mcp-otel" | "mcp-macros" | "mcp-schema"
            | "mcp-uri-template"),
            test,
        )) => has_function(&folder.join("..").join(name).join("src"), test),
        Some(_) => false,
    }
}

/// Returns whether a folder of modules has a test at this path. The last modules of the path may be inline.
fn has_function(folder: &Path, path: &str) -> bool {
    let Some((modules, name)) = path.rsplit_once("::") else { return false };
    let modules: Vec<&str> = modules.split("::").collect();
    (1..=modules.len()).any(|files| {
        let (files, inline) = modules.split_at(files);
        let module = folder.join(files.join("/"));
        let sources = [module.with_extension("rs"), module.join("mod.rs")];
        sources.iter().filter_map(|file| fs::read_to_string(file).ok()).any(|source| {
            inline.iter().all(|module| source.contains(&format!("mod {module} {{"))) && is_test(&source, name)
        })
    })
}

/// Returns whether a source contains a test function of this name.
fn is_test(source: &str, name: &str) -> bool {
    let mut is_marked = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_marked = true;
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            let declared = line.trim_start_matches("async ").strip_prefix("fn ").and_then(|it| it.strip_prefix(name));
            if is_marked && declared.is_some_and(|rest| rest.starts_with('(')) {
                return true;
            }
            is_marked = false;
        }
    }
    false
}

#[test]
fn tests_are_distinguished_from_other_functions() {
    for (source, expected) in [
        ("#[test]\nfn it_works() {", true),
        ("    #[tokio::test(start_paused = true)]\n    // Why.\n    #[ignore]\n    async fn it_works() {", true),
        ("#[test]\nfn it_works(\n    number in 0..9,\n) {", true),
        ("fn it_works() {", false),
        ("// #[test]\nfn it_works() {", false),
        ("#[test]\n// fn it_works() {}\nfn other() {}", false),
        ("#[test]\nfn other() {}\n\nfn it_works() {}", false),
        ("#[test]\nfn it_works_better() {", false),
        ("#[tokio::main]\nasync fn it_works() {", false),
    ] {
        assert_eq!(is_test(source, "it_works"), expected, "{source}");
    }
}
