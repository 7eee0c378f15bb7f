//! A server of one tool.

mod echo;

mcp_runtime::main!();
