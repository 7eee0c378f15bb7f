//! Many sessions, and a replica that is restarted while they exist.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    error::{Failure, Result},
    http::{Client, Connection, receive_all},
    message::{Operation, Request, ResponseChecker, Revision},
    replicas::{
        Bench,
        deployment::{Backend, Deployment},
        figures::Figures,
    },
    sample::WARM_UP,
    scenario::allocated,
    table::Unit,
};

const PART: &str = "sessions";
/// The number of connections on which sessions are used.
const CONNECTIONS: usize = 16;
/// The number of sessions before counting starts.
const FIRST: usize = 100;
/// The time in which a restarted replica would read sessions that nobody uses.
const IDLE: Duration = Duration::from_secs(1);

pub fn measure(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    [Backend::Memory, Backend::Redis { replicas: 1 }]
        .into_iter()
        .try_for_each(|backend| measure_one(bench, figures, backend))
}

fn measure_one(bench: &Bench<'_>, figures: &mut Figures, backend: Backend) -> Result<()> {
    let mut deployment = Deployment::start(bench, backend)?;
    open(&deployment, FIRST)?;
    let (heap, work) = (heap(&deployment)?, deployment.work()?);
    let bytes = deployment.redis.as_ref().map(|redis| redis.memory()).transpose()?;
    let sessions = open(&deployment, bench.clients)?;
    let work = deployment.work_since(&work)?;
    let per_session = |bytes: f64| bytes / bench.clients as f64;
    let mut subject = figures.of(PART, backend);
    if let (Some(redis), Some(before)) = (&deployment.redis, bytes) {
        subject.add("bytes in Redis per session", Unit::Count, per_session(redis.memory()? - before)).at_most(1024.0);
    }
    subject.add(
        "bytes on the heap of the replica per session",
        Unit::Count,
        per_session(self::heap(&deployment)? - heap),
    );
    subject.add_work(&work, "handshake", bench.clients);
    subject.add_peaks(&deployment)?;
    if deployment.redis.is_none() {
        return Ok(());
    }

    // The process is killed.
    deployment.replicas.clear();
    let mut work = deployment.work()?;
    deployment.replicas.push(deployment.replica(bench, 0)?);
    thread::sleep(IDLE);
    let idle = deployment.work_since(&work)?;
    let mut subject = figures.of(PART, "Redis, 1 replica that was restarted");
    subject.add("Redis commands before the first call", Unit::Count, idle.commands.values().sum::<u64>() as f64);
    let heap = self::heap(&deployment)?;
    for call in ["first call of a session", "second call of a session"] {
        work = deployment.work()?;
        let latencies = call_each(&deployment, &sessions)?;
        let work = deployment.work_since(&work)?;
        let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize].as_secs_f64();
        subject.add_work(&work, call, sessions.len());
        subject.add(&format!("p50 of the {call}"), Unit::Seconds, at(0.5));
        subject.add(&format!("p99 of the {call}"), Unit::Seconds, at(0.99));
    }
    subject.add(
        "bytes on the heap of the replica per session",
        Unit::Count,
        per_session(self::heap(&deployment)? - heap),
    );
    subject.add_peaks(&deployment)
}

/// Opens sessions.
fn open(deployment: &Deployment, count: usize) -> Result<Vec<Client>> {
    let mut connection = deployment.connect(0)?;
    (0..count).map(|_| Client::connect_on(&mut connection, Revision::Session)).collect()
}

/// Returns the growth of the allocated memory of the replica.
fn heap(deployment: &Deployment) -> Result<f64> {
    let mut connection = deployment.connect(0)?;
    let client = Client::connect_on(&mut connection, Revision::Stateless)?;
    client.call(&mut connection, Operation::Echo, WARM_UP)?;
    let response = client.ask(&mut connection, &Request::call("memory", Revision::Stateless), "memory")?;
    Ok(allocated(&response)?.now as f64)
}

/// Makes one call in each session, on a few connections, and returns the sorted latencies.
fn call_each(deployment: &Deployment, sessions: &[Client]) -> Result<Vec<Duration>> {
    let operation = Operation::Echo;
    let (request, mut checker) = (Request::new(operation, Revision::Session), ResponseChecker::new(operation));
    let mut connections = (0..CONNECTIONS).map(|number| deployment.connect(number)).collect::<Result<Vec<_>>>()?;
    let mut waiting = sessions.iter();
    let mut latencies = Vec::with_capacity(sessions.len());
    let mut body = Vec::new();
    let mut send = |connection: &mut Connection, checker: &mut ResponseChecker| {
        let Some(session) = waiting.next() else { return Ok(()) };
        body.clear();
        request.write(checker.send(), &mut body);
        connection.send(&session.head(Some((operation.method(), operation.tool()))), &body)
    };
    for connection in &mut connections {
        send(connection, &mut checker)?;
    }
    receive_all(&mut connections, |_, connection, response| {
        let sent: Instant = checker.receive(response.message()?)?;
        latencies.push(sent.elapsed());
        send(connection, &mut checker)?;
        Ok(latencies.len() < sessions.len())
    })?;
    latencies.sort_unstable();
    if latencies.is_empty() { Err(Failure::new("expected sessions")) } else { Ok(latencies) }
}
