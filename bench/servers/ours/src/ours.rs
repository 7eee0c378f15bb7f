//! A server with 103 tools.

mod echo;
mod tools;

mcp_runtime::main!();
