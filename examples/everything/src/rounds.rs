//! Tools that ask the client in several round trips, for revisions without requests from server to client.

use mcp_runtime::{
    Context, Fault,
    ask::{Answer, Capability, Elicitation, ListRoots, Root, SampleRequest},
    prompt, tool,
};

use crate::forms::{Colour, Confirm, Name, Subject};

/// Greet the user by name.
#[tool(read_only)]
async fn test_input_required_result_elicitation(ctx: &Context) -> Result<String, Fault> {
    Ok(greeting("Hello", ctx.ask(name_question()).await?))
}

/// Ask the client's model for a capital.
#[tool(read_only)]
async fn test_input_required_result_sampling(ctx: &Context) -> Result<String, Fault> {
    let question = SampleRequest::new("What is the capital of France?").key("capital_question").max_tokens(100);
    Ok(ctx.sample(question).await?.text())
}

/// Count the root directories of the client.
#[tool(read_only)]
async fn test_input_required_result_list_roots(ctx: &Context) -> Result<String, Fault> {
    Ok(count_roots(&ctx.roots().await?))
}

/// Keep state from one round to the next.
#[tool(read_only)]
async fn test_input_required_result_request_state(ctx: &Context) -> Result<String, Fault> {
    let state = ctx.once("state", async { "state-ok".to_owned() }).await?;
    match ctx.elicit::<Confirm>("confirm", "Please confirm to continue.").await? {
        Answer::Accept(Confirm { ok: true }) => Ok(state),
        Answer::Accept(_) | Answer::Decline | Answer::Cancel => Ok("not confirmed".to_owned()),
    }
}

/// Ask the user, the model and the client at once.
#[tool(read_only)]
async fn test_input_required_result_multiple_inputs(ctx: &Context) -> Result<String, Fault> {
    let hello = SampleRequest::new("Generate a greeting.").key("greeting").max_tokens(50);
    let (name, hello, roots) = ctx.ask_all((name_question(), hello, ListRoots)).await?;
    Ok(format!("{} {}", greeting(&hello.text(), name), count_roots(&roots)))
}

/// Ask two questions, one after the other.
#[tool(read_only)]
async fn test_input_required_result_multi_round(ctx: &Context) -> Result<String, Fault> {
    let name = ctx.elicit::<Name>("step1", "Step 1: What is your name?").await?;
    let colour = ctx.elicit::<Colour>("step2", "Step 2: What is your favorite color?").await?;
    let colour = colour.accepted().map_or_else(|| "no color".to_owned(), |form| form.color);
    Ok(format!("{} You like {colour}.", greeting("Hello", name)))
}

/// Demonstrate that a tampered request state is rejected. The framework seals the state.
#[tool(read_only)]
async fn test_input_required_result_tampered_state(ctx: &Context) -> Result<String, Fault> {
    let answer = ctx.elicit::<Confirm>("confirm", "Please confirm to continue.").await?;
    Ok(if answer.is_accepted() { "the state is unchanged" } else { "not confirmed" }.to_owned())
}

/// Ask only questions that the client supports.
#[tool(read_only)]
async fn test_input_required_result_capabilities(ctx: &Context) -> Result<String, Fault> {
    if ctx.supports(Capability::Elicitation) {
        return Ok(greeting("Hello", ctx.ask(name_question()).await?));
    }
    if ctx.supports(Capability::Sampling) {
        return Ok(ctx.sample(SampleRequest::new("Make up a name.").key("made_up_name").max_tokens(20)).await?.text());
    }
    Ok("The client supports neither elicitation nor sampling.".to_owned())
}

/// A prompt that asks the user for its subject.
#[prompt]
async fn test_input_required_result_prompt(ctx: &Context) -> Result<String, Fault> {
    let subject = ctx.elicit::<Subject>("user_context", "What context should the prompt use?").await?;
    let subject = subject.accepted().map_or_else(|| "nothing in particular".to_owned(), |form| form.context);
    Ok(format!("Please help me with this: {subject}"))
}

fn name_question() -> Elicitation<Name> {
    Elicitation::new("user_name", "What is your name?")
}

fn greeting(hello: &str, name: Answer<Name>) -> String {
    let name = name.accepted().map_or_else(|| "stranger".to_owned(), |form| form.name);
    format!("{hello}, {name}!")
}

fn count_roots(roots: &[Root]) -> String {
    let names: Vec<_> = roots.iter().map(|root| root.name.as_deref().unwrap_or(&root.uri)).collect();
    let unit = if roots.len() == 1 { "root" } else { "roots" };
    format!("{} {unit}: {}", roots.len(), names.join(", "))
}
