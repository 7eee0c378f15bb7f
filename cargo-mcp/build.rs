//! Rebuilds the program when files of the examples, which are its templates, are added or removed, and tells it whether
//! it is built from a published package.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=templates");
    println!("cargo::rustc-check-cfg=cfg(published)");
    // Cargo adds this file to packages; a checkout does not contain it. A missing file counts as changed in every build.
    if Path::new("Cargo.toml.orig").exists() {
        println!("cargo::rustc-cfg=published");
    }
}
