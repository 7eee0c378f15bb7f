//! Long-running tools: progress, cancellation, tasks.
//!
//! The tools are ordinary functions. Their annotation and the client's capabilities decide whether a call runs while
//! the client waits or becomes a task that the client polls: with the experimental tasks of 2025-11-25 or the extension
//! of 2026-07-28.
//!
//! ```text
//! cargo run -p jobs
//! cargo run -p jobs -- --http 127.0.0.1:8080
//! ```

mod active_jobs;

use std::time::Duration;

use mcp_runtime::{Context, Elicit, Fault, Server, ask::Answer, server, tool};
use tokio::time::sleep;

use active_jobs::ActiveJobs;

/// The time that printing one page takes.
const PAGE: Duration = Duration::from_millis(50);

/// Print a document, page by page.
///
/// A client without tasks waits, and receives progress notifications if it asks for them. Cancelling the call or the
/// task drops the function's future at its next `.await`, and with it everything it holds.
#[tool(task, destructive = false)]
async fn print(
    ctx: &Context,
    jobs: &ActiveJobs,
    /// The name of the document.
    document: String,
    /// The number of pages.
    #[arg(range = 1..=1000)]
    pages: u32,
) -> String {
    let _job = jobs.start(&document);
    for page in 1..=pages {
        sleep(PAGE).await;
        ctx.progress(page, pages, format!("page {page} of {document}"));
    }
    format!("printed {document}, {pages} pages")
}

/// Archive everything that was printed.
///
/// This takes too long to wait for, so in revisions with tasks, clients that do not use them receive an error.
#[tool(task = "required", destructive = false, idempotent)]
async fn archive(ctx: &Context, jobs: &ActiveJobs) -> String {
    let _job = jobs.start("archive");
    for part in 1..=10_u32 {
        sleep(PAGE * 2).await;
        ctx.progress(part, 10_u32, format!("part {part} of 10"));
    }
    "archived everything".to_owned()
}

/// Confirmation of a destructive operation.
#[derive(Elicit)]
struct Confirm {
    /// Tick this to go ahead.
    sure: bool,
}

/// Shred a document after the user has confirmed it.
///
/// The question is asked while the client waits; only the work after it is a task.
#[tool(task = "deferred", destructive)]
async fn shred(
    ctx: &Context,
    jobs: &ActiveJobs,
    /// The name of the document.
    document: String,
) -> Result<String, Fault> {
    let question = format!("Shred {document}?");
    let Answer::Accept(Confirm { sure: true }) = ctx.elicit::<Confirm>("confirm", question).await? else {
        return Ok(format!("kept {document}"));
    };
    ctx.become_task().await;
    let _job = jobs.start(&document);
    sleep(PAGE * 4).await;
    Ok(format!("shredded {document}"))
}

/// List the running jobs.
#[tool(read_only)]
fn active(jobs: &ActiveJobs) -> String {
    match jobs.names().as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

#[server]
fn main(server: Server) -> Server {
    server.with_state(ActiveJobs::default()).task_poll_interval(Duration::from_millis(500))
}

#[cfg(test)]
mod tests;
