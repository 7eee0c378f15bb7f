//! Programs with clap as servers: the schemas of their tools, and calls of `program.rs`.

mod calls;
mod cli;
mod processes;
mod schemas;
