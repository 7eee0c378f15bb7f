//! Situations whose memory matters as much as their time.

use std::{collections::HashMap, fmt, fs, process::Command, thread, time::Duration};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::{
    error::{Failure, Result},
    http,
    machine::{Cores, has_program},
    message::{Operation, Request, Revision},
    sample::{WARM_UP, median},
    server::{Implementation, Process},
    stdio,
    workload::{HTTP_ECHO_SESSION, Programs, STDIO_LIST, TOOLS},
};

/// The time in which a server settles before its memory is read.
const SETTLE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scenario {
    /// A client always has 16 requests for the list of tools in flight.
    PipelinedLists,
    /// Calls of a function that never returns.
    PendingCalls,
    /// Connections that are opened at once, each with a call.
    Connections,
    /// Handshakes, after which the sessions are idle.
    Sessions,
    /// Echoes over HTTPS, over HTTP/1.1 by 16 connections or over HTTP/2 by 8 streams of 4 connections, from `h2load`.
    Https(&'static [&'static str]),
}

pub const HTTPS_1: Scenario = Scenario::Https(&["--h1", "-c16"]);
pub const HTTPS_2: Scenario = Scenario::Https(&["-c4", "-m8"]);

/// The cost of a scenario.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    pub seconds: f64,
    pub bytes: f64,
}

impl Scenario {
    pub const ALL: [Self; 6] =
        [Self::PipelinedLists, Self::PendingCalls, Self::Connections, Self::Sessions, HTTPS_1, HTTPS_2];

    /// Returns the implementations that support the scenario: rmcp has no HTTPS, and the limit has neither a function that
    /// waits nor sessions.
    fn implementations(self) -> impl Iterator<Item = Implementation> {
        let excluded = match self {
            Self::PipelinedLists | Self::Connections => None,
            Self::PendingCalls | Self::Sessions => Some(Implementation::Limit),
            Self::Https(_) => Some(Implementation::Peer),
        };
        Implementation::ALL.into_iter().filter(move |&implementation| Some(implementation) != excluded)
    }

    fn measure(
        self,
        programs: &Programs<'_>,
        implementation: Implementation,
        cores: &Cores,
        quick: bool,
    ) -> Result<Cost> {
        match self {
            Self::PipelinedLists => {
                pipelined_lists(programs, implementation, cores, if quick { 2_000 } else { 100_000 })
            }
            Self::PendingCalls => pending_calls(programs, implementation, cores),
            Self::Connections => connections(programs, implementation, cores),
            Self::Sessions => sessions(programs, implementation, cores, if quick { 1_000 } else { 5_000 }),
            Self::Https(client) => https(programs, implementation, cores, client, if quick { 2_000 } else { 20_000 }),
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::PipelinedLists => "100,000 pipelined lists: CPU time, and memory afterwards",
            Self::PendingCalls => "1,000 pending calls: CPU time and memory of one",
            Self::Connections => "1,000 connections at once: CPU time and memory of one",
            Self::Sessions => "5,000 idle sessions: CPU time and memory of one",
            HTTPS_1 => "HTTPS with HTTP/1.1: echo, 16 connections: CPU time of one, and peak memory",
            Self::Https(_) => "HTTPS with HTTP/2: echo, 4 connections with 8 streams: CPU time of one, and peak memory",
        })
    }
}

/// The costs in all rounds.
#[derive(Default)]
pub struct Costs(HashMap<(Scenario, Implementation), Vec<Cost>>);

impl Costs {
    /// Returns the median of a value over the rounds.
    pub fn median(&self, scenario: Scenario, implementation: Implementation, value: fn(&Cost) -> f64) -> Option<f64> {
        let costs = self.0.get(&(scenario, implementation))?;
        Some(median(costs.iter().map(value).collect()))
    }

    /// Measures each scenario whose title contains `part` once.
    pub fn round(&mut self, programs: &Programs<'_>, cores: &Cores, quick: bool, part: &str) -> Result<()> {
        allow_many_files()?;
        for scenario in Scenario::ALL.into_iter().filter(|scenario| scenario.to_string().contains(part)) {
            if matches!(scenario, Scenario::Https(_)) && !has_program("h2load") {
                eprintln!("{scenario}: skipped, h2load is not installed");
                continue;
            }
            for implementation in scenario.implementations() {
                let cost = scenario
                    .measure(programs, implementation, cores, quick)
                    .map_err(|failure| failure.during(format_args!("{implementation}, {scenario}")))?;
                self.0.entry((scenario, implementation)).or_default().push(cost);
            }
        }
        Ok(())
    }
}

/// Raises the limit on open files of this process and of the servers that it starts.
pub fn allow_many_files() -> Result<()> {
    let (_, max) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, max, max)?)
}

/// Returns the CPU time and the growth of the resident memory while a function runs, divided by `count`, and what the
/// function returns.
fn cost_of<T>(process: &Process, count: usize, run: impl FnOnce() -> Result<T>) -> Result<(Cost, T)> {
    thread::sleep(SETTLE);
    let (cpu, memory) = (process.cpu()?, process.resident()?);
    let kept = run()?;
    thread::sleep(SETTLE);
    let seconds = (process.cpu()? - cpu).as_secs_f64() / count as f64;
    let bytes = process.resident()?.saturating_sub(memory) as f64 / count as f64;
    Ok((Cost { seconds, bytes }, kept))
}

fn pipelined_lists(
    programs: &Programs<'_>,
    implementation: Implementation,
    cores: &Cores,
    lists: usize,
) -> Result<Cost> {
    const IN_FLIGHT: usize = 16;
    let mut process = programs.of(implementation, &STDIO_LIST).stdio(cores)?;
    let mut client = stdio::Client::connect(&mut process)?;
    let list = Operation::List(TOOLS);
    client.call(list, WARM_UP)?;
    let (cost, ()) = cost_of(&process, 1, || client.pipeline(list, lists, IN_FLIGHT))?;
    Ok(cost)
}

/// Measures the memory by the allocator, since that of one call is small.
fn pending_calls(programs: &Programs<'_>, implementation: Implementation, cores: &Cores) -> Result<Cost> {
    const CALLS: usize = 1000;
    let name = if implementation == Implementation::Peer { "peer-counting" } else { "ours-counting" };
    let mut process = programs.named(name).stdio(cores)?;
    let mut client = stdio::Client::connect(&mut process)?;
    client.call(Operation::Echo, WARM_UP)?;
    let ask = Request::call("memory", Revision::Session);
    let mut memory = || allocated(&client.ask(&ask)?);
    let (_, before) = (memory()?, memory()?);
    let wait = Request::call("wait", Revision::Session);
    let (cost, after) = cost_of(&process, CALLS, || {
        client.send_all(&wait, 1..CALLS as u64 + 1)?;
        allocated(&client.ask(&ask)?)
    })?;
    Ok(Cost { bytes: (after.now - before.now) as f64 / CALLS as f64, ..cost })
}

fn connections(programs: &Programs<'_>, implementation: Implementation, cores: &Cores) -> Result<Cost> {
    const CONNECTIONS: usize = 1000;
    let (process, address) = programs.of(implementation, &HTTP_ECHO_SESSION).http(cores)?;
    let client = http::Client::connect(address, Revision::Stateless)?;
    drop(client.call_on_all(Operation::Echo, WARM_UP)?);
    let (cost, _open) = cost_of(&process, CONNECTIONS, || client.call_on_all(Operation::Echo, CONNECTIONS))?;
    Ok(cost)
}

fn sessions(programs: &Programs<'_>, implementation: Implementation, cores: &Cores, sessions: usize) -> Result<Cost> {
    /// The number of sessions before counting starts.
    const WARM_UP: usize = 200;
    let (process, address) = programs.of(implementation, &HTTP_ECHO_SESSION).http(cores)?;
    let mut connection = http::Connection::open(address)?;
    let mut open = |count: usize| {
        (0..count).try_for_each(|_| http::Client::connect_on(&mut connection, Revision::Session).map(drop))
    };
    open(WARM_UP)?;
    let (cost, ()) = cost_of(&process, sessions, || open(sessions))?;
    Ok(cost)
}

fn https(
    programs: &Programs<'_>,
    implementation: Implementation,
    cores: &Cores,
    client: &[&str],
    calls: usize,
) -> Result<Cost> {
    let name = if implementation == Implementation::Limit { "limit-tls" } else { "ours-tls" };
    let [certificate, key, body] = ["cert.pem", "key.pem", "echo.json"].map(|file| programs.folder.join(file));
    let mut call = Vec::new();
    Request::new(Operation::Echo, Revision::Stateless).write(1, &mut call);
    fs::write(&body, call)?;
    let [certificate, key, body] = [certificate, key, body].map(|path| path.display().to_string());
    let program = programs.named(name).words(&["--tls-cert", &certificate, "--tls-key", &key]);
    let (process, address) = program.http(cores)?;
    let send = |client: &[&str], calls: usize| {
        let mut command = Command::new("h2load");
        command.args(client).args(["-n", &calls.to_string(), "-d", &body]);
        for header in http::STATELESS_ECHO {
            command.args(["-H", header]);
        }
        let output = command.arg(format!("https://{address}/mcp")).output()?;
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let all = output.contains(&format!("status codes: {calls} 2xx"));
        if all { Ok(()) } else { Err(Failure::new(format!("h2load: expected {calls} responses: {output}"))) }
    };
    send(&["-c1", client[0]], WARM_UP)?;
    process.reset_peak()?;
    let (cpu, memory) = (process.cpu()?, process.resident()?);
    send(client, calls)?;
    let seconds = (process.cpu()? - cpu).as_secs_f64() / calls as f64;
    Ok(Cost { seconds, bytes: process.peak()?.saturating_sub(memory) as f64 })
}

/// The growth of the memory that a server has allocated, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Allocated {
    /// Since the first time that the server was asked.
    pub now: i64,
    /// The maximum since the previous time that the server was asked.
    pub peak: i64,
}

/// Parses the result of the tool `memory`.
pub fn allocated(response: &serde_json::Value) -> Result<Allocated> {
    let numbers = response["result"]["content"][0]["text"].as_str().and_then(|text| text.split_once(' '));
    let parsed = numbers.and_then(|(now, peak)| Some(Allocated { now: now.parse().ok()?, peak: peak.parse().ok()? }));
    parsed.ok_or_else(|| Failure::new(format!("expected two numbers of bytes: {response}")))
}
