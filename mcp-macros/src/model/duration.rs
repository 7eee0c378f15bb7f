//! Durations.

/// Parses a duration such as `30s` and returns milliseconds.
pub(super) fn milliseconds(text: &str) -> Result<u64, &'static str> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("expected an integer and a unit: `ms`, `s`, `m` or `h`"),
    };
    let number: u64 = number.parse().map_err(|_| "expected an integer before the unit")?;
    match number.checked_mul(unit) {
        Some(0) => Err("expected a duration greater than zero"),
        Some(milliseconds) => Ok(milliseconds),
        None => Err("expected a shorter duration"),
    }
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn only_positive_integers_with_a_unit_are_durations() {
        for (text, expected) in [
            ("30s", Some(30_000)),
            ("500ms", Some(500)),
            ("5m", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("0s", None),
            ("", None),
            ("30", None),
            ("s", None),
            ("1.5s", None),
            ("-1s", None),
            ("30 s", None),
            ("30sec", None),
            ("99999999999999999999s", None),
            ("18446744073709551615h", None),
        ] {
            assert_eq!(milliseconds(text).ok(), expected, "{text}");
        }
    }
}
