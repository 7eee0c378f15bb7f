//! Recognizes dates and times in text.

/// Returns whether the text is a `date-time` of RFC 3339.
pub fn is_date_time(text: &str) -> bool {
    text.split_once(['T', 't']).is_some_and(|(date, time)| is_date(date) && is_time(time))
}

/// Returns whether the text is a `full-date` of [RFC 3339](https://www.rfc-editor.org/rfc/rfc3339#section-5.6).
pub fn is_date(text: &str) -> bool {
    let [year, month, day] = split(text, '-').map(|(part, length)| number(part, length));
    let (Some(year), Some(month), Some(day)) = (year, month, day) else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    text.len() == 10 && (1..=days).contains(&day)
}

/// Splits a date into its parts, each with its number of digits.
fn split(text: &str, at: char) -> [(&str, usize); 3] {
    let mut parts = text.splitn(3, at);
    let mut next = || parts.next().unwrap_or_default();
    [(next(), 4), (next(), 2), (next(), 2)]
}

/// Returns whether the text is a `full-time` of RFC 3339. A leap second is valid only in the last minute of a day in
/// UTC.
pub(crate) fn is_time(text: &str) -> bool {
    let (Some(time), Some(rest)) = (text.get(..8), text.get(8..)) else { return false };
    let part = |range: std::ops::Range<usize>| time.get(range).and_then(|part| number(part, 2));
    let colons = time.as_bytes()[2] == b':' && time.as_bytes()[5] == b':';
    let (Some(hour @ 0..=23), Some(minute @ 0..=59), Some(second @ 0..=60)) = (part(0..2), part(3..5), part(6..8))
    else {
        return false;
    };
    let offset = match rest.strip_prefix('.') {
        Some(fraction) => {
            let offset = fraction.trim_start_matches(|char: char| char.is_ascii_digit());
            if offset.len() == fraction.len() {
                return false;
            }
            offset
        }
        None => rest,
    };
    let last_minute =
        |offset: i32| (i32::from(hour) * 60 + i32::from(minute) - offset).rem_euclid(24 * 60) == 24 * 60 - 1;
    colons && offset_minutes(offset).is_some_and(|offset| second < 60 || last_minute(offset))
}

/// Returns the offset from UTC in minutes.
fn offset_minutes(text: &str) -> Option<i32> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = text.strip_prefix(['+', '-'])?.split_once(':')?;
    match (number(hours, 2)?, number(minutes, 2)?) {
        (hours @ 0..=23, minutes @ 0..=59) => Some(sign * i32::from(hours * 60 + minutes)),
        _ => None,
    }
}

fn number(text: &str, digits: usize) -> Option<u16> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}
