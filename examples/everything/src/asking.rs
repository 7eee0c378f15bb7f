//! Tools that send requests to the client: elicitation and sampling.

use mcp_runtime::{
    Context, Fault,
    ask::{Capability, SampleRequest},
    tool,
};

use crate::forms::{Choices, Defaults, Name, User, describe};

/// Have the client's model answer a prompt.
#[tool(read_only)]
async fn test_sampling(
    ctx: &Context,
    /// The prompt for the model.
    prompt: String,
) -> Result<String, Fault> {
    let answer = ctx.sample(SampleRequest::new(prompt).max_tokens(100)).await?;
    Ok(format!("LLM response: {}", answer.text()))
}

/// Ask the user for a name and an e-mail address.
#[tool(read_only)]
async fn test_elicitation(
    ctx: &Context,
    /// The message to the user.
    message: String,
) -> Result<String, Fault> {
    let answer = ctx.elicit::<User>("user", message).await?;
    Ok(format!("User response: {}", describe(answer)))
}

/// Ask the user to fill in a form with defaults of every kind.
#[tool(read_only)]
async fn test_elicitation_sep1034_defaults(ctx: &Context) -> Result<String, Fault> {
    let answer = ctx.elicit::<Defaults>("defaults", "Please review and update the form fields with defaults").await?;
    Ok(format!("Elicitation completed: {}", describe(answer)))
}

/// Ask the user to choose, with every kind of choice.
#[tool(read_only)]
async fn test_elicitation_sep1330_enums(ctx: &Context) -> Result<String, Fault> {
    let answer = ctx.elicit::<Choices>("choices", "Please select options from the enum fields").await?;
    Ok(format!("Elicitation completed: {}", describe(answer)))
}

/// Ask the user for a name, in several round trips if the revision has no requests from server to client.
#[tool(read_only)]
async fn test_streaming_elicitation(ctx: &Context) -> Result<String, Fault> {
    let answer = ctx.elicit::<Name>("user_name", "What is your name?").await?;
    Ok(format!("User response: {}", describe(answer)))
}

/// Reject clients that do not support sampling.
#[tool(read_only)]
fn test_missing_capability(ctx: &Context) -> Result<&'static str, Fault> {
    ctx.require(Capability::Sampling)?;
    Ok("The client supports sampling.")
}
