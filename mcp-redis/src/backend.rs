//! The backend, its options, the names of its keys and channels, and its topics.

use std::{fmt, sync::Arc, time::Duration};

use mcp_runtime::backend::{BackendError, BackendFuture, TopicSubscription, Topics};

use crate::{
    client::{Client, Scripts},
    connection::{Address, Error, Link},
    subscriptions::Subscriptions,
};

/// The default time in which an operation must have succeeded.
const TIMEOUT: Duration = Duration::from_millis(1500);

/// The default maximum number of commands that wait for responses.
const MAX_IN_FLIGHT: usize = 16_384;

/// The default prefix of all keys and channels, which the name of a server may follow.
const PREFIX: &str = "mcp:";

/// The longest time to live, which keeps the arithmetic of times within its range.
const MAX_TTL: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// A [`Backend`](mcp_runtime::backend::Backend) in Redis or Valkey.
///
/// It uses one connection for commands and one for subscriptions, to each server that it needs. Both are opened again
/// when they are lost. Clones share them.
///
/// ```no_run
/// use mcp_redis::Redis;
/// use mcp_runtime::Server;
///
/// #[mcp_runtime::server]
/// async fn main(server: Server) -> Result<Server, mcp_redis::Error> {
///     Ok(server.backend(Redis::connect("redis://localhost").await?))
/// }
/// ```
#[derive(Clone)]
pub struct Redis(Arc<Inner>);

struct Inner {
    client: Arc<Client>,
    keys: Keys,
    subscriptions: Subscriptions,
}

impl Redis {
    /// Connects to the servers of a URL with default options. Must be called within a tokio runtime, which keeps the
    /// connections.
    ///
    /// | servers | URL |
    /// |---|---|
    /// | one server | `redis://USER:PASSWORD@HOST:6379/DATABASE` |
    /// | a cluster, by some of its nodes | `redis+cluster://USER:PASSWORD@HOST:6379,HOST:6379` |
    /// | a primary server and its replicas, by their sentinels | `redis+sentinel://USER:PASSWORD@HOST:26379,HOST:26379/SERVICE/DATABASE` |
    ///
    /// User, password, ports and database are optional. `rediss` in place of `redis` uses TLS, with the certificate
    /// authorities of the system. `valkey` means the same as `redis`.
    ///
    /// # Errors
    ///
    /// The URL is invalid, no server responds, or the server rejects the connection, for example because of the password.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder(url).connect().await
    }

    /// Returns a builder with which options can be set before connecting.
    ///
    /// ```no_run
    /// # async fn connect() -> Result<(), mcp_redis::Error> {
    /// let redis = mcp_redis::Redis::builder("redis://localhost").prefix("notes:").connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(url: &str) -> RedisBuilder {
        RedisBuilder { url: url.to_owned(), prefix: PREFIX.to_owned(), timeout: TIMEOUT, max_in_flight: MAX_IN_FLIGHT }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    pub(crate) fn scripts(&self) -> &Scripts {
        &self.0.client.scripts
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.0.keys
    }

    pub(crate) fn subscriptions(&self) -> &Subscriptions {
        &self.0.subscriptions
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { client, keys, .. } = &*self.0;
        f.debug_struct("Redis").field("client", client).field("keys", keys).finish_non_exhaustive()
    }
}

/// Options of a connection to Redis. [`Redis::builder`] returns it.
#[derive(Clone)]
#[must_use]
pub struct RedisBuilder {
    url: String,
    prefix: String,
    timeout: Duration,
    max_in_flight: usize,
}

impl RedisBuilder {
    /// Sets the prefix of all keys and channels, `mcp:` by default, or `mcp:NAME:` with the name of the server if the option
    /// `--backend` connects it. Services that share a server need different prefixes: a service does not start while another
    /// service uses its prefix.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.to_owned();
        self
    }

    /// Sets the time after which an operation fails, 1.5 seconds by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum number of commands that wait for responses, 16,384 by default. Further operations fail at once.
    pub fn max_in_flight(mut self, commands: usize) -> Self {
        self.max_in_flight = commands;
        self
    }

    /// Connects. Must be called within a tokio runtime, which keeps the connections.
    ///
    /// # Errors
    ///
    /// The URL or an option is invalid, no server responds, or the server rejects the connection.
    pub async fn connect(self) -> Result<Redis, Error> {
        if self.prefix.contains(['{', '}']) {
            let reason = "would decide where a cluster stores all keys";
            return Err(Error::Invalid(format!("a brace in the key prefix `{}` {reason}", self.prefix)));
        }
        // The connections use the process's cryptography provider. If it has a provider already, that provider remains.
        #[cfg(feature = "tls")]
        let _: Result<_, _> = rustls::crypto::ring::default_provider().install_default();
        let address = Arc::new(Address::parse(&self.url, self.timeout)?);
        let keys = Keys::new(&self.prefix, address.database);
        let link = Link::open(Arc::clone(&address)).await;
        let link = link.map_err(|error| Error::Unavailable(error.to_string()))?;
        let client = Arc::new(Client::new(link, self.timeout, self.max_in_flight, address.is_cluster()));
        let process = getrandom::u64().map_err(|error| Error::Unavailable(error.to_string()))?;
        let heartbeat = keys.heartbeat_channel(process);
        let subscriptions = Subscriptions::start(address, Arc::clone(&client), heartbeat);
        Ok(Redis(Arc::new(Inner { client, keys, subscriptions })))
    }
}

/// Connects the server with a name, for the option `--backend`.
pub(crate) async fn connect_server(url: &str, server: &str) -> Result<Redis, Error> {
    Redis::builder(url).prefix(&server_prefix(server)).connect().await
}

/// Returns the prefix for a server. Braces decide where a cluster stores keys.
fn server_prefix(name: &str) -> String {
    format!("{PREFIX}{}:", name.replace(['{', '}'], "_"))
}

/// Omits credentials.
impl fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBuilder")
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .field("max_in_flight", &self.max_in_flight)
            .finish_non_exhaustive()
    }
}

/// Returns a time to live in whole milliseconds, of which Redis requires at least one.
pub(crate) fn milliseconds(ttl: Duration) -> Vec<u8> {
    ttl.min(MAX_TTL).as_millis().max(1).to_string().into_bytes()
}

/// The maximum length of a message in bytes.
const MAX_MESSAGE: usize = 1 << 20;

impl Topics for Redis {
    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            if message.len() > MAX_MESSAGE {
                return Err(BackendError::Full);
            }
            self.client().publish(self.keys().topic_channel(topic)?, &message).await
        })
    }

    fn subscribe<'a>(&'a self, topic: &'a str) -> BackendFuture<'a, TopicSubscription> {
        Box::pin(async move {
            self.subscriptions().subscribe(self.keys().topic_channel(topic)?, self.client().deadline()).await
        })
    }
}

/// The maximum length in bytes of a key of the runtime.
const MAX_KEY: usize = 1024;

/// Forms keys and channels, which all begin with the same prefix.
///
/// The part of a key in braces determines its slot in a cluster: everything that one script touches is in the same slot.
#[derive(Debug)]
pub(crate) struct Keys {
    prefix: String,
    /// The prefix of channels. Unlike keys, channels are shared by all databases of a server.
    channels: String,
}

/// The keys of a record.
pub(crate) struct RecordKeys<'a> {
    /// The record, followed by the names and the times of expiry of its group.
    pub(crate) keys: Vec<String>,
    pub(crate) name: &'a str,
}

impl Keys {
    pub(crate) fn new(prefix: &str, database: i64) -> Self {
        Self { prefix: prefix.to_owned(), channels: format!("{prefix}{database}/") }
    }

    pub(crate) fn record<'a>(&self, key: &'a str) -> Result<RecordKeys<'a>, BackendError> {
        check(key)?;
        let Some((group, name)) = key.split_once(':') else {
            return Ok(RecordKeys { keys: vec![format!("{}{{r:{key}}}", self.prefix)], name: "" });
        };
        let [names, expiries] = self.group(group);
        Ok(RecordKeys { keys: vec![format!("{names}:{name}"), names, expiries], name })
    }

    /// Returns the keys of the names, and of the times of expiry, of the records of a group.
    pub(crate) fn group(&self, group: &str) -> [String; 2] {
        [format!("{}{{g:{group}}}", self.prefix), format!("{}{{g:{group}}}expiry", self.prefix)]
    }

    pub(crate) fn log(&self, key: &str) -> Result<String, BackendError> {
        check(key)?;
        Ok(format!("{}{{l:{key}}}", self.prefix))
    }

    pub(crate) fn topic_channel(&self, topic: &str) -> Result<String, BackendError> {
        check(topic)?;
        Ok(format!("{}topic:{topic}", self.channels))
    }

    pub(crate) fn log_channel(&self, key: &str) -> String {
        format!("{}log:{key}", self.channels)
    }

    /// Returns the channel on which a process sends messages to itself.
    pub(crate) fn heartbeat_channel(&self, process: u64) -> String {
        format!("{}heartbeat:{process:016x}", self.channels)
    }
}

fn check(key: &str) -> Result<(), BackendError> {
    if key.len() > MAX_KEY { Err(BackendError::Full) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_prefixes_of_their_own() {
        for (name, expected) in [("notes", "mcp:notes:"), ("my {notes}", "mcp:my _notes_:")] {
            assert_eq!(server_prefix(name), expected);
        }
    }

    #[tokio::test]
    async fn braces_in_a_prefix_are_refused() {
        for prefix in ["a{b}", "a{b", "a}b"] {
            let error = Redis::builder("redis://127.0.0.1:1").prefix(prefix).connect().await.unwrap_err();
            assert!(matches!(&error, Error::Invalid(reason) if reason.contains(&format!("`{prefix}`"))), "{error}");
        }
    }

    #[test]
    fn the_url_is_not_shown() {
        let shown = format!("{:?}", Redis::builder("redis://ada:secret@127.0.0.1").prefix("notes:"));
        assert!(shown.contains("notes:") && !shown.contains("secret"), "{shown}");
    }

    /// Redis refuses to set a time of 0 or of too many milliseconds.
    #[test]
    fn times_to_live_are_within_the_range_of_redis() {
        for (ttl, expected) in [
            (Duration::ZERO, "1"),
            (Duration::from_micros(999), "1"),
            (Duration::from_micros(1999), "1"),
            (Duration::from_secs(2), "2000"),
            (Duration::MAX, "315360000000"),
        ] {
            assert_eq!(milliseconds(ttl), expected.as_bytes(), "{ttl:?}");
        }
    }

    #[test]
    fn keys_of_a_group_share_a_slot_and_never_collide() {
        let keys = Keys::new("app:", 2);
        for (key, expected) in [
            ("a/b", &["app:{r:a/b}"] as &[&str]),
            ("a:b:c", &["app:{g:a}:b:c", "app:{g:a}", "app:{g:a}expiry"]),
            ("a:", &["app:{g:a}:", "app:{g:a}", "app:{g:a}expiry"]),
            (":x", &["app:{g:}:x", "app:{g:}", "app:{g:}expiry"]),
            ("}:x", &["app:{g:}}:x", "app:{g:}}", "app:{g:}}expiry"]),
        ] {
            assert_eq!(keys.record(key).unwrap().keys, expected);
        }
        assert_eq!(keys.log("a").unwrap(), "app:{l:a}");
        assert_eq!(keys.topic_channel("a").unwrap(), "app:2/topic:a");
        assert_eq!(keys.log_channel("a"), "app:2/log:a");
        assert_eq!(keys.heartbeat_channel(10), "app:2/heartbeat:000000000000000a");
        for (length, error) in [(MAX_KEY, None), (MAX_KEY + 1, Some(BackendError::Full))] {
            let key = "x".repeat(length);
            assert_eq!(keys.record(&key).err(), error);
            assert_eq!(keys.log(&key).err(), error);
            assert_eq!(keys.topic_channel(&key).err(), error);
        }
    }
}
