//! The manifest of the crate that is being compiled: the name of `mcp-runtime` in it, and its local dependencies that have
//! annotated functions.
//!
//! Parses only the subset of TOML that this requires.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;

const PACKAGE: &str = "mcp-runtime";

/// Returns the path of `__private`, with which all paths in an expansion start.
pub(crate) fn private_path(given: Option<&syn::Path>) -> TokenStream {
    let here = Span::mixed_site();
    match given {
        Some(path) => quote_spanned!(here=> #path::__private),
        None => {
            let name = Ident::new(crate_name(), here);
            quote_spanned!(here=> ::#name::__private)
        }
    }
}

fn crate_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| find().unwrap_or_else(|| PACKAGE.to_owned()).replace('-', "_"))
}

fn find() -> Option<String> {
    let directory = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let manifest = Manifest::parse(&fs::read_to_string(directory.join("Cargo.toml")).ok()?);
    manifest.name_of(PACKAGE, || Some(workspace_of(&directory)?.1))
}

/// Reads the manifest of the workspace of a package. Returns it with its directory.
fn workspace_of(directory: &Path) -> Option<(&Path, Manifest)> {
    directory
        .ancestors()
        .filter_map(|directory| Some((directory, fs::read_to_string(directory.join("Cargo.toml")).ok()?)))
        .map(|(directory, text)| (directory, Manifest::parse(&text)))
        .find(|(_, manifest)| manifest.is_workspace)
}

/// The dependencies in a manifest.
#[derive(Debug, Default)]
struct Manifest {
    is_workspace: bool,
    dependencies: Vec<Dependency>,
    workspace_dependencies: Vec<Dependency>,
}

#[derive(Debug, PartialEq)]
struct Dependency {
    key: String,
    package: Option<String>,
    path: Option<String>,
    inherited: bool,
    /// Whether the dependency is in `[dependencies]`.
    normal: bool,
}

/// A dependency in a directory on this machine.
#[derive(Debug, PartialEq)]
struct LocalDependency<'a> {
    package: &'a str,
    path: &'a str,
    /// Whether the path is relative to the workspace.
    is_inherited: bool,
}

impl Manifest {
    fn parse(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut section: Vec<String> = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let mut line = without_comment(line).trim().to_owned();
            // An inline table may contain an array that spans several lines.
            while is_open(&line) {
                let Some(next) = lines.next() else { break };
                line.push(' ');
                line.push_str(without_comment(next).trim());
            }
            if let Some(header) = line.strip_prefix('[') {
                section = keys(header.trim_start_matches('[').trim_end_matches(']'));
                manifest.is_workspace |= section.first().is_some_and(|key| key == "workspace");
                manifest.read(&section, "");
            } else if let Some((path, value)) = split(&line, '=') {
                manifest.read(&[section.as_slice(), &keys(path)].concat(), value.trim());
            }
        }
        manifest
    }

    /// Returns the name of a package in this manifest. Calls `workspace` for inherited dependencies.
    fn name_of(&self, package: &str, workspace: impl FnOnce() -> Option<Self>) -> Option<String> {
        let inherited = || self.dependencies.iter().filter(|dependency| dependency.inherited);
        let is_inherited = |key: &str, workspace: &Self| {
            let mut found = workspace.workspace_dependencies.iter().filter(|dependency| dependency.key == key);
            found.any(|dependency| dependency.names(package))
        };
        let direct = self.dependencies.iter().filter(|dependency| !dependency.inherited && dependency.names(package));
        let mut candidates: Vec<&Dependency> = direct.collect();
        if candidates.is_empty() && inherited().next().is_some() {
            let workspace = workspace()?;
            candidates.extend(inherited().filter(|dependency| is_inherited(&dependency.key, &workspace)));
        }
        candidates.iter().max_by_key(|found| (found.normal, found.key == package)).map(|found| found.key.clone())
    }

    /// Returns the package names and the paths of the normal dependencies that have a path. The paths of inherited
    /// dependencies are in `workspace`, and relative to it.
    fn local_dependencies<'a>(&'a self, workspace: Option<&'a Self>) -> impl Iterator<Item = LocalDependency<'a>> {
        self.dependencies.iter().filter(|dependency| dependency.normal).filter_map(move |dependency| {
            let declared = match workspace.filter(|_| dependency.inherited) {
                Some(workspace) => workspace.workspace_dependencies.iter().find(|found| found.key == dependency.key)?,
                None => dependency,
            };
            let package = declared.package.as_deref().unwrap_or(&declared.key);
            Some(LocalDependency { package, path: declared.path.as_deref()?, is_inherited: dependency.inherited })
        })
    }

    fn read(&mut self, path: &[String], value: &str) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let (table, rest, workspace) = match path.as_slice() {
            ["workspace", "dependencies", rest @ ..] => ("dependencies", rest, true),
            ["target", _, table, rest @ ..] | [table, rest @ ..] => (*table, rest, false),
            [] => return,
        };
        if !["dependencies", "dev-dependencies", "build-dependencies"].contains(&table) {
            return;
        }
        let [key, rest @ ..] = rest else { return };
        let list = if workspace { &mut self.workspace_dependencies } else { &mut self.dependencies };
        let normal = table == "dependencies";
        let index = list.iter().position(|found| found.key == *key && found.normal == normal).unwrap_or_else(|| {
            list.push(Dependency { key: (*key).to_owned(), package: None, path: None, inherited: false, normal });
            list.len() - 1
        });
        list[index].read(rest, value);
    }
}

impl Dependency {
    fn names(&self, package: &str) -> bool {
        self.package.as_deref().unwrap_or(&self.key) == package
    }

    fn read(&mut self, path: &[&str], value: &str) {
        match path {
            ["package"] => self.package = Some(unquoted(value)),
            ["path"] => self.path = Some(unquoted(value)),
            ["workspace"] => self.inherited = value == "true",
            [] => {
                let Some(table) = value.strip_prefix('{') else { return };
                let mut rest = table.trim_end().trim_end_matches('}');
                while !rest.is_empty() {
                    let (entry, others) = split(rest, ',').unwrap_or((rest, ""));
                    if let Some((key, value)) = split(entry, '=') {
                        self.read(&[unquoted(key).as_str()], value.trim());
                    }
                    rest = others;
                }
            }
            _ => {}
        }
    }
}

/// Splits at the first separator outside of strings, brackets and braces.
fn split(text: &str, separator: char) -> Option<(&str, &str)> {
    let index = outside(text, |c, depth| c == separator && depth == 0)?;
    Some((&text[..index], &text[index + 1..]))
}

fn without_comment(line: &str) -> &str {
    outside(line, |c, _| c == '#').map_or(line, |index| &line[..index])
}

fn is_open(line: &str) -> bool {
    let mut open = 0;
    outside(line, |c, depth| {
        open = depth + i32::from(matches!(c, '[' | '{')) - i32::from(matches!(c, ']' | '}'));
        false
    });
    open > 0
}

/// Finds a character outside of strings. `wanted` receives the number of open brackets.
fn outside(text: &str, mut wanted: impl FnMut(char, i32) -> bool) -> Option<usize> {
    let (mut quote, mut escaped, mut depth) = (None, false, 0);
    for (index, c) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some('"') if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if wanted(c, depth) => return Some(index),
            None => match c {
                '"' | '\'' => quote = Some(c),
                '[' | '{' => depth += 1,
                ']' | '}' => depth -= 1,
                _ => {}
            },
        }
    }
    None
}

/// Returns the parts of a dotted key.
fn keys(mut path: &str) -> Vec<String> {
    let mut keys = Vec::new();
    while let Some((key, rest)) = split(path, '.') {
        keys.push(unquoted(key));
        path = rest;
    }
    keys.push(unquoted(path));
    keys
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches(['"', '\'']).to_owned()
}

/// The maximum number of files of a library that are searched, and the maximum size of one.
const MAX_FILES: usize = 1000;
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Returns the package names of the local dependencies that have annotated functions.
///
/// A library that no code mentions is not linked, so its functions are silently missing. The runtime compares this list
/// with the functions that it finds. Only dependencies with a path are considered: a macro does not know where Cargo
/// has put the other dependencies. The package itself is in the list if its library is certainly not linked.
pub(crate) fn libraries() -> Vec<String> {
    let Some(directory) = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from) else { return Vec::new() };
    let own = [env::var("CARGO_PKG_NAME"), env::var("CARGO_BIN_NAME")].map(Result::ok);
    let own = match own {
        [Some(package), Some(binary)] => Some(package).filter(|package| is_unused(&directory, package, &binary)),
        _ => None,
    };
    of_package(&directory).into_iter().chain(own).collect()
}

/// Returns whether a package has a library with annotated functions that a binary of it does not use: the binary is a
/// single file, which does not contain the name of the library.
fn is_unused(directory: &Path, package: &str, binary: &str) -> bool {
    let source = directory.join("src");
    let main = if binary == package { source.join("main.rs") } else { source.join(format!("bin/{binary}.rs")) };
    let Ok(main) = fs::read_to_string(main) else { return false };
    let has_modules = main.lines().any(|line| line.contains("mod ") && line.trim_end().ends_with(';'));
    !has_modules && !main.contains(&package.replace('-', "_")) && source.join("lib.rs").exists() && annotates(source)
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

/// Returns whether a source file of the library below a directory annotates a function, except in tests.
fn annotates(directory: PathBuf) -> bool {
    let (mut paths, mut files) = (vec![directory], 0);
    while let Some(path) = paths.pop() {
        if path.file_stem().is_some_and(|name| name == "tests" || name == "main" || name == "bin") {
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
    use super::*;

    fn name(manifest: &str) -> Option<String> {
        let workspace = "[workspace.dependencies]\nshared = { version = \"1\", package = 'mcp-runtime' }\nserde = '1'";
        Manifest::parse(manifest).name_of("mcp-runtime", || Some(Manifest::parse(workspace)))
    }

    #[test]
    fn local_dependencies_have_a_path() {
        let workspace = "[workspace.dependencies]\ntools = { path = \"crates/tools\" }\nserde = '1'";
        let workspace = Manifest::parse(workspace);
        for (manifest, expected) in [
            ("[dependencies]\na = { path = \"../a\" }\nb = \"1\"", Some(("a", "../a", false))),
            ("[dependencies.x]\npath = '../a'\npackage = 'a'", Some(("a", "../a", false))),
            ("[dependencies]\ntools.workspace = true\nserde.workspace = true", Some(("tools", "crates/tools", true))),
            ("[dev-dependencies]\na = { path = \"../a\" }", None),
            ("[dependencies]\nother.workspace = true", None),
        ] {
            let manifest = Manifest::parse(manifest);
            let found: Vec<_> = manifest
                .local_dependencies(Some(&workspace))
                .map(|found| (found.package, found.path, found.is_inherited))
                .collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn dependencies_are_found_in_all_notations() {
        for (manifest, expected) in [
            ("[dependencies]\nmcp-runtime = \"0.1\"", Some("mcp-runtime")),
            ("[dependencies]\nmcp-runtime.workspace = true", None),
            ("[dependencies]\nmcp-runtime = { path = \"..\" } # package = \"x\"", Some("mcp-runtime")),
            ("[dependencies]\nmcp = { version = \"0.1\", package = \"mcp-runtime\" }", Some("mcp")),
            ("[dependencies]\nmcp = { features = [\"a, b\", \"}\"], package = 'mcp-runtime' }", Some("mcp")),
            (
                "[dependencies]\nmcp = { features = [\n  \"a\", # one\n  \"b\",\n], package = 'mcp-runtime' }",
                Some("mcp"),
            ),
            ("[dependencies.mcp]\nversion = \"0.1\"\npackage = \"mcp-runtime\"", Some("mcp")),
            ("dependencies.mcp.package = \"mcp-runtime\"\n[lib]\nname = 'x'", Some("mcp")),
            ("[dev-dependencies]\nmcp = { package = \"mcp-runtime\" }", Some("mcp")),
            ("[target.'cfg(unix)'.dependencies]\nmcp = { package = \"mcp-runtime\" }", Some("mcp")),
            ("[target.\"cfg(a = \\\"b.c\\\")\".dependencies.mcp]\npackage = \"mcp-runtime\"", Some("mcp")),
            ("[dependencies]\nshared.workspace = true", Some("shared")),
            ("[dependencies]\nshared = { workspace = true, features = [] }", Some("shared")),
            ("[dependencies]\nserde.workspace = true", None),
            ("[dependencies]\nmcp-runtime = { package = \"something-else\" }", None),
            (
                "[dev-dependencies]\na = { package = \"mcp-runtime\" }\n[dependencies]\nb = { package = \"mcp-runtime\" }",
                Some("b"),
            ),
            ("[package]\nname = \"mcp-runtime\"\n[features]\nmcp = [\"mcp-runtime\"]", None),
            ("", None),
        ] {
            assert_eq!(name(manifest).as_deref(), expected, "{manifest}");
        }
    }

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
