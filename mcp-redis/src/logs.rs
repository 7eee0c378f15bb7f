use std::time::Duration;

use mcp_runtime::backend::{
    Append, BackendError, BackendFuture, EventLogEntry, EventLogs, LogBounds, LogPosition, TopicEvent,
};
use redis::{Value, cmd};
use tokio::time::{Instant, timeout_at};

use crate::{
    backend::{Redis, milliseconds},
    client::Call,
    subscriptions::{Latest, announced},
};

/// The interval at which the process asks for the newest entry of a log that a reader waits for, unless an entry was
/// announced in the meantime. A subscriber notices a lost connection sooner, but it is not told of messages that the nodes
/// of a cluster have lost, or of logs that have expired. Every idle stream costs one check per interval.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The largest number that a script can compare exactly.
const MAX_BOUND: usize = 1 << 50;

/// The reply of `XRANGE`: ids, and the name and the value of the only field.
type StreamEntries = Vec<(String, (Value, Vec<u8>))>;

impl EventLogs for Redis {
    fn append<'a>(
        &'a self,
        key: &'a str,
        after: LogPosition,
        entries: Vec<Vec<u8>>,
        bounds: LogBounds,
    ) -> BackendFuture<'a, Append> {
        Box::pin(async move {
            let log = self.keys().log(key)?;
            let after = decimal(usize::try_from(after.number()).unwrap_or(usize::MAX));
            let (max_entries, max_bytes) = (decimal(bounds.entries), decimal(bounds.bytes));
            let (ttl, channel) = (milliseconds(bounds.ttl), self.keys().log_channel(key));
            let mut arguments: Vec<&[u8]> = vec![&after, &max_entries, &max_bytes, &ttl, channel.as_bytes()];
            arguments.extend(entries.iter().map(Vec::as_slice));
            let (log, deadline) = ([log], self.client().deadline());
            let call = Call::safe(&log, &arguments);
            let (is_appended, last): (bool, u64) = self.client().run(&self.scripts().append, &call, deadline).await?;
            let last = LogPosition::new(last);
            Ok(if is_appended { Append::Appended(last) } else { Append::Conflict(last) })
        })
    }

    fn read<'a>(
        &'a self,
        key: &'a str,
        after: LogPosition,
        limit: usize,
    ) -> BackendFuture<'a, Option<Vec<EventLogEntry>>> {
        Box::pin(async move {
            let deadline = self.client().deadline();
            let log = self.keys().log(key)?;
            let range = format!("{}-0", after.number().saturating_add(1));
            let mut command = cmd("XRANGE");
            command.arg(&log).arg(range).arg("+").arg("COUNT").arg(limit.clamp(1, MAX_BOUND));
            let found: StreamEntries = self.client().read(&command, deadline).await?;
            let mut entries = found.into_iter().map(|(id, (_, value))| Some(EventLogEntry::new(position(&id)?, value)));
            let entries = entries.by_ref().collect::<Option<Vec<_>>>();
            let entries = entries.ok_or_else(|| BackendError::Unavailable("the log has been altered".to_owned()))?;
            if entries.is_empty() {
                let exists: bool = self.client().read(cmd("EXISTS").arg(&log), deadline).await?;
                return Ok(exists.then(Vec::new));
            }
            Ok(Some(entries.into_iter().take(limit).collect()))
        })
    }

    fn appended<'a>(&'a self, key: &'a str, after: LogPosition) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            let log = [self.keys().log(key)?];
            let (channel, channels) = (self.keys().log_channel(key), self.subscriptions().channels());
            let (mut announcements, mut known) = match channels.follow(&channel) {
                Some((announcements, latest)) => (announcements, Some(latest)),
                None => {
                    let subscribe = self.subscriptions().subscribe(channel.clone(), self.client().deadline());
                    (Box::pin(subscribe).await?, None)
                }
            };
            loop {
                let latest = match known.filter(|latest| latest.known_at.elapsed() < CHECK_INTERVAL) {
                    Some(latest) => latest,
                    None => {
                        let known_at = Instant::now();
                        let call = Call::safe(&log, &[]);
                        let deadline = self.client().deadline();
                        // Not in place, since readers wait for announcements most of the time.
                        let last: Option<u64> =
                            Box::pin(self.client().run(&self.scripts().last, &call, deadline)).await?;
                        let Some(position) = last else {
                            channels.forget_latest(&channel);
                            return Ok(());
                        };
                        let latest = Latest { position, known_at };
                        channels.set_latest(&channel, latest);
                        latest
                    }
                };
                if latest.position > after.number() {
                    return Ok(());
                }
                known = match timeout_at(latest.known_at + CHECK_INTERVAL, announcements.next()).await {
                    Ok(None) => return Err(BackendError::Unavailable("the connection was closed".to_owned())),
                    Ok(Some(TopicEvent::Message(message))) => {
                        let Some(position) = announced(&message) else { return Ok(()) };
                        Some(Latest { position, known_at: Instant::now() })
                    }
                    _ => None,
                };
            }
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            let (log, channel) = ([self.keys().log(key)?], self.keys().log_channel(key));
            let arguments = [channel.as_bytes()];
            self.client().run(&self.scripts().remove, &Call::safe(&log, &arguments), self.client().deadline()).await
        })
    }
}

fn decimal(bound: usize) -> Vec<u8> {
    bound.min(MAX_BOUND).to_string().into_bytes()
}

/// Returns the position in the id of an entry.
fn position(id: &str) -> Option<LogPosition> {
    let (position, _) = id.split_once('-')?;
    position.parse().ok().map(LogPosition::new)
}
