//! A server with the functions of the library.

use mcp_linking_toolbox as _;

mcp_runtime::main!();
