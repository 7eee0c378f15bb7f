//! A server that does not mention the library.

mcp_runtime::main!();
