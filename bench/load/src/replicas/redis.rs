//! A Redis server, and its statistics.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use crate::{
    error::{Failure, Result},
    machine::Cores,
    server::{Process, Program},
};

/// The time in which Redis starts.
const START: Duration = Duration::from_secs(30);

/// A Redis server without persistence.
pub struct Redis {
    pub process: Process,
    address: SocketAddr,
}

/// The number of times that each command was run, including those of scripts.
pub type Commands = BTreeMap<String, u64>;

impl Redis {
    /// Starts Redis on a free port, on any core, and waits until it listens.
    pub fn start(cores: &Cores) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let port = address.port().to_string();
        let program =
            Program::new("redis-server".into()).words(&["--bind", "127.0.0.1", "--port", &port, "--save", ""]);
        let redis = Self { process: program.background(&cores.any())?, address };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            if began.elapsed() > START {
                return Err(Failure::new("redis-server does not listen"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(redis)
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Returns the memory in use, in bytes.
    pub fn memory(&self) -> Result<f64> {
        let memory = self.info("memory")?;
        let used = memory.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok());
        used.ok_or_else(|| Failure::new(format!("no `used_memory` in {memory}")))
    }

    pub fn commands(&self) -> Result<Commands> {
        let parse = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls = rest.split(',').next()?.parse().ok()?;
            (name != "info").then(|| (name.to_owned(), calls))
        };
        Ok(self.info("commandstats")?.lines().filter_map(parse).collect())
    }

    fn info(&self, section: &str) -> Result<String> {
        let mut reader = BufReader::new(TcpStream::connect(self.address)?);
        write!(reader.get_mut(), "INFO {section}\r\n")?;
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = line.trim_end().strip_prefix('$').and_then(|length| length.parse().ok());
        let mut text = vec![0; length.ok_or_else(|| Failure::new(format!("unexpected response to `INFO`: {line}")))?];
        reader.read_exact(&mut text)?;
        String::from_utf8(text).map_err(|error| Failure::new(error.to_string()))
    }
}
