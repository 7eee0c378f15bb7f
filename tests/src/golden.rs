//! Golden files: one per case and revision.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use mcp_runtime::Revision;
use serde_json::Value;

/// The command that writes every golden file, including those of a new revision.
pub const UPDATE: &str = "UPDATE_GOLDEN=1 cargo test --workspace --test it golden";

/// The golden files of one revision in one folder.
#[derive(Debug)]
pub struct GoldenFiles {
    revision: Revision,
    folder: PathBuf,
    updates: bool,
    known: BTreeSet<String>,
    problems: Vec<String>,
}

impl GoldenFiles {
    /// Opens the folder of a revision, below `tests/golden` and `group`.
    pub fn open(group: &str, revision: Revision) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(group).join(revision.as_str());
        let updates = std::env::var_os("UPDATE_GOLDEN").is_some();
        let mut problems = Vec::new();
        if updates {
            fs::create_dir_all(&folder).unwrap();
        } else if !folder.is_dir() {
            problems.push(format!("{revision} has no golden files in {}\nhelp: run `{UPDATE}`", folder.display()));
        }
        Self { revision, folder, updates, known: BTreeSet::new(), problems }
    }

    /// Reports a problem with a case.
    pub fn report(&mut self, case: &str, problem: &str) {
        self.problems.push(format!("{}/{case}: {problem}", self.revision));
    }

    /// Compares a case with its file, or writes the file if `UPDATE_GOLDEN` is set.
    ///
    /// # Panics
    ///
    /// Panics if two cases have the same name, or if the file cannot be written.
    pub fn check(&mut self, case: &str, recorded: &Value) {
        let name = format!("{case}.json");
        assert!(self.known.insert(name.clone()), "duplicate case `{case}`");
        // The order of members is tested separately. Sorted, they are easier to compare.
        let mut recorded = recorded.clone();
        recorded.sort_all_objects();
        let (file, recorded) = (self.folder.join(name), format!("{recorded:#}\n"));
        if self.updates {
            fs::write(file, recorded).unwrap();
        } else if self.folder.is_dir() && fs::read_to_string(&file).unwrap_or_default() != recorded {
            self.report(case, &format!("differs from the golden file (`{UPDATE}` accepts this output)\n{recorded}"));
        }
    }

    /// Returns the problems, including files that belong to no case.
    pub fn finish(mut self) -> Vec<String> {
        for file in fs::read_dir(&self.folder).into_iter().flatten() {
            let name = file.unwrap().file_name().into_string().unwrap();
            if !self.known.contains(&name) {
                self.report(&name, "belongs to no case");
            }
        }
        self.problems
    }
}
