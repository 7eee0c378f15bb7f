//! Tools that take their time: progress, cancellation, tasks.
//!
//! The bodies are ordinary functions. Whether a call is waited for or becomes a task, which its client asks about later, is decided by
//! the annotation and by what the client can have: the experimental tasks of 2025-11-25, or the extension of 2026-07-28.
//!
//! ```text
//! cargo run -p jobs
//! cargo run -p jobs -- --http 127.0.0.1:8080
//! ```

mod desk;

use std::time::Duration;

use mcp_runtime::{Answer, Context, Elicit, Fault, Server, server, tool};
use tokio::time::sleep;

use desk::Desk;

/// How long one page takes.
const PAGE: Duration = Duration::from_millis(50);

/// Print a document, page by page.
///
/// A client without tasks waits for it, and sees the progress if it asks for that. One that cancels stops the printer: the function's
/// future is dropped where it waits, and whatever it holds is cleared away.
#[tool(task, destructive = false)]
async fn print(
    ctx: &Context,
    desk: &Desk,
    /// What is printed.
    document: String,
    /// How many pages it has.
    #[arg(range = 1..=1000)]
    pages: u32,
) -> String {
    let _job = desk.begin(&document);
    for page in 1..=pages {
        sleep(PAGE).await;
        ctx.progress(page, pages, format!("page {page} of {document}"));
    }
    format!("{document} is printed, {pages} pages")
}

/// Archive everything that was printed.
///
/// It takes too long to be waited for: a client that cannot have tasks is told so.
#[tool(task = "required", destructive = false, idempotent)]
async fn archive(ctx: &Context, desk: &Desk) -> String {
    let _job = desk.begin("the archive");
    for part in 1..=10_u32 {
        sleep(PAGE * 2).await;
        ctx.progress(part, 10_u32, format!("part {part} of 10"));
    }
    "everything is archived".to_owned()
}

/// Whether to go through with it.
#[derive(Elicit)]
struct Confirm {
    /// Tick this to go ahead.
    sure: bool,
}

/// Shred a document, if the user confirms it.
///
/// The question is asked while the client waits; only the work behind it is a task.
#[tool(task = "deferred", destructive)]
async fn shred(
    ctx: &Context,
    desk: &Desk,
    /// What is shredded.
    document: String,
) -> Result<String, Fault> {
    let question = format!("Shred {document}?");
    let Answer::Accept(Confirm { sure: true }) = ctx.elicit::<Confirm>("confirm", question).await? else {
        return Ok(format!("{document} is kept"));
    };
    ctx.become_task().await;
    let _job = desk.begin(&document);
    sleep(PAGE * 4).await;
    Ok(format!("{document} is shredded"))
}

/// List what the machines are working on.
#[tool(read_only)]
fn at_work(desk: &Desk) -> String {
    match desk.at_work().as_slice() {
        [] => "nothing".to_owned(),
        jobs => jobs.join(", "),
    }
}

#[server]
fn main(server: Server) -> Server {
    server.with_state(Desk::default()).task_poll_interval(Duration::from_millis(500))
}

#[cfg(test)]
mod tests;
