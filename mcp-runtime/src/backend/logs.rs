//! The trait of logs.

use std::{fmt, sync::Arc, time::Duration};

use super::{error::BackendFuture, records::call_target};
use crate::stdx::debug;

/// Bounded sequences of entries with a limited lifetime, which any process can append to, read and follow.
///
/// Keys are ASCII text of at most 1,024 bytes. They are independent of the keys of [`Records`](crate::backend::Records).
///
/// ```
/// use std::time::Duration;
///
/// use mcp_runtime::backend::{Append, LogBounds, LogPosition, EventLogs as _, MemoryBackend};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let backend = MemoryBackend::default();
/// let bounds = LogBounds::new(2, 1 << 20, Duration::from_secs(60));
/// let one = vec![b"one".to_vec()];
/// let first = LogPosition::new(1);
/// assert_eq!(backend.append("app/log", LogPosition::START, one.clone(), bounds).await?, Append::Appended(first));
/// // A repetition changes nothing.
/// assert_eq!(backend.append("app/log", LogPosition::START, one, bounds).await?, Append::Conflict(first));
///
/// let more = vec![b"two".to_vec(), b"three".to_vec()];
/// backend.append("app/log", first, more, bounds).await?;
/// // The first entry has been dropped: the log begins with the second one.
/// let entries = backend.read("app/log", LogPosition::START, 10).await?.unwrap();
/// assert_eq!(entries[0].position, LogPosition::new(2));
/// # Ok::<(), mcp_runtime::backend::BackendError>(())
/// # }).unwrap();
/// ```
///
/// # Atomicity
///
/// The entries of one [`append`](Self::append) are consecutive. When it has resolved, every later
/// [`read`](Self::read) in any process returns them.
///
/// # Cancel safety
///
/// An `append` whose future was dropped may still take effect, but never in part.
///
/// # Errors
///
/// An `append` that failed may or may not have been made, unless the error is
/// [`BackendError::Full`](crate::backend::BackendError::Full). It can be repeated as it was: it takes effect once, since a
/// repetition finds the log at another position.
pub trait EventLogs: fmt::Debug + Send + Sync + 'static {
    /// Appends entries to a log whose last entry has the position `after`, or creates the log if that is
    /// [`LogPosition::START`]. Sets the time after which the log expires, and drops its oldest entries beyond the
    /// bounds, which apply to this append only.
    ///
    /// Changes nothing if the log ends at another position. An implementation that repeats an append itself, after it has
    /// lost a connection, may then find the entries of its first attempt.
    fn append<'a>(
        &'a self,
        key: &'a str,
        after: LogPosition,
        entries: Vec<Vec<u8>>,
        bounds: LogBounds,
    ) -> BackendFuture<'a, Append>;

    /// Returns at most `limit` entries after a position, none if there are no newer entries. If entries after the
    /// position have been dropped, begins with the first entry that is left, whose position reveals the loss.
    ///
    /// Returns `None` if the log does not exist.
    fn read<'a>(
        &'a self,
        key: &'a str,
        after: LogPosition,
        limit: usize,
    ) -> BackendFuture<'a, Option<Vec<EventLogEntry>>>;

    /// Waits until the log has an entry after a position, or does not exist. Resolves at once if either is already the
    /// case, and may resolve spuriously. May resolve about ten seconds late if the log has expired, or if a message
    /// between processes was lost.
    fn appended<'a>(&'a self, key: &'a str, after: LogPosition) -> BackendFuture<'a, ()>;

    /// Deletes a log if it exists.
    fn remove<'a>(&'a self, key: &'a str) -> BackendFuture<'a, ()>;
}

/// Implements [`EventLogs`] as [`forward_records`](super::records::forward_records) implements records.
macro_rules! forward_logs {
    ([$($generics:tt)*] $ty:ty, $this:ident, $call:ident) => {
        impl<$($generics)*> EventLogs for $ty {
            fn append<'a>(
                &'a $this,
                key: &'a str,
                after: LogPosition,
                entries: Vec<Vec<u8>>,
                bounds: LogBounds,
            ) -> BackendFuture<'a, Append> {
                $call!($this, Append append(key, after, entries, bounds), key, entries.concat())
            }

            fn read<'a>(
                &'a $this,
                key: &'a str,
                after: LogPosition,
                limit: usize,
            ) -> BackendFuture<'a, Option<Vec<EventLogEntry>>> {
                $call!($this, Read read(key, after, limit), key, b"")
            }

            fn appended<'a>(&'a $this, key: &'a str, after: LogPosition) -> BackendFuture<'a, ()> {
                $call!($this, Appended appended(key, after), key, b"")
            }

            fn remove<'a>(&'a $this, key: &'a str) -> BackendFuture<'a, ()> {
                $call!($this, Remove remove(key), key, b"")
            }
        }
    };
}

pub(crate) use forward_logs;

forward_logs!([L: EventLogs + ?Sized] Arc<L>, self, call_target);

/// The outcome of [`EventLogs::append`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Append {
    /// The entries were appended, the last one at this position.
    Appended(LogPosition),
    /// The log ends at this position, which is not the expected position. It is [`LogPosition::START`] if there is no
    /// log.
    Conflict(LogPosition),
}

impl Append {
    /// Returns the position of the last entry of the log, whether or not the entries were appended.
    pub fn last(self) -> LogPosition {
        let (Self::Appended(last) | Self::Conflict(last)) = self;
        last
    }
}

/// The position of an entry in a log. The first entry that is appended to a log has position 1, each later entry the
/// next number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition(u64);

impl LogPosition {
    /// The position in front of the first entry.
    pub const START: Self = Self(0);

    /// Creates a position from its number.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// Limits on the size and age of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogBounds {
    /// The maximum number of entries.
    pub entries: usize,
    /// The maximum number of bytes of all entries. The newest entry is kept even if it is longer.
    pub bytes: usize,
    /// The time after its last entry at which the log expires.
    pub ttl: Duration,
}

impl LogBounds {
    /// Creates bounds from the maximum number of entries, the maximum number of their bytes, and the time to live.
    pub fn new(entries: usize, bytes: usize, ttl: Duration) -> Self {
        Self { entries, bytes, ttl }
    }
}

/// An entry of a log.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventLogEntry {
    /// The position in the log.
    pub position: LogPosition,
    /// The value.
    pub value: Arc<[u8]>,
}

impl EventLogEntry {
    /// Creates an entry.
    pub fn new(position: LogPosition, value: impl Into<Arc<[u8]>>) -> Self {
        Self { position, value: value.into() }
    }
}

// Omits the value, which may be secret.
debug!(EventLogEntry, self, position: self.position, bytes: self.value.len());
