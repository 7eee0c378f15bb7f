//! The server to connect to: a package of this workspace with the arguments after `--`, a command after `--`, or a URL.

use std::{path::PathBuf, sync::OnceLock, time::Duration};

use crate::{
    failure::Failure,
    revision::Revision,
    workspace::{BuildArgs, Workspace},
};

/// How long to wait for a server to exit after its stdin is closed.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(7);
/// The same for a server whose exit is not checked.
pub(crate) const UNCHECKED_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// How to reach a server, except for its name.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TargetArgs {
    /// Command that starts the server, instead of a package or URL; or arguments of the package's server, if the
    /// first begins with `-`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Protocol revision to use [default: the newest that both sides support]
    #[arg(long, value_name = "REVISION", value_parser = Revision::parser(), help_heading = "Connection")]
    pub(crate) revision: Option<Revision>,
    /// Set an environment variable for the server, such as `RUST_LOG=debug` (may be repeated)
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, help_heading = "Connection")]
    pub(crate) env: Vec<(String, String)>,
    /// Send a header with each HTTP request, such as `Authorization: Bearer …` (may be repeated)
    #[arg(long, value_name = "NAME: VALUE", value_parser = header, help_heading = "Connection")]
    pub(crate) header: Vec<(String, String)>,
    /// Send a bearer token with each HTTP request; `@FILE` reads it from a file
    #[arg(long, value_name = "TOKEN", value_parser = bearer, help_heading = "Connection")]
    pub(crate) bearer: Option<String>,
    /// Maximum number of seconds to wait for the handshake
    #[arg(long, value_name = "SECONDS", default_value_t = 30, help_heading = "Connection")]
    pub(crate) connect_timeout: u64,
    #[command(flatten)]
    pub(crate) build: BuildArgs,
    #[arg(skip)]
    workspace: OnceLock<Workspace>,
}

/// A resolved server.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A program with its arguments and environment variables.
    Program { name: String, program: PathBuf, args: Vec<String>, env: Vec<(String, String)> },
    /// An HTTP endpoint and the headers of requests.
    Url { url: String, headers: Vec<(String, String)> },
}

impl TargetArgs {
    /// Resolves a URL or the name of a package. Without a name, uses the command after `--` or the only package. Builds
    /// packages.
    ///
    /// # Errors
    ///
    /// Fails if the server does not exist or its build fails.
    pub(crate) fn resolve(&self, server: Option<&str>) -> Result<Target, Failure> {
        match (server, self.program()) {
            (Some(name), Some(_)) => {
                Err(Failure::usage(format_args!("the server is specified twice: `{name}` and the command after `--`"))
                    .help("omit one of them"))
            }
            (None, Some((program, args))) => Ok(Target::Program {
                name: program.clone(),
                program: program.into(),
                args: args.to_vec(),
                env: self.env.clone(),
            }),
            (Some(url), None) if is_url(url) => {
                if let Some(argument) = self.command.first() {
                    return Err(Failure::usage(format_args!(
                        "`{argument}` applies only to programs, and `{url}` is not started here"
                    )));
                }
                if let Some((name, _)) = self.env.first() {
                    return Err(Failure::usage(format_args!(
                        "`--env {name}=…` applies only to programs, and `{url}` is not started here"
                    )));
                }
                Ok(Target::Url { url: url.to_owned(), headers: self.headers()? })
            }
            (name, None) => {
                let workspace = self.workspace()?;
                let server = workspace.server(name, self.build.bin.as_deref())?;
                let program = workspace.build(&server, &self.build)?;
                Ok(Target::Program {
                    name: server.package.name.to_string(),
                    program,
                    args: self.command.clone(),
                    env: self.env.clone(),
                })
            }
        }
    }

    /// Removes the first word if it names a server: a URL or a package of this workspace.
    pub(crate) fn take_server(&self, words: &mut Vec<String>) -> Option<String> {
        let first = words.first()?;
        let is_server =
            self.program().is_none() && (is_url(first) || self.workspace().is_ok_and(|workspace| workspace.has(first)));
        is_server.then(|| words.remove(0))
    }

    /// Returns the workspace that contains the current directory or the given manifest. Reads it once.
    ///
    /// # Errors
    ///
    /// Fails as [`Workspace::read`] does.
    pub(crate) fn workspace(&self) -> Result<&Workspace, Failure> {
        if let Some(workspace) = self.workspace.get() {
            return Ok(workspace);
        }
        let workspace = Workspace::read(&self.build)?;
        Ok(self.workspace.get_or_init(|| workspace))
    }

    /// Returns the headers of HTTP requests.
    fn headers(&self) -> Result<Vec<(String, String)>, Failure> {
        let mut headers = self.header.clone();
        if let Some(token) = &self.bearer {
            if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
                return Err(
                    Failure::usage("`--bearer` and a `--header` both set `Authorization`").help("omit one of them")
                );
            }
            headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        Ok(headers)
    }

    /// Returns the program after `--` and its arguments. Returns `None` if only arguments are given.
    pub(crate) fn program(&self) -> Option<(&String, &[String])> {
        self.command.split_first().filter(|(program, _)| !program.starts_with('-'))
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_secs(self.connect_timeout)
    }
}

pub(crate) fn is_url(word: &str) -> bool {
    word.starts_with("http://") || word.starts_with("https://")
}

/// Parses a URL.
///
/// # Errors
///
/// Fails if the text starts with neither `https://` nor `http://`.
pub(crate) fn url(text: &str) -> Result<String, &'static str> {
    if is_url(text) { Ok(text.to_owned()) } else { Err("expected a URL that starts with `https://` or `http://`") }
}

/// Parses `NAME=VALUE`.
///
/// # Errors
///
/// Fails if the text has another form.
pub(crate) fn pair(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE"),
    }
}

/// Parses a token, or reads it from the file named after `@`.
///
/// # Errors
///
/// Fails if the file cannot be read or the token is empty.
pub(crate) fn bearer(text: &str) -> Result<String, String> {
    let token = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|error| format!("cannot read `{path}`: {error}"))?,
        None => text.to_owned(),
    };
    let token = token.trim();
    if token.is_empty() { Err("the token is empty".to_owned()) } else { Ok(token.to_owned()) }
}

/// Parses `NAME: VALUE`.
///
/// # Errors
///
/// Fails if the text has another form.
pub(crate) fn header(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected NAME: VALUE"),
    }
}

#[cfg(test)]
mod tests {
    use super::{bearer, header, pair};

    #[test]
    fn values_may_contain_the_separator() {
        let parsed = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(header("X-Time:  12:30 "), parsed("X-Time", "12:30"));
        assert_eq!(pair("KEY=a=b"), parsed("KEY", "a=b"));
        assert_eq!(pair("KEY="), parsed("KEY", ""));
        for invalid in ["", "KEY", "=a", " : a"] {
            assert!(header(invalid).is_err(), "{invalid}");
        }
        for invalid in ["", "KEY", "=a"] {
            assert!(pair(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_token_in_a_file_ends_before_the_line_break() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let named = format!("@{}", path.display());
        std::fs::write(&path, "secret\n").unwrap();
        assert_eq!(bearer(&named).as_deref(), Ok("secret"));
        std::fs::write(&path, "\n").unwrap();
        assert_eq!(bearer(&named).unwrap_err(), "the token is empty");
    }
}
