//! `cargo mcp completions`: shell completion scripts.

use std::io::Write as _;

use clap_complete::{Shell, generate};

use crate::failure::Failure;

/// The program that cargo runs for `cargo mcp`.
const PROGRAM: &str = "cargo-mcp";

/// Print a shell completion script
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help.txt").trim_end())]
pub(crate) struct Args {
    /// Shell to generate completions for
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for `command`, the whole command line.
pub(crate) fn run(args: Args, command: &clap::Command) -> Result<(), Failure> {
    match std::io::stdout().write_all(&script(args.shell, command)) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::usage(format_args!("cannot write the completions: {error}")))
        }
        _ => Ok(()),
    }
}

/// Returns clap's script, extended by the `cargo mcp` form, which clap does not know.
fn script(shell: Shell, command: &clap::Command) -> Vec<u8> {
    match shell {
        Shell::Bash => [bash(command).as_bytes(), include_bytes!("cargo.bash")].concat(),
        Shell::Fish => [&*generate_script(shell, command, PROGRAM), include_bytes!("cargo.fish")].concat(),
        _ => generate_script(shell, command, PROGRAM),
    }
}

/// Generates the bash script for `cargo_mcp` and renames it: clap's script loses the subcommands of a hyphenated name.
fn bash(command: &clap::Command) -> String {
    let script =
        String::from_utf8(generate_script(Shell::Bash, command, "cargo_mcp")).expect("completion scripts are UTF-8");
    script.replace("default cargo_mcp\n", &format!("default {PROGRAM}\n"))
}

fn generate_script(shell: Shell, command: &clap::Command, program: &'static str) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut command.clone().name(program).bin_name(program), program, &mut script);
    script
}
