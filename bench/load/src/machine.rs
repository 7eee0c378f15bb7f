//! The machine: its cores and its description.

use std::{
    fs,
    process::{Command, Stdio},
    thread,
};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

use crate::error::{Failure, Result};

/// One core for the load and another for the server.
#[derive(Debug, Clone, Copy)]
pub struct Cores {
    load: usize,
    server: CpuSet,
    all: CpuSet,
}

impl Cores {
    /// Claims the first and the last core that this process may use, and pins this thread to the first.
    pub fn claim() -> Result<Self> {
        let all = sched_getaffinity(this_thread())?;
        let mut cores = (0..CpuSet::count()).filter(|&core| all.is_set(core).unwrap_or(false));
        let load = cores.next().unwrap_or(0);
        let server = cores.next_back().unwrap_or(load);
        if load == server {
            eprintln!("only one core is available: load and servers share it, so the numbers are not meaningful");
        }
        sched_setaffinity(this_thread(), &only(load)?)?;
        Ok(Self { load, server: only(server)?, all })
    }

    /// Returns the cores for servers that may use all of them.
    pub fn any(&self) -> Self {
        Self { server: self.all, ..*self }
    }

    /// Returns the cores for a server with two workers. Of only two cores, the load uses one as well.
    pub fn two(&self) -> Result<Self> {
        let mut server = CpuSet::new();
        let is_allowed = |&core: &usize| self.all.is_set(core).unwrap_or(false);
        (0..CpuSet::count()).rev().filter(is_allowed).take(2).try_for_each(|core| server.set(core))?;
        Ok(Self { server, ..*self })
    }

    /// Returns the cores for one of several servers. Each has its own core if there are enough.
    pub fn of_replica(&self, number: usize) -> Result<Self> {
        let is_free = |&core: &usize| core != self.load && self.all.is_set(core).unwrap_or(false);
        let free: Vec<_> = (0..CpuSet::count()).rev().filter(is_free).collect();
        let server = free.get(number % free.len().max(1)).copied().unwrap_or(self.load);
        Ok(Self { server: only(server)?, ..*self })
    }

    /// Runs a function on the servers' core. Processes that it starts stay there.
    pub fn on_server<T: Send>(&self, run: impl FnOnce() -> T + Send) -> Result<T> {
        on(&self.server, run)
    }

    /// Runs a function on all cores.
    pub fn on_all<T: Send>(&self, run: impl FnOnce() -> T + Send) -> Result<T> {
        on(&self.all, run)
    }
}

fn on<T: Send>(cores: &CpuSet, run: impl FnOnce() -> T + Send) -> Result<T> {
    let run = || {
        sched_setaffinity(this_thread(), cores)?;
        Ok(run())
    };
    thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|_| Err(Failure::new("a thread panicked")))
}

fn only(core: usize) -> Result<CpuSet> {
    let mut cores = CpuSet::new();
    cores.set(core)?;
    Ok(cores)
}

fn this_thread() -> Pid {
    Pid::from_raw(0)
}

/// Returns whether a program is installed.
pub fn has_program(name: &str) -> bool {
    let run = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

fn core_count() -> usize {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines().filter(|line| line.starts_with("processor")).count()
}

/// Describes the machine and the compiler.
pub fn describe() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown processor");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{}, {} ({} cores), Linux {}, {}",
        output_of("date", &["-u", "+%F"]),
        model.trim_start_matches(['\t', ' ', ':']),
        core_count(),
        kernel.trim(),
        output_of("rustc", &["--version"]),
    )
}

fn output_of(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}
