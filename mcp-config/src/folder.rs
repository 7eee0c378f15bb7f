//! The files of a folder, and their changes.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, SystemTime},
};

use mcp_runtime::{
    Handle, Server,
    function::{Entry, EntryInfo},
};

use crate::{
    Error,
    definition::{File, tool},
    http::Service,
    mistake::{Mistake, Source, position},
};

/// The time between two looks for changes.
const INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of files.
const MAX_FILES: usize = 1000;
/// The maximum size of a file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The files, with what tells that one has changed.
type Files = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

pub(crate) fn read(folder: &Path) -> Result<Vec<Entry>, Error> {
    let files = list(folder).map_err(|problem| Error { problems: vec![problem] })?;
    entries(&files, &new_tag())
}

/// Returns a tag that tells the tools of a folder from those of others.
fn new_tag() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("definition folder {}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn watch(server: Server, folder: &Path) -> Result<Server, Error> {
    let files = list(folder).map_err(|problem| Error { problems: vec![problem] })?;
    let tag = new_tag();
    let server = entries(&files, &tag)?.into_iter().fold(server, Server::with_entry);
    let (handle, folder) = (server.handle(), folder.to_owned());
    thread::spawn(move || follow(&handle, &folder, &tag, Ok(files)));
    Ok(server)
}

/// Replaces the tools whenever the files have changed.
fn follow(handle: &Handle, folder: &Path, tag: &str, mut known: Result<Files, String>) {
    let mut reported = String::new();
    loop {
        thread::sleep(INTERVAL);
        if handle.is_closed() {
            return;
        }
        let found = list(folder);
        if found == known {
            continue;
        }
        let entries = match &found {
            Ok(files) => entries(files, tag).map_err(|error| error.to_string()),
            Err(problem) => Err(problem.clone()),
        };
        let is_valid = entries.is_ok();
        let replaced = entries.and_then(|entries| {
            let is_own = |entry: &EntryInfo<'_>| entry.has_tag(tag);
            handle.replace_entries(is_own, entries).map_err(|error| error.to_string())
        });
        // Valid definitions are tried again: a name that is taken may become free.
        if replaced.is_ok() || !is_valid {
            known = found;
        }
        match replaced {
            Ok(()) => {
                reported.clear();
                tracing::info!(folder = %folder.display(), "the tools were replaced by changed definitions");
            }
            Err(problems) if is_valid && problems == reported => {}
            Err(problems) => {
                tracing::error!("the tools of the last definitions remain: {problems}");
                reported = problems;
            }
        }
    }
}

fn list(folder: &Path) -> Result<Files, String> {
    let problem = |error: io::Error| format!("{}: {error}", folder.display());
    let mut files = Files::new();
    for file in fs::read_dir(folder).map_err(problem)? {
        let path = file.map_err(problem)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !is_hidden && path.extension().is_some_and(|extension| extension == "toml" || extension == "json") {
            // Links are followed, such as those of a Kubernetes volume.
            let metadata = fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            files.insert(path, (metadata.modified().ok(), metadata.len()));
        }
    }
    if files.len() > MAX_FILES {
        return Err(format!("{}: more than {MAX_FILES} files", folder.display()));
    }
    Ok(files)
}

/// Returns the tools of all files.
fn entries(files: &Files, tag: &str) -> Result<Vec<Entry>, Error> {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    for (path, (_, bytes)) in files {
        let path_text = path.display();
        if *bytes > MAX_BYTES {
            problems.push(format!("{path_text}: larger than {MAX_BYTES} bytes"));
            continue;
        }
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                problems.push(format!("{path_text}: {error}"));
                continue;
            }
        };
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let read = if is_json { File::from_json(&text) } else { File::from_toml(&text) };
        let file = match read {
            Ok(file) => file,
            Err((offset, problem)) => {
                problems.push(format!("{path_text}:{}: {problem}", position(&text, offset)));
                continue;
            }
        };
        let source = Source::new(&text, is_json);
        let mut report = |path: &[String], message: &str| {
            problems.push(format!("{path_text}:{}: {message}", source.position(path)));
        };
        let service = match file.service.map(Service::connect).transpose() {
            Ok(service) => service,
            Err(Mistake { path, message }) => {
                report(&[&["service".to_owned()][..], &path].concat(), &format!("the service: {message}"));
                continue;
            }
        };
        for (name, offset, definition) in file.tools {
            let start = ["tools".to_owned(), name.clone()];
            let place = format!("{path_text}:{}", position(&text, offset));
            if let Some(other) = places.insert(name.clone(), place) {
                report(&start, &format!("the tool `{name}` is also defined in {other}"));
            }
            match tool(&name, definition, service.as_ref(), tag) {
                Ok(entry) => entries.push(entry),
                Err(Mistake { path, message }) => {
                    report(&[&start[..], &path].concat(), &format!("the tool `{name}`: {message}"));
                }
            }
        }
    }
    if problems.is_empty() { Ok(entries) } else { Err(Error { problems }) }
}

#[cfg(test)]
mod tests {
    use std::{fmt, sync::mpsc};

    use mcp_runtime::function::ToolEntry;
    use serde_json::{Value, json};
    use tracing::{
        Event, Metadata, Subscriber,
        field::Field,
        span::{Attributes, Id, Record},
    };

    use super::*;

    /// Sends the messages of the log.
    struct Log(mpsc::Sender<String>);

    impl Subscriber for Log {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "mcp_config::folder"
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut |field: &Field, value: &dyn fmt::Debug| {
                if field.name() == "message" {
                    let _ = self.0.send(format!("{value:?}"));
                }
            });
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn each_problem_and_each_change_is_logged_once() {
        let own = ToolEntry::new("own", json!({"type": "object"}), async |_: Value, _| "own").description("Own.");
        let server = Server::empty("test", "1.0.0").with_entry(own).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (handle, path) = (server.handle(), folder.path().to_owned());
        let (sender, log) = mpsc::channel();
        thread::spawn(move || {
            tracing::subscriber::with_default(Log(sender), || follow(&handle, &path, "tag", Ok(Files::new())));
        });
        let tool = |name: &str| format!("[tools.{name}]\ndescription = \"T.\"\ncommand.program = \"/bin/true\"\n");
        for (step, text, expected) in [
            ("a mistake", "?".to_owned(), "tools.toml:1:"),
            ("a name is taken", tool("own"), "`own`"),
            ("another name", tool("other"), "the tools were replaced"),
            ("the name is taken again", tool("own"), "`own`"),
        ] {
            let new = folder.path().join(".new");
            fs::write(&new, text).unwrap();
            fs::rename(&new, folder.path().join("tools.toml")).unwrap();
            let message = log.recv_timeout(Duration::from_secs(20)).expect(step);
            assert!(message.contains(expected), "{step}: {message}");
            // A repetition would be the next message.
            thread::sleep(INTERVAL * 3 / 2);
        }
        assert_eq!(log.try_recv(), Err(mpsc::TryRecvError::Empty));
        drop(server);
        let after_server = log.recv_timeout(Duration::from_secs(20));
        assert_eq!(after_server, Err(mpsc::RecvTimeoutError::Disconnected), "the folder is still watched");
    }
}
