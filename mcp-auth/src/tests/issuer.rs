//! An issuer on the loopback interface.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use super::Signer;

/// An issuer that responds as a test says.
#[derive(Clone)]
pub(super) struct TestIssuer {
    pub(super) url: String,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    respond: Arc<Respond>,
    received: Vec<Received>,
}

type Respond = dyn Fn(&str) -> Reply + Send + Sync;

/// A request that was received.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub(super) path: String,
    pub(super) head: String,
    pub(super) body: String,
}

/// A response.
pub(super) enum Reply {
    Json(Value),
    /// Status line and headers, and a body.
    Raw(String, Vec<u8>),
    /// The response is sent after a notification.
    After(Arc<Notify>, Box<Reply>),
    /// The connection stays open without a response.
    Never,
    /// The connection is closed without a response.
    Close,
}

impl TestIssuer {
    /// Starts an issuer without endpoints.
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Shared { respond: Arc::new(|_| not_found()), received: Vec::new() };
        let issuer = Self { url, shared: Arc::new(Mutex::new(shared)) };
        let served = issuer.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(served.clone().serve(stream));
            }
        });
        issuer
    }

    /// Starts an issuer with metadata and these keys.
    pub(super) async fn with_keys(keys: &[&Signer]) -> Self {
        let issuer = Self::start().await;
        issuer.publish(keys);
        issuer
    }

    /// Replaces the keys.
    pub(super) fn publish(&self, keys: &[&Signer]) {
        let (url, keys): (_, Vec<Value>) = (self.url.clone(), keys.iter().map(|key| key.jwk()).collect());
        self.respond(move |path| match path {
            "/.well-known/oauth-authorization-server" => {
                Reply::Json(json!({"issuer": url, "jwks_uri": format!("{url}/keys")}))
            }
            "/keys" => Reply::Json(json!({"keys": keys})),
            _ => not_found(),
        });
    }

    /// Sets the response to each path.
    pub(super) fn respond(&self, respond: impl Fn(&str) -> Reply + Send + Sync + 'static) {
        self.shared.lock().unwrap().respond = Arc::new(respond);
    }

    /// Returns the requests for a path so far.
    pub(super) fn received(&self, path: &str) -> Vec<Received> {
        let shared = self.shared.lock().unwrap();
        shared.received.iter().filter(|received| received.path == path).cloned().collect()
    }

    /// Waits until there were `count` requests for a path.
    pub(super) async fn until_received(&self, path: &str, count: usize) {
        let start = Instant::now();
        while self.received(path).len() < count {
            assert!(start.elapsed() < Duration::from_secs(20), "{count} requests for {path}");
            // The clock of a test may be paused.
            tokio::task::yield_now().await;
        }
    }

    async fn serve(self, mut stream: TcpStream) {
        let Some(received) = read_request(&mut stream).await else { return };
        let respond = Arc::clone(&self.shared.lock().unwrap().respond);
        let path = received.path.clone();
        self.shared.lock().unwrap().received.push(received);
        let mut reply = respond(&path);
        if let Reply::After(notify, held) = reply {
            notify.notified().await;
            reply = *held;
        }
        let (head, body) = match reply {
            Reply::Json(body) => ("HTTP/1.1 200 OK".to_owned(), body.to_string().into_bytes()),
            Reply::Raw(head, body) => (head, body),
            Reply::Never | Reply::After(..) => std::future::pending().await,
            Reply::Close => return,
        };
        let head = format!("{head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        // The client may have closed the connection, for example because the body is too large.
        let _sent = stream.write_all(&[head.into_bytes(), body].concat()).await;
    }
}

pub(super) fn not_found() -> Reply {
    Reply::Raw("HTTP/1.1 404 Not Found".to_owned(), Vec::new())
}

async fn read_request(stream: &mut TcpStream) -> Option<Received> {
    let mut text = Vec::new();
    loop {
        if stream.read_buf(&mut text).await.ok()? == 0 {
            return None;
        }
        let received = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = received.split_once("\r\n\r\n") else { continue };
        let length = head.to_ascii_lowercase();
        let length = length.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if body.len() >= length.unwrap_or(0) {
            let path = head.split(' ').nth(1)?.to_owned();
            return Some(Received { path, head: head.to_owned(), body: body.to_owned() });
        }
    }
}
