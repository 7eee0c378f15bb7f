//! The integration tests, in one binary.

mod asking;
mod building;
mod calls;
mod changes;
mod forms;
mod golden;
mod http;
mod layers;
mod macros;
mod property;
mod requirements;
#[cfg(unix)]
mod stdio;
mod tasks;
mod ui;
