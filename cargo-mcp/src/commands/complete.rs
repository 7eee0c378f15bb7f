//! `cargo mcp complete`: prints the server's completions for an argument.

use rmcp::model::{
    ArgumentInfo, ClientRequest, CompleteRequest, CompleteRequestParams, CompletionContext, Reference, ServerResult,
};

use crate::{
    arguments::uri_template::variables,
    failure::{Failure, find, suggest},
    host::HostArgs,
    output::{counted, escape_line, outln},
    session::{NamedServer, RequestOptions, Session, SessionArgs, print_raw, rejection, suggest_package, with},
    target::pair,
};

/// Print the completions for an argument of a prompt or resource template
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "cargo mcp complete [OPTIONS] [SERVER] prompt NAME ARGUMENT [VALUE] [-- COMMAND...]
       cargo mcp complete [OPTIONS] [SERVER] resource TEMPLATE ARGUMENT [VALUE] [-- COMMAND...]",
    after_help = "\
Examples:
  cargo mcp complete prompt summarise tag sho
  cargo mcp complete notes prompt summarise style '' --with tag=shopping
  cargo mcp complete resource 'notes://note/{id}' id -- target/debug/notes

Prints one completion per line. VALUE is the text typed so far [default: empty]."
)]
pub(crate) struct Args {
    /// Optional server (package of this workspace or URL), and the argument to complete
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Value of another argument (may be repeated)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    with: Vec<(String, String)>,
    /// Print the whole result as JSON
    #[arg(long, visible_alias = "raw")]
    json: bool,
    #[command(flatten)]
    session: SessionArgs,
}

/// The argument to complete.
struct Completion<'a> {
    reference: Reference,
    name: &'a str,
    argument: &'a str,
    value: &'a str,
}

pub(crate) async fn run(mut args: Args) -> Result<(), Failure> {
    let is_kind = matches!(args.words.first().map(String::as_str), Some("prompt" | "resource"));
    let server = if is_kind { None } else { args.session.target.take_server(&mut args.words) };
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let completion = completion(&words).map_err(|failure| match (&server, words.first()) {
        (None, Some(word)) => suggest_package(&args.session.target, word, failure),
        _ => failure,
    })?;
    let named = NamedServer { name: server.as_deref(), word: None };
    with(&args.session, named, &HostArgs::default(), async |session| {
        if session.server().capabilities.completions.is_none() && !session.is_legacy() {
            return Err(Failure::usage(format_args!("{} does not support completion", session.target)));
        }
        check_names(session, &completion, &args.with).await?;
        let result = match session
            .request("completion/complete", request(&completion, &args.with), RequestOptions::default())
            .await?
        {
            Ok(ServerResult::CompleteResult(result)) => result,
            Ok(_) => return Err(Failure::connection("the server returned a result of the wrong type")),
            Err(error) => return Err(rejection(session, "completion/complete", error)),
        };
        if args.json {
            return print_raw(&result);
        }
        result.completion.values.iter().for_each(|value| outln!("{}", escape_line(value)));
        if result.completion.has_more == Some(true) {
            let total = result.completion.total.map(|total| format!(" of {total}")).unwrap_or_default();
            let shown = result.completion.values.len();
            session.host().console.line(&format!("showing {shown}{total}; extend the value to narrow the list"));
        }
        Ok(())
    })
    .await
}

fn completion<'a>(words: &[&'a str]) -> Result<Completion<'a>, Failure> {
    let (reference, rest): (fn(String) -> Reference, _) = match words {
        ["prompt", rest @ ..] => (Reference::for_prompt, rest),
        ["resource", rest @ ..] => (Reference::for_resource, rest),
        [other, ..] => {
            let failure = Failure::usage(format_args!("expected `prompt` or `resource`, found `{other}`"));
            return Err(failure.help("for example: `cargo mcp complete prompt NAME ARGUMENT VALUE`"));
        }
        [] => {
            return Err(Failure::usage("the argument to complete is missing")
                .help("`cargo mcp complete prompt NAME ARGUMENT VALUE`")
                .help("`cargo mcp complete resource TEMPLATE ARGUMENT VALUE`"));
        }
    };
    match *rest {
        [name, argument] => Ok(Completion { reference: reference(name.to_owned()), name, argument, value: "" }),
        [name, argument, value] => Ok(Completion { reference: reference(name.to_owned()), name, argument, value }),
        _ => Err(Failure::usage(format_args!(
            "expected a name, an argument and an optional value, found {}",
            counted(rest.len(), "word")
        ))),
    }
}

/// Checks the names, because many servers return an empty list for an unknown name.
async fn check_names(
    session: &Session,
    completion: &Completion<'_>,
    known: &[(String, String)],
) -> Result<(), Failure> {
    let (whose, arguments) = match &completion.reference {
        Reference::Prompt(_) => {
            let prompts = session.prompts().await?;
            let prompt = find(&prompts, Some(completion.name), |prompt| &prompt.name, "prompt")?;
            let arguments = prompt.arguments.iter().flatten().map(|argument| argument.name.clone());
            (format!("prompt `{}`", completion.name), arguments.collect::<Vec<_>>())
        }
        _ => {
            let templates = session.templates().await?;
            find(&templates, Some(completion.name), |template| &template.uri_template, "resource template")?;
            (format!("template `{}`", completion.name), variables(completion.name))
        }
    };
    let names: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let others = known.iter().map(|(name, _)| name.as_str());
    match std::iter::once(completion.argument).chain(others).find(|name| !names.contains(name)) {
        None => Ok(()),
        Some(unknown) => {
            let failure = Failure::usage(format_args!("{whose} has no argument `{unknown}`"));
            Err(suggest(failure, unknown, &names, "arguments"))
        }
    }
}

fn request(completion: &Completion<'_>, known: &[(String, String)]) -> ClientRequest {
    let argument = ArgumentInfo::new(completion.argument, completion.value);
    let params = CompleteRequestParams::new(completion.reference.clone(), argument);
    let context = CompletionContext::with_arguments(known.iter().cloned().collect());
    let params = if known.is_empty() { params } else { params.with_context(context) };
    ClientRequest::CompleteRequest(CompleteRequest::new(params))
}
