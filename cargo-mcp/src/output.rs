//! Printing to stdout, whose reader may go away early: `cargo mcp list | head -1`.

use std::{
    fmt,
    io::{ErrorKind, Write as _},
};

/// Prints to stdout, with styles only where they are supported. Exits if the reader has closed the pipe.
macro_rules! out {
    ($($arg:tt)*) => { $crate::stdout::write(format_args!($($arg)*)) };
}

/// Prints a line to stdout, as [`out!`] does.
macro_rules! outln {
    () => { $crate::stdout::write(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::stdout::write(format_args!("{}\n", format_args!($($arg)*))) };
}

pub(crate) use {out, outln};

/// Writes to stdout. Exits with status 0 if the reader has closed the pipe.
///
/// # Panics
///
/// Panics if stdout cannot be written for another reason, as `println!` does.
pub(crate) fn write(text: fmt::Arguments<'_>) {
    match anstream::stdout().lock().write_fmt(text) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => panic!("failed printing to stdout: {error}"),
    }
}
