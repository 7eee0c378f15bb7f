//! Each command end to end, with the real programs.

mod common;
// With the places of Linux; those of other systems are told apart in a unit test.
#[cfg(target_os = "linux")]
mod install;
mod list;
