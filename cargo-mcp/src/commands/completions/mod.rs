//! `cargo mcp completions`: what a shell must know to complete command lines.

use std::io::Write as _;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::{cli::Cli, failure::Failure};

/// The program, which cargo calls for `cargo mcp`.
const PROGRAM: &str = "cargo-mcp";

const INSTALL: &str = "\
Examples, which install them for good:
  bash        mkdir -p ~/.local/share/bash-completion/completions
              cargo mcp completions bash > ~/.local/share/bash-completion/completions/cargo-mcp
              echo 'source ~/.local/share/bash-completion/completions/cargo-mcp' >> ~/.bashrc
  zsh         cargo mcp completions zsh > ~/.zfunc/_cargo-mcp
              with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  fish        cargo mcp completions fish > ~/.config/fish/conf.d/cargo-mcp.fish
  powershell  cargo mcp completions powershell >> $PROFILE
  elvish      cargo mcp completions elvish >> ~/.config/elvish/rc.elv

Bash and fish complete `cargo mcp` as well as `cargo-mcp`; so does zsh where cargo's own completions are installed.";

/// Print the completions of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = INSTALL)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), PROGRAM, &mut script);
    // Clap completes programs; that cargo has this one as a command is for us to tell the shell.
    script.extend_from_slice(match args.shell {
        Shell::Bash => include_bytes!("cargo.bash"),
        Shell::Fish => include_bytes!("cargo.fish"),
        _ => b"",
    });
    match std::io::stdout().write_all(&script) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::usage(format_args!("the completions cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}
