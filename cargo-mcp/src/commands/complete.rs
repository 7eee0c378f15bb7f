//! `cargo mcp complete`: what a server suggests for an argument.

use std::collections::HashMap;

use rmcp::model::{
    ArgumentInfo, ClientRequest, CompleteRequest, CompleteRequestParams, CompletionContext, Reference, ServerResult,
};

use crate::{
    commands::prompt,
    failure::Failure,
    host::HostArgs,
    near::listed,
    near::nearest,
    session::{RequestOptions, Server, Session, SessionArgs, print_raw, suggest_package, with},
    stdout::outln,
    target::pair,
};

/// Show what a server suggests for an argument of a prompt or resource template
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "cargo mcp complete [OPTIONS] [SERVER] prompt NAME ARGUMENT [VALUE] [-- COMMAND...]
       cargo mcp complete [OPTIONS] [SERVER] resource TEMPLATE ARGUMENT [VALUE] [-- COMMAND...]",
    after_help = "\
Examples:
  cargo mcp complete prompt summarise tag sho
  cargo mcp complete notes prompt summarise style '' --with tag=shopping
  cargo mcp complete resource 'notes://note/{id}' id -- target/debug/notes

Each suggestion is a line of its own. VALUE is what is typed so far; without it everything is
suggested."
)]
pub(crate) struct Args {
    /// The server (a package of this workspace, or a URL; may be left out), and what is completed
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Another argument that is known by now (may be repeated)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    with: Vec<(String, String)>,
    /// Print the whole result as JSON
    #[arg(long, visible_alias = "raw")]
    json: bool,
    #[command(flatten)]
    session: SessionArgs,
}

/// What has the argument.
#[derive(Clone, Copy)]
enum Of {
    Prompt,
    Template,
}

/// What is to be completed.
struct Wanted<'a> {
    of: Of,
    name: &'a str,
    argument: &'a str,
    value: &'a str,
}

pub(crate) async fn run(mut args: Args) -> Result<(), Failure> {
    let is_kind = matches!(args.words.first().map(String::as_str), Some("prompt" | "resource"));
    let server = if is_kind { None } else { args.session.target.take_server(&mut args.words) };
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let wanted = wanted(&words).map_err(|failure| match (&server, words.first()) {
        (None, Some(word)) => suggest_package(&args.session.target, word, failure),
        _ => failure,
    })?;
    let named = Server { name: server.as_deref(), word: None };
    with(&args.session, named, &HostArgs::default(), async |session| {
        if session.server().capabilities.completions.is_none() && !session.is_legacy() {
            return Err(Failure::usage(format_args!("{} completes nothing", session.target())));
        }
        check(session, &wanted, &args.with).await?;
        let result = match session
            .request("completion/complete", request(&wanted, &args.with), RequestOptions::default())
            .await?
        {
            Ok(ServerResult::CompleteResult(result)) => result,
            Ok(_) => return Err(Failure::connection("the server's answer is no completion")),
            Err(error) => return Err(session.refused("completion/complete", error)),
        };
        if args.json {
            return print_raw(&result);
        }
        result.completion.values.iter().for_each(|value| outln!("{value}"));
        if result.completion.has_more == Some(true) {
            let total = result.completion.total.map(|total| format!(" of {total}")).unwrap_or_default();
            let shown = result.completion.values.len();
            session.host().console.line(&format!("these are {shown}{total}; type more of the value to see others"));
        }
        Ok(())
    })
    .await
}

fn wanted<'a>(words: &[&'a str]) -> Result<Wanted<'a>, Failure> {
    let (of, rest) = match words {
        ["prompt", rest @ ..] => (Of::Prompt, rest),
        ["resource", rest @ ..] => (Of::Template, rest),
        [other, ..] => {
            let failure = Failure::usage(format_args!("expected `prompt` or `resource`, not `{other}`"));
            return Err(failure.help("as in `cargo mcp complete prompt NAME ARGUMENT VALUE`"));
        }
        [] => {
            return Err(Failure::usage("what is to be completed?")
                .help("`cargo mcp complete prompt NAME ARGUMENT VALUE`")
                .help("`cargo mcp complete resource TEMPLATE ARGUMENT VALUE`"));
        }
    };
    match *rest {
        [name, argument] => Ok(Wanted { of, name, argument, value: "" }),
        [name, argument, value] => Ok(Wanted { of, name, argument, value }),
        _ => Err(Failure::usage(format_args!("expected a name, an argument and a value, not {} words", rest.len()))),
    }
}

/// Says what is wrong with names, which servers often answer with nothing at all.
async fn check(session: &Session, wanted: &Wanted<'_>, known: &[(String, String)]) -> Result<(), Failure> {
    let (whose, arguments) = match wanted.of {
        Of::Prompt => {
            let prompts = session.prompts().await?;
            let prompt = prompt::find(&prompts, Some(wanted.name))?;
            let arguments = prompt.arguments.iter().flatten().map(|argument| argument.name.clone());
            (format!("prompt `{}`", wanted.name), arguments.collect::<Vec<_>>())
        }
        Of::Template => {
            let templates = session.templates().await?;
            let names: Vec<&str> = templates.iter().map(|template| &*template.uri_template).collect();
            if !names.contains(&wanted.name) {
                let failure = Failure::usage(format_args!("the server has no resource template `{}`", wanted.name));
                return Err(match nearest(wanted.name, names.iter().copied()) {
                    Some(near) => failure.help(format_args!("did you mean `{near}`?")),
                    None if names.is_empty() => failure.help("it has none at all"),
                    None => failure.help(format_args!("it has {}", listed(&names))),
                });
            }
            (format!("template `{}`", wanted.name), variables(wanted.name))
        }
    };
    let names: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let others = known.iter().map(|(name, _)| name.as_str());
    match std::iter::once(wanted.argument).chain(others).find(|name| !names.contains(name)) {
        None => Ok(()),
        Some(wrong) => {
            let failure = Failure::usage(format_args!("{whose} has no argument `{wrong}`"));
            Err(match nearest(wrong, names.iter().copied()) {
                Some(near) => failure.help(format_args!("did you mean `{near}`?")),
                None if names.is_empty() => failure.help("it has none at all"),
                None => failure.help(format_args!("it has {}", listed(&names))),
            })
        }
    }
}

/// The variables of a URI template (RFC 6570): `{id}`, `{+path}`, `{?a,b*}`, `{name:3}`.
fn variables(template: &str) -> Vec<String> {
    let expressions = template.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let names = expressions
        .flat_map(|expression| expression.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']).split(','));
    names.map(|name| name.trim_end_matches('*').split(':').next().unwrap_or_default().to_owned()).collect()
}

fn request(wanted: &Wanted<'_>, known: &[(String, String)]) -> ClientRequest {
    let reference = match wanted.of {
        Of::Prompt => Reference::for_prompt(wanted.name),
        Of::Template => Reference::for_resource(wanted.name),
    };
    let argument = ArgumentInfo::new(wanted.argument, wanted.value);
    let params = CompleteRequestParams::new(reference, argument);
    let params = match known {
        [] => params,
        known => {
            params.with_context(CompletionContext::with_arguments(known.iter().cloned().collect::<HashMap<_, _>>()))
        }
    };
    ClientRequest::CompleteRequest(CompleteRequest::new(params))
}

#[cfg(test)]
mod tests {
    use super::variables;

    #[test]
    fn variables_are_found() {
        for (template, names) in [
            ("notes://note/{id}", &["id"][..]),
            ("file:///{+path}{?first,last*}", &["path", "first", "last"]),
            ("x://{name:3}/y", &["name"]),
            ("x://none", &[]),
        ] {
            assert_eq!(variables(template), names, "{template}");
        }
    }
}
