//! The cost of building the smallest server.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::{TimeVal, TimeValLike},
};

use crate::{
    error::{Failure, Result},
    machine::Cores,
};

/// The cost of building a package. Times are in seconds.
#[derive(Debug, Clone, Copy)]
pub struct BuildCost {
    pub cold: f64,
    /// After a change of the tool.
    pub incremental: f64,
    pub cold_release: f64,
    /// The CPU time of the cold release build, which depends less on the load of the machine.
    pub cold_release_cpu: f64,
    /// The size of the stripped executable in bytes.
    pub size: f64,
    /// The number of compiled crates.
    pub crates: f64,
}

impl BuildCost {
    /// Copies a package of `smallest/` to a separate project and builds it from scratch.
    pub fn measure(bench: &Path, scratch: &Path, name: &str, cores: &Cores) -> Result<Self> {
        let project = Project::copy(bench, scratch, name)?;
        cores.on_all(|| project.build())?.map_err(|failure| failure.during(name))
    }
}

/// Returns the CPU time of all child processes that have exited, in seconds.
fn children_cpu() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: TimeVal| time.num_microseconds() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

struct Project {
    folder: PathBuf,
    name: String,
}

impl Project {
    fn copy(bench: &Path, scratch: &Path, name: &str) -> Result<Self> {
        let (from, folder) = (bench.join("smallest").join(name), scratch.join("smallest").join(name));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("src"))?;
        let root = bench.parent().unwrap_or(bench).display().to_string();
        let manifest = fs::read_to_string(from.join("Cargo.toml"))?.replace("../../..", &root);
        fs::write(folder.join("Cargo.toml"), manifest + "\n[workspace]\n")?;
        fs::copy(from.join("src/main.rs"), folder.join("src/main.rs"))?;
        fs::copy(bench.join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(Self { folder, name: format!("smallest-{name}") })
    }

    fn build(&self) -> Result<BuildCost> {
        self.cargo(&["fetch"])?;
        let cold = self.cargo(&["build"])?;
        self.change()?;
        let incremental = self.cargo(&["build"])?;
        let before = children_cpu()?;
        let cold_release = self.cargo(&["build", "--release"])?;
        let cold_release_cpu = children_cpu()? - before;
        let program = self.folder.join("target/release").join(&self.name);
        let size = fs::metadata(program)?.len() as f64;
        Ok(BuildCost { cold, incremental, cold_release, cold_release_cpu, size, crates: self.crates()? })
    }

    /// Changes the text that the tool returns.
    fn change(&self) -> Result<()> {
        let main = self.folder.join("src/main.rs");
        let text = fs::read_to_string(&main)?;
        let changed = text.replace("Hello", "Good day");
        if changed == text {
            return Err(Failure::new("the tool contains no text to change"));
        }
        Ok(fs::write(main, changed)?)
    }

    fn crates(&self) -> Result<f64> {
        let words = ["tree", "--edges", "normal,build", "--prefix", "none", "--no-dedupe", "--format", "{p}"];
        let output = self.command(&words).output()?;
        let names: HashSet<&[u8]> =
            output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
        Ok(names.len().saturating_sub(1) as f64)
    }

    /// Runs cargo and returns the elapsed seconds.
    fn cargo(&self, words: &[&str]) -> Result<f64> {
        let began = Instant::now();
        let output = self.command(words).output()?;
        if !output.status.success() {
            return Err(Failure::new(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(began.elapsed().as_secs_f64())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command.args(words).current_dir(&self.folder).env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
        command.env("CARGO_TARGET_DIR", self.folder.join("target"));
        command
    }
}
