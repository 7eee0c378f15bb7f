//! The command line of the program.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

/// Try every kind of argument
#[derive(Debug, Parser)]
#[command(name = "clap-program", version = "1.2.3")]
pub(crate) struct Cli {
    /// Before the subcommand
    #[arg(short = 'C', long)]
    directory: Option<String>,
    /// Anywhere
    #[arg(long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Commands,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Commands {
    /// Print everything
    Print(Everything),
    /// Copy files
    Copy {
        #[arg(required = true)]
        from: Vec<String>,
        to: String,
    },
    /// Run a command
    Run {
        name: Option<String>,
        #[arg(last = true)]
        command: Vec<String>,
    },
    Remote {
        #[command(subcommand)]
        command: Remote,
    },
    /// End with an exit code
    Exit { code: u8 },
    /// Print many bytes
    Flood { bytes: usize },
    /// Print bytes that are not UTF-8
    Bytes,
    /// Sleep with a child, and write the ids of both
    Sleep {
        file: PathBuf,
        /// End at once, and leave the child behind
        #[arg(long)]
        leave: bool,
    },
    /// Read stdin
    Stdin,
    /// Write lines to stderr
    Work,
    /// Not for models
    #[command(hide = true)]
    Secret,
    /// Serve the other commands
    #[command(hide = true)]
    Serve,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Remote {
    /// Add a remote
    Add {
        name: String,
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Clone, ValueEnum)]
pub(crate) enum Color {
    /// If it is a terminal
    Auto,
    Never,
}

#[derive(Debug, Args)]
pub(crate) struct Everything {
    first: Option<String>,
    rest: Vec<String>,
    #[arg(long)]
    text: Option<String>,
    #[arg(short)]
    short: Option<String>,
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    #[arg(long)]
    flag: bool,
    #[arg(long)]
    switch: Option<bool>,
    #[arg(long, value_enum)]
    color: Option<Color>,
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=9))]
    level: Option<u8>,
    #[arg(long)]
    ratio: Option<f64>,
    #[arg(long, allow_negative_numbers = true)]
    number: Option<i64>,
    #[arg(long)]
    each: Vec<String>,
    #[arg(long, value_delimiter = ',', action = ArgAction::Set)]
    joined: Vec<String>,
    #[arg(long, num_args = 2)]
    pairs: Vec<String>,
    #[arg(long, num_args = 1.., value_terminator = ";", allow_hyphen_values = true)]
    exec: Vec<String>,
    #[arg(long, conflicts_with = "text")]
    other: bool,
}
