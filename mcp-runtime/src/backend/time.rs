//! Points in time with millisecond precision.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

const MINUTE: u64 = 60_000;
const DAY: u64 = 1440 * MINUTE;

/// A point in time, in whole milliseconds since the Unix epoch.
///
/// Unlike a [`SystemTime`], it survives a round trip through any store unchanged, so it can serve as a sort key. It
/// displays as an ISO 8601 date and time in UTC:
///
/// ```
/// use mcp_runtime::backend::Timestamp;
///
/// assert_eq!(Timestamp::from_unix_millis(1_764_066_600_000).to_string(), "2025-11-25T10:30:00.000Z");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Returns the current time.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Creates a timestamp from the milliseconds since the Unix epoch.
    pub const fn from_unix_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since the Unix epoch.
    pub const fn as_unix_millis(self) -> u64 {
        self.0
    }

    /// Adds a duration, saturating at the last representable timestamp.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(whole_millis(duration)))
    }

    /// Returns the time elapsed since `earlier`, or zero if `earlier` is later.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Truncates to whole milliseconds. Times before the Unix epoch become the epoch.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self(time.duration_since(UNIX_EPOCH).map_or(0, whole_millis))
    }
}

impl From<Timestamp> for String {
    fn from(time: Timestamp) -> Self {
        time.to_string()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.0 / DAY);
        let (minutes, millis) = (self.0 % DAY / MINUTE, self.0 % MINUTE);
        // Formatting each number would take a tenth of the instructions of a small task.
        let mut rest = *b"-00-00T00:00:00.000Z";
        for (mut number, digits) in [
            (month, 1..3),
            (day, 4..6),
            (minutes / 60, 7..9),
            (minutes % 60, 10..12),
            (millis / 1000, 13..15),
            (millis % 1000, 16..19),
        ] {
            for digit in rest[digits].iter_mut().rev() {
                *digit += (number % 10) as u8;
                number /= 10;
            }
        }
        write!(f, "{year:04}{}", str::from_utf8(&rest).unwrap_or_default())
    }
}

/// Returns the whole milliseconds of a duration, saturating at `u64::MAX`.
pub(crate) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Serializes durations as whole milliseconds.
pub(crate) mod millis {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(super::whole_millis(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

/// Returns the year, month and day of a day counted from 1970-01-01.
fn date(mut days: u64) -> (u64, u64, u64) {
    const CYCLE: u64 = 146_097;
    let mut year = 1970 + days / CYCLE * 400;
    days %= CYCLE;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Returns the nanoseconds of a duration, which are limited so that sums do not overflow.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_display_as_iso_8601() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_799, "2000-02-29T23:59:59"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_735_689_599, "2024-12-31T23:59:59"),
            (1_764_066_600, "2025-11-25T10:30:00"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (4_107_455_999, "2100-02-27T23:59:59"),
            (13_574_563_200, "2400-02-29T00:00:00"),
        ] {
            let timestamp = Timestamp::from_unix_millis(seconds * 1000 + 7);
            assert_eq!(timestamp.to_string(), format!("{expected}.007Z"));
        }
        for (millis, expected) in [
            (1_764_066_600_000, "2025-11-25T10:30:00.000Z"),
            (1_764_066_600_987, "2025-11-25T10:30:00.987Z"),
            (u64::MAX, "584556019-04-03T14:25:51.615Z"),
        ] {
            assert_eq!(Timestamp::from_unix_millis(millis).to_string(), expected);
        }
    }
}
