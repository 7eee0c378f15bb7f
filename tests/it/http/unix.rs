//! HTTP over Unix sockets: the file of the socket, and who may use it.

use std::{
    fs,
    io::ErrorKind,
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use mcp_runtime::{
    HttpOptions, Server,
    http::{self, HttpAddress, Listener, ListenerOptions},
    telemetry::{Operation, SessionEnd, Telemetry},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    sync::oneshot,
    task::JoinHandle,
};

use super::{
    client::{Options, soon},
    request::{Request, call, initialize},
    server,
};

/// A server on a Unix socket.
struct SocketServer {
    path: PathBuf,
    stop: oneshot::Sender<()>,
    running: JoinHandle<std::io::Result<()>>,
}

impl SocketServer {
    /// Returns the error if the server cannot listen.
    async fn start(path: &Path, options: impl Into<Options>) -> std::io::Result<Self> {
        let listener = Listener::bind(path).await?;
        assert_eq!(listener.address().unwrap(), HttpAddress::from(path));
        Ok(Self::serve(path, listener, options.into(), server().1))
    }

    fn serve(path: &Path, listener: impl Into<Listener>, options: Options, server: Server) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let service = server.build().unwrap().into_http_service(options.endpoint).unwrap();
        let serving = http::serve(listener, service)
            .options(options.listener)
            .with_graceful_shutdown(async { drop(stopped.await) });
        Self { path: path.to_owned(), stop, running: tokio::spawn(serving.into_future()) }
    }

    async fn status(&self, request: &Request) -> u16 {
        status(&self.path, request).await
    }

    async fn stopped(self) {
        drop(self.stop);
        soon(self.running).await.unwrap().unwrap();
    }
}

async fn connect(path: &Path) -> UnixStream {
    soon(UnixStream::connect(path)).await.unwrap()
}

/// Sends a request on a new connection, and returns the status of the response.
async fn status(path: &Path, request: &Request) -> u16 {
    let mut stream = connect(path).await;
    stream.write_all(&request.clone().with("connection", "close").bytes()).await.unwrap();
    read_status(&mut stream).await
}

async fn read_status(stream: &mut UnixStream) -> u16 {
    let mut response = Vec::new();
    soon(stream.read_to_end(&mut response)).await.unwrap();
    let response = String::from_utf8(response).unwrap();
    response.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{response:?}"))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn the_file_of_a_socket_exists_while_the_server_listens() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.sock");
    let server = SocketServer::start(&path, HttpOptions::default()).await.unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(server.status(&call("quick")).await, 200);
    assert_eq!(server.status(&initialize("2025-11-25")).await, 200);
    assert_eq!(server.status(&Request::new("GET").path("/healthz")).await, 200);
    server.stopped().await;
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_socket_of_the_caller_is_served_and_its_file_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.sock");
    let listener = Listener::from(tokio::net::UnixListener::bind(&path).unwrap());
    assert_eq!(listener.address().unwrap(), HttpAddress::from(path.as_path()));
    let server = SocketServer::serve(&path, listener, Options::default(), server().1);
    assert_eq!(server.status(&call("quick")).await, 200);
    server.stopped().await;
    assert!(path.exists());
}

/// Otherwise a program that changes its current directory could not remove the file.
#[tokio::test]
async fn the_path_of_a_socket_becomes_absolute() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let relative = Path::new(directory.path().file_name().unwrap()).join("x.sock");
    let listener = Listener::bind(&*relative).await.unwrap();
    assert!(directory.path().join("x.sock").exists());
    let HttpAddress::Unix(path) = listener.address().unwrap() else { panic!("{listener:?}") };
    assert!(path.is_absolute() && path.ends_with(&relative), "{path:?}");
}

#[derive(Default)]
struct Transports(Mutex<Vec<&'static str>>);

impl Telemetry for Transports {
    fn server_operation(&self, operation: &Operation<'_>) {
        self.0.lock().unwrap().push(operation.network.transport);
    }

    fn session_ended(&self, session: &SessionEnd<'_>) {
        self.0.lock().unwrap().push(session.network.transport);
    }
}

/// The transport is that of the connection, also if a proxy states an address.
#[tokio::test]
async fn measurements_name_the_transport() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.sock");
    let transports = Arc::new(Transports::default());
    let options = HttpOptions::default().trusted_proxies("unix");
    let listener = Listener::bind(path.as_path()).await.unwrap();
    let server = SocketServer::serve(&path, listener, options.into(), server().1.telemetry(Arc::clone(&transports)));
    let request = initialize("2025-11-25").with("x-forwarded-for", "10.0.0.1");
    assert_eq!(server.status(&request).await, 200);
    server.stopped().await;
    assert_eq!(*transports.0.lock().unwrap(), ["unix", "unix"]);
}

#[tokio::test]
async fn the_socket_of_a_dead_server_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.sock");
    drop(UnixListener::bind(&path).unwrap());
    let server = SocketServer::start(&path, HttpOptions::default()).await.unwrap();
    assert_eq!(server.status(&call("quick")).await, 200);
}

/// Every process that can read a directory can lock it.
#[tokio::test]
async fn a_server_starts_in_a_directory_that_stays_locked() {
    let directory = tempfile::tempdir().unwrap();
    let lock = fs::File::open(directory.path()).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let server = SocketServer::start(&directory.path().join("x.sock"), HttpOptions::default()).await.unwrap();
    assert_eq!(server.status(&call("quick")).await, 200);
}

#[tokio::test]
async fn other_files_and_live_sockets_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let [live, file, missing] = ["live.sock", "file", "missing/x.sock"].map(|name| directory.path().join(name));
    let server = SocketServer::start(&live, HttpOptions::default()).await.unwrap();
    fs::write(&file, "content").unwrap();
    for (path, kind, reason) in [
        (&live, ErrorKind::AddrInUse, "another server listens on it"),
        (&file, ErrorKind::AlreadyExists, "the file exists and is not a socket"),
        (&missing, ErrorKind::NotFound, ""),
    ] {
        let error = SocketServer::start(path, HttpOptions::default()).await.err().unwrap();
        assert_eq!(error.kind(), kind, "{error}");
        let prefix = format!("cannot listen on `unix:{}`: ", path.display());
        assert!(error.to_string().starts_with(&prefix) && error.to_string().contains(reason), "{error}");
    }
    assert_eq!(server.status(&call("quick")).await, 200);
    assert_eq!(fs::read_to_string(&file).unwrap(), "content");

    // The file that has taken the place of the socket belongs to another process.
    fs::rename(&file, &live).unwrap();
    server.stopped().await;
    assert_eq!(fs::read_to_string(&live).unwrap(), "content");
}

/// No browser can connect to a socket, but a proxy in front of it forwards what browsers send.
#[tokio::test]
async fn host_and_origin_are_checked_as_for_tcp() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.sock");
    for (options, host, origin, expected) in [
        (HttpOptions::default(), "localhost", None, 200),
        (HttpOptions::default(), "localhost", Some("http://localhost:3000"), 200),
        (HttpOptions::default(), "localhost", Some("https://evil.example"), 403),
        (HttpOptions::default(), "evil.example", None, 403),
        (HttpOptions::default().allow_host("mcp.example.com"), "mcp.example.com", None, 200),
        (HttpOptions::default().allow_host("mcp.example.com"), "localhost", None, 403),
    ] {
        let server = SocketServer::start(&path, options).await.unwrap();
        let request = call("quick").with("host", host);
        let request = origin.map_or(request.clone(), |origin| request.with("origin", origin));
        assert_eq!(server.status(&request).await, expected, "{host} {origin:?}");
        server.stopped().await;
    }
}

#[tokio::test]
async fn all_connections_of_a_user_are_one_peer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.sock");
    let options = (HttpOptions::default().max_peer_share(0.5), ListenerOptions::default().max_connections(4));
    let server = SocketServer::start(&path, options).await.unwrap();
    // The share of a single peer is half of four.
    let _kept = [connect(&path).await, connect(&path).await];
    let mut rejected = connect(&path).await;
    assert_eq!(read_status(&mut rejected).await, 503);
    drop(server);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn programs_listen_on_sockets() {
    use super::process::{fixture_at, listening, terminate};

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.sock");
    let address = format!("unix:{}", path.display());
    for (kills, options, expected) in [(true, &["--socket-mode", "640"][..], 0o640), (false, &[], 0o600)] {
        let (mut child, url, _stderr) = listening(fixture_at(&address, "off").args(options));
        assert_eq!(url, format!("http://{address}:/mcp"));
        assert_eq!(mode(&path), expected);
        assert_eq!(status(&path, &initialize("2025-11-25")).await, 200);
        if kills {
            child.kill().unwrap();
        } else {
            terminate(&child);
        }
        child.wait().unwrap();
        // A killed server leaves its file, which the next one replaces.
        assert_eq!(path.exists(), kills);
    }
}
