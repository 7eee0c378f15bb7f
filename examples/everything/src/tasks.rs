//! Tools whose calls may become tasks. Clients fetch the results later.

use std::time::Duration;

use mcp_runtime::{
    Context, Elicit, Fault,
    ask::{Answer, Elicitation},
    tool,
};
use tokio::time::sleep;

use crate::forms::{Name, describe};

/// The user's answer to a task.
#[derive(Elicit)]
struct Input {
    name: Option<String>,
    confirm: Option<bool>,
}

/// Greet a person, without a task.
#[tool(read_only)]
fn greet(
    /// The name of the person to greet.
    name: String,
) -> String {
    format!("Hello, {name}!")
}

/// Compute for a while.
#[tool(task)]
async fn slow_compute(
    /// The duration in seconds.
    #[arg(range = 0.0..=3600.0)]
    seconds: f64,
    /// A label for the result.
    label: Option<String>,
) -> String {
    sleep(Duration::from_secs_f64(seconds)).await;
    format!("{} took {seconds} s", label.as_deref().unwrap_or("The computation"))
}

/// Fail after a while with an error that the model can read. In revisions with tasks, clients must use them to call this
/// tool.
#[tool(task = "required")]
async fn failing_job() -> Result<String, &'static str> {
    sleep(Duration::from_secs(1)).await;
    Err("This job intentionally fails for testing")
}

/// Fail after a while with a protocol error.
#[tool(task)]
async fn protocol_error_job() -> Result<String, Fault> {
    sleep(Duration::from_millis(100)).await;
    Err(Fault::internal("This job intentionally ends with a protocol error for testing"))
}

/// Delete a file after the user has confirmed it. This is a simulation: no file is deleted.
#[tool(task, destructive)]
async fn confirm_delete(
    ctx: &Context,
    /// The name of the file.
    filename: String,
) -> Result<String, Fault> {
    Ok(match ctx.elicit::<Input>("confirm", format!("Delete {filename}?")).await? {
        Answer::Accept(Input { confirm: Some(true), .. }) => format!("Deleted {filename}"),
        Answer::Accept(_) | Answer::Decline | Answer::Cancel => format!("Kept {filename}"),
    })
}

/// Ask the user two things at once.
#[tool(task)]
async fn multi_input(ctx: &Context) -> Result<String, Fault> {
    let first = Elicitation::<Input>::new("first", "What is your name?");
    let second = Elicitation::<Input>::new("second", "Go ahead?");
    let (first, second) = ctx.ask_all((first, second)).await?;
    let name = first.accepted().and_then(|input| input.name).unwrap_or_else(|| "anonymous".to_owned());
    let sure = second.accepted().and_then(|input| input.confirm).unwrap_or_default();
    Ok(format!("{name} answered {sure}"))
}

/// Ask for a name while the client waits, then continue as a task.
#[tool(task = "deferred")]
async fn test_tool_with_task(ctx: &Context) -> Result<String, Fault> {
    let answer = ctx.elicit::<Name>("user_name", "What is your name?").await?;
    ctx.become_task().await;
    sleep(Duration::from_millis(100)).await;
    Ok(format!("The task is done: {}", describe(answer)))
}
