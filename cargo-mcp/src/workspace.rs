//! The cargo workspace that contains the current directory.

use std::{
    io::IsTerminal as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use cargo_metadata::{
    Artifact, CompilerMessage, Message, Metadata, MetadataCommand, Package, TargetKind, camino::Utf8PathBuf,
};

use crate::failure::{Failure, name_list, suggest};

/// Options for cargo.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Build")]
pub(crate) struct BuildArgs {
    /// Path to Cargo.toml
    #[arg(long, value_name = "PATH")]
    pub(crate) manifest_path: Option<PathBuf>,
    /// Build in release mode, with optimizations
    #[arg(long, short)]
    pub(crate) release: bool,
    /// Comma-separated list of features to activate
    #[arg(long, short = 'F', value_name = "FEATURES")]
    pub(crate) features: Vec<String>,
    /// Binary to run, if the package has several
    #[arg(long, value_name = "NAME")]
    pub(crate) bin: Option<String>,
}

impl BuildArgs {
    /// Returns the command that builds a server and reports its messages as JSON.
    pub(crate) fn command(&self, server: &Server, is_colored: bool) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let format = if is_colored { "json-diagnostic-rendered-ansi" } else { "json" };
        command.args(["build", "--quiet", "--message-format", format, "--package", &server.package.name]);
        command.args(["--bin", &server.bin, "--manifest-path"]).arg(&server.package.manifest_path);
        if self.release {
            command.arg("--release");
        }
        if !self.features.is_empty() {
            command.arg("--features").arg(self.features.join(","));
        }
        command
    }
}

/// A package, and the binary of it that is the server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) package: Package,
    pub(crate) bin: String,
}

impl Server {
    /// Returns the path of the server's program if cargo has built it with this artifact.
    pub(crate) fn program(&self, artifact: Artifact) -> Option<PathBuf> {
        // Not the id of the package, which contains its version.
        let is_own = artifact.target.name == self.bin && artifact.manifest_path == self.package.manifest_path;
        artifact.executable.filter(|_| is_own).map(Utf8PathBuf::into_std_path_buf)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    pub(crate) metadata: Metadata,
    /// The manifest from the command line.
    manifest: Option<PathBuf>,
}

impl Workspace {
    /// Reads the workspace that contains the current directory.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or if its manifest is invalid.
    pub(crate) fn read(args: &BuildArgs) -> Result<Self, Failure> {
        let mut command = MetadataCommand::new();
        command.no_deps();
        if let Some(path) = &args.manifest_path {
            command.manifest_path(path);
        }
        match command.exec() {
            Ok(metadata) => Ok(Self { metadata, manifest: args.manifest_path.clone() }),
            Err(cargo_metadata::Error::CargoMetadata { stderr }) => {
                let message = stderr.trim().trim_start_matches("error: ").to_owned();
                Err(Failure::usage(message).help(
                    "run this command in a Rust package, or specify a command after `--`, or a URL such as `http://127.0.0.1:8080/mcp`",
                ))
            }
            Err(error) => Err(Failure::usage(format_args!("cargo metadata: {error}"))),
        }
    }

    /// Returns the packages that depend on the framework and have a binary, sorted by name.
    pub(crate) fn servers(&self) -> Vec<&Package> {
        let mut servers: Vec<_> =
            self.metadata.workspace_packages().into_iter().filter(|package| is_server(package)).collect();
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        servers
    }

    /// Returns whether the workspace has a package with the name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.metadata.workspace_packages().iter().any(|package| package.name == name)
    }

    /// Returns the server with a name, or the only server.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or if there are several candidates.
    pub(crate) fn server(&self, name: Option<&str>, bin: Option<&str>) -> Result<Server, Failure> {
        let package = match name {
            Some(name) => self.named(name)?,
            None => self.only()?,
        };
        let bins: Vec<&str> = bins(package).collect();
        let bin = match bin {
            Some(bin) => *bins.iter().find(|name| **name == bin).ok_or_else(|| {
                Failure::usage(format_args!(
                    "package `{}` has no binary `{bin}`; available binaries: {}",
                    package.name,
                    name_list(&bins)
                ))
            })?,
            None => match (&*bins, package.default_run.as_deref()) {
                ([only], _) => only,
                ([], _) => {
                    return Err(Failure::usage(format_args!("package `{}` has no binary", package.name))
                        .help("add a `src/main.rs` that ends with `mcp_runtime::main!();`"));
                }
                (_, Some(default)) => default,
                _ => {
                    return Err(Failure::usage(format_args!("package `{}` has several binaries", package.name))
                        .help(format_args!("select one with `--bin`: {}", name_list(&bins))));
                }
            },
        };
        Ok(Server { package: package.clone(), bin: bin.to_owned() })
    }

    fn named(&self, name: &str) -> Result<&Package, Failure> {
        let packages = self.metadata.workspace_packages();
        if let Some(package) = packages.iter().find(|package| package.name == name) {
            return Ok(package);
        }
        let failure = Failure::usage(format_args!("no package `{name}` in this workspace"));
        let names: Vec<&str> = self.servers().iter().map(|package| package.name.as_str()).collect();
        Err(if names.is_empty() { failure } else { suggest(failure, name, &names, "servers") })
    }

    /// Returns the package that contains the current directory or the given manifest.
    fn here(&self) -> Option<&Package> {
        let here = match &self.manifest {
            Some(path) => std::path::absolute(path).ok()?.parent()?.to_owned(),
            None => std::env::current_dir().ok()?,
        };
        let directory = |package: &Package| package.manifest_path.parent().map(|path| path.as_std_path().to_owned());
        let contains = |package: &&Package| directory(package).is_some_and(|directory| here.starts_with(directory));
        let packages = self.metadata.workspace_packages().into_iter().filter(contains);
        packages.max_by_key(|package| package.manifest_path.as_str().len())
    }

    fn only(&self) -> Result<&Package, Failure> {
        if let Some(here) = self.here()
            && bins(here).next().is_some()
        {
            return Ok(here);
        }
        match &*self.servers() {
            [only] => Ok(*only),
            [] => Err(Failure::usage(
                "no package of this workspace is a server: none has a binary and depends on `mcp-runtime`",
            )
            .help("specify a package, a command after `--`, or a URL")
            .help("`cargo mcp new` creates a server")),
            several => {
                let names: Vec<&str> = several.iter().map(|package| package.name.as_str()).collect();
                Err(Failure::usage("this workspace has several servers")
                    .help(format_args!("select one of {}", name_list(&names))))
            }
        }
    }

    /// Builds a server and returns the path of the program. Shows the compiler's diagnostics only if the build fails:
    /// cargo repeats warnings in every build, and they would hide the output of the server.
    ///
    /// # Errors
    ///
    /// Fails if the build fails.
    pub(crate) fn build(&self, server: &Server, args: &BuildArgs) -> Result<PathBuf, Failure> {
        let output = args
            .command(server, std::io::stderr().is_terminal())
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| Failure::connection(format_args!("cannot start cargo: {error}")))?;
        if !output.status.success() {
            for message in Message::parse_stream(&*output.stdout).filter_map(Result::ok) {
                if let Message::CompilerMessage(CompilerMessage { message, .. }) = message {
                    eprint!("{}", message.rendered.unwrap_or(message.message));
                }
            }
            return Err(Failure::connection(format_args!("package `{}` failed to build", server.package.name)));
        }
        let programs = Message::parse_stream(&*output.stdout).filter_map(|message| match message {
            Ok(Message::CompilerArtifact(artifact)) => server.program(artifact),
            _ => None,
        });
        programs.last().ok_or_else(|| {
            Failure::connection(format_args!("cargo reported no program for package `{}`", server.package.name))
        })
    }
}

fn is_server(package: &Package) -> bool {
    bins(package).next().is_some() && package.dependencies.iter().any(|dependency| dependency.name == "mcp-runtime")
}

fn bins(package: &Package) -> impl Iterator<Item = &str> {
    package.targets.iter().filter(|target| target.kind.contains(&TargetKind::Bin)).map(|target| target.name.as_str())
}
