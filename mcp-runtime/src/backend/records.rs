//! The trait of stores for small values.

use std::{fmt, sync::Arc, time::Duration};

use super::{error::BackendFuture, time::Timestamp};
use crate::stdx::debug;

/// A store of small values with a limited lifetime, in which every change is a compare-and-set:
/// [`MemoryRecords`](crate::backend::MemoryRecords), or storage that several processes share.
///
/// A store knows keys and bytes, and nothing about what they mean. Keys are ASCII text of at most 1,024 bytes. A key
/// `GROUP:NAME` with a colon belongs to the group in front of its first colon, whose records can be
/// [listed](Self::list) and [counted](Self::count), and whose number can be [limited](Self::insert). Other keys belong
/// to no group.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_runtime::backend::{MemoryRecords, RecordCondition, Records as _};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let records = MemoryRecords::default();
/// let hour = Duration::from_secs(60 * 60);
/// let first = records.set("app/greeting", RecordCondition::Absent, b"hello".to_vec(), hour).await?;
/// assert!(first.is_some());
///
/// // Another process has written the key.
/// assert_eq!(records.set("app/greeting", RecordCondition::Absent, b"bye".to_vec(), hour).await?, None);
/// assert_eq!(*records.get("app/greeting").await?.unwrap().value, *b"hello");
/// # Ok::<(), mcp_runtime::backend::BackendError>(())
/// # }).unwrap();
/// ```
///
/// # Atomicity
///
/// [`set`](Self::set), [`insert`](Self::insert) and [`delete`](Self::delete) are atomic: of several concurrent calls with
/// the same [version](RecordCondition::Version), at most one succeeds, and concurrent insertions together keep their
/// quota. When a change has been made, every later
/// [`get`](Self::get) in any process returns it or a newer one.
///
/// # Expiry
///
/// A record whose time to live has passed no longer exists. Nothing else removes a record: a full store rejects
/// changes that would add to it.
///
/// # Cancel safety
///
/// A change whose future was dropped may still take effect, but never in part.
///
/// # Errors
///
/// A change that failed may or may not have been made, unless the error is
/// [`BackendError::Full`](crate::backend::BackendError::Full).
pub trait Records: fmt::Debug + Send + Sync + 'static {
    /// Returns a record, or `None` if it does not exist.
    fn get<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Option<Record>>;

    /// Writes a record if the condition holds, and sets the time after which it expires. Returns the new version, or
    /// `None` if the condition does not hold.
    fn set<'a>(
        &'a self,
        key: &'a str,
        condition: RecordCondition,
        value: Vec<u8>,
        ttl: Duration,
    ) -> BackendFuture<'a, Option<RecordVersion>>;

    /// Writes the record `GROUP:NAME` if it does not exist, unless there are too many of its account or of its group.
    ///
    /// The record is counted for its account until it expires or is deleted. Later changes by [`set`](Self::set) keep
    /// the account. Accounts of several groups are independent, and records that `set` has created have none.
    fn insert<'a>(
        &'a self,
        group: &'a str,
        name: &'a str,
        value: Vec<u8>,
        ttl: Duration,
        quota: RecordQuota<'a>,
    ) -> BackendFuture<'a, Insertion>;

    /// Deletes a record if the condition holds. Returns whether a record was deleted.
    fn delete<'a>(&'a self, key: &'a str, condition: RecordCondition) -> BackendFuture<'a, bool>;

    /// Returns the names and values of at most `limit` records of a group, in the order of their names. Starts after the
    /// name `after` if there is one, even if its record no longer exists.
    ///
    /// Records that are written meanwhile may be absent.
    fn list<'a>(
        &'a self,
        group: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BackendFuture<'a, Vec<(String, Record)>>;

    /// Returns the number of records of a group.
    fn count<'a>(&'a self, group: &'a str) -> BackendFuture<'a, usize>;

    /// Returns the current time of the store: processes use it if they must agree on the time, since their own clocks
    /// may differ. A store without a clock returns [`Timestamp::now`].
    fn now(&self) -> BackendFuture<'_, Timestamp>;
}

/// Implements [`Records`] for a type that passes each operation on. `$call` is a macro that takes `self`, the operation, its
/// key, and the value that it writes.
macro_rules! forward_records {
    ([$($generics:tt)*] $ty:ty, $this:ident, $call:ident) => {
        impl<$($generics)*> Records for $ty {
            fn get<'a>(&'a $this, key: &'a str) -> BackendFuture<'a, Option<Record>> {
                $call!($this, Get get(key), key, b"")
            }

            fn set<'a>(
                &'a $this,
                key: &'a str,
                condition: RecordCondition,
                value: Vec<u8>,
                ttl: Duration,
            ) -> BackendFuture<'a, Option<RecordVersion>> {
                $call!($this, Set set(key, condition, value, ttl), key, value)
            }

            fn insert<'a>(
                &'a $this,
                group: &'a str,
                name: &'a str,
                value: Vec<u8>,
                ttl: Duration,
                quota: RecordQuota<'a>,
            ) -> BackendFuture<'a, Insertion> {
                $call!($this, Insert insert(group, name, value, ttl, quota), format!("{group}:{name}"), value)
            }

            fn delete<'a>(&'a $this, key: &'a str, condition: RecordCondition) -> BackendFuture<'a, bool> {
                $call!($this, Delete delete(key, condition), key, b"")
            }

            fn list<'a>(
                &'a $this,
                group: &'a str,
                after: Option<&'a str>,
                limit: usize,
            ) -> BackendFuture<'a, Vec<(String, Record)>> {
                $call!($this, List list(group, after, limit), group, b"")
            }

            fn count<'a>(&'a $this, group: &'a str) -> BackendFuture<'a, usize> {
                $call!($this, Count count(group), group, b"")
            }

            fn now(&$this) -> BackendFuture<'_, Timestamp> {
                $call!($this, Now now(), "", b"")
            }
        }
    };
}

/// Passes an operation to what an `Arc` points to.
macro_rules! call_target {
    ($this:ident, $kind:ident $method:ident($($argument:ident),*), $key:expr, $value:expr) => {
        (**$this).$method($($argument),*)
    };
}

pub(crate) use call_target;
pub(crate) use forward_records;

forward_records!([R: Records + ?Sized] Arc<R>, self, call_target);

/// A value of a store.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The value.
    pub value: Arc<[u8]>,
    /// Changes whenever the key is written.
    pub version: RecordVersion,
}

impl Record {
    /// Creates a record.
    pub fn new(value: impl Into<Arc<[u8]>>, version: RecordVersion) -> Self {
        Self { value: value.into(), version }
    }
}

// Omits the value, which may be secret.
debug!(Record, self, bytes: self.value.len(), version: self.version);

/// The version of a record. A key never has the same version twice, even if its record was deleted meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordVersion(u64);

impl RecordVersion {
    /// Creates a version from the number that a store has assigned.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A precondition for a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordCondition {
    /// Nothing: the record is changed whether or not it exists.
    Always,
    /// The record does not exist.
    Absent,
    /// The record has this version.
    Version(RecordVersion),
}

impl RecordCondition {
    /// Returns whether the condition holds for a record with this version, or without a version if there is none.
    pub fn holds(self, current: Option<RecordVersion>) -> bool {
        match self {
            Self::Always => true,
            Self::Absent => current.is_none(),
            Self::Version(version) => current == Some(version),
        }
    }
}

/// The maximum numbers of records when one is [inserted](Records::insert).
///
/// ```
/// use std::time::Duration;
///
/// use mcp_runtime::backend::{Insertion, MemoryRecords, RecordQuota, Records as _};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let records = MemoryRecords::default();
/// let hour = Duration::from_secs(60 * 60);
/// let quota = RecordQuota { account: "ada", per_account: 1, total: 1000 };
/// let first = records.insert("app/note", "1", b"hello".to_vec(), hour, quota).await?;
/// assert!(matches!(first, Insertion::Inserted(_)));
/// let second = records.insert("app/note", "2", b"hello".to_vec(), hour, quota).await?;
/// assert_eq!(second, Insertion::Full { of_account: 1, in_total: 1 });
/// # Ok::<(), mcp_runtime::backend::BackendError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordQuota<'a> {
    /// The account charged for this record in its group: ASCII text of at most 64 bytes. If it is empty, the record
    /// counts in its group only.
    pub account: &'a str,
    /// The maximum number of records of the account, including the new record. Ignored without an account.
    pub per_account: usize,
    /// The maximum number of records of the group, including the new record.
    pub total: usize,
}

/// The outcome of an [insertion](Records::insert).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insertion {
    /// The record was written with this version.
    Inserted(RecordVersion),
    /// The record exists already.
    Exists,
    /// There are too many records, and nothing was changed.
    Full {
        /// The number of records of the account, 0 without an account.
        of_account: usize,
        /// The number of records of the group.
        in_total: usize,
    },
}
