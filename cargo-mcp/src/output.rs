//! Printing to stdout and stderr, where text from servers is escaped. Nothing else in this program prints such text,
//! except for prompts and progress bars, whose libraries receive escaped text.

use std::{
    fmt,
    io::{ErrorKind, IsTerminal as _, Write as _},
    process::Stdio,
};

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};

use crate::style::{escape, escape_json};

/// Prints to stdout, with styles only where they are supported. Exits if the reader has closed the pipe.
macro_rules! out {
    ($($arg:tt)*) => { $crate::output::print(format_args!($($arg)*)) };
}

/// Prints a line to stdout, as [`out!`] does.
macro_rules! outln {
    () => { $crate::output::print(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($arg)*))) };
}

/// Prints a line to stderr, with styles only where they are supported.
macro_rules! errln {
    ($($arg:tt)*) => { $crate::output::print_error(format_args!($($arg)*)) };
}

pub(crate) use {errln, out, outln};

/// Writes text to stdout. Exits with status 0 if the reader has closed the pipe.
///
/// # Panics
///
/// Panics if stdout cannot be written for another reason, as `println!` does.
pub(crate) fn print(text: fmt::Arguments<'_>) {
    write(&escape(&text.to_string()));
}

/// Writes JSON and a line break to stdout, as [`print()`] does. It contains no control characters and can be parsed.
pub(crate) fn print_json(json: &str) {
    write(&format!("{}\n", escape_json(json)));
}

fn write(text: &str) {
    match anstream::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => panic!("failed printing to stdout: {error}"),
    }
}

/// Writes a line to stderr. Ignores errors, since there is nowhere else to report them.
pub(crate) fn print_error(line: fmt::Arguments<'_>) {
    let _ = writeln!(anstream::stderr().lock(), "{}", escape(&line.to_string()));
}

/// The maximum number of bytes of a program's stderr that are printed as one line.
const MAX_LINE: u64 = 64 << 10;

/// Returns what stderr of a server is connected to: a pipe that [`forward`] reads if it would otherwise be the terminal.
pub(crate) fn server_stderr() -> Stdio {
    if std::io::stderr().is_terminal() { Stdio::piped() } else { Stdio::inherit() }
}

/// Prints the lines that a server writes to stderr.
pub(crate) async fn forward(stderr: impl AsyncRead + Unpin) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    while let Ok(1..) = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).await {
        errln!("{}", String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
}
