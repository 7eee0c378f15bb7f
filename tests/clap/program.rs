//! A program with every kind of argument, which `--mcp` serves. It prints its command line as clap has parsed it.

use std::{
    io::{Read as _, Write as _, stderr, stdin, stdout},
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

use clap::{CommandFactory as _, Parser as _};

mod cli;

use cli::{Cli, Commands};

fn main() -> ExitCode {
    mcp_clap::serve_if_asked(Cli::command);
    mcp_clap::Program::new(Cli::command()).serve_if_asked();
    let cli = Cli::parse();
    match &cli.command {
        Commands::Exit { code } => {
            print(b"before the end\n");
            stderr().write_all(format!("error: code {code}\n").as_bytes()).unwrap();
            return ExitCode::from(*code);
        }
        Commands::Flood { bytes } => {
            let _ = stdout().write_all(&vec![b'x'; *bytes]);
            stderr().write_all(b"done\n").unwrap();
        }
        Commands::Bytes => print(b"\xff\x1b[1m\0"),
        Commands::Sleep { file, leave } => {
            #[expect(clippy::zombie_processes, reason = "a program that leaves a child behind")]
            let mut child = Command::new("sleep").arg("600").spawn().unwrap();
            std::fs::write(file, format!("{} {}", std::process::id(), child.id())).unwrap();
            if *leave {
                print(b"left");
            } else {
                child.wait().unwrap();
            }
        }
        Commands::Stdin => {
            let mut text = String::new();
            stdin().read_to_string(&mut text).unwrap();
            print(format!("{} bytes", text.len()).as_bytes());
        }
        Commands::Work => {
            let long = format!("x{}", "é".repeat(5000));
            let (colors, title) = ("\x1b[2K\x1b[1;32mread\x1b[0m\x07\t\u{9b}3\n", "\x1b]0;title\x07\x1b[2K\n");
            let parts = ["read 1\n", "read", " 2\r", "\r\n \n", &long, "\n", colors, title, "4\r5\n6", "\n"];
            for part in parts {
                stderr().write_all(part.as_bytes()).unwrap();
                thread::sleep(Duration::from_millis(60));
            }
            for part in ["begun\n", "finished\n"] {
                stderr().write_all(part.as_bytes()).unwrap();
            }
            thread::sleep(Duration::from_millis(60));
            stderr().write_all(b"the end").unwrap();
            print(b"done");
        }
        Commands::Serve => mcp_clap::serve::<Cli>(),
        _ => print(format!("{cli:?}").as_bytes()),
    }
    ExitCode::SUCCESS
}

fn print(bytes: &[u8]) {
    stdout().write_all(bytes).unwrap();
}
