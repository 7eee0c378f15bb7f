//! Workloads, start-up times and memory.

use std::{collections::HashMap, path::Path};

use crate::{
    error::Result,
    http,
    machine::Cores,
    message::{Operation, Revision},
    sample::{Durations, Sample, median},
    server::{Implementation, Process, Program},
    stdio,
};

/// The default number of tools of a server.
pub const TOOLS: usize = 103;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    Stdio,
    Http(Revision),
}

/// The requests that a client sends, and how many at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Workload {
    pub transport: Transport,
    pub operation: Operation,
    /// The number of calls in flight. Over HTTP, also the number of connections.
    pub in_flight: usize,
    pub tools: usize,
    /// Whether the server has two cores, and thus two workers over HTTP, instead of one.
    pub two_workers: bool,
}

impl Workload {
    const fn stdio(operation: Operation, in_flight: usize) -> Self {
        Self { transport: Transport::Stdio, operation, in_flight, tools: TOOLS, two_workers: false }
    }

    const fn http(revision: Revision, operation: Operation, in_flight: usize) -> Self {
        Self { transport: Transport::Http(revision), operation, in_flight, tools: TOOLS, two_workers: false }
    }

    const fn with_tools(self, tools: usize) -> Self {
        Self { tools, ..self }
    }

    /// Returns the implementations that support the workload: the limit has a fixed number of tools.
    fn implementations(&self) -> impl Iterator<Item = Implementation> {
        let is_usual = self.tools == TOOLS;
        Implementation::ALL
            .into_iter()
            .filter(move |&implementation| is_usual || implementation != Implementation::Limit)
    }

    pub fn title(&self) -> String {
        let transport = match self.transport {
            Transport::Stdio => "stdio".to_owned(),
            Transport::Http(revision) => format!("HTTP {}", revision.as_str()),
        };
        let operation = match self.operation {
            Operation::Echo => "echo".to_owned(),
            Operation::BigEcho => "echo of 1 MiB".to_owned(),
            Operation::Add => "add".to_owned(),
            Operation::Search => "search".to_owned(),
            Operation::List(tools) => format!("tools/list of {tools}"),
            Operation::Task => "small task".to_owned(),
        };
        let load = match (self.transport, self.in_flight) {
            (_, 1) => "one at a time".to_owned(),
            (Transport::Stdio, calls) => format!("{calls} in flight"),
            (Transport::Http(_), connections) => format!("{connections} connections"),
        };
        match self.tools {
            TOOLS if self.two_workers => format!("{transport}: {operation}, {load}, 2 workers"),
            TOOLS => format!("{transport}: {operation}, {load}"),
            1 => format!("{transport}: {operation}, {load}, 1 tool"),
            tools => format!("{transport}: {operation}, {load}, {tools} tools"),
        }
    }
}

pub const STDIO_ECHO_64: Workload = Workload::stdio(Operation::Echo, 64);
pub const STDIO_ECHO: Workload = Workload::stdio(Operation::Echo, 1);
pub const STDIO_SEARCH: Workload = Workload::stdio(Operation::Search, 1);
pub const STDIO_LIST: Workload = Workload::stdio(Operation::List(TOOLS), 1);
pub const HTTP_ECHO_SESSION: Workload = Workload::http(Revision::Session, Operation::Echo, 16);
pub const HTTP_ECHO_STATELESS: Workload = Workload::http(Revision::Stateless, Operation::Echo, 16);
pub const TWO_WORKERS: Workload = Workload { two_workers: true, ..HTTP_ECHO_SESSION };
pub const STDIO_BIG_ECHO: Workload = Workload::stdio(Operation::BigEcho, 1);
pub const HTTP_BIG_ECHO_SESSION: Workload = Workload::http(Revision::Session, Operation::BigEcho, 1);
pub const HTTP_BIG_ECHO_STATELESS: Workload = Workload::http(Revision::Stateless, Operation::BigEcho, 1);
pub const ONE_TOOL: Workload = STDIO_ECHO_64.with_tools(1);
pub const THOUSAND_TOOLS: Workload = STDIO_ECHO_64.with_tools(1000);

pub const ALL: [Workload; 14] = [
    STDIO_ECHO_64,
    STDIO_ECHO,
    STDIO_SEARCH,
    Workload::stdio(Operation::Search, 64),
    STDIO_BIG_ECHO,
    STDIO_LIST,
    HTTP_ECHO_SESSION,
    TWO_WORKERS,
    HTTP_ECHO_STATELESS,
    Workload::http(Revision::Stateless, Operation::Search, 16),
    HTTP_BIG_ECHO_SESSION,
    HTTP_BIG_ECHO_STATELESS,
    ONE_TOOL,
    THOUSAND_TOOLS,
];

/// The folder of the servers.
pub struct Programs<'a> {
    pub folder: &'a Path,
}

impl Programs<'_> {
    pub fn named(&self, name: &str) -> Program {
        Program::new(self.folder.join(name))
    }

    pub fn of(&self, implementation: Implementation, workload: &Workload) -> Program {
        match (implementation, workload.transport, workload.tools) {
            (Implementation::Ours, _, 1) => self.named("ours-one"),
            (Implementation::Ours, _, 1000) => self.named("ours-thousand"),
            (Implementation::Ours, ..) => self.named("ours"),
            (Implementation::Peer, _, tools) => self.named("peer").words(&["--tools", &tools.to_string()]),
            (Implementation::Limit, Transport::Stdio, _) => self.named("limit-stdio"),
            (Implementation::Limit, Transport::Http(_), _) => self.named("limit-http"),
        }
    }
}

/// The samples of all rounds.
#[derive(Default)]
pub struct Samples(HashMap<(Workload, Implementation), Vec<Sample>>);

impl Samples {
    /// Returns the median of a value over the rounds.
    pub fn median(
        &self,
        workload: Workload,
        implementation: Implementation,
        value: impl Fn(&Sample) -> f64,
    ) -> Option<f64> {
        let samples = self.0.get(&(workload, implementation))?;
        Some(median(samples.iter().map(value).collect()))
    }

    /// Measures each workload whose title contains `part` once. The implementations take turns, so that noise affects
    /// all of them alike.
    pub fn round(&mut self, programs: &Programs<'_>, cores: &Cores, durations: Durations, part: &str) -> Result<()> {
        for workload in ALL.into_iter().filter(|workload| workload.title().contains(part)) {
            for implementation in workload.implementations() {
                let sample = measure(&programs.of(implementation, &workload), &workload, cores, durations)
                    .map_err(|failure| failure.during(format_args!("{implementation}, {}", workload.title())))?;
                self.0.entry((workload, implementation)).or_default().push(sample);
            }
        }
        Ok(())
    }
}

pub fn measure(program: &Program, workload: &Workload, cores: &Cores, durations: Durations) -> Result<Sample> {
    let cores = &if workload.two_workers { cores.two()? } else { *cores };
    match workload.transport {
        Transport::Stdio => {
            let mut process = program.stdio(cores)?;
            let mut client = stdio::Client::connect(&mut process)?;
            client.load(&process, workload.operation, workload.in_flight, durations)
        }
        Transport::Http(revision) => {
            let (process, address) = program.http(cores)?;
            http::Client::connect(address, revision)?.load(&process, workload.operation, workload.in_flight, durations)
        }
    }
}

/// Checks that every server responds correctly to every request.
pub fn verify(programs: &Programs<'_>, cores: &Cores) -> Result<()> {
    for implementation in Implementation::ALL {
        verify_one(programs, implementation, cores).map_err(|failure| failure.during(implementation))?;
    }
    Ok(())
}

fn verify_one(programs: &Programs<'_>, implementation: Implementation, cores: &Cores) -> Result<()> {
    let operations = [Operation::Echo, Operation::Add, Operation::Search, Operation::BigEcho, Operation::List(TOOLS)];
    let mut process: Process = programs.of(implementation, &STDIO_ECHO).stdio(cores)?;
    let mut client = stdio::Client::connect(&mut process)?;
    for operation in operations {
        client.call(operation, 2)?;
    }
    for revision in [Revision::Session, Revision::Stateless] {
        let (_process, address) = programs.of(implementation, &HTTP_ECHO_SESSION).http(cores)?;
        let mut connection = http::Connection::open(address)?;
        let client = http::Client::connect_on(&mut connection, revision)?;
        for operation in operations {
            client.call(&mut connection, operation, 2)?;
        }
    }
    Ok(())
}

/// The times from the start of a process until its `initialize` response, in seconds.
#[derive(Default)]
pub struct Starts(HashMap<Implementation, Vec<f64>>);

impl Starts {
    pub fn median(&self, implementation: Implementation) -> Option<f64> {
        self.0.get(&implementation).map(|times| median(times.clone()))
    }

    pub fn round(&mut self, programs: &Programs<'_>, cores: &Cores, times: usize) -> Result<()> {
        for _ in 0..times {
            for (implementation, name) in [
                (Implementation::Peer, "smallest-peer-stdio"),
                (Implementation::Limit, "limit-stdio"),
                (Implementation::Ours, "smallest-ours-stdio"),
            ] {
                let mut process = programs.named(name).stdio(cores)?;
                let began = process.began;
                stdio::Client::connect(&mut process).map_err(|failure| failure.during(name))?;
                self.0.entry(implementation).or_default().push(began.elapsed().as_secs_f64());
            }
        }
        Ok(())
    }
}
