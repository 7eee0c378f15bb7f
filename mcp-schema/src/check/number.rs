//! JSON numbers, in which `100`, `1e2` and `100.0` are the same integer.

use std::cmp::Ordering;

/// The value of a JSON number: exact for integers of at most 38 digits, otherwise the nearest double.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    /// Parses a number. Returns `None` for other text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let plain = text.strip_prefix('-').unwrap_or(text);
        if plain.len() <= 38 && plain.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok().map(Self::Integer);
        }
        let exact = integer(text, 38).and_then(|text| text.parse().ok());
        exact.map(Self::Integer).or_else(|| text.parse().ok().map(Self::Float))
    }

    pub(super) fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(left), Self::Integer(right)) => Some(left.cmp(&right)),
            _ => self.as_f64().partial_cmp(&other.as_f64()),
        }
    }

    /// Returns whether this number is a multiple of the other number. Tolerates the rounding errors of doubles.
    pub(super) fn is_multiple_of(self, other: Self) -> bool {
        if let (Self::Integer(left), Self::Integer(right)) = (self, other) {
            return left.checked_rem(right).is_none_or(|rest| rest == 0);
        }
        let quotient = self.as_f64() / other.as_f64();
        if quotient.is_infinite() {
            return self.as_f64() % other.as_f64() == 0.0;
        }
        (quotient - quotient.round()).abs() <= (4.0 * f64::EPSILON * quotient.abs()).max(1e-9)
    }

    fn as_f64(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "the nearest double is intended")]
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

/// Returns whether a JSON number is an integer, in any notation.
pub(super) fn is_integral(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        || Decimal::read(text).is_some_and(|it| it.is_integral())
}

/// Writes an integral number without fraction and exponent. Returns `None` if it has more than `most` digits.
pub(super) fn integer(text: &str, most: usize) -> Option<String> {
    let decimal = Decimal::read(text)?;
    if !decimal.is_integral() {
        return None;
    }
    // Without leading zeros, and truncated or padded to the position of the decimal point.
    let digits = decimal.whole.chars().chain(decimal.fraction.chars());
    let zeros = digits.clone().take_while(|&digit| digit == '0').count();
    let length = i64::try_from(decimal.whole.len()).ok()?.checked_add(decimal.exponent)?;
    let length = usize::try_from(length).unwrap_or(0).saturating_sub(zeros);
    let mut written: String = digits.skip(zeros).chain(std::iter::repeat('0')).take(length.min(most + 1)).collect();
    if zeros == decimal.whole.len() + decimal.fraction.len() || written.is_empty() {
        return Some("0".to_owned());
    }
    if written.len() > most {
        return None;
    }
    if decimal.negative {
        written.insert(0, '-');
    }
    Some(written)
}

/// The parts of a number in JSON notation. The fraction has no trailing zeros.
#[derive(Debug)]
struct Decimal<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> Decimal<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let magnitude = exponent.trim_start_matches(['+', '-']);
        if whole.is_empty() || !digits(whole) || !digits(fraction) || magnitude.is_empty() || !digits(magnitude) {
            return None;
        }
        // Saturates: all exponents this large are equivalent.
        let magnitude = magnitude.parse().unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
        let exponent = if exponent.starts_with('-') { -magnitude } else { magnitude };
        Some(Self { negative, whole, fraction: fraction.trim_end_matches('0'), exponent })
    }

    fn is_integral(&self) -> bool {
        let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
        if !self.fraction.is_empty() {
            return self.exponent >= length(self.fraction);
        }
        let significant = self.whole.trim_end_matches('0');
        significant.is_empty() || self.exponent >= -length(&self.whole[significant.len()..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_recognized_in_every_notation() {
        for (text, expected) in [
            ("0", Some("0")),
            ("-0", Some("0")),
            ("-0.0", Some("0")),
            ("0e99", Some("0")),
            ("1", Some("1")),
            ("-17", Some("-17")),
            ("1.0", Some("1")),
            ("1e2", Some("100")),
            ("1E+2", Some("100")),
            ("-1.5e1", Some("-15")),
            ("1.50e1", Some("15")),
            ("100e-2", Some("1")),
            ("120.0e-1", Some("12")),
            ("0.001e3", Some("1")),
            ("0.0012e6", Some("1200")),
            ("1.5", None),
            ("1.05e1", None),
            ("15e-1", None),
            ("1e-1", None),
            ("0.1", None),
            ("", None),
            ("-", None),
            ("1e", None),
            ("x", None),
            ("é", None),
            ("18446744073709551616.0", Some("18446744073709551616")),
            ("1e39", Some("1000000000000000000000000000000000000000")),
            ("1e40", None),
            ("1e99999999999999999999999", None),
            ("1e-99999999999999999999999", None),
        ] {
            assert_eq!(integer(text, 40).as_deref(), expected, "{text}");
        }
        for (text, expected) in [("1e40", true), ("1e99999999999999999999999", true), ("1.5", false), ("12", true)] {
            assert_eq!(is_integral(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_compared_by_value() {
        use Ordering::{Equal, Greater, Less};
        for (left, right, expected) in [
            ("1", "1.0", Equal),
            ("1e2", "100", Equal),
            ("-1", "0.5", Less),
            ("9007199254740993", "9007199254740992", Greater),
            ("18446744073709551615", "18446744073709551616", Less),
            ("1e400", "1.7e308", Greater),
            ("0.1", "0.10", Equal),
        ] {
            let (left, right) = (Number::parse(left).unwrap(), Number::parse(right).unwrap());
            assert_eq!(left.compare(right), Some(expected), "{left:?} {right:?}");
        }
        assert!(Number::parse("ten").is_none());
    }

    #[test]
    fn multiples_tolerate_rounding_errors() {
        for (value, of, expected) in [
            ("10", "5", true),
            ("11", "5", false),
            ("0.3", "0.1", true),
            ("0.35", "0.1", false),
            ("1.5", "0.5", true),
            ("7", "2.5", false),
            ("0", "3", true),
            ("1e308", "0.5", true),
            ("5.6e-17", "0.1", true),
            ("1234567.89", "0.01", true),
            ("5000000.005", "0.01", false),
        ] {
            let found = Number::parse(value).unwrap().is_multiple_of(Number::parse(of).unwrap());
            assert_eq!(found, expected, "{value} {of}");
        }
    }
}
