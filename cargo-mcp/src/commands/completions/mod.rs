//! `cargo mcp completions`: what a shell must know to complete command lines.

use std::io::Write as _;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::{cli::Cli, failure::Failure};

/// The program, which cargo calls for `cargo mcp`.
const PROGRAM: &str = "cargo-mcp";

const INSTALL: &str = "\
Examples, which install them for good:
  bash        echo 'source <(cargo-mcp completions bash)' >> ~/.bashrc
  zsh         mkdir -p ~/.zfunc && cargo-mcp completions zsh > ~/.zfunc/_cargo-mcp
              with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  fish        cargo-mcp completions fish > ~/.config/fish/conf.d/cargo-mcp.fish
  powershell  cargo-mcp completions powershell >> $PROFILE
  elvish      cargo-mcp completions elvish >> ~/.config/elvish/rc.elv

Bash and fish complete `cargo mcp` as well as `cargo-mcp`, and so does zsh with cargo's own completions.";

/// Print the completions of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = INSTALL)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match std::io::stdout().write_all(&script(args.shell)) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::usage(format_args!("the completions cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// What clap knows; that cargo has this program as a command is for us to tell the shell.
fn script(shell: Shell) -> Vec<u8> {
    match shell {
        Shell::Bash => [bash().as_bytes(), include_bytes!("cargo.bash")].concat(),
        Shell::Fish => [&*generated(shell, PROGRAM), include_bytes!("cargo.fish")].concat(),
        _ => generated(shell, PROGRAM),
    }
}

/// Clap's script for bash loses the subcommands of a program with a hyphen in its name, so it is made for one without.
fn bash() -> String {
    let script = String::from_utf8(generated(Shell::Bash, "cargo_mcp")).expect("a script is UTF-8");
    script.replace("default cargo_mcp\n", &format!("default {PROGRAM}\n"))
}

fn generated(shell: Shell, program: &'static str) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command().name(program).bin_name(program), program, &mut script);
    script
}
