//! Every source file belongs to a module: the tests of a file that no module declares would silently not run.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns whether the file that contains a module declares it, by its name or its path.
fn is_declared(file: &Path) -> bool {
    let folder = file.parent().unwrap();
    let (module, parent) = if file.ends_with("mod.rs") { (folder, folder.parent().unwrap()) } else { (file, folder) };
    let declaration = format!("mod {};", module.file_stem().unwrap().display());
    let path = format!("path = \"{}\"", file.file_name().unwrap().display());
    let declares = |parent: PathBuf| {
        let text = fs::read_to_string(parent).unwrap_or_default();
        text.lines()
            .any(|line| line == declaration || line.ends_with(&format!(" {declaration}")) || line.contains(&path))
    };
    ["mod.rs", "lib.rs", "main.rs"].into_iter().any(|name| declares(parent.join(name)))
        || declares(parent.with_extension("rs"))
}

#[test]
fn every_source_file_is_declared_as_a_module() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for folder in fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path().join("src")) {
        if folder.is_dir() {
            sources(&folder, &mut files);
        }
    }
    ["it", "proxy"].into_iter().for_each(|name| sources(&root.join("tests").join(name), &mut files));
    assert!(files.len() > 500, "{}", files.len());
    let is_root = |file: &Path| {
        ["lib.rs", "main.rs"].into_iter().any(|name| file.ends_with(name)) || file.parent().unwrap().ends_with("bin")
    };
    files.retain(|file| !is_root(file) && !is_declared(file));
    assert!(files.is_empty(), "{files:?}");
}
