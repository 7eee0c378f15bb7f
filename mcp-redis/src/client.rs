//! Sends commands and scripts. Redis executes each script atomically.

use std::{fmt, time::Duration};

use mcp_runtime::backend::BackendError;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, RetryMethod, ServerErrorKind, Value, cmd};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep, timeout_at},
};

use crate::connection::{Backoff, Link};

/// The maximum size of the arguments of all commands that wait for responses, in KiB.
const MAX_KIB_IN_FLIGHT: u32 = 128 << 10;

/// The maximum size of a value in bytes.
const MAX_VALUE: usize = 64 << 20;

/// Sends commands over the current connection.
pub(crate) struct Client {
    link: Link,
    timeout: Duration,
    commands: Semaphore,
    kib: Semaphore,
    /// Whether the commands are sent to a cluster.
    is_cluster: bool,
    pub(crate) scripts: Scripts,
}

/// Whether a command may be sent again after the connection was lost while it waited for its response.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Repeat {
    /// Executing it twice has the effect of executing it once.
    Safe,
    Never,
}

/// A command whose encoding may depend on whether it has been sent before.
pub(crate) struct Request<F> {
    encode: F,
    repeat: Repeat,
    /// The size of the arguments in bytes.
    size: usize,
}

impl Client {
    pub(crate) fn new(link: Link, timeout: Duration, max_in_flight: usize, is_cluster: bool) -> Self {
        let commands = Semaphore::new(max_in_flight.min(Semaphore::MAX_PERMITS));
        let (kib, scripts) = (Semaphore::new(MAX_KIB_IN_FLIGHT as usize), Scripts::default());
        Self { link, timeout, commands, kib, is_cluster, scripts }
    }

    /// Returns the time at which an operation that starts now must have ended.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Sends a command that only reads.
    pub(crate) async fn read<T: FromRedisValue>(&self, command: &Cmd, deadline: Instant) -> Result<T, BackendError> {
        let request = Request { encode: |_| command.clone(), repeat: Repeat::Safe, size: 0 };
        parse(self.send(request, deadline).await?)
    }

    /// Sends a command that changes something. `encode` receives whether it has been sent before, and `size` is the size of
    /// the arguments in bytes.
    pub(crate) async fn write<T: FromRedisValue>(
        &self,
        encode: impl Fn(bool) -> Cmd,
        repeat: Repeat,
        size: usize,
        deadline: Instant,
    ) -> Result<T, BackendError> {
        if size > MAX_VALUE {
            return Err(BackendError::Full);
        }
        parse(self.send(Request { encode, repeat, size }, deadline).await?)
    }

    /// Publishes a message on a channel, at most once. A cluster executes a script instead of the command: one with a key
    /// always runs at the same node, which keeps the order of messages.
    pub(crate) async fn publish(&self, channel: String, message: &[u8]) -> Result<(), BackendError> {
        let deadline = self.deadline();
        if self.is_cluster {
            let call = Call { keys: &[channel], arguments: &[message], if_repeated: None, repeat: Repeat::Never };
            return self.run(&self.scripts.publish, &call, deadline).await;
        }
        let encode = |_| {
            let mut command = cmd("PUBLISH");
            command.arg(&channel).arg(message);
            command
        };
        self.write::<u64>(encode, Repeat::Never, message.len(), deadline).await.map(drop)
    }

    /// Executes a script, whose arguments may depend on whether it has been sent before.
    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        call: &Call<'_>,
        deadline: Instant,
    ) -> Result<T, BackendError> {
        let size = call.size();
        if size > MAX_VALUE {
            return Err(BackendError::Full);
        }
        let encode = |is_repeated| call.encode("EVALSHA", &script.hash, is_repeated);
        match self.send(Request { encode, repeat: call.repeat, size }, deadline).await {
            Err(Failure::NoScript) => {
                let encode = |is_repeated| call.encode("EVAL", script.text, is_repeated);
                parse(self.send(Request { encode, repeat: call.repeat, size }, deadline).await?)
            }
            result => parse(result?),
        }
    }

    async fn send(&self, request: Request<impl Fn(bool) -> Cmd>, deadline: Instant) -> Result<Value, Failure> {
        let _permits = self.admit(request.size)?;
        let unavailable = |reason: &str| Failure::Other(BackendError::Unavailable(reason.to_owned()));
        let (mut backoff, mut is_repeated, mut redirect) = (Backoff::default(), false, None);
        loop {
            let Some((mut connection, number)) = self.link.get(deadline, self.timeout).await else {
                return Err(unavailable("not connected to Redis"));
            };
            let command = (request.encode)(is_repeated);
            let response = async {
                match redirect.take() {
                    Some((host, port)) => connection.ask(&command, (String::as_str(&host), port)).await,
                    None => command.query_async::<Value>(&mut connection).await,
                }
            };
            let error = match timeout_at(deadline, response).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => error,
                Err(_) => {
                    self.link.report_lost(number);
                    return Err(unavailable("no response from Redis in time"));
                }
            };
            match Reaction::to(&error) {
                Reaction::Fail => return Err(Failure::from(error)),
                Reaction::Ask(host, port) => redirect = Some((host, port)),
                Reaction::Wait => {}
                Reaction::Reconnect { was_executed } => {
                    self.link.report_lost(number);
                    if was_executed && request.repeat == Repeat::Never {
                        return Err(Failure::from(error));
                    }
                    is_repeated |= was_executed;
                }
            }
            let pause = backoff.next();
            if Instant::now() + pause >= deadline {
                return Err(Failure::from(error));
            }
            sleep(pause).await;
        }
    }

    /// Admits a command, unless too many wait for responses already.
    fn admit(&self, size: usize) -> Result<(SemaphorePermit<'_>, SemaphorePermit<'_>), Failure> {
        let kib = u32::try_from(size / 1024).unwrap_or(u32::MAX).saturating_add(1).min(MAX_KIB_IN_FLIGHT);
        let permits = self.commands.try_acquire().and_then(|command| Ok((command, self.kib.try_acquire_many(kib)?)));
        let busy = || BackendError::Unavailable("too many commands wait for responses of Redis".to_owned());
        permits.map_err(|_| Failure::Other(busy()))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("available", &self.commands.available_permits()).finish_non_exhaustive()
    }
}

/// The keys and arguments of a script.
pub(crate) struct Call<'a> {
    pub(crate) keys: &'a [String],
    pub(crate) arguments: &'a [&'a [u8]],
    /// The index and value of an argument that differs if the call has been sent before.
    pub(crate) if_repeated: Option<(usize, &'a [u8])>,
    pub(crate) repeat: Repeat,
}

impl<'a> Call<'a> {
    /// Creates a call that can be repeated as it is.
    pub(crate) fn safe(keys: &'a [String], arguments: &'a [&'a [u8]]) -> Self {
        Self { keys, arguments, if_repeated: None, repeat: Repeat::Safe }
    }

    fn size(&self) -> usize {
        self.arguments.iter().map(|argument| argument.len()).sum()
    }

    fn encode(&self, name: &str, script: &str, is_repeated: bool) -> Cmd {
        let mut command = cmd(name);
        command.arg(script).arg(self.keys.len()).arg(self.keys);
        for (index, argument) in self.arguments.iter().enumerate() {
            match self.if_repeated {
                Some((at, other)) if is_repeated && at == index => command.arg(other),
                _ => command.arg(*argument),
            };
        }
        command
    }
}

/// The action to take after an error.
enum Reaction {
    Fail,
    /// Send the command to another node.
    Ask(String, u16),
    /// Wait, then send the command again, which was not executed.
    Wait,
    /// Open another connection, then send the command again if that is safe.
    Reconnect {
        /// Whether the command may have been executed.
        was_executed: bool,
    },
}

impl Reaction {
    fn to(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::Ask) => match error.redirect_node() {
                Some((host, port)) => Self::Ask(host.to_owned(), port),
                None => Self::Fail,
            },
            // A server that has become a replica.
            ErrorKind::Server(ServerErrorKind::ReadOnly) => Self::Reconnect { was_executed: false },
            ErrorKind::Server(_) if !matches!(error.retry_method(), RetryMethod::NoRetry) => Self::Wait,
            ErrorKind::ClusterConnectionNotFound => Self::Wait,
            ErrorKind::Io => Self::Reconnect { was_executed: true },
            _ => Self::Fail,
        }
    }
}

enum Failure {
    NoScript,
    Other(BackendError),
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) {
            return Self::NoScript;
        }
        // The code, or the text of an error within a script.
        let text = error.to_string();
        let is_full = text.contains("OOM command not allowed") || error.code() == Some("OOM");
        Self::Other(if is_full { BackendError::Full } else { BackendError::Unavailable(text) })
    }
}

impl From<Failure> for BackendError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NoScript => Self::Unavailable("Redis does not keep scripts".to_owned()),
            Failure::Other(error) => error,
        }
    }
}

fn parse<T: FromRedisValue>(value: Value) -> Result<T, BackendError> {
    let unexpected = |error: redis::ParsingError| BackendError::Unavailable(format!("unexpected response: {error}"));
    T::from_redis_value(value).map_err(unexpected)
}

/// A Lua script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    /// The hash by which Redis finds a script that it has executed before.
    pub(crate) hash: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }
}

#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) set: Script,
    pub(crate) insert: Script,
    pub(crate) delete: Script,
    pub(crate) names: Script,
    pub(crate) count: Script,
    pub(crate) time: Script,
    pub(crate) append: Script,
    pub(crate) last: Script,
    pub(crate) remove: Script,
    pub(crate) publish: Script,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            set: Script::new(concat!(include_str!("scripts/group.lua"), include_str!("scripts/set.lua"))),
            insert: Script::new(concat!(include_str!("scripts/group.lua"), include_str!("scripts/insert.lua"))),
            delete: Script::new(concat!(include_str!("scripts/group.lua"), include_str!("scripts/delete.lua"))),
            names: Script::new(concat!(include_str!("scripts/group.lua"), include_str!("scripts/names.lua"))),
            count: Script::new(include_str!("scripts/count.lua")),
            time: Script::new(include_str!("scripts/time.lua")),
            append: Script::new(include_str!("scripts/append.lua")),
            last: Script::new(include_str!("scripts/last.lua")),
            remove: Script::new(include_str!("scripts/remove.lua")),
            publish: Script::new(include_str!("scripts/publish.lua")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that starts, or a cluster that changes, executes the command later. Other errors remain.
    #[test]
    fn commands_are_repeated_after_transient_errors() {
        use ServerErrorKind::{
            BusyLoading, ClusterDown, CrossSlot, MasterDown, Moved, NoPerm, NoScript, ReadOnly, ResponseError, TryAgain,
        };
        let server = |kinds: &[ServerErrorKind]| -> Vec<_> { kinds.iter().copied().map(ErrorKind::Server).collect() };
        for (expected, kinds) in [
            ("wait", server(&[BusyLoading, ClusterDown, MasterDown, Moved, TryAgain])),
            ("wait", vec![ErrorKind::ClusterConnectionNotFound]),
            ("reconnect", server(&[ReadOnly])),
            ("reconnect, may be executed", vec![ErrorKind::Io]),
            ("fail", server(&[CrossSlot, NoPerm, NoScript, ResponseError])),
            ("fail", vec![ErrorKind::AuthenticationFailed, ErrorKind::UnexpectedReturnType]),
        ] {
            for kind in kinds {
                let reaction = match Reaction::to(&RedisError::from((kind, "test"))) {
                    Reaction::Fail => "fail",
                    Reaction::Ask(..) => "ask",
                    Reaction::Wait => "wait",
                    Reaction::Reconnect { was_executed: false } => "reconnect",
                    Reaction::Reconnect { was_executed: true } => "reconnect, may be executed",
                };
                assert_eq!(reaction, expected, "{kind:?}");
            }
        }
    }
}
