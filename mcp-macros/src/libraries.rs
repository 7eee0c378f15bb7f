//! `libraries!()`: the local dependencies of the crate that is being compiled that have annotated functions.
//!
//! A library that no code mentions is not linked, so its functions are silently missing. The runtime compares this list
//! with the functions that it finds. Only dependencies with a path are considered: a macro does not know where Cargo
//! has put the other dependencies.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::crate_name::{PACKAGE, manifest::Manifest, workspace_of};

/// The maximum number of files of a library that are searched, and the maximum size of one.
const MAX_FILES: usize = 1000;
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Returns the package names of the libraries.
pub(crate) fn libraries() -> Vec<String> {
    env::var_os("CARGO_MANIFEST_DIR").map(|directory| of_package(Path::new(&directory))).unwrap_or_default()
}

fn of_package(directory: &Path) -> Vec<String> {
    let Ok(manifest) = fs::read_to_string(directory.join("Cargo.toml")) else { return Vec::new() };
    let manifest = Manifest::parse(&manifest);
    let workspace = workspace_of(directory);
    let local = manifest.local_dependencies(workspace.as_ref().map(|(_, manifest)| manifest));
    let libraries = local.filter(|dependency| {
        let base = workspace.as_ref().filter(|_| dependency.is_inherited).map_or(directory, |(directory, _)| directory);
        let library = base.join(dependency.path);
        // The tests of the runtime depend on the runtime.
        dependency.package != PACKAGE && uses_runtime(&library) && annotates(library.join("src"))
    });
    libraries.map(|dependency| dependency.package.to_owned()).collect()
}

/// Returns whether a package depends on the runtime.
fn uses_runtime(directory: &Path) -> bool {
    let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
    Manifest::parse(&manifest).name_of(PACKAGE, || Some(workspace_of(directory)?.1)).is_some()
}

/// Returns whether a source file below a directory annotates a function, except in tests.
fn annotates(directory: PathBuf) -> bool {
    let (mut paths, mut files) = (vec![directory], 0);
    while let Some(path) = paths.pop() {
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if let Ok(entries) = fs::read_dir(&path) {
            paths.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files += 1;
            let is_small = fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= MAX_FILE_BYTES);
            if is_small && has_annotation(&fs::read_to_string(&path).unwrap_or_default()) {
                return true;
            }
            if files == MAX_FILES {
                return false;
            }
        }
    }
    false
}

/// Returns whether a source file annotates a function before its tests.
fn has_annotation(source: &str) -> bool {
    source.lines().take_while(|line| line.trim() != "#[cfg(test)]").any(is_annotation)
}

/// Returns whether a line begins with one of the attributes, such as `#[tool]` or `#[mcp_runtime::tool(read_only)]`.
fn is_annotation(line: &str) -> bool {
    let Some(attribute) = line.trim_start().strip_prefix("#[") else { return false };
    let path = attribute.split(['(', ']', ' ']).next().unwrap_or_default();
    ["tool", "tools", "resource", "prompt"].contains(&path.rsplit("::").next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{has_annotation, is_annotation};

    #[test]
    fn annotations_in_tests_do_not_count() {
        assert!(has_annotation("#[tool]\nfn a() {}\n\n#[cfg(test)]\nmod tests;\n"));
        assert!(!has_annotation("fn a() {}\n\n#[cfg(test)]\nmod tests {\n    #[tool]\n    fn b() {}\n}\n"));
    }

    #[test]
    fn annotations_begin_a_line() {
        for (line, expected) in [
            ("#[tool]", true),
            ("    #[tool(read_only)]", true),
            ("#[mcp_runtime::prompt]", true),
            ("#[resource(\"a://b\")]", true),
            ("/// #[tool]", false),
            ("#[toolbox]", false),
            ("#[derive(Elicit)]", false),
            ("fn tool() {}", false),
        ] {
            assert_eq!(is_annotation(line), expected, "{line}");
        }
    }
}
