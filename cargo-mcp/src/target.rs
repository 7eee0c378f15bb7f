//! Which server is meant: a package of this workspace, a command after `--`, or a URL.

use std::{path::PathBuf, time::Duration};

use crate::{
    failure::Failure,
    revision::Revision,
    workspace::{BuildArgs, Workspace},
};

/// How long to wait for a server to exit after its stdin is closed.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(7);

/// How to reach a server, but for its name.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TargetArgs {
    /// The server's command, in place of a package or URL
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Protocol revision to speak; without it the newest that both sides know
    #[arg(long, value_name = "REVISION", value_parser = Revision::parser(), help_heading = "Connection")]
    pub(crate) revision: Option<Revision>,
    /// A variable of the server's environment, such as `RUST_LOG=debug` for its whole log (may be repeated)
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, help_heading = "Connection")]
    pub(crate) env: Vec<(String, String)>,
    /// A header of each HTTP request, such as `Authorization: Bearer …` (may be repeated)
    #[arg(long, value_name = "NAME: VALUE", value_parser = header, help_heading = "Connection")]
    pub(crate) header: Vec<(String, String)>,
    /// How many seconds the server may take to answer the handshake
    #[arg(long, value_name = "SECONDS", default_value_t = 30, help_heading = "Connection")]
    pub(crate) connect_timeout: u64,
    #[command(flatten)]
    pub(crate) build: BuildArgs,
}

/// A server that can be connected to.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A program, its arguments and its variables.
    Program { name: String, program: PathBuf, args: Vec<String>, env: Vec<(String, String)> },
    /// An HTTP endpoint and headers for it.
    Url { url: String, headers: Vec<(String, String)> },
}

impl TargetArgs {
    /// The server of a name: a URL, a package, or with no name the command after `--` or the only package. Builds a package.
    ///
    /// # Errors
    ///
    /// There is no such server, or it does not build.
    pub(crate) fn resolve(&self, server: Option<&str>) -> Result<Target, Failure> {
        match (server, &*self.command) {
            (Some(name), [_, ..]) => {
                Err(Failure::usage(format_args!("the server is named twice: `{name}`, and the command after `--`"))
                    .help("leave one of them out"))
            }
            (None, [program, args @ ..]) => Ok(Target::Program {
                name: program.clone(),
                program: program.into(),
                args: args.to_vec(),
                env: self.env.clone(),
            }),
            (Some(url), []) if is_url(url) => {
                if let Some((name, _)) = self.env.first() {
                    return Err(Failure::usage(format_args!(
                        "`--env {name}=…` is for a program; `{url}` is not started here"
                    )));
                }
                Ok(Target::Url { url: url.to_owned(), headers: self.header.clone() })
            }
            (name, []) => {
                let workspace = Workspace::read(&self.build)?;
                let server = workspace.server(name, self.build.bin.as_deref())?;
                let program = workspace.build(&server, &self.build)?;
                Ok(Target::Program {
                    name: server.package.name.to_string(),
                    program,
                    args: Vec::new(),
                    env: self.env.clone(),
                })
            }
        }
    }

    /// Takes the server's name off the front of positional arguments if the first one is a URL or a package of this workspace.
    pub(crate) fn take_server(&self, words: &mut Vec<String>) -> Option<String> {
        let first = words.first()?;
        let is_server = self.command.is_empty()
            && (is_url(first) || Workspace::read(&self.build).is_ok_and(|workspace| workspace.has(first)));
        is_server.then(|| words.remove(0))
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_secs(self.connect_timeout)
    }
}

pub(crate) fn is_url(word: &str) -> bool {
    word.starts_with("http://") || word.starts_with("https://")
}

/// `NAME=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// `NAME: VALUE`.
pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected NAME: VALUE".to_owned()),
    }
}
