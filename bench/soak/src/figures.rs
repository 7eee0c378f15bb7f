//! The resources of a process, as reported by the operating system and by the process itself.

use std::{fmt, fs, io};

use serde_json::Value;

/// The figures of a process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    pub resident: u64,
    pub heap: u64,
    pub descriptors: u64,
    pub threads: u64,
    pub tasks: u64,
    pub functions: u64,
    pub sessions: u64,
    /// The number of calls that one more client can have in flight. Only over HTTP.
    pub permits: u64,
}

/// The tolerated growth. Allocators keep freed memory, and tables their capacity.
const RESIDENT: u64 = 16 << 20;
const HEAP: u64 = 1 << 20;

impl Figures {
    /// Reads the figures that the operating system knows.
    pub fn read(pid: u32) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default()
        };
        Ok(Self {
            resident: field("VmRSS:") << 10,
            descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64,
            threads: field("Threads:"),
            ..Self::default()
        })
    }

    /// Adds the figures in the result of the tool `alive`.
    #[must_use]
    pub fn with(self, alive: &Value) -> Self {
        let own = |name: &str| alive[name].as_u64().unwrap_or_default();
        Self {
            heap: own("heap_bytes"),
            tasks: own("tasks"),
            functions: own("functions"),
            sessions: own("sessions"),
            ..self
        }
    }

    /// Returns the less of each figure in two readings. While a server is idle, a figure that differs counts something
    /// momentary, such as a connection that the server is about to close because its client just did.
    #[must_use]
    pub fn least(&self, other: &Self) -> Self {
        Self {
            resident: self.resident.min(other.resident),
            heap: self.heap.min(other.heap),
            descriptors: self.descriptors.min(other.descriptors),
            threads: self.threads.min(other.threads),
            tasks: self.tasks.min(other.tasks),
            functions: self.functions.min(other.functions),
            sessions: self.sessions.min(other.sessions),
            permits: self.permits.max(other.permits),
        }
    }

    /// Returns what has grown since `before`, although nothing is in use.
    pub fn growth(&self, before: &Self) -> Vec<String> {
        let rows = [
            ("resident memory", before.resident, self.resident, RESIDENT),
            ("heap", before.heap, self.heap, HEAP),
            ("descriptors", before.descriptors, self.descriptors, 0),
            ("threads", before.threads, self.threads, 0),
            ("tasks", before.tasks, self.tasks, 0),
            ("functions", before.functions, self.functions, 0),
            ("sessions", before.sessions, self.sessions, 0),
            ("missing permits", self.permits, before.permits, 0),
        ];
        let grown = rows.into_iter().filter(|(_, before, after, tolerance)| *after > before + tolerance);
        grown.map(|(what, before, after, _)| format!("{what} grew from {before} to {after}")).collect()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RSS {:6} KiB, heap {:6} KiB, {:3} descriptors, {} threads, {:3} tasks, {:3} functions, {:3} sessions, {:3} permits",
            self.resident >> 10,
            self.heap >> 10,
            self.descriptors,
            self.threads,
            self.tasks,
            self.functions,
            self.sessions,
            self.permits
        )
    }
}
