//! The integration tests, in one binary.

mod asking;
mod building;
mod calls;
mod forms;
mod golden;
mod http;
mod macros;
mod property;
mod skills;
#[cfg(unix)]
mod stdio;
mod ui;
