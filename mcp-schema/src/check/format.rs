//! The string formats that are enforced. All other formats are annotations, as in JSON Schema.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::schema::SchemaError;

/// A format that is enforced.
#[derive(Debug)]
pub(super) struct Format {
    pub(super) name: &'static str,
    pub(super) accepts: fn(&str) -> bool,
}

static FORMATS: [Format; 9] = [
    Format { name: "date", accepts: is_date },
    Format { name: "date-time", accepts: is_date_time },
    Format { name: "email", accepts: is_email },
    Format { name: "hostname", accepts: is_hostname },
    Format { name: "ipv4", accepts: |text| text.parse::<Ipv4Addr>().is_ok() },
    Format { name: "ipv6", accepts: |text| text.parse::<Ipv6Addr>().is_ok() },
    Format { name: "time", accepts: is_time },
    Format { name: "uri", accepts: is_uri },
    Format { name: "uuid", accepts: is_uuid },
];

impl Format {
    /// Returns the format with this name, if it is enforced.
    ///
    /// # Errors
    ///
    /// Returns an error if the name differs from the name of an enforced format in case and separators only. Names such
    /// as `ulid` and `iri`, which differ by a letter, are formats of their own.
    pub(super) fn named(name: &str) -> Result<Option<&'static Self>, SchemaError> {
        let letters = |name: &str| name.replace(['-', '_', ' '], "").to_ascii_lowercase();
        match FORMATS.iter().find(|format| letters(format.name) == letters(name)) {
            Some(format) if format.name != name => Err(SchemaError::new(format!(
                "unknown format `{name}`, which would not be enforced\nhelp: did you mean `{}`?",
                format.name
            ))),
            format => Ok(format),
        }
    }
}

/// Returns whether the text is a common mail address: its local part is not quoted, and its domain is a host name or an
/// address in brackets.
fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let allowed =
        |char: char| !char.is_ascii() || char.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(char);
    let literal = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = |text: &str| {
        text.parse::<Ipv4Addr>().is_ok()
            || text.strip_prefix("IPv6:").is_some_and(|text| text.parse::<Ipv6Addr>().is_ok())
    };
    (1..=64).contains(&local.len())
        && local.chars().all(allowed)
        && local.split('.').all(|atom| !atom.is_empty())
        && literal.map_or_else(|| is_domain(domain), address)
}

/// Returns whether the text is a host name of [RFC 1123](https://www.rfc-editor.org/rfc/rfc1123#section-2.1).
fn is_hostname(text: &str) -> bool {
    text.is_ascii() && is_domain(text)
}

/// Returns whether the text is a host name, with letters of all scripts.
fn is_domain(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|char| char == '-' || char.is_alphanumeric())
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// Returns whether the text consists of a scheme, a colon, and characters that are allowed in a URI. Does not parse the
/// authority.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let hex = |at: usize| rest.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
    scheme.starts_with(|char: char| char.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && rest.bytes().enumerate().all(|(at, byte)| match byte {
            b'%' => hex(at + 1) && hex(at + 2),
            byte => byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=".contains(&byte),
        })
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Returns whether the text is a `date-time` of RFC 3339.
pub fn is_date_time(text: &str) -> bool {
    text.split_once(['T', 't']).is_some_and(|(date, time)| is_date(date) && is_time(time))
}

/// Returns whether the text is a `full-date` of [RFC 3339](https://www.rfc-editor.org/rfc/rfc3339#section-5.6).
pub fn is_date(text: &str) -> bool {
    let [Some(year), Some(month), Some(day)] = numbers(text, '-', [4, 2, 2]) else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// Returns whether the text is a `full-time` of RFC 3339. A leap second is valid only in the last minute of a day in
/// UTC.
fn is_time(text: &str) -> bool {
    let (Some(time), Some(rest)) = (text.get(..8), text.get(8..)) else { return false };
    let [Some(hour @ 0..=23), Some(minute @ 0..=59), Some(second @ 0..=60)] = numbers(time, ':', [2, 2, 2]) else {
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
    offset_minutes(offset).is_some_and(|offset| second < 60 || last_minute(offset))
}

/// Returns the offset from UTC in minutes.
fn offset_minutes(text: &str) -> Option<i32> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    match numbers(text.strip_prefix(['+', '-'])?, ':', [2, 2]) {
        [Some(hours @ 0..=23), Some(minutes @ 0..=59)] => Some(sign * i32::from(hours * 60 + minutes)),
        _ => None,
    }
}

/// Reads numbers with fixed numbers of digits. The last one is `None` if there are further numbers.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> [Option<u16>; N] {
    let mut parts = text.splitn(N, separator);
    digits.map(|digits| {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { part.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_valid_and_reject_invalid_text() {
        for (name, good, bad) in [
            (
                "date",
                &["2024-02-29", "2000-02-29", "1999-12-31"] as &[&str],
                &[
                    "2023-02-29",
                    "1900-02-29",
                    "2024-04-31",
                    "2024-13-01",
                    "2024-00-01",
                    "2024-1-01",
                    "24-01-01",
                    "2024-01-011",
                    "2024-01-02-99",
                    "x",
                    "",
                    "２０24-01-01",
                ] as &[&str],
            ),
            (
                "date-time",
                &["2024-02-29T12:00:00Z", "2024-02-29t01:59:60.123+02:00"],
                &[
                    "2024-02-29",
                    "2024-02-29T12:00:00",
                    "2024-02-30T12:00:00Z",
                    "2024-02-29T23:59:60+02:00",
                    "2024-02-29T",
                    "T",
                ],
            ),
            (
                "time",
                &["00:00:00Z", "23:59:59.5-11:30"],
                &[
                    "24:00:00Z",
                    "12:60:00Z",
                    "12:00Z",
                    "12:00:00",
                    "12:00:00.Z",
                    "12-00-00Z",
                    "12:00:00+2:00",
                    "12:00:00+24:00",
                    "12:00:00-02:60",
                    "12:00:00+01:00:99",
                    "éééé:é",
                ],
            ),
            (
                "email",
                &["a@b.c", "first.last+tag@example.org", "ü@example.org", "a@[127.0.0.1]", "a@[IPv6:::1]"],
                &["a", "@b", "a@", "a b@c.d", "a..b@c.d", "a@b..c", "a@-b.c", "a@[x]", "a@[::1]", ""],
            ),
            (
                "hostname",
                &["localhost", "a-b.example.org", "xn--bcher-kva.example"],
                &["", "-a", "a-", "a..b", "a b", "a_b", "bücher.example"],
            ),
            ("ipv4", &["127.0.0.1"], &["127.0.0", "256.0.0.1", "1.2.3.4.5", "::1", ""]),
            ("ipv6", &["::1", "2001:db8::1"], &["127.0.0.1", ":::", "1", ""]),
            (
                "uri",
                &["https://example.org/a?b=c#d", "urn:isbn:1", "file:///a%20b", "mailto:a@b.c"],
                &["", "a", "/a", "1a:b", "http://a b", "a:%", "a:%2", "a:é", "a:<"],
            ),
            (
                "uuid",
                &["f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"],
                &["f81d4fae7dec11d0a76500a0c91e6bf6", "f81d4fae-7dec-11d0-a765-00a0c91e6bfg", ""],
            ),
        ] {
            let format = Format::named(name).unwrap().unwrap();
            assert_eq!(format.name, name);
            for text in good {
                assert!((format.accepts)(text), "{name}: {text:?}");
            }
            for text in bad {
                assert!(!(format.accepts)(text), "{name}: {text:?}");
            }
        }
    }

    #[test]
    fn the_parts_of_addresses_have_a_maximum_length() {
        let label = |length: usize| "a".repeat(length);
        // Labels of 63 bytes, and their dots.
        let long = [label(63), label(63), label(63)].join(".");
        for (format, text, is_accepted) in [
            ("email", format!("{}@b.c", label(64)), true),
            ("email", format!("{}@b.c", label(65)), false),
            ("email", format!("a@{}", label(64)), false),
            ("hostname", label(63), true),
            ("hostname", label(64), false),
            ("hostname", format!("{long}.{}", label(61)), true),
            ("hostname", format!("{long}.{}", label(62)), false),
        ] {
            let format = Format::named(format).unwrap().unwrap();
            assert_eq!((format.accepts)(&text), is_accepted, "{}: {} bytes", format.name, text.len());
        }
    }

    #[test]
    fn formats_that_are_spelled_differently_are_errors() {
        for (name, expected) in [
            ("e-mail", Some("email")),
            ("datetime", Some("date-time")),
            ("Date_Time", Some("date-time")),
            ("IPv4", Some("ipv4")),
            ("UUID", Some("uuid")),
            ("color", None),
            ("ulid", None),
            ("iri", None),
            ("byte", None),
            ("duration", None),
        ] {
            let found =
                Format::named(name).map(|format| format.map(|format| format.name)).map_err(|error| error.to_string());
            let error = expected.map(|known| {
                format!("unknown format `{name}`, which would not be enforced\nhelp: did you mean `{known}`?")
            });
            assert_eq!(found, error.map_or(Ok(None), Err), "{name}");
        }
    }
}
