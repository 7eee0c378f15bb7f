//! A server with one tool.

mod echo;

mcp_runtime::main!();
