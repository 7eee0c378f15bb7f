//! `cargo mcp prompt`: prints the messages of a prompt.

use std::path::PathBuf;

use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, GetPromptResult, Prompt, Role, ServerResult,
};
use serde_json::{Map, Value, json};

use crate::{
    arguments::{
        coerce::{ArgumentErrors, ArgumentWords, arguments},
        schema::Schema,
    },
    content::Files,
    failure::{Failure, find},
    host::HostArgs,
    output::{DIM, NAME, errln, outln},
    session::{NamedServer, RequestOptions, Round, Rounds, Session, SessionArgs, print_raw, rejection, with},
};

/// Print the messages of a prompt
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "cargo mcp prompt [OPTIONS] [SERVER] NAME [KEY=VALUE]... [-- COMMAND...]",
    after_help = "\
Examples:
  cargo mcp prompt weekly_review
  cargo mcp prompt notes summarise tag=shopping style=brief
  cargo mcp prompt summarise tag=@tag.txt style=brief --json -- target/debug/notes

`KEY=@FILE` reads a value from a file."
)]
pub(crate) struct Args {
    /// Optional server (package of this workspace or URL), prompt and arguments
    #[arg(value_name = "SERVER|NAME|KEY=VALUE")]
    words: Vec<String>,
    /// Print the whole result as JSON
    #[arg(long, visible_alias = "raw")]
    json: bool,
    /// Directory for images, audio and other binary content [default: the current directory]
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
    let named = NamedServer { name: server.as_deref(), word: name.as_deref() };
    with(&args.session, named, &args.host, async |session| {
        let prompts = session.prompts().await?;
        let prompt = find(&prompts, name.as_deref(), |prompt| &prompt.name, "prompt")?;
        let arguments = prompt_arguments(prompt, &args.words)?;
        let result = get(session, prompt, arguments).await?;
        session.host().finish();
        if args.json { print_raw(&result) } else { print(prompt, &result, &args) }
    })
    .await
}

/// Converts words to the arguments of a prompt, which are all strings.
fn prompt_arguments(prompt: &Prompt, words: &[String]) -> Result<Map<String, Value>, Failure> {
    let declared = || prompt.arguments.iter().flatten();
    let properties: Map<String, Value> =
        declared().map(|argument| (argument.name.clone(), json!({"type": "string"}))).collect();
    let required: Vec<&str> =
        declared().filter(|argument| argument.required == Some(true)).map(|argument| argument.name.as_str()).collect();
    let Value::Object(schema) = json!({"properties": properties, "required": required}) else {
        return Ok(Map::new());
    };
    let mut errors = ArgumentErrors::default();
    let arguments = arguments(ArgumentWords { words, is_complete: true }, Schema::new(&schema), &mut errors);
    if let Some((name, _)) = arguments.iter().find(|(_, value)| !value.is_string()) {
        errors.add(format!("argument `{name}`: expected string, the type of all prompt arguments"));
    }
    errors.into_result(&format!("prompt `{}`", prompt.name))?;
    Ok(arguments)
}

async fn get(session: &Session, prompt: &Prompt, arguments: Map<String, Value>) -> Result<GetPromptResult, Failure> {
    let what = format!("prompt `{}`", prompt.name);
    session.set_log_level().await;
    let params = GetPromptRequestParams::new(prompt.name.clone()).with_arguments(arguments);
    let request = |round: Round| {
        let mut params = params.clone();
        (params.input_responses, params.request_state) = (round.responses, round.state);
        ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
    };
    match Rounds::default().request(session, &what, RequestOptions::default(), request).await? {
        Ok(ServerResult::GetPromptResult(result)) => Ok(result),
        Ok(_) => Err(Failure::connection(format_args!("{what}: the server returned a result of the wrong type"))),
        Err(error) => Err(rejection(session, &what, error)),
    }
}

fn print(prompt: &Prompt, result: &GetPromptResult, args: &Args) -> Result<(), Failure> {
    let files = Files::new(args.output.as_deref(), &prompt.name);
    if let Some(description) = &result.description {
        errln!("{DIM}{description}{DIM:#}");
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
