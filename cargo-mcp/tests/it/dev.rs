//! `cargo mcp dev`: real packages that are changed while clients are connected.

mod http;
mod project;
mod stdio;
