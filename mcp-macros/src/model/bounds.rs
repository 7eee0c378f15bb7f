//! Ranges of numbers and lengths.

use syn::{Expr, ExprRange, RangeLimits};

use super::{literal::Number, types::TypeClass};
use crate::errors::Errors;

/// A range of numbers.
pub(super) struct Range {
    pub(super) low: Option<Number>,
    pub(super) high: Option<Number>,
    pub(super) half_open: bool,
}

/// A range of lengths.
pub(super) struct Length {
    pub(super) least: Option<u64>,
    pub(super) most: Option<u64>,
}

impl Range {
    /// Checks a range of numbers of a type.
    pub(super) fn of_numbers(given: &Expr, type_class: TypeClass, errors: &mut Errors) -> Option<Self> {
        let range = Self::check(given, errors)?;
        let TypeClass::Integer { min, max: greatest } = type_class else { return Some(range) };
        let fits = |bound: &Number, max: i128| match bound {
            Number::Integer(integer) => (min..=max).contains(integer),
            // The bound is not an integer, so it never equals a value.
            Number::Float(..) => true,
        };
        let (start, end) = as_range(given).map(|range| (range.start.as_deref(), range.end.as_deref())).unzip();
        let exclusive = i128::from(range.half_open);
        for (bound, tokens, max) in
            [(&range.low, start.flatten(), greatest), (&range.high, end.flatten(), greatest.saturating_add(exclusive))]
        {
            if let Some(bound) = bound.as_ref().filter(|bound| !fits(bound, max)) {
                let message = format!("the bound `{bound}` is outside the range of the type, `{min}..={greatest}`");
                errors.help(tokens.unwrap_or(given), message, "use a type that contains the range");
                return None;
            }
        }
        Some(range)
    }

    fn check(given: &Expr, errors: &mut Errors) -> Option<Self> {
        let Some(range) = as_range(given) else {
            errors.on(given, "invalid value for the option `range`, expected `range = 1..=100`");
            return None;
        };
        let half_open = matches!(range.limits, RangeLimits::HalfOpen(_)) && range.end.is_some();
        let low = bound(range.start.as_deref(), errors)?;
        let high = bound(range.end.as_deref(), errors)?;
        if low.is_none() && high.is_none() {
            errors.on(given, "a range without bounds has no effect");
            return None;
        }
        let range = Self { low, high, half_open };
        match (&range.low, &range.high) {
            (Some(low), Some(high)) if low > high => {
                errors.help(
                    given,
                    format_args!("the range `{range}` is reversed"),
                    format_args!("write `{high}..={low}`"),
                );
                None
            }
            (Some(low), Some(high)) if low == high && half_open => {
                errors.help(
                    given,
                    format_args!("the range `{range}` is empty"),
                    format_args!("write `{low}..={high}` for the single value `{low}`"),
                );
                None
            }
            _ => Some(range),
        }
    }

    pub(super) fn contains(&self, number: &Number) -> bool {
        self.low.as_ref().is_none_or(|low| number >= low)
            && self.high.as_ref().is_none_or(|high| if self.half_open { number < high } else { number <= high })
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |bound: &Option<Number>| bound.as_ref().map(ToString::to_string).unwrap_or_default();
        let dots = if self.half_open || self.high.is_none() { ".." } else { "..=" };
        write!(f, "{}{dots}{}", shown(&self.low), shown(&self.high))
    }
}

/// Reads an optional bound. Returns `None` if it is invalid, and `Some(None)` if it is absent.
#[allow(clippy::option_option, reason = "an absent bound is valid")]
fn bound(given: Option<&Expr>, errors: &mut Errors) -> Option<Option<Number>> {
    let Some(given) = given else { return Some(None) };
    let number = Number::of(given);
    if number.is_none() {
        errors.on(given, "the bound of a range must be a number literal");
    }
    number.map(Some)
}

fn as_range(given: &Expr) -> Option<&ExprRange> {
    match given {
        Expr::Range(range) => Some(range),
        Expr::Paren(paren) => as_range(&paren.expr),
        Expr::Group(group) => as_range(&group.expr),
        _ => None,
    }
}

impl Length {
    pub(super) fn check(given: &Expr, errors: &mut Errors) -> Option<Self> {
        if let Some(Number::Integer(exact)) = Number::of(given) {
            let exact = non_negative(&Number::Integer(exact), given, errors)?;
            return Some(Self { least: Some(exact), most: Some(exact) });
        }
        if as_range(given).is_none() {
            errors.on(given, "invalid value for the option `length`, expected `length = 1..=80` or `length = 5`");
            return None;
        }
        let Range { low, high, half_open } = Range::check(given, errors)?;
        let mut to_length = |bound: Option<Number>| match bound {
            Some(bound) => non_negative(&bound, given, errors).map(Some),
            None => Some(None),
        };
        let (least, most) = (to_length(low)?, to_length(high)?);
        if half_open && most == Some(0) {
            errors.help(given, "the range `..0` is empty", "write `..=0` for the length `0`");
            return None;
        }
        Some(Self { least, most: most.map(|most| most - u64::from(half_open)) })
    }

    pub(super) fn contains(&self, length: u64) -> bool {
        self.least.is_none_or(|least| length >= least) && self.most.is_none_or(|most| length <= most)
    }
}

impl std::fmt::Display for Length {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.least, self.most) {
            (Some(least), Some(most)) if least == most => write!(f, "`{least}`"),
            (Some(least), Some(most)) => write!(f, "`{least}..={most}`"),
            (Some(least), None) => write!(f, "`{least}..`"),
            (None, Some(most)) => write!(f, "`..={most}`"),
            (None, None) => Ok(()),
        }
    }
}

fn non_negative(number: &Number, given: &Expr, errors: &mut Errors) -> Option<u64> {
    let integer = match number {
        Number::Integer(number) => u64::try_from(*number).ok(),
        Number::Float(..) => None,
    };
    if integer.is_none() {
        errors.on(given, "a length must be a non-negative integer");
    }
    integer
}
