//! Tools whose calls may become tasks, whose results clients fetch later.

use std::time::Duration;

use mcp_runtime::{Answer, Context, Elicit, Elicitation, Fault, tool};
use tokio::time::sleep;

use crate::forms::{Name, told};

/// What a user may say to a task.
#[derive(Elicit)]
struct Say {
    name: Option<String>,
    confirm: Option<bool>,
}

/// Greet somebody, at once.
#[tool(read_only)]
fn greet(
    /// Who is greeted.
    name: String,
) -> String {
    format!("Hello, {name}!")
}

/// Compute for a while.
#[tool(task)]
async fn slow_compute(
    /// How long it takes, in seconds.
    #[arg(range = 0.0..=3600.0)]
    seconds: f64,
    /// What it is for.
    label: Option<String>,
) -> String {
    sleep(Duration::from_secs_f64(seconds)).await;
    format!("{} took {seconds} s", label.as_deref().unwrap_or("The computation"))
}

/// Fail after a while, in words that a model can read. It takes too long to be waited for.
#[tool(task = "required")]
async fn failing_job() -> Result<String, &'static str> {
    sleep(Duration::from_secs(1)).await;
    Err("This job intentionally fails for testing")
}

/// Fail after a while, with an error of the protocol.
#[tool(task)]
async fn protocol_error_job() -> Result<String, Fault> {
    sleep(Duration::from_millis(100)).await;
    Err(Fault::internal("This job intentionally ends with a protocol error for testing"))
}

/// Delete a file, if the user confirms it. It deletes nothing.
#[tool(task, destructive)]
async fn confirm_delete(
    ctx: &Context,
    /// What is to be deleted.
    filename: String,
) -> Result<String, Fault> {
    Ok(match ctx.elicit::<Say>("confirm", format!("Delete {filename}?")).await? {
        Answer::Accept(Say { confirm: Some(true), .. }) => format!("Deleted {filename}"),
        Answer::Accept(_) | Answer::Decline | Answer::Cancel => format!("Kept {filename}"),
    })
}

/// Ask the user two things at once.
#[tool(task)]
async fn multi_input(ctx: &Context) -> Result<String, Fault> {
    let first = Elicitation::<Say>::new("first", "What is your name?");
    let second = Elicitation::<Say>::new("second", "Go ahead?");
    let (first, second) = ctx.ask_all((first, second)).await?;
    let name = first.accepted().and_then(|said| said.name).unwrap_or_else(|| "nobody".to_owned());
    let sure = second.accepted().and_then(|said| said.confirm).unwrap_or_default();
    Ok(format!("{name} said {sure}"))
}

/// Ask for a name while the client waits, then work on as a task.
#[tool(task = "deferred")]
async fn test_tool_with_task(ctx: &Context) -> Result<String, Fault> {
    let answer = ctx.elicit::<Name>("user_name", "What is your name?").await?;
    ctx.become_task().await;
    sleep(Duration::from_millis(100)).await;
    Ok(format!("The task is done: {}", told(answer)))
}
