//! Servers for tests: examples over HTTP, and shell scripts on stdio.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    process::{Child, Command, Stdio},
};

use crate::examples::example;

/// A process that serves HTTP, killed on drop.
pub(crate) struct HttpServer {
    process: Child,
    pub(crate) url: String,
}

impl HttpServer {
    /// Starts an example on a free port.
    pub(crate) fn start(name: &str, args: &[&str]) -> Self {
        Self::spawn(Command::new(example(name)).args(["--http", "127.0.0.1:0"]).args(args))
    }

    /// Starts a command that serves HTTP and logs its address.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the server starts");
        let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains(" listens on ")).expect("the log contains the address");
        let url = line.split(" listens on ").nth(1).expect("an address").trim().to_owned();
        // Keep reading the log, so that the process does not block.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, url }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a test for every row at the same time. For tests that mostly wait for servers.
pub(crate) fn for_each_at_once<T: Send>(rows: impl IntoIterator<Item = T>, test: impl Fn(T) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for row in rows {
            scope.spawn(move || test(row));
        }
    });
}

/// Returns the URL of a server that sends the same response to every request.
pub(crate) fn server_with_response(response: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 10_000]);
            let _ = stream.write_all(response.as_bytes());
        }
    });
    format!("http://{address}/mcp")
}

/// Returns a URL at which no server listens. The system never assigns this port, so no other test can get it.
pub(crate) fn unused_url() -> String {
    "http://127.0.0.1:9/mcp".to_owned()
}

/// Returns a shell script that completes the handshake of 2025-11-25, lists the tool `it`, and runs `then` when called.
pub(crate) fn script(then: &str) -> Vec<String> {
    let initialized = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"script","version":"1"}}}"#;
    let tools = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"it","inputSchema":{"type":"object"}}]}}"#;
    let program = format!("read l; echo '{initialized}'; read l; read l; echo '{tools}'; read l; {then}");
    ["--revision", "2025-11-25", "--", "sh", "-c", &program].map(str::to_owned).to_vec()
}

/// Returns the same as [`script`], for 2026-07-28.
pub(crate) fn modern_script(then: &str) -> Vec<String> {
    let discovered = r#"{"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"script","version":"1"}}}}"#;
    let tools = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"it","inputSchema":{"type":"object"}}]}}"#;
    let program = format!("read l; echo '{discovered}'; read l; echo '{tools}'; read l; {then}");
    ["--revision", "2026-07-28", "--", "sh", "-c", &program].map(str::to_owned).to_vec()
}

/// Returns the shell commands that respond to a call of `it` with a result.
pub(crate) fn respond_to_call(result: &str) -> String {
    format!(r#"echo '{{"jsonrpc":"2.0","id":2,"result":{result}}}'; read l"#)
}
