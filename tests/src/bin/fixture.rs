//! The fixture as a process, for tests of stdio and of the command line.

use std::time::Duration;

use mcp_runtime::{Server, server, tool};

/// Prints to stdout, where only messages are allowed.
#[tool]
#[allow(clippy::print_stdout)]
fn prints() -> &'static str {
    println!("printed by a function");
    "printed"
}

/// Blocks its thread forever.
#[tool]
fn hang() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Returns the stdin of a child process that inherits it.
#[tool(blocking)]
#[deprecated = "start it without stdin"]
fn child() -> std::io::Result<String> {
    let output = std::process::Command::new("cat").stdin(std::process::Stdio::inherit()).output()?;
    Ok(format!("{} {:?}", output.status, String::from_utf8_lossy(&output.stdout)))
}

#[server]
#[allow(clippy::print_stdout)]
async fn main(
    server: Server,
    /// The shutdown grace period in milliseconds.
    #[arg(default = 5000, env = "FIXTURE_GRACE", range = 1..)]
    grace: u64,
    /// The greeting to use.
    #[arg(length = 1..)]
    greeting: Option<String>,
    /// Whether to forward the log.
    #[arg(default)]
    forward_log: bool,
) -> Result<Server, String> {
    println!("printed at startup");
    let server = mcp_tests::configure(server, greeting.as_deref().unwrap_or("Hello"));
    let server = server.shutdown_grace(Duration::from_millis(grace));
    Ok(if forward_log { server.forward_log() } else { server })
}
