//! `cargo mcp call`: calls a tool.

mod task;

use std::{io::Read, path::PathBuf};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ContentBlock, CreateTaskResult, ErrorCode,
    ServerResult, Tool,
};
use serde_json::{Map, Value};

use crate::{
    coerce::{Mistakes, Words, arguments},
    content::Files,
    failure::Failure,
    host::HostArgs,
    near::listed,
    near::nearest,
    schema::Schema,
    session::{RequestOptions, Round, Rounds, Server, Session, SessionArgs, print_raw, with},
    table,
};

/// Call a tool
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "cargo mcp call [OPTIONS] [SERVER] TOOL [KEY=VALUE]... [-- COMMAND...]",
    after_help = "\
Examples:
  cargo mcp call add_note title=Milk body='Two litres' tags=shopping tags=today
  cargo mcp call notes search_notes query=milk limit=5
  cargo mcp call http://127.0.0.1:8080/mcp search_notes --json '{\"query\": \"milk\"}' --raw
  cargo mcp call book_seats play=Hamlet --answer name=Ann --answer seats=2 -- target/debug/ask",
    after_long_help = "\
How arguments are written:
  KEY=VALUE    what the tool's schema says: a string, a number, `true`, `null`, one of a list …
  KEY=a KEY=b  a list, item by item; `KEY=[\"a\",\"b\"]` is the same
  KEY.PART=x   a part of an object
  KEY=@FILE    what a file holds
  KEY:=JSON    JSON as it stands, whatever the schema says
  --json       all arguments as one JSON object, sent as it stands; words beside it win

Output:
  Text is printed as it is, structured content as a table in a terminal and as JSON elsewhere.
  Pictures, sounds and other bytes are saved to files. Progress and log messages go to stderr.
  `--raw` prints the whole result as JSON.

Questions:
  A server that asks the user is answered from `--answer` and `--answer-json`, and in a terminal
  by hand. Without either, it is told that nobody can be asked.

Tasks:
  A call is waited for. It becomes a task where the server demands one, or with `--task` where it
  allows one; the task is followed to its end, and Ctrl-C cancels it.

Exit codes:
  0  the tool did it    1  the tool failed    2  wrong command line    3  no server    130  Ctrl-C

Examples:
  cargo mcp call add_note title=Milk body='Two litres' tags=shopping tags=today
  cargo mcp call notes search_notes query=milk limit=5
  cargo mcp call http://127.0.0.1:8080/mcp search_notes --json '{\"query\": \"milk\"}' --raw
  cargo mcp call book_seats play=Hamlet --answer name=Ann --answer seats=2 -- target/debug/ask"
)]
pub(crate) struct Args {
    /// The server (a package of this workspace, or a URL; may be left out), the tool, and its arguments
    #[arg(value_name = "SERVER|TOOL|KEY=VALUE")]
    words: Vec<String>,
    /// The arguments as a JSON object, as `@FILE`, or as `-` for stdin
    #[arg(long, value_name = "JSON", visible_alias = "args")]
    json: Option<String>,
    /// Print the whole result as JSON
    #[arg(long)]
    raw: bool,
    /// Have the server do it as a task, where it can
    #[arg(long)]
    task: bool,
    /// Where pictures, sounds and other bytes are saved; without it the current directory
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    session: SessionArgs,
}

pub(crate) async fn run(mut args: Args) -> Result<(), Failure> {
    let whole = args.json.as_deref().map(object).transpose()?;
    let server = args.session.target.take_server(&mut args.words);
    let name = if args.words.is_empty() { None } else { Some(args.words.remove(0)) };
    let named = Server { name: server.as_deref(), word: name.as_deref() };
    with(&args.session, named, &args.host, async |session| {
        let tools = session.tools().await?;
        let tool = find(&tools, name.as_deref(), server.is_none())?;
        let arguments = given(tool, &args.words, whole)?;
        let result = call(session, tool, arguments, args.task).await?;
        session.host().finish();
        print(session, tool, &result, &args)
    })
    .await
}

/// The error of 2025-11-25 that names pages which the user is to visit before the call is tried again.
const URL_ELICITATION_REQUIRED: ErrorCode = ErrorCode(-32042);

/// `{…}`, `@FILE`, or `-` for stdin.
fn object(json: &str) -> Result<Map<String, Value>, Failure> {
    let text = match (json, json.strip_prefix('@')) {
        ("-", _) => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::usage(format_args!("stdin cannot be read: {error}")))?;
            text
        }
        (_, Some(path)) => {
            std::fs::read_to_string(path).map_err(|error| Failure::usage(format_args!("`{path}`: {error}")))?
        }
        _ => json.to_owned(),
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Failure::usage("`--json` must be an object: the arguments by name")),
        Err(error) => Err(Failure::usage(format_args!("`--json` is no JSON: {error}"))
            .help("for the result as JSON there is `--raw`")),
    }
}

fn find<'a>(tools: &'a [Tool], name: Option<&str>, guessed: bool) -> Result<&'a Tool, Failure> {
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    let Some(name) = name else {
        let failure = Failure::usage("which tool is to be called?");
        return Err(if names.is_empty() {
            failure
        } else {
            failure.help(format_args!("there are {}", listed(&names)))
        });
    };
    if let Some(tool) = tools.iter().find(|tool| tool.name == name) {
        return Ok(tool);
    }
    let failure = Failure::usage(format_args!("the server has no tool `{name}`"));
    let failure = match nearest(name, names.iter().copied()) {
        Some(near) => failure.help(format_args!("did you mean `{near}`?")),
        None if names.is_empty() => failure.help("it has no tools at all"),
        None => failure.help(format_args!("it has {}", listed(&names))),
    };
    Err(match guessed && name.contains(['-', '/']) {
        true => failure.help(format_args!("if `{name}` is a server: it is no package of this workspace, and no URL")),
        false => failure,
    })
}

fn given(tool: &Tool, words: &[String], whole: Option<Map<String, Value>>) -> Result<Map<String, Value>, Failure> {
    let mut mistakes = Mistakes::default();
    let words = Words { words, complete: whole.is_none() };
    let given = arguments(words, Schema::new(&tool.input_schema), &mut mistakes);
    mistakes.none(&format!("`{}`", tool.name))?;
    let mut all = whole.unwrap_or_default();
    all.extend(given);
    Ok(all)
}

/// Calls until there is a result: again with answers where the server asks first, and as a task where it must be one.
async fn call(
    session: &Session,
    tool: &Tool,
    arguments: Map<String, Value>,
    as_task: bool,
) -> Result<CallToolResult, Failure> {
    let what = format!("`{}`", tool.name);
    session.set_log_level().await;
    if as_task && session.is_legacy() {
        return task::legacy(session, &what, &tool.name, arguments).await;
    }
    let params = CallToolRequestParams::new(tool.name.clone()).with_arguments(arguments.clone());
    let request = |round: Round| {
        let mut params = params.clone();
        (params.input_responses, params.request_state) = (round.responses, round.state);
        ClientRequest::CallToolRequest(CallToolRequest::new(params))
    };
    let mut extras = RequestOptions { tasks: as_task };
    let mut rounds = Rounds::default();
    loop {
        match rounds.request(session, &what, extras, request).await? {
            Ok(ServerResult::CallToolResult(result)) if session.has_legacy_tasks() && task::is_missed(&result) => {
                return task::legacy(session, &what, &tool.name, arguments).await;
            }
            Ok(ServerResult::CallToolResult(result)) => return Ok(result),
            Ok(ServerResult::CreateTaskResult(CreateTaskResult { task, .. })) => {
                return task::finished(session, &what, task).await;
            }
            Ok(_) => return Err(Failure::connection(format_args!("{what}: the server's answer is no tool result"))),
            Err(error) if error.code == ErrorCode::METHOD_NOT_FOUND && session.has_legacy_tasks() => {
                return task::legacy(session, &what, &tool.name, arguments).await;
            }
            Err(error)
                if error.code == URL_ELICITATION_REQUIRED && rounds.visit_pages(session, &what, &error).await? => {}
            Err(error) if !extras.tasks && task::is_required(&error) => extras.tasks = true,
            Err(error) => return Err(session.refused(&what, error)),
        }
    }
}

fn print(session: &Session, tool: &Tool, result: &CallToolResult, args: &Args) -> Result<(), Failure> {
    let failed = result.is_error == Some(true);
    if args.raw {
        print_raw(result)?;
        return if failed { Err(Failure::tool("")) } else { Ok(()) };
    }
    let files = Files::new(args.output.as_deref(), &tool.name);
    let mut said = Vec::new();
    for content in &result.content {
        match content {
            ContentBlock::Text(text) if failed => said.push(text.text.as_str()),
            // Structured content stands in the text as well, for clients that know no other.
            ContentBlock::Text(text) if repeats(&text.text, result.structured_content.as_ref()) => {}
            content => files.print(content)?,
        }
    }
    match &result.structured_content {
        Some(structured) if !result.content.iter().any(|content| is_wrapped(content, structured)) => {
            table::print(structured);
        }
        _ => {}
    }
    if !failed {
        return Ok(());
    }
    let said = said.join("\n");
    let failure = Failure::tool(format_args!("`{}` failed: {said}", tool.name));
    Err(match session.missing_capability_help(&said) {
        Some(help) => failure.help(help),
        None => failure,
    })
}

fn repeats(text: &str, structured: Option<&Value>) -> bool {
    let Some(structured) = structured else { return false };
    let Ok(said) = serde_json::from_str::<Value>(text) else { return false };
    said == *structured
        || structured.as_object().is_some_and(|object| object.len() == 1 && object.values().all(|only| *only == said))
}

/// Whether structured content is a text once more, in an object because it must be one.
fn is_wrapped(content: &ContentBlock, structured: &Value) -> bool {
    let (Some(text), Some(object)) = (content.as_text(), structured.as_object()) else { return false };
    object.len() == 1 && object.values().all(|only| *only == *text.text)
}
