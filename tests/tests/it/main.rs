//! The integration tests, in one binary.

mod building;
mod calls;
mod changes;
mod golden;
mod http;
mod macros;
mod property;
#[cfg(unix)]
mod stdio;
mod ui;
