//! The server that is installed: which one it is, what it is called, and how it is started.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use super::{Args, entry::Launch};
use crate::{
    failure::Failure,
    target::{Target, is_url},
    workspace::{BuildArgs, Server, Workspace},
};

/// A server that is to be installed.
pub(crate) struct Wanted {
    pub(crate) name: String,
    source: Source,
}

enum Source {
    Package { workspace: Box<Workspace>, server: Box<Server>, args: Vec<String> },
    Command { program: PathBuf, args: Vec<String> },
    Url(String),
}

impl Wanted {
    /// The server that a command line means.
    ///
    /// # Errors
    ///
    /// There is none, or options do not fit it.
    pub(crate) fn find(args: &Args) -> Result<Self, Failure> {
        let source = match (args.server.as_deref(), &*args.words) {
            (Some(url), []) if is_url(url) => Source::Url(url.to_owned()),
            (Some(url), [word, ..]) if is_url(url) => {
                return Err(Failure::usage(format_args!("`{word}` is for a program; `{url}` is not started"))
                    .help("leave out what is behind `--`"));
            }
            (None, [program, rest @ ..]) => {
                let args = rest.iter().chain(&args.arg).cloned().collect();
                Source::Command { program: located(program)?, args }
            }
            (package, rest) => {
                let build = args.build();
                let workspace = Box::new(Workspace::read(&build)?);
                let server = Box::new(workspace.server(package, build.bin.as_deref())?);
                let args = args.arg.iter().chain(rest).cloned().collect();
                Source::Package { workspace, server, args }
            }
        };
        source.fits(args)?;
        let name = match &args.name {
            Some(name) => valid(name)?.to_owned(),
            None => source.name(),
        };
        Ok(Self { name, source })
    }

    /// How it will be started, without building it.
    pub(crate) fn launch(&self, args: &Args) -> Result<Launch, Failure> {
        self.launched(args, None)
    }

    /// Builds it, and copies it if that is asked for. Gives how it is started.
    ///
    /// # Errors
    ///
    /// It does not build, or is not there.
    pub(crate) fn build(&self, args: &Args) -> Result<Launch, Failure> {
        let Source::Package { workspace, server, .. } = &self.source else { return self.launch(args) };
        let program = match args.no_build {
            true => predicted(workspace, server, args),
            false => {
                // With optimisations it may take minutes, of which cargo is told to be quiet.
                anstream::eprintln!("building `{}`{}", server.bin, if args.debug { "" } else { " for release" });
                workspace.build(server, &args.build())?
            }
        };
        if !program.is_file() {
            return Err(Failure::usage(format_args!("there is no program `{}`", program.display()))
                .help("leave `--no-build` out, and it is built"));
        }
        if let Some(directory) = &args.copy_to {
            copy(&program, &absolute(directory)?)?;
        }
        self.launched(args, Some(program))
    }

    fn launched(&self, args: &Args, built: Option<PathBuf>) -> Result<Launch, Failure> {
        let env = args.env.iter().map(|pair| pair.value()).collect::<Result<Vec<_>, _>>()?;
        Ok(match &self.source {
            Source::Url(url) => Launch::Url { url: url.clone(), headers: args.header.clone() },
            Source::Command { program, args } => Launch::Program { program: text(program)?, args: args.clone(), env },
            Source::Package { workspace, server, args: words } => {
                let program = built.unwrap_or_else(|| predicted(workspace, server, args));
                let program = match &args.copy_to {
                    Some(directory) => absolute(directory)?.join(program.file_name().unwrap_or_default()),
                    None => program,
                };
                Launch::Program { program: text(&program)?, args: words.clone(), env }
            }
        })
    }

    /// How the check connects to it.
    pub(crate) fn target(&self, launch: &Launch) -> Target {
        match launch.clone() {
            Launch::Program { program, args, env } => {
                Target::Program { name: self.name.clone(), program: program.into(), args, env }
            }
            Launch::Url { url, headers } => Target::Url { url, headers },
        }
    }

    /// Whether it is built here.
    pub(crate) fn is_package(&self) -> bool {
        matches!(self.source, Source::Package { .. })
    }
}

impl Source {
    fn fits(&self, args: &Args) -> Result<(), Failure> {
        let is_url = matches!(self, Self::Url(_));
        let wrong = |option: &str, only: &str| {
            Err(Failure::usage(format_args!("`{option}` is for {only}")).help(format_args!("leave `{option}` out")))
        };
        match self {
            _ if is_url && !args.env.is_empty() => wrong("--env", "a program; a URL is not started"),
            _ if is_url && !args.arg.is_empty() => wrong("--arg", "a program; a URL is not started"),
            _ if !is_url && !args.header.is_empty() => wrong("--header", "a URL; a program gets `--env`"),
            Self::Package { .. } => Ok(()),
            _ if args.copy_to.is_some() => wrong("--copy-to", "a package of this workspace"),
            _ if args.no_build => wrong("--no-build", "a package of this workspace"),
            _ => Ok(()),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Package { server, .. } => fitting(&server.package.name),
            Self::Command { program, .. } => fitting(&program.file_stem().unwrap_or_default().to_string_lossy()),
            Self::Url(url) => fitting(host(url)),
        }
    }
}

/// The name that a server has if no other one is given: for `uninstall` too.
///
/// # Errors
///
/// There is no such package.
pub(crate) fn name_of(server: Option<&str>, build: &BuildArgs) -> Result<String, Failure> {
    match server {
        Some(url) if is_url(url) => Ok(fitting(host(url))),
        Some(name) => Ok(name.to_owned()),
        None => {
            let server = Workspace::read(build)?.server(None, build.bin.as_deref())?;
            Ok(fitting(&server.package.name))
        }
    }
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    host.rsplit_once('@').map_or(host, |(_, host)| host)
}

/// A name in the letters that every client takes.
fn fitting(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
    let name: String = name.chars().map(letter).take(64).collect();
    match name.trim_matches('-') {
        "" => "server".to_owned(),
        name => name.to_owned(),
    }
}

fn valid(name: &str) -> Result<&str, Failure> {
    let fits = !name.is_empty() && name.len() <= 64 && fitting(name) == name;
    fits.then_some(name).ok_or_else(|| {
        Failure::usage(format_args!("`{name}` is no name that every client takes"))
            .help("use letters, digits, `-` and `_`, at most 64 of them")
    })
}

fn predicted(workspace: &Workspace, server: &Server, args: &Args) -> PathBuf {
    let profile = if args.debug { "debug" } else { "release" };
    let program = format!("{}{}", server.bin, std::env::consts::EXE_SUFFIX);
    workspace.metadata.target_directory.join(profile).join(program).into_std_path_buf()
}

/// A command as a client can start it: it has another current directory.
fn located(program: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        let path = absolute(path)?;
        return match path.is_file() {
            true => Ok(path),
            false => Err(Failure::usage(format_args!("there is no program `{}`", path.display()))),
        };
    }
    let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|directory| {
        let is_there = |name: &dyn AsRef<OsStr>| directory.join(name.as_ref()).is_file();
        is_there(&program) || is_there(&name) || (cfg!(windows) && is_there(&format!("{program}.cmd")))
    });
    match found {
        true => Ok(path.to_owned()),
        false => Err(Failure::usage(format_args!("there is no program `{program}` on the `PATH`"))
            .help("write its path, or the name of a package without `--`")),
    }
}

fn copy(program: &Path, directory: &Path) -> Result<(), Failure> {
    let name = program.file_name().unwrap_or_default();
    let failed = |error: std::io::Error| {
        Failure::usage(format_args!("`{}` cannot be written: {error}", directory.join(name).display()))
    };
    fs::create_dir_all(directory).map_err(failed)?;
    // A program that runs cannot be written to, but another one can take its place.
    let new = tempfile::Builder::new().prefix(".cargo-mcp-").tempfile_in(directory).map_err(failed)?;
    fs::copy(program, new.path()).map_err(failed)?;
    new.persist(directory.join(name)).map_err(|error| failed(error.error))?;
    Ok(())
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::usage(format_args!("`{}`: {error}", path.display())))
}

fn text(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Failure::usage(format_args!("`{}` is no path in UTF-8, which a configuration needs", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_to_fit() {
        for (from, expected) in [
            ("notes", "notes"),
            ("my notes.v2", "my-notes-v2"),
            ("ключ", "server"),
            (host("https://mcp.example.com/mcp"), "mcp-example-com"),
            (host("http://user:secret@127.0.0.1:8080?x"), "127-0-0-1-8080"),
        ] {
            assert_eq!(fitting(from), expected, "{from}");
        }
    }
}
