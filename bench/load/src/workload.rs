//! What is measured with a load, in turns.

use std::{collections::HashMap, path::Path, time::Duration};

use crate::{
    error::Result,
    http,
    machine::Cores,
    message::{Era, Task},
    sample::{Length, Sample, median},
    server::{Maker, Process, Program},
    stdio,
};

/// The tools of a server that is not said to have another number.
pub const TOOLS: usize = 103;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    Stdio,
    Http(Era),
}

/// A load, and the server that bears it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Workload {
    pub transport: Transport,
    pub task: Task,
    /// Calls in flight; over HTTP, connections.
    pub in_flight: usize,
    pub tools: usize,
}

impl Workload {
    const fn stdio(task: Task, in_flight: usize) -> Self {
        Self { transport: Transport::Stdio, task, in_flight, tools: TOOLS }
    }

    const fn http(era: Era, task: Task, in_flight: usize) -> Self {
        Self { transport: Transport::Http(era), task, in_flight, tools: TOOLS }
    }

    const fn with_tools(self, tools: usize) -> Self {
        Self { tools, ..self }
    }

    /// Who can bear it: the limit has no other number of tools.
    fn makers(&self) -> impl Iterator<Item = Maker> {
        let is_usual = self.tools == TOOLS;
        Maker::ALL.into_iter().filter(move |&maker| is_usual || maker != Maker::Limit)
    }

    pub fn title(&self) -> String {
        let transport = match self.transport {
            Transport::Stdio => "stdio".to_owned(),
            Transport::Http(era) => format!("HTTP {}", era.revision()),
        };
        let task = match self.task {
            Task::Echo => "echo".to_owned(),
            Task::BigEcho => "echo of 1 MiB".to_owned(),
            Task::Add => "add".to_owned(),
            Task::Search => "search".to_owned(),
            Task::List(tools) => format!("tools/list of {tools}"),
        };
        let load = match (self.transport, self.in_flight) {
            (_, 1) => "one at a time".to_owned(),
            (Transport::Stdio, calls) => format!("{calls} in flight"),
            (Transport::Http(_), connections) => format!("{connections} connections"),
        };
        match self.tools {
            TOOLS => format!("{transport}: {task}, {load}"),
            1 => format!("{transport}: {task}, {load}, 1 tool"),
            tools => format!("{transport}: {task}, {load}, {tools} tools"),
        }
    }
}

pub const STDIO_ECHO_64: Workload = Workload::stdio(Task::Echo, 64);
pub const STDIO_ECHO: Workload = Workload::stdio(Task::Echo, 1);
pub const STDIO_SEARCH: Workload = Workload::stdio(Task::Search, 1);
pub const STDIO_LIST: Workload = Workload::stdio(Task::List(TOOLS), 1);
pub const HTTP_ECHO_SESSION: Workload = Workload::http(Era::Session, Task::Echo, 16);
pub const HTTP_ECHO_STATELESS: Workload = Workload::http(Era::Stateless, Task::Echo, 16);
pub const ONE_TOOL: Workload = STDIO_ECHO_64.with_tools(1);
pub const THOUSAND_TOOLS: Workload = STDIO_ECHO_64.with_tools(1000);

pub const ALL: [Workload; 11] = [
    STDIO_ECHO_64,
    STDIO_ECHO,
    STDIO_SEARCH,
    Workload::stdio(Task::Search, 64),
    Workload::stdio(Task::BigEcho, 1),
    STDIO_LIST,
    HTTP_ECHO_SESSION,
    HTTP_ECHO_STATELESS,
    Workload::http(Era::Stateless, Task::Search, 16),
    ONE_TOOL,
    THOUSAND_TOOLS,
];

/// Where the servers are.
pub struct Programs<'a> {
    pub folder: &'a Path,
}

impl Programs<'_> {
    pub fn named(&self, name: &str) -> Program {
        Program::new(self.folder.join(name))
    }

    fn of(&self, maker: Maker, workload: &Workload) -> Program {
        match (maker, workload.transport, workload.tools) {
            (Maker::Ours, _, 1) => self.named("ours-one"),
            (Maker::Ours, _, 1000) => self.named("ours-thousand"),
            (Maker::Ours, ..) => self.named("ours"),
            (Maker::Peer, _, tools) => self.named("peer").words(&["--tools", &tools.to_string()]),
            (Maker::Limit, Transport::Stdio, _) => self.named("limit-stdio"),
            (Maker::Limit, Transport::Http(_), _) => self.named("limit-http"),
        }
    }
}

/// What came out of all rounds.
#[derive(Default)]
pub struct Samples(HashMap<(Workload, Maker), Vec<Sample>>);

impl Samples {
    /// The median over the rounds of something that a sample tells.
    pub fn median(&self, workload: Workload, maker: Maker, value: impl Fn(&Sample) -> f64) -> Option<f64> {
        let samples = self.0.get(&(workload, maker))?;
        Some(median(samples.iter().map(value).collect()))
    }

    /// Measures each load once whose title contains `part`; the makers take turns, so that a noisy machine is as unkind to the one as to
    /// the other.
    pub fn round(&mut self, programs: &Programs<'_>, cores: &Cores, length: Length, part: &str) -> Result<()> {
        for workload in ALL.into_iter().filter(|workload| workload.title().contains(part)) {
            for maker in workload.makers() {
                let sample = measure(&programs.of(maker, &workload), &workload, cores, length)
                    .map_err(|failure| failure.during(format_args!("{maker}, {}", workload.title())))?;
                self.0.entry((workload, maker)).or_default().push(sample);
            }
        }
        Ok(())
    }
}

fn measure(program: &Program, workload: &Workload, cores: &Cores, length: Length) -> Result<Sample> {
    match workload.transport {
        Transport::Stdio => {
            let mut process = program.stdio(cores)?;
            let mut client = stdio::Client::connect(&mut process)?;
            client.load(&process, workload.task, workload.in_flight, length)
        }
        Transport::Http(era) => {
            let (process, address) = program.http(cores)?;
            http::Client::connect(address, era)?.load(&process, workload.task, workload.in_flight, length)
        }
    }
}

/// Lets every server answer everything once.
pub fn verify(programs: &Programs<'_>, cores: &Cores) -> Result<()> {
    for maker in Maker::ALL {
        verify_one(programs, maker, cores).map_err(|failure| failure.during(maker))?;
    }
    Ok(())
}

fn verify_one(programs: &Programs<'_>, maker: Maker, cores: &Cores) -> Result<()> {
    let tasks = [Task::Echo, Task::Add, Task::Search, Task::BigEcho, Task::List(TOOLS)];
    let mut process: Process = programs.of(maker, &STDIO_ECHO).stdio(cores)?;
    let mut client = stdio::Client::connect(&mut process)?;
    for task in tasks {
        client.call(task, 2)?;
    }
    for era in [Era::Session, Era::Stateless] {
        let (_process, address) = programs.of(maker, &HTTP_ECHO_SESSION).http(cores)?;
        let mut connection = http::Connection::open(address)?;
        let client = http::Client::connect_on(&mut connection, era)?;
        for task in tasks {
            client.call(&mut connection, task, 2)?;
        }
    }
    Ok(())
}

/// The time from the start of a process until `initialize` is answered, in seconds, by who made it.
#[derive(Default)]
pub struct Starts(HashMap<Maker, Vec<f64>>);

impl Starts {
    pub fn median(&self, maker: Maker) -> Option<f64> {
        self.0.get(&maker).map(|times| median(times.clone()))
    }

    pub fn round(&mut self, programs: &Programs<'_>, cores: &Cores, times: usize) -> Result<()> {
        for _ in 0..times {
            for (maker, name) in [
                (Maker::Peer, "smallest-peer-stdio"),
                (Maker::Limit, "limit-stdio"),
                (Maker::Ours, "smallest-ours-stdio"),
            ] {
                let mut process = programs.named(name).stdio(cores)?;
                let began = process.began;
                stdio::Client::connect(&mut process).map_err(|failure| failure.during(name))?;
                self.0.entry(maker).or_default().push(began.elapsed().as_secs_f64());
            }
        }
        Ok(())
    }
}

/// Tells what one idle handshake session takes, in bytes of memory.
pub fn session_memory(programs: &Programs<'_>, maker: Maker, cores: &Cores, sessions: u32) -> Result<f64> {
    /// Sessions that are there before it counts.
    const WARM_UP: u32 = 200;
    let (process, address) = programs.of(maker, &HTTP_ECHO_SESSION).http(cores)?;
    let mut connection = http::Connection::open(address)?;
    let mut open =
        |count: u32| (0..count).try_for_each(|_| http::Client::connect_on(&mut connection, Era::Session).map(drop));
    open(WARM_UP)?;
    std::thread::sleep(Duration::from_millis(100));
    let before = process.resident()?;
    open(sessions)?;
    std::thread::sleep(Duration::from_millis(100));
    Ok((process.resident()?.saturating_sub(before)) as f64 / f64::from(sessions))
}
