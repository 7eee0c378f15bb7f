//! The Cargo.toml of a new package: the file of an example, made independent of the framework's workspace.

use std::path::{Component, Path, PathBuf};

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value, value};

use super::template::{Template, workspace};

const RUNTIME: &str = "mcp-runtime";

/// The packages that new servers depend on, and their folders next to the runtime in a checkout.
const FAMILY: [(&str, Option<&str>); 7] = [
    (RUNTIME, None),
    ("mcp-runtime-auth", Some("mcp-auth")),
    ("mcp-runtime-redis", Some("mcp-redis")),
    ("mcp-runtime-otel", Some("mcp-otel")),
    ("mcp-runtime-proxy", Some("mcp-proxy")),
    ("mcp-runtime-openapi", Some("mcp-openapi")),
    ("mcp-runtime-config", Some("mcp-config")),
];

/// The source of the framework.
#[derive(Clone, Debug)]
pub(super) enum Runtime {
    /// A version from crates.io.
    Version,
    /// A checkout.
    Path(PathBuf),
}

/// Creates the manifest of a package from the manifest of an example.
pub(super) fn manifest(template: Template, name: &str, runtime: &Runtime, http: bool) -> DocumentMut {
    let mut manifest = template.manifest();
    let workspace = workspace();
    package(&mut manifest, &workspace, name);
    remove_outside_targets(&mut manifest);
    for dependencies in dependency_tables(manifest.as_table_mut()) {
        resolve(dependencies, &workspace["workspace"]["dependencies"], runtime);
    }
    if http {
        activate(&mut manifest["dependencies"][RUNTIME], "http");
    }
    lints(&mut manifest, &workspace);
    manifest
}

/// Returns the names of the dependencies.
pub(super) fn dependencies(manifest: &mut DocumentMut) -> Vec<String> {
    let tables = dependency_tables(manifest.as_table_mut());
    tables.iter().flat_map(|table| table.iter().map(|(name, _)| name.to_owned())).collect()
}

/// Returns whether the framework's feature `http` is active.
pub(super) fn has_http(manifest: &DocumentMut) -> bool {
    let features = manifest["dependencies"][RUNTIME].get("features").and_then(Item::as_array);
    features.is_some_and(|features| features.iter().any(|feature| feature.as_str() == Some("http")))
}

fn package(manifest: &mut DocumentMut, workspace: &DocumentMut, name: &str) {
    let package = manifest["package"].as_table_mut().expect("a manifest has a package");
    package["name"] = value(name);
    package["version"] = value("0.1.0");
    // License and publication are decisions of the author, and clients read the description.
    for key in ["publish", "license", "repository", "description"] {
        package.remove(key);
    }
    if let Some(metadata) = package.get_mut("metadata").and_then(Item::as_table_mut) {
        metadata.remove("template");
        if metadata.is_empty() {
            package.remove("metadata");
        }
    }
    let inherited: Vec<String> =
        package.iter().filter(|(_, item)| is_inherited(item)).map(|(key, _)| key.to_owned()).collect();
    for key in inherited {
        package[&key] = workspace["workspace"]["package"][&key].clone();
    }
    normalize_spacing(package);
}

/// Removes targets whose source is outside the package.
fn remove_outside_targets(manifest: &mut DocumentMut) {
    for kind in ["bin", "test", "bench", "example"] {
        let Some(targets) = manifest.get_mut(kind).and_then(Item::as_array_of_tables_mut) else { continue };
        targets.retain(|target| {
            let path = target.get("path").and_then(Item::as_str).map(Path::new);
            path.is_none_or(|path| {
                path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
            })
        });
        if targets.is_empty() {
            manifest.remove(kind);
        }
    }
}

fn dependency_tables(manifest: &mut Table) -> Vec<&mut Table> {
    let mut tables = Vec::new();
    for (key, item) in manifest.iter_mut() {
        match (key.get(), item) {
            ("dependencies" | "dev-dependencies" | "build-dependencies", Item::Table(table)) => tables.push(table),
            ("target", Item::Table(targets)) => {
                let targets = targets.iter_mut().filter_map(|(_, target)| target.as_table_mut());
                tables.extend(targets.flat_map(dependency_tables));
            }
            _ => {}
        }
    }
    tables
}

/// Resolves inherited dependencies, and removes the dependencies that exist only as a path.
fn resolve(dependencies: &mut Table, workspace: &Item, runtime: &Runtime) {
    let names: Vec<String> = dependencies.iter().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        let mut dependency = inherit(&dependencies[&name], workspace.get(&name));
        if let Some((_, sibling)) = FAMILY.into_iter().find(|(package, _)| name == *package) {
            set_source(&mut dependency, runtime, sibling);
        } else if dependency.contains_key("path") {
            dependencies.remove(&name);
            continue;
        }
        dependencies[&name] = simplified(dependency);
    }
    normalize_spacing(dependencies);
}

/// Returns a dependency with its inherited members, which come first.
fn inherit(dependency: &Item, workspace: Option<&Item>) -> InlineTable {
    let own = as_table(dependency);
    let Some(workspace) = workspace.filter(|_| is_inherited(dependency)) else { return own };
    let mut all = as_table(workspace);
    for (key, item) in own.iter().filter(|(key, _)| *key != "workspace") {
        match (all.get_mut(key).and_then(Value::as_array_mut), item) {
            (Some(features), Value::Array(more)) => features.extend(more.iter().cloned()),
            _ => drop(all.insert(key, item.clone())),
        }
    }
    all
}

fn as_table(dependency: &Item) -> InlineTable {
    match dependency.as_table_like() {
        Some(table) => table.iter().filter_map(|(key, item)| Some((key, item.as_value()?.clone()))).collect(),
        None => dependency.as_value().map(|version| ("version", version.clone())).into_iter().collect(),
    }
}

/// Sets the source of a package of the framework.
fn set_source(dependency: &mut InlineTable, runtime: &Runtime, sibling: Option<&str>) {
    match runtime {
        Runtime::Version => dependency.remove("path"),
        Runtime::Path(path) => {
            dependency.remove("version");
            // Cargo accepts slashes on every system.
            let path = sibling.map_or_else(|| path.clone(), |name| path.with_file_name(name));
            dependency.insert("path", path.display().to_string().replace('\\', "/").into())
        }
    };
}

/// Returns `"1"` instead of `{ version = "1" }`.
fn simplified(mut dependency: InlineTable) -> Item {
    if dependency.len() == 1
        && let Some(version) = dependency.remove("version")
    {
        return value(without_decor(version));
    }
    let mut table = InlineTable::new();
    for (key, item) in dependency {
        table.insert(key, without_decor(item));
    }
    value(table)
}

/// Removes the white space around a value and its items.
fn without_decor(mut value: Value) -> Value {
    if let Value::Array(array) = &value {
        value = Value::Array(array.iter().cloned().map(without_decor).collect::<Array>());
    }
    value.decor_mut().clear();
    value
}

fn activate(runtime: &mut Item, feature: &str) {
    let mut dependency = as_table(runtime);
    let features = dependency.get_or_insert("features", Array::new());
    let features = features.as_array_mut().expect("features are an array");
    if !features.iter().any(|known| known.as_str() == Some(feature)) {
        features.push(feature);
    }
    *runtime = simplified(dependency);
}

/// Replaces the inherited lints by the lint that servers on stdio need.
fn lints(manifest: &mut DocumentMut, workspace: &DocumentMut) {
    if !manifest.get("lints").is_some_and(is_inherited) {
        return;
    }
    let mut clippy = Table::new();
    clippy["print_stdout"] = workspace["workspace"]["lints"]["clippy"]["print_stdout"].clone();
    clippy.decor_mut().set_prefix("\n# A server on stdio must write nothing but protocol messages to stdout.\n");
    let mut lints = Table::new();
    lints.set_implicit(true);
    lints.insert("clippy", Item::Table(clippy));
    manifest["lints"] = Item::Table(lints);
}

fn is_inherited(item: &Item) -> bool {
    let table = item.as_table_like();
    table.and_then(|table: &dyn TableLike| table.get("workspace")?.as_bool()).unwrap_or_default()
}

/// Restores the spaces around `=` that are missing after `key.workspace = true` became `key = …`.
fn normalize_spacing(table: &mut Table) {
    for (mut key, item) in table.iter_mut() {
        key.leaf_decor_mut().set_suffix(" ");
        key.dotted_decor_mut().clear();
        if let Some(value) = item.as_value_mut() {
            value.decor_mut().set_prefix(" ");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::{FAMILY, Item, Runtime, Template, dependency_tables, manifest};

    #[test]
    fn packages_from_a_published_program_depend_only_on_crates_io() {
        for template in Template::all() {
            let manifest = manifest(template, "weather", &Runtime::Version, true);
            let text = manifest.to_string();
            for part in ["workspace", "path =", "publish", "mcp-tests", "template"] {
                assert!(!text.contains(part), "{}: `{part}` in\n{text}", template.name());
            }
            let runtime = &manifest["dependencies"]["mcp-runtime"];
            assert_eq!(runtime["version"].as_str(), Some(env!("CARGO_PKG_VERSION")), "{text}");
            assert!(runtime["features"].to_string().contains("\"http\""), "{text}");
            assert_eq!(manifest["package"]["name"].as_str(), Some("weather"));
        }
    }

    #[test]
    fn packages_from_a_checkout_depend_on_its_directories() {
        let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("mcp-runtime");
        let mut found = BTreeSet::new();
        for template in Template::all() {
            let mut manifest = manifest(template, "weather", &Runtime::Path(runtime.clone()), false);
            for dependencies in dependency_tables(manifest.as_table_mut()) {
                for (name, dependency) in dependencies.iter() {
                    let Some(path) = dependency.get("path").and_then(Item::as_str) else { continue };
                    let package = std::fs::read_to_string(Path::new(path).join("Cargo.toml"));
                    let package = package.unwrap_or_else(|error| panic!("{path}: {error}"));
                    assert!(package.contains(&format!("\nname = \"{name}\"\n")), "{path} does not contain {name}");
                    found.insert(name.to_owned());
                }
            }
        }
        assert_eq!(found, BTreeSet::from(FAMILY.map(|(name, _)| name.to_owned())));
    }

    #[test]
    fn targets_outside_the_package_are_removed() {
        let everything = Template::named("everything").expect("the example exists");
        assert!(everything.manifest().contains_key("test"), "the example has a target outside its directory");
        let manifest = manifest(everything, "weather", &Runtime::Version, false);
        assert!(!manifest.contains_key("test"), "{manifest}");
        assert!(manifest["dev-dependencies"].get("tokio").is_some(), "{manifest}");
    }
}
