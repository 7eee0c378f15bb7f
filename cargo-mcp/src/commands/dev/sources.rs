//! The packages and files that a server is built from.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use cargo_metadata::{Metadata, MetadataCommand, camino::Utf8PathBuf};

use crate::{
    failure::Failure,
    workspace::{BuildArgs, Server, Workspace},
};

/// The directories that a server is built from.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources {
    /// The directories of the server's package and of its path dependencies.
    pub(super) packages: Vec<PathBuf>,
    /// The directories of other workspace members, which may lie inside of one in `packages`.
    pub(super) others: Vec<PathBuf>,
    /// The directory of the lock file.
    pub(super) workspace: PathBuf,
    /// Cargo's target directory.
    pub(super) target: PathBuf,
}

impl Sources {
    /// Reads the sources of a server from `cargo metadata`.
    ///
    /// # Errors
    ///
    /// Returns an error if the workspace cannot be read.
    pub(super) fn read(server: &Server, args: &BuildArgs) -> Result<Self, Failure> {
        let mut command = MetadataCommand::new();
        command.manifest_path(&server.package.manifest_path);
        let metadata = match command.exec() {
            Ok(metadata) => metadata,
            // Dependencies that cannot be resolved now may be fixed in the package itself, which has to be watched.
            Err(_) => Workspace::read(args)?.metadata,
        };
        let mut manifests = vec![server.package.manifest_path.clone()];
        manifests.extend(path_dependencies(server, &metadata));
        let packages: Vec<_> = manifests.iter().filter_map(parent).collect();
        let others = metadata.workspace_packages().into_iter().filter_map(|package| parent(&package.manifest_path));
        Ok(Self {
            others: others.filter(|other| !packages.contains(other)).collect(),
            packages,
            workspace: metadata.workspace_root.as_std_path().to_owned(),
            target: metadata.target_directory.as_std_path().to_owned(),
        })
    }
}

/// Returns the manifests of the local packages that the server depends on, directly or not, and its own.
fn path_dependencies(server: &Server, metadata: &Metadata) -> Vec<Utf8PathBuf> {
    let Some(resolve) = &metadata.resolve else { return Vec::new() };
    let mut pending = vec![&server.package.id];
    let mut seen = HashSet::new();
    while let Some(id) = pending.pop() {
        if seen.insert(id) {
            pending.extend(resolve.nodes.iter().filter(|node| node.id == *id).flat_map(|node| &node.dependencies));
        }
    }
    let local = metadata.packages.iter().filter(|package| package.source.is_none() && seen.contains(&package.id));
    local.map(|package| package.manifest_path.clone()).collect()
}

fn parent(manifest: &Utf8PathBuf) -> Option<PathBuf> {
    manifest.parent().map(|directory| Path::to_owned(directory.as_std_path()))
}
