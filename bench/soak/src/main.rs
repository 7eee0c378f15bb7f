//! Serves clients of all revisions over stdio and HTTP for a given time, well-behaved and abusive ones, and fails if
//! anything grows:
//!
//! ```console
//! $ cargo run --release --manifest-path bench/Cargo.toml -p soak --bin soak -- --minutes 60
//! ```
//!
//! After a warm-up with the same load, the clients pause until everything that they abandoned has expired. Then the
//! figures are read for the first time, and again after the load and another pause.

mod abusive;
mod connection;
mod figures;
mod limits;
mod load;
mod polite;
mod stdio;

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    path::PathBuf,
    process::{ExitCode, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    abusive::Abuse,
    connection::{Client, STATELESS, call},
    figures::Figures,
    limits::MAX_IN_FLIGHT,
    load::Load,
    stdio::StdioClient,
};

const VERSIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", STATELESS];
/// The duration of the warm-up, unless the load is shorter.
const WARM_UP: Duration = Duration::from_secs(60);
/// The time after which everything that was abandoned has expired. Sessions are searched every 30 seconds.
const PAUSE: Duration = Duration::from_secs(45);
/// The time after the load within which the last operation of each client ends.
const END: Duration = Duration::from_secs(60);
/// The time between two lines of progress.
const INTERVAL: Duration = Duration::from_secs(60);

/// The number of times that each figure is read. A server releases a large buffer after 16 small messages.
const READINGS: usize = 20;
/// The time between two readings over HTTP, within which the calls that took the permits end.
const BETWEEN_READINGS: Duration = Duration::from_millis(200);
/// The duration of the calls that take all permits, in milliseconds, within which all of them have to begin.
const HOLD_MILLISECONDS: u64 = 5000;

/// The HTTP server, and a process for each client over stdio.
struct Servers {
    child: Child,
    http: Http,
    stdio: Vec<StdioClient>,
}

/// The HTTP server, as an observer sees it.
#[derive(Clone, Copy)]
struct Http {
    pid: u32,
    address: SocketAddr,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<ExitCode> {
    let mut words = std::env::args().skip(1);
    let minutes = match (words.next().as_deref(), words.next(), words.next()) {
        (Some("--minutes"), Some(number), None) => number.parse::<f64>().ok(),
        _ => None,
    };
    let Some(minutes) = minutes.filter(|minutes| *minutes > 0.0) else {
        eprintln!("usage: soak --minutes N");
        return Ok(ExitCode::from(2));
    };
    let duration = Duration::from_secs_f64(minutes * 60.0);
    let mut failures = Vec::new();
    let mut servers = Servers::start().await?;
    servers.load(duration.min(WARM_UP), &mut failures).await?;
    let before = servers.figures().await?;
    let operations = servers.load(duration, &mut failures).await?;
    let after = servers.figures().await?;

    println!("{operations} operations in {minutes} minutes");
    for ((name, before), (_, after)) in before.iter().zip(&after) {
        println!("{name:16} before: {before}\n{:16} after:  {after}", "");
        failures.extend(after.growth(before).into_iter().map(|growth| format!("{name}: {growth}")));
    }
    failures.extend(servers.stop().await?);
    for failure in &failures {
        println!("failed: {failure}");
    }
    let failed = usize::from(!failures.is_empty());
    println!("{} passed, {failed} failed", 1 - failed);
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Servers {
    async fn start() -> io::Result<Self> {
        let program: PathBuf = std::env::current_exe()?.with_file_name("soaked");
        let mut command = Command::new(&program);
        command.arg("--http").stdin(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let stderr = child.stderr.take().ok_or_else(|| io::Error::other("no pipe"))?;
        let mut lines = BufReader::new(stderr).lines();
        let line = lines.next_line().await?.unwrap_or_default();
        let address = line.split_once("http://").and_then(|(_, address)| address.parse().ok());
        let address = address.ok_or_else(|| io::Error::other(format!("no address in {line:?}")))?;
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let mut stdio = Vec::new();
        for version in VERSIONS {
            stdio.push(StdioClient::start(&program, version).await?);
        }
        let pid = child.id().ok_or_else(|| io::Error::other("the HTTP server has ended"))?;
        Ok(Self { child, http: Http { pid, address }, stdio })
    }

    /// Runs all clients, waits until everything has expired, and returns the number of operations.
    async fn load(&mut self, duration: Duration, failures: &mut Vec<String>) -> io::Result<u64> {
        let load = Load::default();
        let http = self.http;
        let mut clients = JoinSet::new();
        let mut names = HashMap::new();
        let client = clients.spawn(polite::legacy_client(load.clone(), http.address, 1));
        names.insert(client.id(), VERSIONS[0].to_owned());
        for (number, version) in (2..).zip(&VERSIONS[1..]) {
            let client = clients.spawn(polite::client(load.clone(), http.address, number, version));
            names.insert(client.id(), (*version).to_owned());
        }
        for (number, abuse) in (10..).zip(Abuse::ALL) {
            let client = clients.spawn(abusive::client(load.clone(), http.address, number, abuse));
            names.insert(client.id(), format!("{abuse:?}"));
        }
        let began = Instant::now();
        let progress = async {
            while began.elapsed() < duration {
                sleep(INTERVAL.min(duration.saturating_sub(began.elapsed()))).await;
                let figures = http.figures().await?;
                println!("{:5} s  {:8} operations  {figures}", began.elapsed().as_secs(), load.operations());
            }
            load.end();
            io::Result::Ok(())
        };
        let pipes = self.stdio.iter_mut().map(|client| client.run(&load));
        let (outcome, ()) = tokio::join!(progress, all(pipes, &load));
        outcome?;
        let ended = timeout(END, async {
            while let Some(ended) = clients.join_next_with_id().await {
                names.remove(&ended.map_or_else(|error| error.id(), |(id, ())| id));
            }
        });
        if ended.await.is_err() {
            failures.extend(names.values().map(|name| format!("the client {name} waits forever")));
            clients.shutdown().await;
        }
        failures.extend(load.failures());
        for client in &mut self.stdio {
            failures.extend(client.settle().await);
        }
        // Requests trigger the search for expired sessions.
        let paused = Instant::now();
        while paused.elapsed() < PAUSE {
            sleep(Duration::from_secs(1)).await;
            http.alive().await?;
        }
        Ok(load.operations())
    }

    /// Reads the figures of all servers.
    async fn figures(&mut self) -> io::Result<Vec<(String, Figures)>> {
        let permits = self.http.free_permits().await?;
        let mut least = Figures { permits, ..self.http.figures().await? };
        for _ in 0..READINGS {
            sleep(BETWEEN_READINGS).await;
            least = least.least(&self.http.figures().await?);
        }
        let mut all = vec![("HTTP".to_owned(), least)];
        for client in &mut self.stdio {
            let pid = client.pid().ok_or_else(|| io::Error::other("the process has ended"))?;
            let mut least = Figures::read(pid)?.with(&client.ask("alive").await?);
            for _ in 0..READINGS {
                least = least.least(&Figures::read(pid)?.with(&client.ask("alive").await?));
            }
            all.push((format!("stdio {}", client.version), least));
        }
        Ok(all)
    }

    /// Ends the input of each server, and returns which did not end as they should.
    async fn stop(mut self) -> io::Result<Vec<String>> {
        let mut failures = Vec::new();
        drop(self.child.stdin.take());
        let ended = timeout(Duration::from_secs(10), self.child.wait()).await;
        if !ended.is_ok_and(|status| status.is_ok_and(|status| status.success())) {
            failures.push("the HTTP server did not stop".to_owned());
        }
        for client in self.stdio {
            let version = client.version;
            if !client.stop().await {
                failures.push(format!("the server of {version} over stdio did not stop"));
            }
        }
        Ok(failures)
    }
}

impl Http {
    async fn figures(self) -> io::Result<Figures> {
        // Measured before the call, because the server would still be closing the connection of the call.
        let figures = Figures::read(self.pid)?;
        Ok(figures.with(&self.alive().await?))
    }

    async fn alive(self) -> io::Result<Value> {
        let (head, messages) = self.observer().send(&call(1, "alive", &json!({}))).await?;
        let result = messages.last().map(|message| message["result"]["structuredContent"].clone());
        result.ok_or_else(|| io::Error::other(format!("status {}", head.status)))
    }

    /// Returns how many calls another client can have in flight.
    async fn free_permits(self) -> io::Result<u64> {
        let mut calls = Vec::new();
        let message = call(1, "wait", &json!({"milliseconds": HOLD_MILLISECONDS}));
        for _ in 0..=MAX_IN_FLIGHT {
            let mut connection = self.observer().connect().await?;
            connection.write(&self.observer().post(&message)).await?;
            calls.push(connection);
        }
        let mut admitted = 0;
        for mut connection in calls {
            admitted += u64::from(connection.response().await?.0.status == 200);
        }
        Ok(admitted)
    }

    fn observer(self) -> Client {
        Client::new(self.address, 200, STATELESS)
    }
}

/// Waits for several clients.
async fn all(clients: impl Iterator<Item = impl Future<Output = io::Result<()>>>, load: &Load) {
    let mut clients: Vec<_> = clients.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        clients.retain_mut(|client| match client.as_mut().poll(cx) {
            std::task::Poll::Ready(outcome) => {
                load.expect(outcome.map(|()| true), "a client over stdio", "");
                false
            }
            std::task::Poll::Pending => true,
        });
        if clients.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
