//! The server to install: its source, its name and how it is started.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use super::args::Args;
use crate::{
    failure::Failure,
    output::{self, errln},
    target::{Target, is_url},
    temporary::{self, Access},
    workspace::{BuildArgs, Server, Workspace},
};

/// The server to install.
pub(crate) struct ServerSpec {
    pub(crate) name: String,
    source: Source,
}

enum Source {
    Package { workspace: Box<Workspace>, server: Box<Server>, args: Vec<String> },
    Command { program: PathBuf, args: Vec<String> },
    Url(String),
}

impl ServerSpec {
    /// Returns the server that the command line names.
    ///
    /// # Errors
    ///
    /// Fails if the server does not exist, or if an option does not apply to it.
    pub(crate) fn new(args: &Args) -> Result<Self, Failure> {
        let source = match (args.server.as_deref(), &*args.words) {
            (Some(url), []) if is_url(url) => Source::Url(url.to_owned()),
            (Some(url), [word, ..]) if is_url(url) => {
                return Err(Failure::usage(format_args!(
                    "argument `{word}` cannot be passed to `{url}`, which is not started here"
                ))
                .help("omit the arguments after `--`"));
            }
            (None, [program, rest @ ..]) => {
                let args = rest.iter().chain(&args.arg).cloned().collect();
                Source::Command { program: resolve_program(program)?, args }
            }
            (package, rest) => {
                let build = args.build();
                let workspace = Box::new(Workspace::read(&build)?);
                let server = Box::new(workspace.server(package, build.bin.as_deref())?);
                let args = args.arg.iter().chain(rest).cloned().collect();
                Source::Package { workspace, server, args }
            }
        };
        source.check_options(args)?;
        let name = match &args.name {
            Some(name) => check_name(name)?.to_owned(),
            None => source.name(),
        };
        Ok(Self { name, source })
    }

    /// Returns how the server will be started, without building it.
    pub(crate) fn launch(&self, args: &Args) -> Result<Target, Failure> {
        self.launch_with(args, None)
    }

    /// Builds the server, copies it if `--copy-to` is given, and returns the command that starts it.
    ///
    /// # Errors
    ///
    /// Fails if the build fails, or if the program does not exist.
    pub(crate) fn build(&self, args: &Args) -> Result<Target, Failure> {
        let Source::Package { workspace, server, .. } = &self.source else { return self.launch(args) };
        let program = if args.no_build {
            predicted_path(workspace, server, args)
        } else {
            // A release build may take minutes, and cargo runs with `--quiet`.
            errln!("building `{}`{}", server.bin, if args.debug { "" } else { " in release mode" });
            workspace.build(server, &args.build())?
        };
        if !program.is_file() {
            return Err(Failure::usage(format_args!("program `{}` not found", program.display()))
                .help("omit `--no-build` to build it"));
        }
        if let Some(directory) = &args.copy_to {
            copy(&program, &absolute(directory)?)?;
        }
        self.launch_with(args, Some(program))
    }

    fn launch_with(&self, args: &Args, built: Option<PathBuf>) -> Result<Target, Failure> {
        let env = args.env.iter().map(|variable| variable.resolve()).collect::<Result<Vec<_>, _>>()?;
        Ok(match &self.source {
            Source::Url(url) => Target::Url { url: url.clone(), headers: args.header.clone() },
            Source::Command { program, args } => self.program(program.clone(), args.clone(), env)?,
            Source::Package { workspace, server, args: words } => {
                let program = built.unwrap_or_else(|| predicted_path(workspace, server, args));
                let program = match &args.copy_to {
                    Some(directory) => absolute(directory)?.join(program.file_name().unwrap_or_default()),
                    None => program,
                };
                self.program(program, words.clone(), env)?
            }
        })
    }

    fn program(&self, program: PathBuf, args: Vec<String>, env: Vec<(String, String)>) -> Result<Target, Failure> {
        if program.to_str().is_none() {
            let path = program.display();
            let why = format_args!("path `{path}` is not valid UTF-8, which configuration files require");
            return Err(Failure::usage(why));
        }
        Ok(Target::Program { name: self.name.clone(), program, args, env })
    }

    /// Returns whether the server is a package of this workspace.
    pub(crate) fn is_package(&self) -> bool {
        matches!(self.source, Source::Package { .. })
    }
}

impl Source {
    /// Rejects options that do not apply to this kind of server.
    fn check_options(&self, args: &Args) -> Result<(), Failure> {
        let is_url = matches!(self, Self::Url(_));
        let reject = |option: &str, only: &str| {
            Err(Failure::usage(format_args!("`{option}` applies only to {only}")).help(format_args!("omit `{option}`")))
        };
        match self {
            _ if is_url && !args.env.is_empty() => reject("--env", "programs"),
            _ if is_url && !args.arg.is_empty() => reject("--arg", "programs"),
            _ if !is_url && !args.header.is_empty() => reject("--header", "URLs"),
            Self::Package { .. } => Ok(()),
            _ if args.copy_to.is_some() => reject("--copy-to", "packages of this workspace"),
            _ if args.no_build => reject("--no-build", "packages of this workspace"),
            _ => Ok(()),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Package { server, .. } => sanitized(&server.package.name),
            Self::Command { program, .. } => sanitized(&program.file_stem().unwrap_or_default().to_string_lossy()),
            Self::Url(url) => sanitized(host(url)),
        }
    }
}

/// Returns the name under which a server is installed without `--name`.
///
/// # Errors
///
/// Fails if the server is not given and cannot be determined.
pub(crate) fn default_name(server: Option<&str>, build: &BuildArgs) -> Result<String, Failure> {
    match server {
        Some(url) if is_url(url) => Ok(sanitized(host(url))),
        Some(name) => Ok(name.to_owned()),
        None => {
            let server = Workspace::read(build)?.server(None, build.bin.as_deref())?;
            Ok(sanitized(&server.package.name))
        }
    }
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    host.rsplit_once('@').map_or(host, |(_, host)| host)
}

/// Replaces the characters that not every client accepts in a name.
fn sanitized(name: &str) -> String {
    output::sanitized(name, 64, |letter| letter.is_ascii_alphanumeric()).unwrap_or_else(|| "server".to_owned())
}

fn check_name(name: &str) -> Result<&str, Failure> {
    let is_valid = !name.is_empty() && name.len() <= 64 && sanitized(name) == name;
    is_valid.then_some(name).ok_or_else(|| {
        Failure::usage(format_args!("invalid server name `{name}`")).help("use at most 64 letters, digits, `-` and `_`")
    })
}

/// Returns the path at which cargo will place the program.
fn predicted_path(workspace: &Workspace, server: &Server, args: &Args) -> PathBuf {
    let profile = if args.debug { "debug" } else { "release" };
    let program = format!("{}{}", server.bin, std::env::consts::EXE_SUFFIX);
    workspace.metadata.target_directory.join(profile).join(program).into_std_path_buf()
}

/// Makes the path of a program absolute, since clients start it from another directory.
fn resolve_program(program: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        let path = absolute(path)?;
        if !path.is_file() {
            return Err(Failure::usage(format_args!("program `{}` not found", path.display())));
        }
        return Ok(path);
    }
    let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|directory| {
        let exists = |name: &dyn AsRef<OsStr>| directory.join(name.as_ref()).is_file();
        exists(&program) || exists(&name) || (cfg!(windows) && exists(&format!("{program}.cmd")))
    });
    if !found {
        return Err(Failure::usage(format_args!("program `{program}` not found in `PATH`"))
            .help("use its path, or name a package without `--`"));
    }
    Ok(path.to_owned())
}

fn copy(program: &Path, directory: &Path) -> Result<(), Failure> {
    let name = program.file_name().unwrap_or_default();
    let failed = |error: std::io::Error| {
        Failure::usage(format_args!("cannot write `{}`: {error}", directory.join(name).display()))
    };
    fs::create_dir_all(directory).map_err(failed)?;
    // A running program cannot be overwritten, but it can be replaced.
    let new = temporary::file_in(directory, Access::Private).map_err(failed)?;
    fs::copy(program, new.path()).map_err(failed)?;
    new.persist(directory.join(name)).map_err(|error| failed(error.error))?;
    Ok(())
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::usage(format_args!("invalid path `{}`: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_names_are_valid_in_all_clients() {
        for (from, expected) in [
            ("notes", "notes"),
            ("my notes.v2", "my-notes-v2"),
            ("ключ", "server"),
            (&"a".repeat(65), &"a".repeat(64)),
            (host("https://mcp.example.com/mcp"), "mcp-example-com"),
            (host("http://user:secret@127.0.0.1:8080?x"), "127-0-0-1-8080"),
        ] {
            assert_eq!(sanitized(from), expected, "{from}");
        }
    }
}
