#![allow(unused_variables)]

use mcp_runtime::tool;

/// All mistakes are reported, and the function is kept for its callers.
#[tool(nmae = "x", timeout = "soon", read_only, destructive)]
fn many(
    #[arg(range = 5..=1)] a: u8,
    #[arg(default = 11, range = 1..=10)] b: u8,
    (c, d): (u8, u8),
    e: &mut String,
    #[arg(rename = "a")] f: bool,
) {
    let _ = (a, b, c, d, e, f);
}

fn main() {
    many(1, 2, (3, 4), &mut String::new(), true);
    let _ = mcp_runtime::Server::empty("a", "1").with::<many>();
}
