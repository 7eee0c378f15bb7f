//! Servers as processes.

use std::{
    ffi::OsString,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use mcp_redis::Redis;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    time::sleep,
};

/// The time in which servers must be ready.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The executables of the servers to test, from the environment variable `REDIS_SERVERS`.
pub(crate) fn programs() -> Vec<PathBuf> {
    let programs = std::env::var_os("REDIS_SERVERS").expect("run tests/redis/run, which installs servers");
    std::env::split_paths(&programs).collect()
}

/// A running server, which is killed when it is dropped.
pub(crate) struct Server {
    program: PathBuf,
    arguments: Vec<OsString>,
    directory: TempDir,
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    /// Starts a server with further options, and waits until it accepts commands. It keeps all data on disk.
    pub(crate) async fn start(program: &Path, options: &[&str]) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let port = free_port();
        let common = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "always"];
        let mut arguments: Vec<OsString> = vec!["--port".into(), port.to_string().into()];
        arguments.extend(["--dir".into(), directory.path().into()]);
        arguments.extend(common.iter().chain(options).map(Into::into));
        let child = spawn(program, &arguments);
        let server = Self { program: program.to_owned(), arguments, directory, child, port };
        server.ready().await;
        server
    }

    /// Starts a sentinel of a server.
    pub(crate) async fn sentinel(program: &Path, master: &Server) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let port = free_port();
        let file = directory.path().join("sentinel.conf");
        let configuration = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n",
            directory.path().display(),
            master.port
        );
        fs::write(&file, configuration).expect("the configuration is written");
        let arguments = vec![file.into(), "--sentinel".into()];
        let child = spawn(program, &arguments);
        let server = Self { program: program.to_owned(), arguments, directory, child, port };
        server.ready().await;
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) async fn connect(&self) -> Redis {
        Redis::connect(&self.url()).await.expect("the server accepts connections")
    }

    /// Kills the process without warning.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the process can be killed");
        self.child.wait().expect("the process ends");
    }

    /// Starts the server again with the same data.
    pub(crate) async fn restart(&mut self) {
        assert!(self.directory.path().exists());
        self.child = spawn(&self.program, &self.arguments);
        self.ready().await;
    }

    /// Stops the process without closing its connections, or continues it.
    pub(crate) fn pause(&self, is_paused: bool) {
        let signal = if is_paused { "-STOP" } else { "-CONT" };
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(status.expect("`kill` exists").success());
    }

    /// Executes an inline command, and returns its first response line, or the bulk string that follows it.
    pub(crate) async fn command(&self, command: &str) -> String {
        self.try_command(command).await.unwrap_or_else(|error| panic!("`{command}`: {error}"))
    }

    async fn try_command(&self, command: &str) -> std::io::Result<String> {
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", self.port)).await?);
        stream.write_all(format!("{command}\r\n").as_bytes()).await?;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some(length) = line.strip_prefix('$') else { return Ok(line.trim_end().to_owned()) };
        let mut bulk = vec![0; length.trim_end().parse().unwrap_or(0)];
        stream.read_exact(&mut bulk).await?;
        Ok(String::from_utf8_lossy(&bulk).into_owned())
    }

    async fn ready(&self) {
        self.until("PING", |response| response == "+PONG").await;
    }

    /// Repeats a command until its response is as expected.
    pub(crate) async fn until(&self, command: &str, expected: impl Fn(&str) -> bool) {
        let start = Instant::now();
        loop {
            let response = self.try_command(command).await.unwrap_or_else(|error| error.to_string());
            if expected(&response) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "`{command}`: {response}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have been killed before.
        let _: Result<_, _> = self.child.kill();
        let _: Result<_, _> = self.child.wait();
    }
}

/// Three servers that form a cluster.
pub(crate) async fn cluster(program: &Path) -> Vec<Server> {
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
    let mut servers = Vec::new();
    for slots in ["0 5460", "5461 10922", "10923 16383"] {
        let server = Server::start(program, &options).await;
        assert_eq!(server.command(&format!("CLUSTER ADDSLOTSRANGE {slots}")).await, "+OK");
        servers.push(server);
    }
    for server in &servers[1..] {
        assert_eq!(server.command(&format!("CLUSTER MEET 127.0.0.1 {}", servers[0].port)).await, "+OK");
    }
    for server in &servers {
        let is_complete = |info: &str| info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3");
        server.until("CLUSTER INFO", is_complete).await;
    }
    servers
}

/// The URL of a cluster.
pub(crate) fn cluster_url(servers: &[Server]) -> String {
    let nodes: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    format!("redis+cluster://{}", nodes.join(","))
}

fn spawn(program: &Path, arguments: &[OsString]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("`{}`: {error}", program.display()))
}

/// Returns a port that is free, as is the one that a cluster derives from it.
///
/// It is below the ports that systems assign to connections, so nothing takes it before the server listens, or while the server restarts.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        // Processes begin at different ports. No two tests of a process are given the same one.
        let offset = std::process::id().wrapping_mul(100).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000;
        let port = 10_000 + u16::try_from(offset).expect("it is below 10,000");
        if [port, port + 10_000].iter().all(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return port;
        }
    }
}
