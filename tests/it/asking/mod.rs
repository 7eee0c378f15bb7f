//! Requests from a function to its client: the same functions in every revision, with complete conversations as golden
//! files.
//!
//! `UPDATE_GOLDEN=1 cargo test --workspace --test it asking` regenerates the files. Every message of the server is
//! also validated against the official schema of its revision, if the schema is available.

mod bad_input;
mod capabilities;
mod conversations;
mod options;
mod state;
mod urls;

use mcp_runtime::{
    Context, Elicit, Fault, Resource, Server,
    ask::{Answer, Elicitation, ListRoots, SampleRequest},
    prompt, resource, tool,
};

pub(crate) use urls::url_server;

/// A form with a single confirmation.
#[derive(Debug, Elicit)]
pub(crate) struct Confirm {
    /// Really do it?
    sure: bool,
}

/// An order form.
#[derive(Debug, Elicit)]
pub(crate) struct Order {
    /// Whom it is for.
    #[elicit(title = "Name", length = 1..=20)]
    name: String,
    /// Where the bill goes.
    #[elicit(format = "email")]
    email: Option<String>,
    /// How many.
    #[elicit(range = 1..=10, default = 1)]
    count: u8,
    size: Size,
    #[elicit(length = ..=2)]
    toppings: Vec<Topping>,
}

#[derive(Debug, Elicit)]
enum Size {
    #[elicit(rename = "s", title = "Small")]
    Small,
    #[elicit(rename = "l", title = "Large")]
    Large,
}

#[derive(Debug, Elicit)]
enum Topping {
    #[elicit(rename = "cheese")]
    Cheese,
    #[elicit(rename = "basil")]
    Basil,
}

#[derive(Debug, Elicit)]
struct Name {
    name: String,
}

/// Delete a file.
#[tool]
async fn delete(ctx: &Context, path: String) -> Result<String, Fault> {
    Ok(match ctx.elicit::<Confirm>("confirm", format!("Delete {path}?")).await? {
        Answer::Accept(Confirm { sure: true }) => format!("deleted {path}"),
        Answer::Accept(Confirm { sure: false }) => "kept: not sure".to_owned(),
        Answer::Decline => "kept: declined".to_owned(),
        Answer::Cancel => "kept: cancelled".to_owned(),
    })
}

/// Order something, step by step.
#[tool]
async fn order(ctx: &Context) -> Result<String, Fault> {
    let number = ctx.once("number", async { 42 }).await?;
    let Answer::Accept(form) = ctx.elicit::<Order>("order", "What would you like?").await? else {
        return Ok(format!("order {number} is off"));
    };
    let what = format!("{} × {:?} with {:?} for {}", form.count, form.size, form.toppings, form.name);
    match ctx.elicit::<Confirm>("confirm", format!("Order {what}?")).await? {
        Answer::Accept(Confirm { sure: true }) => Ok(format!("order {number}: {what}, bill to {:?}", form.email)),
        _ => Ok(format!("order {number} is off")),
    }
}

/// Sample, with every option of a request.
#[tool]
async fn sample(ctx: &Context) -> Result<String, Fault> {
    let request = SampleRequest::new("What is the capital of France?")
        .key("capital")
        .system_prompt("Answer in one word.")
        .max_tokens(100)
        .temperature(0.0)
        .with_stop_sequences(["\n"])
        .with_model_hint("claude");
    let result = ctx.sample(request).await?;
    Ok(format!("{} says {}", result.model, result.text()))
}

/// Look at the roots.
#[tool]
async fn roots(ctx: &Context) -> Result<String, Fault> {
    let roots = ctx.roots().await?;
    Ok(roots.iter().map(|root| root.uri.as_str()).collect::<Vec<_>>().join(", "))
}

/// Send the user elsewhere.
#[tool]
async fn log_in(ctx: &Context) -> Result<String, Fault> {
    Ok(match ctx.elicit_url("login", "https://example.com/login?x=1", "Please log in.").await? {
        Answer::Accept(()) => "gone".to_owned(),
        Answer::Decline | Answer::Cancel => "stayed".to_owned(),
    })
}

/// Ask three things at once.
#[tool]
async fn everything(ctx: &Context) -> Result<String, Fault> {
    let (name, greeting, roots) = ctx
        .ask_all((
            Elicitation::<Name>::new("name", "Who are you?"),
            SampleRequest::new("Write a greeting.").key("greeting"),
            ListRoots,
        ))
        .await?;
    let name = name.accepted().map_or_else(|| "nobody".to_owned(), |form| form.name);
    Ok(format!("{}, {name} ({} roots)", greeting.text(), roots.len()))
}

/// Ask two different things under one key, one after the other.
#[tool]
async fn same_key(ctx: &Context) -> Result<String, Fault> {
    let first = ctx.elicit::<Confirm>("confirm", "First?").await?;
    let second = ctx.elicit::<Confirm>("confirm", "Second?").await?;
    Ok(format!("{first:?} {second:?}"))
}

/// Review in the user's style.
#[prompt]
async fn review(ctx: &Context) -> Result<String, Fault> {
    let name = ctx.elicit::<Name>("style", "In which style?").await?;
    Ok(match name {
        Answer::Accept(Name { name }) => format!("Review this in the style of {name}."),
        Answer::Decline | Answer::Cancel => "Review this.".to_owned(),
    })
}

/// A secret that is shown on consent.
#[resource("vault://{name}")]
async fn secret(ctx: &Context, name: String) -> Result<Resource, Fault> {
    match ctx.elicit::<Confirm>("consent", format!("Show {name}?")).await? {
        Answer::Accept(Confirm { sure: true }) => Ok(Resource::text("", "42")),
        _ => Err(Fault::resource_not_found(format!("vault://{name}"))),
    }
}

pub(crate) fn server() -> Server {
    Server::empty("asking", "1.0.0")
        .with::<delete>()
        .with::<order>()
        .with::<sample>()
        .with::<roots>()
        .with::<log_in>()
        .with::<everything>()
        .with::<same_key>()
        .with::<review>()
        .with::<secret>()
}
