//! The arguments of `cargo mcp bundle`.

use std::path::PathBuf;

use crate::{target::pair, workspace::BuildArgs};

const EXAMPLES: &str = "\
Examples:
  cargo mcp bundle                                  the server of this package, as `NAME.mcpb`
  cargo mcp bundle notes --icon icon.png --author 'Ada Lovelace'
  cargo mcp bundle notes --env 'NOTES_DB=Notes file' --default 'NOTES_DB=${HOME}/notes.db'
  cargo mcp bundle weather --env 'WEATHER_KEY=Your key of weather.example'

The server is started in an empty directory and asked for its tools and prompts. If it needs
environment variables to start, set them. Further members of the manifest can be set in
`[package.metadata.mcpb]` of Cargo.toml: `display_name`, `long_description`, `privacy_policies`,
`user_config.notes_db.type = \"file\"`.";

/// Create an .mcpb bundle of a server for desktop clients
///
/// Builds the server in release mode and writes a zip archive with the program and a manifest. The manifest is derived
/// from Cargo.toml, from the server's tools and prompts, and from the settings to ask the user for. The same program
/// results in the same archive, byte for byte.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("release", |release| release.hide(true)))]
pub(crate) struct Args {
    /// Package of this workspace [default: the only server here]
    pub(super) package: Option<String>,
    /// Path of the bundle [default: NAME.mcpb]
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Ask the user for an environment variable during installation (may be repeated)
    #[arg(long, value_name = "NAME=DESCRIPTION", value_parser = description)]
    pub(super) env: Vec<(String, String)>,
    /// Default value of such a variable, which makes it optional (may be repeated)
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(super) default: Vec<(String, String)>,
    /// Treat such a variable as a secret, even if its name does not suggest one (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub(super) secret: Vec<String>,
    /// PNG image, ideally 512 by 512 pixels
    #[arg(long, value_name = "FILE")]
    pub(super) icon: Option<PathBuf>,
    /// Author of the bundle [default: the first of `authors` in Cargo.toml, or git's `user.name`]
    #[arg(long, value_name = "NAME")]
    pub(super) author: Option<String>,
    /// Maximum number of seconds to wait for the server's tools and prompts
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(super) connect_timeout: u64,
    #[command(flatten)]
    pub(super) build: BuildArgs,
}

/// Parses `NAME=DESCRIPTION`.
fn description(text: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match text.split_once('=') {
        Some((name, _)) if !is_name(name) => {
            Err(format!("invalid variable name `{name}`: expected letters, digits and `_`, as in `API_KEY=Your key`"))
        }
        Some((name, description)) if !description.trim().is_empty() => {
            Ok((name.to_owned(), description.trim().to_owned()))
        }
        _ => Err("expected NAME=DESCRIPTION, as in `API_KEY=Your key`; the user sees the description".to_owned()),
    }
}
