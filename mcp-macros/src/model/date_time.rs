//! Dates and times of ISO 8601, in the profile of [RFC 3339](https://www.rfc-editor.org/rfc/rfc3339#section-5.6).

/// Returns whether the text is a date, or a date and a time with an offset from UTC.
pub(super) fn is_date_or_date_time(text: &str) -> bool {
    text.split_once('T').map_or_else(|| is_date(text), |(date, time)| is_date(date) && is_time(time))
}

fn is_date(text: &str) -> bool {
    let [Some(year), Some(month), Some(day)] = fields(text, '-', [4, 2, 2]) else { return false };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// Accepts a leap second in every minute, because its validity depends on the offset.
fn is_time(text: &str) -> bool {
    let Some(start) = text.find(['Z', '+', '-']) else { return false };
    let (time, offset) = text.split_at(start);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let has_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let is_offset = offset == "Z" || matches!(fields(&offset[1..], ':', [2, 2]), [Some(0..=23), Some(0..=59)]);
    let is_time = matches!(fields(time, ':', [2, 2, 2]), [Some(0..=23), Some(0..=59), Some(0..=60)]);
    is_time && has_fraction && is_offset
}

/// Reads numbers with fixed numbers of digits. The last one is `None` if there are further fields.
fn fields<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> [Option<u16>; N] {
    let mut parts = text.splitn(N, separator);
    digits.map(|digits| {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { part.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::is_date_or_date_time;

    #[test]
    fn dates_and_times_are_recognized() {
        for (text, expected) in [
            ("2025-01-12", true),
            ("2024-02-29", true),
            ("2025-01-12T15:00:58Z", true),
            ("2025-01-12T15:00:58.123+02:00", true),
            ("2025-01-12T15:00:58-11:30", true),
            ("2023-02-29", false),
            ("2025-13-01", false),
            ("2025-00-01", false),
            ("2025-1-1", false),
            ("2025-01-12-01", false),
            ("2025-01-12T15:00:58", false),
            ("2025-01-12T15:00Z", false),
            ("2025-01-12T24:00:00Z", false),
            ("2025-01-12T15:00:58.Z", false),
            ("2025-01-12T15:00:58+2:00", false),
            ("2025-01-12T15:00:58Zulu", false),
            ("2025-01-12 15:00:58Z", false),
            ("2025-01-12T", false),
            ("yesterday", false),
            ("", false),
        ] {
            assert_eq!(is_date_or_date_time(text), expected, "{text}");
        }
    }
}
