//! A server with the functions of both libraries.

use mcp_linking as _;
use mcp_linking_toolbox as _;

mcp_runtime::main!();
