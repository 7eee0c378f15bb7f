//! The arguments of `cargo mcp bundle`, and the values for which a client asks the user when it installs a bundle.

use std::path::PathBuf;

use serde::Serialize;

use crate::{
    failure::{Failure, name_list, nearest},
    target::pair,
    workspace::BuildArgs,
};

/// Create an .mcpb bundle of a server for desktop clients
///
/// Builds the server in release mode and writes a zip archive with the program and a manifest. The manifest is derived
/// from Cargo.toml, from the server's tools and prompts, and from the settings to ask the user for. The same program
/// results in the same archive, byte for byte.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help.txt").trim_end(), mut_arg("release", |release| release.hide(true)))]
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

/// A value that the user is asked for during installation.
#[derive(Debug, Serialize)]
pub(super) struct Setting {
    #[serde(skip)]
    pub(super) variable: String,
    r#type: &'static str,
    title: String,
    description: String,
    required: bool,
    sensitive: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) default: Option<String>,
}

impl Setting {
    /// Creates the settings from the options of the command line.
    ///
    /// # Errors
    ///
    /// Fails if a variable is declared twice, or if an option refers to a variable that is not declared.
    pub(super) fn all(
        env: &[(String, String)],
        defaults: &[(String, String)],
        secrets: &[String],
    ) -> Result<Vec<Self>, Failure> {
        let names: Vec<&str> = env.iter().map(|(name, _)| name.as_str()).collect();
        let defaulted = defaults.iter().map(|(name, _)| ("--default", name));
        for (option, name) in defaulted.chain(secrets.iter().map(|name| ("--secret", name))) {
            if !names.contains(&name.as_str()) {
                let failure = Failure::usage(format_args!("`{option} {name}`: unknown variable `{name}`"));
                return Err(match nearest(name, names.iter().copied()) {
                    Some(near) => failure.help(format_args!("did you mean `{near}`?")),
                    None if names.is_empty() => {
                        failure.help(format_args!("declare it with `--env '{name}=DESCRIPTION'`"))
                    }
                    None => failure.help(format_args!("variables declared with `--env`: {}", name_list(&names))),
                });
            }
        }
        let setting = |(name, description): &(String, String)| {
            let default = defaults.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            Self {
                variable: name.clone(),
                r#type: "string",
                title: title(name),
                description: description.clone(),
                required: default.is_none(),
                sensitive: secrets.contains(name) || looks_secret(name),
                default,
            }
        };
        let settings: Vec<Self> = env.iter().map(setting).collect();
        for (at, setting) in settings.iter().enumerate() {
            if let Some(other) = settings[..at].iter().find(|other| other.key() == setting.key()) {
                return Err(Failure::usage(format_args!("duplicate `--env` for `{}`", other.variable))
                    .help("use one `--env` per variable"));
            }
        }
        Ok(settings)
    }

    /// Returns the name of the setting in the manifest.
    pub(super) fn key(&self) -> String {
        self.variable.to_lowercase()
    }
}

/// Converts a variable name to a title: `NOTES_DB` becomes `Notes db`.
fn title(name: &str) -> String {
    let words = name.replace('_', " ").trim().to_lowercase();
    let mut letters = words.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

fn looks_secret(name: &str) -> bool {
    let name = name.to_uppercase();
    let mut words = name.split('_');
    words.any(|word| {
        ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PAT", "CREDENTIAL", "CREDENTIALS"]
            .contains(&word)
            || ["APIKEY", "TOKEN", "SECRET", "PASSWORD"].iter().any(|end| word.ends_with(end))
    })
}

#[cfg(test)]
mod tests {
    use super::{looks_secret, title};

    #[test]
    fn secrets_are_detected_by_name() {
        for (name, secret) in [
            ("API_KEY", true),
            ("GITHUB_TOKEN", true),
            ("github_pat", true),
            ("OPENAI_APIKEY", true),
            ("DB_PASSWORD", true),
            ("DBPASSWORD", true),
            ("DB_PASSWD", true),
            ("SSH_PASSPHRASE", true),
            ("AWS_CREDENTIALS", true),
            ("NOTES_DB", false),
            ("KEYBOARD", false),
            ("PATH_TO_FILES", false),
        ] {
            assert_eq!(looks_secret(name), secret, "{name}");
        }
        assert_eq!(title("NOTES_DB"), "Notes db");
    }
}
