//! Generates the filler tools.

use std::{env, fs, path::Path};

/// The source of one tool, with `@` in place of its number.
const TOOL: &str = r##"
/// Fill the list.
#[::mcp_runtime::tool]
fn filler_@(
    /// Name of an item.
    text: String,
    /// The count.
    count: u32,
) -> String {
    format!("{count} of {text}")
}
"##;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    for count in [100, 999] {
        let tools: String = (0..count).map(|number| TOOL.replace('@', &format!("{number:03}"))).collect();
        fs::write(Path::new(&out).join(format!("fillers_{count}.rs")), tools).expect("OUT_DIR can be written");
    }
}
