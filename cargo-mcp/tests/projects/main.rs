//! Tests that build whole packages: those of `cargo mcp new`, packages that change while `cargo mcp dev` serves them,
//! bundles, and the session in its README. They take minutes, so only `cargo test --workspace --test projects` runs them.

mod bundle;
#[path = "../common/mod.rs"]
mod common;
mod dev;
mod new;
mod readme;
mod turn;
mod workspace;
