//! Builds the server after each change and keeps a copy of each executable, since cargo overwrites it with the next
//! one.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use cargo_metadata::{
    Message,
    diagnostic::{Diagnostic, DiagnosticLevel},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader, Lines},
    process::Command,
    sync::mpsc,
};

use super::{
    Reporter,
    message::BuildId,
    process::LaunchConfig,
    proxy::{Event, Proxy},
    watch::Changes,
};
use crate::{
    commands::types,
    failure::Failure,
    process::Process,
    target::Target,
    workspace::{BuildArgs, Server},
};

/// How long to wait for a response of the server whose tools are declared.
const TYPES_TIMEOUT: Duration = Duration::from_secs(30);

/// The result of a build.
#[derive(Debug)]
pub(super) enum BuildEvent {
    /// A new executable.
    Succeeded { build: BuildId, executable: PathBuf },
    /// The build failed with this error, the first one.
    Failed(String),
}

/// Builds a server at startup and after each change.
pub(super) struct Builder {
    pub(super) server: Server,
    pub(super) args: BuildArgs,
    pub(super) launch: LaunchConfig,
    /// The file for TypeScript declarations.
    pub(super) types: Option<PathBuf>,
    /// The directory for copies of executables.
    pub(super) executables: Arc<tempfile::TempDir>,
    pub(super) reporter: Reporter,
}

/// Why there is no executable.
enum BuildError {
    /// The source does not compile. Holds the first error.
    Source(String),
    /// Cargo cannot be run, or the executable cannot be copied.
    Environment(Failure),
}

/// The last executable that was copied.
type LastBuild = (BuildId, PathBuf);

impl Builder {
    /// Builds now and after each change. A change during a build triggers another build.
    pub(super) async fn run(self, changes: Changes, events: mpsc::UnboundedSender<BuildEvent>) {
        let mut last: Option<LastBuild> = None;
        loop {
            let started = Instant::now();
            let result = self.build_and_copy(last.as_ref()).await;
            let summary = format!("built in {:.1} s", started.elapsed().as_secs_f32());
            // Sending fails only while this process ends.
            match result {
                Ok(None) => self.reporter.info(format_args!("{summary}; executable unchanged")),
                Ok(Some((build, executable))) => {
                    self.reporter.info(summary);
                    last = Some((build, executable.clone()));
                    let _ = events.send(BuildEvent::Succeeded { build, executable: executable.clone() });
                    if let Some(file) = &self.types
                        && let Err(failure) = self.write_types(file, executable).await
                    {
                        failure.print();
                    }
                }
                Err(BuildError::Source(error)) => drop(events.send(BuildEvent::Failed(error))),
                Err(BuildError::Environment(failure)) => {
                    failure.print();
                    let _ = events.send(BuildEvent::Failed("cargo failed".to_owned()));
                }
            }
            changes.notified().await;
        }
    }

    /// Starts the server once more, and declares its tools. Only clients that show pages see those for pages.
    async fn write_types(&self, file: &Path, program: PathBuf) -> Result<(), Failure> {
        let LaunchConfig { args, env } = self.launch.clone();
        let target = Target::Program { name: self.server.package.name.to_string(), program, args, env };
        let text = types::declarations(&target, None, TYPES_TIMEOUT).await?;
        if types::write(file, &text)? {
            self.reporter.info(format_args!("wrote `{}`", file.display()));
        }
        Ok(())
    }

    async fn build_and_copy(&self, last: Option<&LastBuild>) -> Result<Option<LastBuild>, BuildError> {
        let executable = self.build().await?;
        self.copy(executable, last).await.map_err(|error| {
            BuildError::Environment(Failure::connection(format_args!("cannot copy the executable: {error}")))
        })
    }

    async fn build(&self) -> Result<PathBuf, BuildError> {
        let cannot_run = |error: std::io::Error| {
            BuildError::Environment(Failure::connection(format_args!("cannot run cargo: {error}")))
        };
        let mut process = Process::start(&mut self.command()).map_err(cannot_run)?;
        let (Some(stdout), Some(stderr)) = (process.child.stdout.take(), process.child.stderr.take()) else {
            return Err(cannot_run(std::io::Error::other("its output is not piped")));
        };
        let ((executable, compiler_error), cargo_error) =
            tokio::join!(self.read_messages(lines(stdout)), self.read_stderr(lines(stderr)));
        let status = process.child.wait().await.map_err(cannot_run)?;
        drop(process);
        if !status.success() {
            let error = compiler_error.or(cargo_error).unwrap_or_else(|| status.to_string());
            return Err(BuildError::Source(error));
        }
        executable.ok_or_else(|| {
            let name = &self.server.package.name;
            BuildError::Environment(Failure::connection(format_args!(
                "cargo built package `{name}` but reported no executable"
            )))
        })
    }

    fn command(&self) -> Command {
        let is_colored = self.reporter.is_colored();
        let mut command = Command::from(self.args.command(&self.server, is_colored));
        command.args(["--color", if is_colored { "always" } else { "never" }]);
        // Files of pages are read when they are served, so a change of one requires no build.
        command.env(mcp_page::DEV_VARIABLE, "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Reads cargo's JSON messages and shows the diagnostics. Returns the executable and the first error.
    async fn read_messages(
        &self,
        mut lines: Lines<BufReader<impl AsyncRead + Unpin>>,
    ) -> (Option<PathBuf>, Option<String>) {
        let (mut executable, mut first_error) = (None, None);
        while let Ok(Some(line)) = lines.next_line().await {
            match serde_json::from_str(&line) {
                Ok(Message::CompilerMessage(message)) => {
                    let diagnostic = message.message;
                    self.reporter.cargo(diagnostic.rendered.as_deref().unwrap_or(&diagnostic.message));
                    if diagnostic.level == DiagnosticLevel::Error && first_error.is_none() {
                        first_error = Some(summarize(&diagnostic));
                    }
                }
                Ok(Message::CompilerArtifact(artifact)) => executable = self.server.program(artifact).or(executable),
                _ => {}
            }
        }
        (executable, first_error)
    }

    /// Shows cargo's own output, for which there is no JSON. Returns its first error.
    async fn read_stderr(&self, mut lines: Lines<BufReader<impl AsyncRead + Unpin>>) -> Option<String> {
        let mut first_error = None;
        while let Ok(Some(line)) = lines.next_line().await {
            self.reporter.cargo(&line);
            let plain = anstream::adapter::strip_str(&line).to_string();
            if let Some(error) = plain.strip_prefix("error: ").filter(|_| first_error.is_none()) {
                first_error = Some(error.to_owned());
            }
        }
        first_error
    }

    /// Copies an executable to where no build overwrites it. Returns `None` if its content equals the last copy's.
    async fn copy(&self, executable: PathBuf, last: Option<&LastBuild>) -> std::io::Result<Option<LastBuild>> {
        let build = last.map_or(1, |(build, _)| build + 1);
        let executables = Arc::clone(&self.executables);
        let last = last.map(|(_, executable)| executable.clone());
        let copied = tokio::task::spawn_blocking(move || {
            if last.is_some_and(|last| has_same_content(&last, &executable)) {
                return Ok(None);
            }
            let directory = executables.path().join(build.to_string());
            std::fs::create_dir_all(&directory)?;
            let copy = directory.join(executable.file_name().unwrap_or_default());
            std::fs::copy(&executable, &copy)?;
            Ok(Some((build, copy)))
        });
        copied.await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
    }
}

/// Formats a diagnostic as `src/main.rs:1: message`.
fn summarize(diagnostic: &Diagnostic) -> String {
    let span = diagnostic.spans.iter().find(|span| span.is_primary);
    let location = span.map(|span| format!("{}:{}: ", span.file_name, span.line_start));
    location.unwrap_or_default() + &diagnostic.message
}

fn lines<R: AsyncRead>(stream: R) -> Lines<BufReader<R>> {
    BufReader::new(stream).lines()
}

fn has_same_content(a: &Path, b: &Path) -> bool {
    let length = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.len()).ok();
    length(a).is_some()
        && length(a) == length(b)
        && matches!((std::fs::read(a), std::fs::read(b)), (Ok(a), Ok(b)) if a == b)
}

/// Executables by build.
#[derive(Debug, Default)]
pub(super) struct Executables {
    paths: HashMap<BuildId, PathBuf>,
}

impl Executables {
    /// Records the executable of a build. Returns the event for the proxy.
    pub(super) fn record(&mut self, event: BuildEvent) -> Event {
        match event {
            BuildEvent::Succeeded { build, executable } => {
                self.paths.insert(build, executable);
                Event::BuildSucceeded(build)
            }
            BuildEvent::Failed(error) => Event::BuildFailed(error),
        }
    }

    pub(super) fn get(&self, build: BuildId) -> Option<&Path> {
        self.paths.get(&build).map(PathBuf::as_path)
    }

    /// Deletes the executables that the proxy does not start again.
    pub(super) fn remove_unused(&mut self, proxy: &Proxy) {
        for (_, path) in self.paths.extract_if(|build, _| !proxy.may_start(*build)) {
            // Some systems do not allow deleting a running executable. It is deleted later, with its directory.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::commands::dev::proxy::{self, ProxyConfig};

    fn directory() -> TempDir {
        tempfile::tempdir().expect("a directory")
    }

    /// Returns a builder of a package that does not exist.
    fn builder() -> Builder {
        let package = json!({
            "name": "notes", "version": "0.1.0", "id": "notes", "description": "Notes.", "authors": ["Ada"],
            "dependencies": [], "targets": [], "features": {}, "manifest_path": "/notes/Cargo.toml",
        });
        let package = serde_json::from_value(package).expect("a package");
        Builder {
            server: Server { package, bin: "notes".to_owned() },
            args: BuildArgs::default(),
            launch: LaunchConfig { args: Vec::new(), env: Vec::new() },
            types: None,
            executables: Arc::new(directory()),
            reporter: Reporter { quiet: true },
        }
    }

    #[tokio::test]
    async fn the_first_error_is_reported_with_its_primary_place() {
        let span = |line: u32, is_primary: bool| {
            json!({
                "file_name": "src/main.rs", "byte_start": 0, "byte_end": 0, "line_start": line, "line_end": line,
                "column_start": 1, "column_end": 1, "is_primary": is_primary, "text": [],
            })
        };
        let target =
            json!({"name": "notes", "kind": ["bin"], "crate_types": ["bin"], "src_path": "/notes/src/main.rs"});
        let message = |level: &str, text: &str, spans: &[serde_json::Value]| {
            let message = json!({"message": text, "level": level, "spans": spans, "children": []});
            json!({"reason": "compiler-message", "package_id": "notes", "target": target, "message": message})
        };
        let warning = message("warning", "unused variable", &[span(1, true)]);
        let error = message("error", "mismatched types", &[span(3, false), span(7, true)]);
        let summary = message("error", "aborting due to 1 previous error", &[]);
        for (messages, expected) in [
            (&[&warning, &error, &summary][..], Some("src/main.rs:7: mismatched types")),
            (&[&summary], Some("aborting due to 1 previous error")),
            (&[&warning], None),
        ] {
            let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
            let (_, found) = builder().read_messages(lines(text.as_bytes())).await;
            assert_eq!(found.as_deref(), expected);
        }
    }

    /// A build may change a constant, but not the size.
    #[tokio::test]
    async fn each_executable_with_another_content_is_copied() {
        let (builder, directory) = (builder(), directory());
        let executable = directory.path().join("notes");
        let mut last = None;
        for (content, expected) in [("one", Some(1)), ("one", None), ("two", Some(2)), ("three", Some(3))] {
            std::fs::write(&executable, content).expect("the file is written");
            let copied = builder.copy(executable.clone(), last.as_ref()).await.expect("the file is copied");
            assert_eq!(copied.as_ref().map(|(build, _)| *build), expected, "{content}");
            last = copied.or(last);
        }
        for (build, content) in [("1", "one"), ("2", "two"), ("3", "three")] {
            let copy = builder.executables.path().join(build).join("notes");
            assert_eq!(std::fs::read_to_string(copy).expect("a copy"), content);
        }
    }

    /// It serves again if the newest build does not start.
    #[test]
    fn the_executable_of_the_last_working_build_is_kept() {
        let directory = directory();
        let path = |build: BuildId| directory.path().join(build.to_string());
        let mut executables = Executables::default();
        let mut proxy = Proxy::new(ProxyConfig { can_list: true, ..ProxyConfig::default() });
        for build in [1, 2, 3] {
            std::fs::write(path(build), "").expect("the file is written");
            let event = executables.record(BuildEvent::Succeeded { build, executable: path(build) });
            proxy::handle(&mut proxy, event);
            // The first build responds to the requests for its lists, so that it becomes active.
            for request in 1..=4 {
                let line = format!(r#"{{"id":"-{request}","error":{{"code":-32601,"message":"no"}}}}"#);
                proxy::handle(&mut proxy, Event::ServerLine(1, line));
            }
            executables.remove_unused(&proxy);
        }
        assert_eq!([1, 2, 3].map(|build| path(build).exists()), [true, false, true]);
    }
}
