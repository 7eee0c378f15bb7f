//! `cargo mcp list`.

use crate::common::{example, run};

#[test]
fn the_tools_of_a_program_are_listed() {
    let hello = example("hello");
    let listed = run(&["list", "--", hello.to_str().expect("a path in UTF-8")]).good();
    assert!(listed.contains("greet"), "{listed}");
}
