//! Points in time, in milliseconds since 1970.

use std::time::{SystemTime, UNIX_EPOCH};

const SECOND: u64 = 1000;
const DAY: u64 = 86_400 * SECOND;

/// The time now.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Writes a point in time as ISO 8601 wants it: `2025-11-25T10:30:00.000Z`.
pub(crate) fn timestamp(time: u64) -> String {
    let (year, month, day) = date(time / DAY);
    let (seconds, millis) = (time % DAY / SECOND, time % SECOND);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The year, month and day so many days after 1970 began.
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

#[cfg(test)]
mod tests {
    use super::timestamp;

    #[test]
    fn times_are_written_as_the_calendar_has_them() {
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
            assert_eq!(timestamp(seconds * 1000 + 7), format!("{expected}.007Z"));
        }
        assert!(timestamp(u64::MAX).ends_with('Z'));
    }
}
