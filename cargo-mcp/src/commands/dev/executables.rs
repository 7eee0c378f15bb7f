//! The executables of builds that may be started.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use super::{
    builder::BuildEvent,
    ids::BuildId,
    proxy::{Event, Proxy},
};

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
