//! Rebuilds the program when files of the examples, which are its templates, are added or removed.

fn main() {
    println!("cargo::rerun-if-changed=templates");
}
