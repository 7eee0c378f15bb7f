//! `cargo mcp call`: calls a tool.

mod task;

use std::{io::Read, path::PathBuf};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ContentBlock, CreateTaskResult, ErrorCode,
    ServerResult, Tool,
};
use serde_json::{Map, Value};

use crate::{
    arguments::{
        coerce::{ArgumentErrors, ArgumentWords, arguments},
        exact,
        schema::{Schema, compile},
    },
    content::Files,
    failure::{Failure, find},
    host::HostArgs,
    output::escape_line,
    session::{
        NamedServer, RequestOptions, Round, Rounds, Session, SessionArgs, missing_capability_help, print_raw,
        rejection, with,
    },
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
    after_long_help = include_str!("call/help.txt").trim_end()
)]
pub(crate) struct Args {
    /// Optional server (package of this workspace or URL), tool and arguments
    #[arg(value_name = "SERVER|TOOL|KEY=VALUE")]
    words: Vec<String>,
    /// Arguments as a JSON object, or `@FILE`, or `-` for stdin
    #[arg(long, value_name = "JSON", visible_alias = "args")]
    json: Option<String>,
    /// Print the whole result as JSON
    #[arg(long)]
    raw: bool,
    /// Run the call as a task, if the server supports it
    #[arg(long)]
    task: bool,
    /// Directory for images, audio and other binary content [default: the current directory]
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    session: SessionArgs,
}

pub(crate) async fn run(mut args: Args) -> Result<(), Failure> {
    let json = args.json.as_deref().map(object).transpose()?;
    let server = args.session.target.take_server(&mut args.words);
    let name = if args.words.is_empty() { None } else { Some(args.words.remove(0)) };
    let named = NamedServer { name: server.as_deref(), word: name.as_deref() };
    with(&args.session, named, &args.host, async |session| {
        let tools = session.tools().await?;
        let tool = find(&tools, name.as_deref(), |tool| &tool.name, "tool");
        let tool = tool.map_err(|failure| match name.as_deref() {
            Some(name) if server.is_none() && name.contains(['-', '/']) => failure
                .help(format_args!("`{name}` is not a server either: neither a package of this workspace nor a URL")),
            _ => failure,
        })?;
        let arguments = tool_arguments(tool, &args.words, json)?;
        let result = call(session, tool, arguments, args.task).await?;
        if let Some(warning) = schema_warning(tool, &result) {
            session.host().console.line(&escape_line(&warning));
        }
        session.host().finish();
        print(session, tool, &result, &args)
    })
    .await
}

/// The error code of 2025-11-25 for calls that can be retried after the user has visited a page.
const URL_ELICITATION_REQUIRED: ErrorCode = ErrorCode(-32042);

/// Parses the value of `--json`.
pub(super) fn object(json: &str) -> Result<Map<String, Value>, Failure> {
    let text = match (json, json.strip_prefix('@')) {
        ("-", _) => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::usage(format_args!("cannot read stdin: {error}")))?;
            text
        }
        (_, Some(path)) => std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format_args!("cannot read `{path}`: {error}")))?,
        _ => json.to_owned(),
    };
    let value = serde_json::from_str(&text);
    if let Some(integer) = value.as_ref().ok().and_then(|value| exact::rounded(&text, value)) {
        return Err(Failure::usage(format_args!("`--json`: {}", exact::too_large(integer))));
    }
    match value {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Failure::usage("`--json`: expected an object with the arguments by name")),
        Err(error) => Err(Failure::usage(format_args!("`--json`: invalid JSON: {}", exact::describe(&error)))
            .help("use `--raw` to print the result as JSON")),
    }
}

/// Combines the arguments of the words with the arguments of `--json`.
pub(super) fn tool_arguments(
    tool: &Tool,
    words: &[String],
    json: Option<Map<String, Value>>,
) -> Result<Map<String, Value>, Failure> {
    let mut errors = ArgumentErrors::default();
    let words = ArgumentWords { words, is_complete: json.is_none() };
    let given = arguments(words, Schema::new(&tool.input_schema), &mut errors);
    errors.into_result(&format!("`{}`", tool.name))?;
    let mut arguments = json.unwrap_or_default();
    arguments.extend(given);
    Ok(arguments)
}

/// Calls a tool until it returns a result: repeats the call with answers to questions, or as a task if required.
pub(super) async fn call(
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
            Ok(ServerResult::CallToolResult(result))
                if session.has_legacy_tasks() && task::is_required_by_result(&result) =>
            {
                return task::legacy(session, &what, &tool.name, arguments).await;
            }
            Ok(ServerResult::CallToolResult(result)) => return Ok(result),
            Ok(ServerResult::CreateTaskResult(CreateTaskResult { task, .. })) => {
                return task::wait_for_result(session, &what, task).await;
            }
            Ok(_) => {
                return Err(Failure::connection(format_args!(
                    "{what}: the server returned a result of the wrong type"
                )));
            }
            Err(error) if error.code == ErrorCode::METHOD_NOT_FOUND && session.has_legacy_tasks() => {
                return task::legacy(session, &what, &tool.name, arguments).await;
            }
            Err(error)
                if error.code == URL_ELICITATION_REQUIRED && rounds.visit_pages(session, &what, &error).await? => {}
            Err(error) if !extras.tasks && task::is_required(&error) => extras.tasks = true,
            Err(error) => return Err(rejection(session, &what, error)),
        }
    }
}

/// Returns a warning if the structured content of a result violates the schema that its tool declares.
fn schema_warning(tool: &Tool, result: &CallToolResult) -> Option<String> {
    let schema = Value::Object(tool.output_schema.as_deref()?.clone());
    let structured = result.structured_content.as_ref().filter(|_| result.is_error != Some(true))?;
    let error = compile(&schema).ok()?.validate(structured).err()?;
    Some(format!("warning: `{}`: invalid `structuredContent{}`: {}", tool.name, error.instance_path(), error.masked()))
}

fn print(session: &Session, tool: &Tool, result: &CallToolResult, args: &Args) -> Result<(), Failure> {
    let failed = result.is_error == Some(true);
    if args.raw {
        print_raw(result)?;
        return if failed { Err(Failure::tool("")) } else { Ok(()) };
    }
    let files = Files::new(args.output.as_deref(), &tool.name);
    let mut texts = Vec::new();
    for content in &result.content {
        match content {
            ContentBlock::Text(text) if failed => texts.push(text.text.as_str()),
            // Servers repeat structured content as text for older clients.
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
    let text = texts.join("\n");
    let prefix = format!("`{}` failed", tool.name);
    // Servers that mask errors repeat the name.
    let failure = Failure::tool(if text.starts_with(&prefix) { text.clone() } else { format!("{prefix}: {text}") });
    Err(failure.help_if(missing_capability_help(session, &text)))
}

/// Returns whether a text is the JSON of the structured content, with or without its wrapper.
fn repeats(text: &str, structured: Option<&Value>) -> bool {
    let Some(structured) = structured else { return false };
    let Ok(value) = serde_json::from_str::<Value>(text) else { return false };
    value == *structured
        || structured.as_object().is_some_and(|object| object.len() == 1 && object.values().all(|only| *only == value))
}

/// Returns whether the structured content only wraps a text in an object.
fn is_wrapped(content: &ContentBlock, structured: &Value) -> bool {
    let (Some(text), Some(object)) = (content.as_text(), structured.as_object()) else { return false };
    object.len() == 1 && object.values().all(|only| *only == *text.text)
}
