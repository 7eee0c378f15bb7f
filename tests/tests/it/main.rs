//! The integration tests, in one binary.

mod asking;
mod building;
mod calls;
mod changes;
mod flatten;
mod forms;
mod golden;
mod http;
mod macros;
mod property;
#[cfg(unix)]
mod stdio;
mod ui;
