//! A server with its backend.

use std::{fmt, net::SocketAddr, time::Duration};

use crate::{
    error::Result,
    http::Connection,
    replicas::{
        Bench,
        redis::{Commands, Redis},
    },
    server::Process,
};

/// The backend of a server, and the number of its processes.
#[derive(Debug, Clone, Copy)]
pub enum Backend {
    /// One process without a shared backend.
    Memory,
    /// Several processes that share Redis.
    Redis { replicas: usize },
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Redis { replicas: 1 } => f.write_str("Redis, 1 replica"),
            Self::Redis { replicas } => write!(f, "Redis, {replicas} replicas"),
        }
    }
}

/// The running processes.
pub struct Deployment {
    pub replicas: Vec<Replica>,
    pub redis: Option<Redis>,
}

pub struct Replica {
    pub process: Process,
    pub address: SocketAddr,
}

/// The work of the processes since they were started.
#[derive(Debug, Default, Clone)]
pub struct Work {
    /// The CPU time of the replicas.
    pub replicas: Duration,
    /// The CPU time of Redis.
    pub redis: Duration,
    pub commands: Commands,
}

impl Deployment {
    pub fn start(bench: &Bench<'_>, backend: Backend) -> Result<Self> {
        let (redis, count) = match backend {
            Backend::Memory => (None, 1),
            Backend::Redis { replicas } => (Some(Redis::start(bench.cores)?), replicas),
        };
        let mut deployment = Self { replicas: Vec::new(), redis };
        for number in 0..count {
            deployment.replicas.push(deployment.replica(bench, number)?);
        }
        Ok(deployment)
    }

    /// Starts a replica.
    pub fn replica(&self, bench: &Bench<'_>, number: usize) -> Result<Replica> {
        let mut program = bench.programs.named("replica");
        if let Some(redis) = &self.redis {
            program = program.words(&["--backend", &redis.url()]);
        }
        let (process, address) = program.http(&bench.cores.of_replica(number)?)?;
        Ok(Replica { process, address })
    }

    /// Opens a connection to a replica. Numbers beyond the last replica start again at the first.
    pub fn connect(&self, number: usize) -> Result<Connection> {
        Connection::open(self.replicas[number % self.replicas.len()].address)
    }

    pub fn processes(&self) -> Vec<&Process> {
        self.replicas.iter().map(|replica| &replica.process).collect()
    }

    /// Returns the work of the processes since they were started.
    pub fn work(&self) -> Result<Work> {
        let mut work = Work::default();
        for replica in &self.replicas {
            work.replicas += replica.process.cpu()?;
        }
        if let Some(redis) = &self.redis {
            work.redis = redis.process.cpu()?;
            work.commands = redis.commands()?;
        }
        Ok(work)
    }

    /// Returns the work of the processes since an earlier measurement.
    pub fn work_since(&self, before: &Work) -> Result<Work> {
        let mut work = self.work()?;
        work.replicas -= before.replicas;
        work.redis -= before.redis;
        for (name, calls) in &mut work.commands {
            *calls -= before.commands.get(name).copied().unwrap_or_default();
        }
        work.commands.retain(|_, calls| *calls > 0);
        Ok(work)
    }
}
