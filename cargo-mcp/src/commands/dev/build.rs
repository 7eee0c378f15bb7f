//! Building the program whenever something changed, and keeping what was built: cargo overwrites it with the next one.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Instant,
};

use cargo_metadata::{Message, diagnostic::DiagnosticLevel};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader, Lines},
    process::Command,
    sync::mpsc,
};

use super::{
    Say,
    process::{Leash, in_group},
    watch::Changes,
};
use crate::{
    failure::Failure,
    workspace::{BuildArgs, Server, Workspace},
};

/// What became of a build.
#[derive(Debug)]
pub(super) enum News {
    Built {
        number: u64,
        program: PathBuf,
    },
    /// The first error.
    Failed(String),
}

/// Builds one server again and again.
pub(super) struct Builder {
    pub(super) server: Server,
    pub(super) args: BuildArgs,
    /// Where programs are kept.
    pub(super) kept: Arc<tempfile::TempDir>,
    pub(super) say: Say,
}

/// A build that did not go well.
enum Broken {
    /// The program, with the first error.
    Program(String),
    /// What builds it.
    Cargo(Failure),
}

impl Builder {
    /// Builds now, and after each change. What changes during a build leads to one more.
    pub(super) async fn run(self, mut changes: Changes, news: mpsc::UnboundedSender<News>) {
        let mut last: Option<(u64, PathBuf)> = None;
        loop {
            let began = Instant::now();
            let built = match self.build().await {
                Ok(program) => self.keep(program, last.as_ref()).await.map_err(|error| {
                    Broken::Cargo(Failure::connection(format_args!("the program cannot be kept: {error}")))
                }),
                Err(broken) => Err(broken),
            };
            let took = format!("built in {:.1} s", began.elapsed().as_secs_f32());
            let sent = match built {
                Ok(None) => {
                    self.say.info(format_args!("{took}: the same program"));
                    Ok(())
                }
                Ok(Some((number, program))) => {
                    self.say.info(took);
                    last = Some((number, program.clone()));
                    news.send(News::Built { number, program })
                }
                Err(Broken::Program(first)) => news.send(News::Failed(first)),
                Err(Broken::Cargo(failure)) => {
                    failure.print();
                    news.send(News::Failed("cargo failed".to_owned()))
                }
            };
            if sent.is_err() {
                return;
            }
            changes.next().await;
        }
    }

    async fn build(&self) -> Result<PathBuf, Broken> {
        let mut command = self.command();
        let cannot = |error: std::io::Error| {
            Broken::Cargo(Failure::connection(format_args!("cargo cannot be started: {error}")))
        };
        let mut child = command.spawn().map_err(cannot)?;
        let leash = Leash::of(&child);
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(cannot(std::io::Error::other("it has no pipes")));
        };
        let (messages, complaint) =
            tokio::join!(self.read_messages(lines(stdout)), self.read_complaints(lines(stderr)));
        let status = child.wait().await.map_err(cannot)?;
        drop(leash);
        match (status.success(), messages) {
            (true, (Some(program), _)) => Ok(program),
            (true, (None, _)) => {
                let name = &self.server.package.name;
                Err(Broken::Cargo(Failure::connection(format_args!(
                    "cargo built package `{name}` and names no program"
                ))))
            }
            (false, (_, first)) => {
                let why = first.or(complaint).unwrap_or_else(|| status.to_string());
                Err(Broken::Program(why))
            }
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let (color, format) = match self.say.is_colored() {
            true => ("always", "json-diagnostic-rendered-ansi"),
            false => ("never", "json"),
        };
        command.args(["build", "--quiet", "--color", color, "--message-format", format]);
        command.args(["--package", &self.server.package.name, "--bin", &self.server.bin]);
        command.arg("--manifest-path").arg(&self.server.package.manifest_path);
        if self.args.release {
            command.arg("--release");
        }
        if !self.args.features.is_empty() {
            command.arg("--features").arg(self.args.features.join(","));
        }
        in_group(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Shows what the compiler says; gives the program, and the first error.
    async fn read_messages(
        &self,
        mut lines: Lines<BufReader<impl AsyncRead + Unpin>>,
    ) -> (Option<PathBuf>, Option<String>) {
        let (mut program, mut first) = (None, None);
        while let Ok(Some(line)) = lines.next_line().await {
            match serde_json::from_str(&line) {
                Ok(Message::CompilerMessage(message)) => {
                    let diagnostic = message.message;
                    self.say.verbatim(diagnostic.rendered.as_deref().unwrap_or(&diagnostic.message));
                    if diagnostic.level == DiagnosticLevel::Error && first.is_none() {
                        let span = diagnostic.spans.iter().find(|span| span.is_primary);
                        let place = span.map(|span| format!("{}:{}: ", span.file_name, span.line_start));
                        first = Some(place.unwrap_or_default() + &diagnostic.message);
                    }
                }
                Ok(Message::CompilerArtifact(artifact))
                    if artifact.target.name == self.server.bin
                        && artifact.target.is_bin()
                        && artifact.manifest_path == self.server.package.manifest_path =>
                {
                    program = artifact.executable.map(cargo_metadata::camino::Utf8PathBuf::into_std_path_buf);
                }
                _ => {}
            }
        }
        (program, first)
    }

    /// Shows what cargo itself says; gives its first error.
    async fn read_complaints(&self, mut lines: Lines<BufReader<impl AsyncRead + Unpin>>) -> Option<String> {
        let mut first = None;
        while let Ok(Some(line)) = lines.next_line().await {
            self.say.verbatim(&line);
            let plain = anstream::adapter::strip_str(&line).to_string();
            if let Some(why) = plain.strip_prefix("error: ").filter(|_| first.is_none()) {
                first = Some(why.to_owned());
            }
        }
        first
    }

    /// Copies a program to where no build changes it; none if it is the one that is there.
    async fn keep(&self, program: PathBuf, last: Option<&(u64, PathBuf)>) -> std::io::Result<Option<(u64, PathBuf)>> {
        let number = last.map_or(1, |(number, _)| number + 1);
        let kept = Arc::clone(&self.kept);
        let last = last.map(|(_, program)| program.clone());
        let copied = tokio::task::spawn_blocking(move || {
            if last.is_some_and(|last| is_same(&last, &program)) {
                return Ok(None);
            }
            let directory = kept.path().join(number.to_string());
            std::fs::create_dir_all(&directory)?;
            let copy = directory.join(program.file_name().unwrap_or_default());
            std::fs::copy(&program, &copy)?;
            Ok(Some((number, copy)))
        });
        copied.await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
    }
}

fn lines<R: AsyncRead>(stream: R) -> Lines<BufReader<R>> {
    BufReader::new(stream).lines()
}

/// Whether two files have the same bytes.
fn is_same(one: &Path, other: &Path) -> bool {
    let length = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.len()).ok();
    length(one).is_some()
        && length(one) == length(other)
        && matches!((std::fs::read(one), std::fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

/// What a server is built from: its package, the packages by path that it depends on, and the files that all of them share.
///
/// # Errors
///
/// The workspace cannot be read.
pub(super) fn sources(server: &Server, args: &BuildArgs) -> Result<super::watch::Sources, Failure> {
    let mut command = cargo_metadata::MetadataCommand::new();
    command.manifest_path(&server.package.manifest_path);
    let metadata = match command.exec() {
        Ok(metadata) => metadata,
        // What cannot be resolved now may be mended in the package itself.
        Err(_) => Workspace::read(args)?.metadata,
    };
    let mut directories = vec![server.package.manifest_path.clone()];
    if let Some(resolve) = &metadata.resolve {
        let mut ids = vec![&server.package.id];
        let mut seen = std::collections::HashSet::new();
        while let Some(id) = ids.pop() {
            if seen.insert(id) {
                ids.extend(resolve.nodes.iter().filter(|node| node.id == *id).flat_map(|node| &node.dependencies));
            }
        }
        let local = metadata.packages.iter().filter(|package| package.source.is_none() && seen.contains(&package.id));
        directories.extend(local.map(|package| package.manifest_path.clone()));
    }
    let directory =
        |manifest: &cargo_metadata::camino::Utf8PathBuf| manifest.parent().map(|it| it.as_std_path().to_owned());
    let packages: Vec<_> = directories.iter().filter_map(directory).collect();
    let others = metadata.workspace_packages().into_iter().filter_map(|package| directory(&package.manifest_path));
    Ok(super::watch::Sources {
        others: others.filter(|other| !packages.contains(other)).collect(),
        packages,
        workspace: metadata.workspace_root.as_std_path().to_owned(),
        target: metadata.target_directory.as_std_path().to_owned(),
    })
}
