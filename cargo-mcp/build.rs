//! Builds again when an example, which is a template, has a file more or less.

fn main() {
    println!("cargo::rerun-if-changed=templates");
}
