//! `cargo mcp prompt`: shows a prompt with its arguments filled in.

use std::path::PathBuf;

use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, GetPromptResult, Prompt, Role, ServerResult,
};
use serde_json::{Map, Value, json};

use crate::{
    coerce::{Mistakes, Words, arguments},
    content::Files,
    failure::Failure,
    host::HostArgs,
    near::listed,
    near::nearest,
    schema::Schema,
    session::{RequestOptions, Round, Rounds, Server, Session, SessionArgs, print_raw, with},
    stdout::outln,
    style::{DIM, NAME},
};

/// Show a prompt's messages
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "cargo mcp prompt [OPTIONS] [SERVER] NAME [KEY=VALUE]... [-- COMMAND...]",
    after_help = "\
Examples:
  cargo mcp prompt weekly_review
  cargo mcp prompt notes summarise tag=shopping style=brief
  cargo mcp prompt summarise tag=@tag.txt style=brief --json -- target/debug/notes

Each message stands below the role that says it. A value is `@FILE` where it is in a file."
)]
pub(crate) struct Args {
    /// The server (a package of this workspace, or a URL; may be left out), the prompt, and its arguments
    #[arg(value_name = "SERVER|NAME|KEY=VALUE")]
    words: Vec<String>,
    /// Print the whole result as JSON
    #[arg(long, visible_alias = "raw")]
    json: bool,
    /// Where pictures, sounds and other bytes are saved; without it the current directory
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    session: SessionArgs,
}

pub(crate) async fn run(mut args: Args) -> Result<(), Failure> {
    let server = args.session.target.take_server(&mut args.words);
    let name = if args.words.is_empty() { None } else { Some(args.words.remove(0)) };
    let named = Server { name: server.as_deref(), word: name.as_deref() };
    with(&args.session, named, &args.host, async |session| {
        let prompts = session.prompts().await?;
        let prompt = find(&prompts, name.as_deref())?;
        let given = given(prompt, &args.words)?;
        let result = get(session, prompt, given).await?;
        session.host().finish();
        match args.json {
            true => print_raw(&result),
            false => print(prompt, &result, &args),
        }
    })
    .await
}

/// The prompt of a name.
///
/// # Errors
///
/// There is none; near names are suggested.
pub(crate) fn find<'a>(prompts: &'a [Prompt], name: Option<&str>) -> Result<&'a Prompt, Failure> {
    let names: Vec<&str> = prompts.iter().map(|prompt| &*prompt.name).collect();
    let failure = match name {
        Some(name) => match prompts.iter().find(|prompt| prompt.name == name) {
            Some(prompt) => return Ok(prompt),
            None => Failure::usage(format_args!("the server has no prompt `{name}`")),
        },
        None => Failure::usage("which prompt is to be shown?"),
    };
    Err(match nearest(name.unwrap_or_default(), names.iter().copied()) {
        Some(near) => failure.help(format_args!("did you mean `{near}`?")),
        None if names.is_empty() => failure.help("it has no prompts at all"),
        None => failure.help(format_args!("it has {}", listed(&names))),
    })
}

/// A prompt's arguments are strings, all of them.
fn given(prompt: &Prompt, words: &[String]) -> Result<Map<String, Value>, Failure> {
    let arguments_of = || prompt.arguments.iter().flatten();
    let properties: Map<String, Value> =
        arguments_of().map(|argument| (argument.name.clone(), json!({"type": "string"}))).collect();
    let required: Vec<&str> = arguments_of()
        .filter(|argument| argument.required == Some(true))
        .map(|argument| argument.name.as_str())
        .collect();
    let Value::Object(schema) = json!({"properties": properties, "required": required}) else {
        return Ok(Map::new());
    };
    let mut mistakes = Mistakes::default();
    let given = arguments(Words { words, complete: true }, Schema::new(&schema), &mut mistakes);
    if let Some((name, _)) = given.iter().find(|(_, value)| !value.is_string()) {
        mistakes.add(format!("argument `{name}` must be string, as all arguments of prompts are"));
    }
    mistakes.none(&format!("prompt `{}`", prompt.name))?;
    Ok(given)
}

async fn get(session: &Session, prompt: &Prompt, given: Map<String, Value>) -> Result<GetPromptResult, Failure> {
    let what = format!("prompt `{}`", prompt.name);
    session.set_log_level().await;
    let params = GetPromptRequestParams::new(prompt.name.clone()).with_arguments(given);
    let request = |round: Round| {
        let mut params = params.clone();
        (params.input_responses, params.request_state) = (round.responses, round.state);
        ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
    };
    match Rounds::default().request(session, &what, RequestOptions::default(), request).await? {
        Ok(ServerResult::GetPromptResult(result)) => Ok(result),
        Ok(_) => Err(Failure::connection(format_args!("{what}: the server's answer is no prompt"))),
        Err(error) => Err(session.refused(&what, error)),
    }
}

fn print(prompt: &Prompt, result: &GetPromptResult, args: &Args) -> Result<(), Failure> {
    let files = Files::new(args.output.as_deref(), &prompt.name);
    if let Some(description) = &result.description {
        anstream::eprintln!("{DIM}{description}{DIM:#}");
    }
    for (at, message) in result.messages.iter().enumerate() {
        if at > 0 {
            outln!();
        }
        let role = match message.role {
            Role::Assistant => "assistant",
            _ => "user",
        };
        outln!("{NAME}{role}:{NAME:#}");
        files.print(&message.content)?;
    }
    Ok(())
}
