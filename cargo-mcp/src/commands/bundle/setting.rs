//! The values that a client asks the user for when it installs a bundle.

use serde::Serialize;

use crate::{
    failure::Failure,
    near::{name_list, nearest},
};

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
            ("NOTES_DB", false),
            ("KEYBOARD", false),
            ("PATH_TO_FILES", false),
        ] {
            assert_eq!(looks_secret(name), secret, "{name}");
        }
        assert_eq!(title("NOTES_DB"), "Notes db");
    }
}
