//! `cargo mcp dev` with real packages whose source changes while clients are connected.

mod http;
mod project;
mod stdio;
