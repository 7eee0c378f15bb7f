//! A proxy that interferes with connections to a server.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Notify,
    time::timeout,
};

use crate::process::{PATIENCE, Server};

/// The text in requests whose responses [`Proxy::cut`] withholds.
pub(crate) const CUT: &str = "cut";

/// Passes the bytes of connections on. Ends with the runtime.
pub(crate) struct Proxy {
    port: u16,
    rules: Arc<Rules>,
}

#[derive(Default)]
struct Rules {
    /// Whether the response to the next request that contains [`CUT`] is withheld.
    cuts: AtomicBool,
    /// Notified when a response is withheld, and when its connection is to be closed.
    withheld: Notify,
    closes: Notify,
    connections: Mutex<Vec<Arc<Connection>>>,
}

#[derive(Default)]
struct Connection {
    has_subscribed: AtomicBool,
    is_silent: AtomicBool,
    is_cut: AtomicBool,
}

impl Proxy {
    pub(crate) async fn start(server: &Server) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let port = listener.local_addr().expect("the address is known").port();
        let (rules, server) = (Arc::<Rules>::default(), server.port);
        let shared = Arc::clone(&rules);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, server, Arc::clone(&shared)));
            }
        });
        Self { port, rules }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Lets nothing more arrive over the connections that are open now, either for subscriptions or for commands.
    pub(crate) fn silence(&self, subscriptions: bool) {
        let connections = self.rules.connections.lock().unwrap_or_else(PoisonError::into_inner);
        for connection in connections.iter() {
            if connection.has_subscribed.load(Ordering::SeqCst) == subscriptions {
                connection.is_silent.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Closes the connection of the next request that contains [`CUT`] in place of passing its response on. Before that,
    /// executes `meanwhile`.
    pub(crate) async fn cut<T>(&self, request: impl Future<Output = T>, meanwhile: impl Future<Output = ()>) -> T {
        self.rules.cuts.store(true, Ordering::SeqCst);
        let close = async {
            self.rules.withheld.notified().await;
            meanwhile.await;
            self.rules.closes.notify_one();
        };
        let both = async { tokio::join!(request, close).0 };
        timeout(PATIENCE, both).await.expect("the request and its response pass the proxy")
    }
}

async fn forward(client: TcpStream, port: u16, rules: Arc<Rules>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let connection = Arc::<Connection>::default();
    rules.connections.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&connection));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let inspect_request = |bytes: &[u8]| {
        let contains = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        connection.has_subscribed.fetch_or(contains("SUBSCRIBE"), Ordering::SeqCst);
        if contains(CUT) && rules.cuts.swap(false, Ordering::SeqCst) {
            connection.is_cut.store(true, Ordering::SeqCst);
        }
        true
    };
    let is_passed = |_: &[u8]| !connection.is_silent.load(Ordering::SeqCst);
    tokio::select! {
        () = copy(from_client, to_server, inspect_request, None) => {}
        () = copy(from_server, to_client, is_passed, Some((&*rules, &*connection))) => {}
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    is_passed: impl Fn(&[u8]) -> bool,
    cut: Option<(&Rules, &Connection)>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if let Some((rules, connection)) = cut
            && connection.is_cut.load(Ordering::SeqCst)
        {
            rules.withheld.notify_one();
            return rules.closes.notified().await;
        }
        if is_passed(&buffer[..length]) && to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
