//! Asking in the terminal for what the command line does not say.

use std::{
    fmt,
    io::{IsTerminal as _, stderr, stdin},
    path::Path,
};

use inquire::{Confirm, InquireError, Select, Text, validator::Validation};

use super::{Args, DEFAULT, manifest, name, name_of, place, template::Template};
use crate::failure::Failure;

/// Asks for the name, the example, and whether there is to be HTTP.
///
/// # Errors
///
/// There is no terminal, or the user wants out.
pub(super) fn ask(args: &mut Args) -> Result<(), Failure> {
    if !(stdin().is_terminal() && stderr().is_terminal()) {
        return Err(Failure::usage("what is the new package called?")
            .help("give it a name, such as `cargo mcp new weather`")
            .help("`cargo mcp new --list` says which examples it can begin as"));
    }
    let template = args.from.as_deref().map(Template::named).transpose()?;
    args.path = Some(ask_name()?.into());
    let template = match template {
        Some(template) => template,
        None => ask_template()?,
    };
    args.from = Some(template.name().to_owned());
    if !args.http && template.only_http().is_none() && !manifest::has_http(&template.manifest()) {
        args.http = Confirm::new("Is it to serve HTTP too?").with_default(false).prompt().map_err(stopped)?;
    }
    Ok(())
}

fn ask_name() -> Result<String, Failure> {
    let check = |path: &str| {
        let fault = |fault: String| Ok(Validation::Invalid(fault.into()));
        let path = Path::new(path.trim());
        match name_of(path) {
            Err(_) => fault("it needs a name".to_owned()),
            Ok(name) => match (name::fault(&name, &[]), place::is_free(path)) {
                (Some(why), _) => fault(format!("{why}; `{}` would do", name::suggestion(&name, &[]))),
                (None, Err(why)) => fault(why),
                (None, Ok(())) => Ok(Validation::Valid),
            },
        }
    };
    let name = Text::new("What is it called?").with_placeholder("my-server").with_validator(check).prompt();
    name.map(|name| name.trim().to_owned()).map_err(stopped)
}

fn ask_template() -> Result<Template, Failure> {
    let all: Vec<_> = Template::all().into_iter().map(Choice).collect();
    let first = all.iter().position(|choice| choice.0.name() == DEFAULT).unwrap_or_default();
    let chosen = Select::new("Which example does it begin as?", all).with_starting_cursor(first).prompt();
    chosen.map(|Choice(template)| template).map_err(stopped)
}

struct Choice(Template);

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:10}  {}", self.0.name(), self.0.description())
    }
}

fn stopped(error: InquireError) -> Failure {
    match error {
        InquireError::OperationCanceled | InquireError::OperationInterrupted => Failure::usage("nothing was made"),
        error => Failure::usage(format_args!("the terminal does not answer: {error}"))
            .help("say it all on the command line, such as `cargo mcp new weather --from hello`"),
    }
}
