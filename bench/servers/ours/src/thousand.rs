//! A server with a thousand tools.

mod echo;
mod fillers {
    include!(concat!(env!("OUT_DIR"), "/fillers_999.rs"));
}

mcp_runtime::main!();
