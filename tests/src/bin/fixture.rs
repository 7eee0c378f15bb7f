//! The fixture as a process, for tests of stdio and of the command line.

use std::time::Duration;

use mcp_runtime::{Server, server, tool};

/// Prints where only messages may be.
#[tool]
#[allow(clippy::print_stdout)]
fn prints() -> &'static str {
    println!("this must not reach the client");
    "printed"
}

/// Keeps the thread to itself, for ever.
#[tool]
fn hang() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Reads what a child process finds on its stdin.
#[tool(blocking)]
fn child() -> std::io::Result<String> {
    let output = std::process::Command::new("cat").stdin(std::process::Stdio::inherit()).output()?;
    Ok(format!("{} {:?}", output.status, String::from_utf8_lossy(&output.stdout)))
}

#[server]
#[allow(clippy::print_stdout)]
async fn main(
    server: Server,
    /// How long calls may go on when the client has gone, in milliseconds.
    #[arg(default = 5000, env = "FIXTURE_GRACE", range = 1..)]
    grace: u64,
    /// What to greet with.
    #[arg(length = 1..)]
    greeting: Option<String>,
    /// Whether to forward the log.
    #[arg(default)]
    forward_log: bool,
) -> Result<Server, String> {
    println!("nor this");
    let server = mcp_tests::configure(server, greeting.as_deref().unwrap_or("Hello"));
    let server = server.shutdown_grace(Duration::from_millis(grace));
    Ok(if forward_log { server.forward_log() } else { server })
}
