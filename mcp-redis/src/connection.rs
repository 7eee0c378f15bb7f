//! The addresses of the servers, connections to them, and the connection for commands, which is opened again when it is
//! lost.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, IntoConnectionInfo as _, Pipeline, RedisConnectionInfo,
    RedisError, RedisFuture, RedisResult, TlsMode, Value,
    aio::{ConnectionLike, MultiplexedConnection, PubSub},
    cluster::{ClusterClient, ClusterClientBuilder},
    cluster_async::ClusterConnection,
    cluster_routing::SingleNodeRoutingInfo,
    cmd,
    sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType},
};
use tokio::{
    sync::{Mutex, mpsc, watch},
    time::{Instant, sleep, timeout, timeout_at},
};

/// The time in which a connection to one server must succeed, and in which the server must confirm a command. Sentinels and
/// the nodes of a cluster are tried in turn.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The servers of one URL.
pub(crate) struct Address {
    servers: Servers,
    /// The number of the database.
    pub(crate) database: i64,
}

enum Servers {
    Single(Box<Client>),
    Cluster(Box<Cluster>),
    Sentinel(Box<Mutex<SentinelClient>>),
}

struct Cluster {
    client: ClusterClient,
    nodes: Vec<Client>,
    /// The node to subscribe at. Each attempt uses the next one.
    next: AtomicUsize,
}

impl Address {
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Parses a URL, whose forms [`Redis::connect`](crate::Redis::connect) describes.
    pub(crate) fn parse(url: &str, response_timeout: Duration) -> Result<Self, Error> {
        let url = Url::parse(url)?;
        let invalid = |error: RedisError| Error::Invalid(format!("invalid Redis URL: {error}"));
        let database = url.database;
        let servers = match url.kind {
            Kind::Single => {
                let [node] = &url.nodes[..] else {
                    let help = "help: the URLs of a cluster begin with `redis+cluster://`";
                    return Err(Error::Invalid(format!("several addresses in a Redis URL of a single server\n{help}")));
                };
                Servers::Single(Box::new(Client::open(node.clone()).map_err(invalid)?))
            }
            Kind::Cluster => {
                if database != 0 {
                    return Err(Error::Invalid(format!("a Redis Cluster has no database `{database}`, only `0`")));
                }
                // A command is sent again only if it is known that it was not executed, which this crate decides.
                let client = ClusterClientBuilder::new(url.nodes.clone())
                    .retries(0)
                    .connection_timeout(RESPONSE_TIMEOUT / 2)
                    .response_timeout(response_timeout)
                    .build();
                let nodes = url.nodes.into_iter().map(Client::open).collect::<Result<_, _>>();
                Servers::Cluster(Box::new(Cluster {
                    client: client.map_err(invalid)?,
                    nodes: nodes.map_err(invalid)?,
                    next: AtomicUsize::new(0),
                }))
            }
            Kind::Sentinel { service } => {
                let mut node = SentinelNodeConnectionInfo::default();
                if url.is_secure {
                    node = node.set_tls_mode(TlsMode::Secure);
                }
                let settings = url.nodes[0].redis_settings().clone();
                // The credentials are for the servers, not for the sentinels.
                let sentinels = url.nodes.into_iter();
                let sentinels = sentinels.map(|info| info.set_redis_settings(RedisConnectionInfo::default())).collect();
                let node = node.set_redis_connection_info(settings);
                let client = SentinelClient::build(sentinels, service, Some(node), SentinelServerType::Master);
                Servers::Sentinel(Box::new(Mutex::new(client.map_err(invalid)?)))
            }
        };
        Ok(Self { servers, database })
    }

    /// Opens a connection for commands.
    pub(crate) async fn connect(&self) -> RedisResult<Connection> {
        match &self.servers {
            Servers::Single(client) => in_time(multiplexed(client)).await,
            Servers::Cluster(cluster) => {
                in_time(async { Ok(Connection::Cluster(cluster.client.get_async_connection().await?)) }).await
            }
            Servers::Sentinel(sentinel) => in_time(async { multiplexed(&master(sentinel).await?).await }).await,
        }
    }

    /// Opens a connection for subscriptions.
    pub(crate) async fn subscribe(&self) -> RedisResult<PubSub> {
        match &self.servers {
            Servers::Single(client) => in_time(client.get_async_pubsub()).await,
            Servers::Cluster(cluster) => {
                let node = cluster.next.fetch_add(1, Ordering::Relaxed) % cluster.nodes.len();
                in_time(cluster.nodes[node].get_async_pubsub()).await
            }
            Servers::Sentinel(sentinel) => in_time(async { master(sentinel).await?.get_async_pubsub().await }).await,
        }
    }
}

async fn multiplexed(client: &Client) -> RedisResult<Connection> {
    // Operations have a timeout of their own.
    let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    Ok(Connection::Single(client.get_multiplexed_async_connection_with_config(&config).await?))
}

/// Asks the sentinels for the current master.
async fn master(sentinel: &Mutex<SentinelClient>) -> RedisResult<Client> {
    sentinel.lock().await.async_get_client().await
}

/// Waits for a server for at most [`RESPONSE_TIMEOUT`].
pub(crate) async fn in_time<T>(attempt: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let late = || std::io::Error::new(std::io::ErrorKind::TimedOut, "no response in time");
    timeout(RESPONSE_TIMEOUT, attempt).await.unwrap_or_else(|_| Err(late().into()))
}

/// The parts of a URL.
struct Url {
    kind: Kind,
    nodes: Vec<ConnectionInfo>,
    database: i64,
    is_secure: bool,
}

#[derive(Debug, PartialEq)]
enum Kind {
    Single,
    Cluster,
    Sentinel { service: String },
}

impl Url {
    /// Parses `redis[s][+cluster|+sentinel]://[USER:PASSWORD@]HOST[:PORT][,…][/SERVICE][/DATABASE]`.
    fn parse(url: &str) -> Result<Self, Error> {
        let invalid = |reason: &str| Error::Invalid(format!("invalid Redis URL: {reason}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("expected `redis://HOST:PORT`"))?;
        let scheme = scheme.to_ascii_lowercase();
        let (scheme, kind) = scheme.split_once('+').unwrap_or((&scheme, ""));
        let is_secure = match scheme {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(invalid(&format!("expected `redis` or `rediss`, found the scheme `{scheme}`"))),
        };
        if is_secure && cfg!(not(feature = "tls")) {
            return Err(invalid("TLS requires the feature `tls` of `mcp-runtime-redis`"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, hosts) = authority.rfind('@').map_or(("", authority), |end| authority.split_at(end + 1));
        let path = path.split_once('?').map_or(path, |(path, _)| path).trim_end_matches('/');
        let (kind, database) = match kind {
            "" => (Kind::Single, path),
            "cluster" => (Kind::Cluster, path),
            "sentinel" => {
                let (service, database) = path.split_once('/').unwrap_or((path, ""));
                if service.is_empty() {
                    return Err(invalid("expected the name of the service after the sentinels, as in `/mymaster`"));
                }
                (Kind::Sentinel { service: service.to_owned() }, database)
            }
            _ => return Err(invalid(&format!("expected `+cluster` or `+sentinel`, found `+{kind}`"))),
        };
        let database = if database.is_empty() { "0" } else { database };
        let database = database.parse().ok().filter(|number| *number >= 0);
        let database = database.ok_or_else(|| invalid("expected the number of a database in the path"))?;
        let node = |host: &str| {
            let port = if matches!(kind, Kind::Sentinel { .. }) && !has_port(host) { ":26379" } else { "" };
            let scheme = if is_secure { "rediss" } else { "redis" };
            let url = format!("{scheme}://{credentials}{host}{port}/{database}");
            url.as_str().into_connection_info().map_err(|error| invalid(&error.to_string()))
        };
        let nodes = hosts.split(',').map(node).collect::<Result<_, _>>()?;
        Ok(Self { kind, nodes, database, is_secure })
    }
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A connection that carries any number of commands at a time.
#[derive(Clone)]
pub(crate) enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    /// Sends a command to the node that imports its slot from another node.
    pub(crate) async fn ask(&mut self, command: &Cmd, (host, port): (&str, u16)) -> RedisResult<Value> {
        let Self::Cluster(cluster) = self else { return self.req_packed_command(command).await };
        let mut pipeline = Pipeline::new();
        pipeline.add_command(cmd("ASKING")).add_command(command.clone());
        let node = SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port };
        let mut values = cluster.route_pipeline(pipeline, 1, 1, node).await?;
        values.pop().unwrap_or(Value::Nil).extract_error()
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Single(connection) => connection.req_packed_command(command),
            Self::Cluster(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Single(connection) => connection.req_packed_commands(pipeline, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Single(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}

/// The current connection.
pub(crate) struct Link {
    state: watch::Receiver<State>,
    lost: mpsc::Sender<u64>,
}

#[derive(Clone)]
enum State {
    Up(Connection, u64),
    Down(Instant),
}

impl Link {
    /// Opens a connection, and starts a task that replaces it when it is lost. The task ends with the link.
    pub(crate) async fn open(address: Arc<Address>) -> RedisResult<Self> {
        let mut connection = address.connect().await?;
        // A server that requires a password accepts connections without one.
        match in_time(cmd("PING").query_async::<()>(&mut connection)).await {
            Err(error) if error.code() == Some("NOAUTH") => return Err(error),
            _ => {}
        }
        let (send, state) = watch::channel(State::Up(connection, 0));
        // Many commands report the same lost connection. The first report is enough.
        let (lost, reports) = mpsc::channel(16);
        tokio::spawn(reconnect(address, send, reports));
        Ok(Self { state, lost })
    }

    /// Returns the connection and its number. Without a connection, waits for a new connection. Returns `None` at the
    /// deadline, or once there has been no connection for `patience`.
    pub(crate) async fn get(&self, deadline: Instant, patience: Duration) -> Option<(Connection, u64)> {
        let mut state = self.state.clone();
        loop {
            let deadline = match &*state.borrow_and_update() {
                State::Up(connection, number) => return Some((connection.clone(), *number)),
                State::Down(since) => deadline.min(*since + patience),
            };
            timeout_at(deadline, state.changed()).await.ok()?.ok()?;
        }
    }

    /// Reports that a connection was lost.
    pub(crate) fn report_lost(&self, number: u64) {
        let _: Result<_, _> = self.lost.try_send(number);
    }
}

async fn reconnect(address: Arc<Address>, state: watch::Sender<State>, mut reports: mpsc::Receiver<u64>) {
    let (mut current, mut opened) = (0, Instant::now());
    while let Some(number) = reports.recv().await {
        if number != current {
            continue;
        }
        state.send_replace(State::Down(Instant::now()));
        pause_after(opened).await;
        let mut backoff = Backoff::default();
        loop {
            match address.connect().await {
                Ok(connection) => {
                    (current, opened) = (current + 1, Instant::now());
                    state.send_replace(State::Up(connection, current));
                    break;
                }
                Err(error) => backoff.failed("cannot connect to Redis", &error).await,
            }
            if state.is_closed() {
                return;
            }
        }
        if backoff.has_failed() {
            tracing::warn!("connected to Redis again");
        }
    }
}

/// The pause before the first repetition, which doubles with every further repetition.
const MIN_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The pauses between attempts to connect, or to execute a command.
#[derive(Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    /// Returns the time to wait before the next attempt: a random part of the pause, so that the processes do not all try
    /// at the same time.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = MAX_PAUSE.min(MIN_PAUSE * (1 << self.0.min(10)));
        self.0 = self.0.saturating_add(1);
        let random = getrandom::u32().unwrap_or(u32::MAX);
        pause.mul_f64(0.5 + 0.5 * f64::from(random) / f64::from(u32::MAX))
    }

    /// Returns whether an attempt has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.0 > 0
    }

    /// Waits before the next attempt to connect. Logs the first failure.
    pub(crate) async fn failed(&mut self, what: &str, error: &RedisError) {
        if !self.has_failed() {
            tracing::warn!("{what}: {error}: retrying");
        }
        sleep(self.next()).await;
    }
}

/// Waits before a connection replaces one that was lost soon after it was opened: the server may be a replica, which refuses
/// every change.
pub(crate) async fn pause_after(opened: Instant) {
    sleep((MIN_PAUSE * 4).saturating_sub(opened.elapsed())).await;
}

/// The error of [`Redis::connect`](crate::Redis::connect).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The URL or an option is invalid.
    Invalid(String),
    /// The server does not respond, or rejects the connection.
    Unavailable(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(reason) => f.write_str(reason),
            Self::Unavailable(reason) => write!(f, "cannot connect to Redis: {reason}"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_servers_clusters_and_sentinels() {
        let sentinel = |service: &str| Kind::Sentinel { service: service.to_owned() };
        for (url, kind, nodes, database) in [
            ("redis://localhost", Kind::Single, &["localhost:6379"] as &[&str], 0),
            ("redis://user:pass@host:1/2", Kind::Single, &["host:1"], 2),
            ("redis://host/2/", Kind::Single, &["host:6379"], 2),
            ("valkey://[::1]:7/?x=y", Kind::Single, &["::1:7"], 0),
            ("Redis+Cluster://a,b:2", Kind::Cluster, &["a:6379", "b:2"], 0),
            ("redis+sentinel://a,b:2/main", sentinel("main"), &["a:26379", "b:2"], 0),
            ("redis+sentinel://:p%40ss@a/main/3", sentinel("main"), &["a:26379"], 3),
            ("redis+sentinel://[::1],[::2]:7/main", sentinel("main"), &["::1:26379", "::2:7"], 0),
        ] {
            assert!(Address::parse(url, RESPONSE_TIMEOUT).is_ok(), "{url}");
            let url = Url::parse(url).unwrap();
            assert_eq!(url.kind, kind);
            assert_eq!(url.nodes.iter().map(|node| node.addr().to_string()).collect::<Vec<_>>(), nodes);
            assert_eq!(url.database, database);
            assert!(url.nodes.iter().all(|node| node.redis_settings().db() == database));
        }
        for url in ["redis+sentinel://:p%40ss@a,b/main", "redis+cluster://:p@ss@a,b", "redis://user:p@ss@a"] {
            let parsed = Url::parse(url).unwrap();
            assert!(parsed.nodes.iter().all(|node| node.redis_settings().password() == Some("p@ss")), "{url}");
        }
    }

    #[test]
    #[cfg(feature = "tls")]
    fn schemes_decide_whether_connections_are_encrypted() {
        for (scheme, is_secure) in [("redis", false), ("valkey", false), ("rediss", true), ("valkeys", true)] {
            for rest in ["://a", "+cluster://a,b", "+sentinel://a,b/main"] {
                let url = format!("{scheme}{rest}");
                let parsed = Url::parse(&url).unwrap();
                assert_eq!(parsed.is_secure, is_secure, "{url}");
                let is_encrypted = |node: &ConnectionInfo| matches!(node.addr(), redis::ConnectionAddr::TcpTls { .. });
                assert!(parsed.nodes.iter().all(|node| is_encrypted(node) == is_secure), "{url}");
            }
        }
    }

    #[test]
    fn mistakes_in_urls_are_explained_without_credentials() {
        for (url, expected) in [
            ("localhost:6379", "expected `redis://HOST:PORT`"),
            ("http://:secret@a", "found the scheme `http`"),
            ("redis+ring://a", "found `+ring`"),
            ("redis+sentinel://:secret@a", "expected the name of the service"),
            ("redis://:secret@a/x", "number of a database"),
            ("redis://:secret@a,b", "help: the URLs of a cluster"),
            ("redis://:secret@a:port", "invalid Redis URL"),
            ("redis+cluster://a/1", "no database `1`"),
        ] {
            let error = Address::parse(url, RESPONSE_TIMEOUT).err().unwrap().to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_error_of_a_silent_server_says_that_it_does_not_respond() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", silent.local_addr().unwrap());
        let address = Address::parse(&url, RESPONSE_TIMEOUT).unwrap();
        let errors = [address.connect().await.err(), address.subscribe().await.err()];
        assert_eq!(errors.map(|error| error.unwrap().to_string()), ["no response in time"; 2]);
    }

    #[test]
    fn pauses_double_up_to_the_longest_one() {
        let mut backoff = Backoff::default();
        assert!(!backoff.has_failed());
        for repetition in 0..100 {
            let longest = MAX_PAUSE.min(MIN_PAUSE * 2_u32.pow(repetition.min(10)));
            let pause = backoff.next();
            assert!((longest / 2..=longest).contains(&pause), "{repetition}: {pause:?}");
            assert!(backoff.has_failed());
        }
    }
}
