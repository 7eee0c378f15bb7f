//! The arguments of `cargo mcp new`, and prompts for the arguments that the command line does not contain.

use std::path::{Path, PathBuf};

use inquire::{Confirm, InquireError, Select, Text, validator::Validation};

use super::{
    location::{self, Vcs},
    manifest, name,
    template::Template,
};
use crate::{arguments::elicit::in_terminal, failure::Failure};

/// The default example.
pub(super) const DEFAULT_EXAMPLE: &str = "hello";

/// Create a new server package
///
/// The package is complete: sources, tests, and a README that explains how to connect clients. In a terminal, missing
/// arguments are prompted for.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help.txt").trim_end())]
pub(crate) struct Args {
    /// Directory of the package; its last component is the name of the package
    #[arg(value_name = "NAME")]
    pub(super) path: Option<PathBuf>,
    /// Example to start from [default: hello]
    #[arg(long, value_name = "EXAMPLE")]
    pub(super) from: Option<String>,
    /// Activate the feature `http`, so that clients can connect by URL
    #[arg(long)]
    pub(super) http: bool,
    /// List the examples
    #[arg(long, conflicts_with_all = ["path", "from", "http", "runtime_path", "vcs"])]
    pub(super) list: bool,
    /// Directory of `mcp-runtime` [default: in the checkout from which `cargo mcp` was installed]
    #[arg(long, value_name = "PATH")]
    pub(super) runtime_path: Option<PathBuf>,
    /// Initialize a repository [default: git, unless the directory is in a repository]
    #[arg(long, value_name = "VCS", value_enum)]
    pub(super) vcs: Option<Vcs>,
}

/// Prompts for the name, the example and HTTP support.
///
/// # Errors
///
/// Fails if there is no terminal, or if the user cancels.
pub(super) fn ask(args: &mut Args) -> Result<(), Failure> {
    if !in_terminal() {
        return Err(Failure::usage("the name of the package is missing")
            .help("specify a name, such as `cargo mcp new weather`")
            .help("`cargo mcp new --list` lists the examples to start from"));
    }
    let template = args.from.as_deref().map(Template::named).transpose()?;
    args.path = Some(ask_name()?.into());
    let template = match template {
        Some(template) => template,
        None => ask_template()?,
    };
    args.from = Some(template.name().to_owned());
    if !args.http && template.only_http().is_none() && !manifest::has_http(&template.manifest()) {
        args.http = Confirm::new("Support HTTP as well?").with_default(false).prompt().map_err(prompt_failure)?;
    }
    Ok(())
}

fn ask_name() -> Result<String, Failure> {
    let check = |path: &str| {
        let invalid = |message: String| Ok(Validation::Invalid(message.into()));
        let path = Path::new(path.trim());
        match name::of_path(path) {
            Err(_) => invalid("a name is required".to_owned()),
            Ok(name) => match (name::problem(&name, &[]), location::occupied(path)) {
                (Some(why), _) => invalid(format!("{why}; try `{}`", name::suggestion(&name, &[]))),
                (None, Some(why)) => invalid(why),
                (None, None) => Ok(Validation::Valid),
            },
        }
    };
    let name = Text::new("Name of the package:").with_placeholder("my-server").with_validator(check).prompt();
    name.map(|name| name.trim().to_owned()).map_err(prompt_failure)
}

fn ask_template() -> Result<Template, Failure> {
    let all = Template::all();
    let first = all.iter().position(|template| template.name() == DEFAULT_EXAMPLE).unwrap_or_default();
    let labels = all.iter().map(|template| format!("{:10}  {}", template.name(), template.description())).collect();
    let chosen = Select::new("Example to start from:", labels).with_starting_cursor(first).raw_prompt();
    chosen.map(|option| all[option.index]).map_err(prompt_failure)
}

fn prompt_failure(error: InquireError) -> Failure {
    match error {
        InquireError::OperationCanceled | InquireError::OperationInterrupted => {
            Failure::usage("cancelled, nothing was created")
        }
        error => Failure::usage(format_args!("cannot prompt in the terminal: {error}"))
            .help("specify all arguments, such as `cargo mcp new weather --from hello`"),
    }
}
