//! Echo in sessions, over HTTP.

use crate::{
    error::Result,
    http::Client,
    message::{Operation, Revision},
    replicas::{
        Bench,
        deployment::{Backend, Deployment},
        figures::Figures,
    },
    sample::{Durations, Meter, WARM_UP},
    table::Unit,
};

const PART: &str = "echo";
/// The number of connections to each replica, each with a session of its own that is used at all replicas.
const CONNECTIONS: usize = 16;

/// The throughput and cost of a deployment.
struct Speed {
    rate: f64,
    cpu: f64,
}

pub fn measure(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    let memory = measure_one(bench, figures, Backend::Memory)?;
    let one = measure_one(bench, figures, Backend::Redis { replicas: 1 })?;
    let three = measure_one(bench, figures, Backend::Redis { replicas: 3 })?;
    let mut ratios = figures.of(PART, "Redis, 1 replica / memory");
    ratios.add("calls/s", Unit::Ratio, one.rate / memory.rate).at_least(0.6);
    ratios.add("CPU time of replicas per call", Unit::Ratio, one.cpu / memory.cpu);
    let mut ratios = figures.of(PART, "Redis, 3 replicas / 1 replica");
    ratios.add("calls/s", Unit::Ratio, three.rate / one.rate);
    // Processes that share a core also share its caches.
    ratios.add("CPU time of replicas per call", Unit::Ratio, three.cpu / one.cpu).at_most(1.1);
    Ok(())
}

fn measure_one(bench: &Bench<'_>, figures: &mut Figures, backend: Backend) -> Result<Speed> {
    let deployment = Deployment::start(bench, backend)?;
    let mut connection = deployment.connect(0)?;
    let sessions = (0..CONNECTIONS).map(|_| Client::connect_on(&mut connection, Revision::Session));
    let sessions: Vec<_> = sessions.collect::<Result<_>>()?;
    for number in 0..deployment.replicas.len() {
        let mut connection = deployment.connect(number)?;
        for session in &sessions {
            session.call(&mut connection, Operation::Echo, WARM_UP)?;
        }
    }
    let load = |durations| {
        let mut callers = Vec::new();
        for session in &sessions {
            for number in 0..deployment.replicas.len() {
                callers.push((session, deployment.connect(number)?));
            }
        }
        Client::load_all(callers, Operation::Echo, Meter::new(deployment.processes(), durations)?)
    };
    let Durations { warm_up, measured } = bench.durations;
    load(Durations { warm_up: measured / 100, measured: warm_up })?;
    let before = deployment.work()?;
    let sample = load(Durations { warm_up: measured / 100, measured })?;
    let work = deployment.work_since(&before)?;
    let mut subject = figures.of(PART, backend);
    subject.add("calls/s", Unit::Rate, sample.rate);
    subject.add_times(&work, "call", sample.calls);
    if deployment.redis.is_some() {
        // The leases of the replicas are renewed.
        subject.add_commands(&work, "1,000 calls", sample.calls as f64 / 1e3).at_most(1.0);
    }
    subject.add("p99", Unit::Seconds, sample.p99);
    subject.add_peaks(&deployment)?;
    Ok(Speed { rate: sample.rate, cpu: sample.cpu })
}
