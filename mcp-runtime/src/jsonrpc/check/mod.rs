//! Validates JSON and finds the members of its top-level object in one pass, without allocating.
//!
//! This is a fast path: objects with escaped names, deep nesting, or syntax errors are left to `serde_json`, which also
//! describes the errors.

use mcp_schema::json::{scan, skip_space};

/// Calls `each` with the raw name and value of each member of the object. If the member `inner` is an object, first
/// calls `each_inner` with its members and the end of each, relative to the start of that object.
///
/// Returns `None` if the text as a whole is not a supported object. In that case, the calls made so far must be
/// ignored.
pub(super) fn members<'a>(
    text: &'a str,
    mut each: impl FnMut(&'a str, &'a str) -> Option<()>,
    inner: &str,
    mut each_inner: impl FnMut(&'a str, &'a str, usize),
) -> Option<()> {
    let bytes = text.as_bytes();
    let end = object(text, skip_space(bytes, 0), |name, at| {
        let end = match bytes.get(at)? {
            b'{' if name == inner => object(text, at, |name, value_at| {
                let end = value(bytes, value_at)?;
                each_inner(name, text.get(value_at..end)?, end - at);
                Some(end)
            })?,
            _ => value(bytes, at)?,
        };
        each(name, text.get(at..end)?)?;
        Some(end)
    })?;
    (skip_space(bytes, end) == bytes.len()).then_some(())
}

/// Returns the end of the object that starts at `at`. Calls `member` with the name and the start of each value to
/// obtain its end.
#[inline]
fn object<'a>(text: &'a str, at: usize, mut member: impl FnMut(&'a str, usize) -> Option<usize>) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.get(at)? != &b'{' {
        return None;
    }
    let mut at = skip_space(bytes, at + 1);
    if bytes.get(at)? == &b'}' {
        return Some(at + 1);
    }
    loop {
        // Escaped names are not supported, since they may be equal to a known name.
        let name_end = plain_string(bytes, at)?;
        let value_at = colon(bytes, name_end)?;
        let name = text.get(at + 1..name_end - 1)?;
        at = skip_space(bytes, member(name, value_at)?);
        match bytes.get(at)? {
            b',' => at = skip_space(bytes, at + 1),
            b'}' => return Some(at + 1),
            _ => return None,
        }
    }
}

/// Returns the end of the value that starts at `at`.
fn value(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut open = Open::default();
    loop {
        at = match bytes.get(at)? {
            b'"' => string(bytes, at)?,
            b'{' => {
                at = skip_space(bytes, at + 1);
                if bytes.get(at)? != &b'}' {
                    open.push(Bracket::Object)?;
                    at = colon(bytes, string(bytes, at)?)?;
                    continue;
                }
                at + 1
            }
            b'[' => {
                at = skip_space(bytes, at + 1);
                if bytes.get(at)? != &b']' {
                    open.push(Bracket::Array)?;
                    continue;
                }
                at + 1
            }
            b't' => literal(bytes, at, b"true")?,
            b'f' => literal(bytes, at, b"false")?,
            b'n' => literal(bytes, at, b"null")?,
            _ => number(bytes, at)?,
        };
        // After a value comes the next one, or the end of the container.
        loop {
            let Some(bracket) = open.last() else { return Some(at) };
            at = skip_space(bytes, at);
            match (bytes.get(at)?, bracket) {
                (b',', Bracket::Object) => {
                    at = colon(bytes, string(bytes, skip_space(bytes, at + 1))?)?;
                    break;
                }
                (b',', Bracket::Array) => {
                    at = skip_space(bytes, at + 1);
                    break;
                }
                (b'}', Bracket::Object) | (b']', Bracket::Array) => {
                    open.pop();
                    at += 1;
                }
                _ => return None,
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Array,
    Object,
}

/// The open brackets, innermost in the lowest bit.
#[derive(Default)]
struct Open {
    objects: u64,
    depth: u32,
}

impl Open {
    fn push(&mut self, bracket: Bracket) -> Option<()> {
        self.objects = self.objects << 1 | u64::from(bracket == Bracket::Object);
        self.depth += 1;
        (self.depth <= u64::BITS).then_some(())
    }

    fn pop(&mut self) {
        self.objects >>= 1;
        self.depth -= 1;
    }

    fn last(&self) -> Option<Bracket> {
        match (self.depth, self.objects & 1) {
            (0, _) => None,
            (_, 0) => Some(Bracket::Array),
            _ => Some(Bracket::Object),
        }
    }
}

/// Returns the end of the string that starts at `at`.
fn string(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at)? != &b'"' {
        return None;
    }
    let mut at = at + 1;
    loop {
        at = scan::unescaped_end(bytes, at);
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => match bytes.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                b'u' if bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) => at += 6,
                _ => return None,
            },
            _ => return None,
        }
    }
}

/// Returns the end of the string that starts at `at`, unless it contains escapes.
#[inline]
fn plain_string(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at)? != &b'"' {
        return None;
    }
    let end = scan::unescaped_end(bytes, at + 1);
    (bytes.get(end)? == &b'"').then_some(end + 1)
}

/// Returns the position of the value after the expected colon.
fn colon(bytes: &[u8], at: usize) -> Option<usize> {
    let at = skip_space(bytes, at);
    (bytes.get(at)? == &b':').then(|| skip_space(bytes, at + 1))
}

fn literal(bytes: &[u8], at: usize, literal: &[u8]) -> Option<usize> {
    bytes.get(at..)?.starts_with(literal).then_some(at + literal.len())
}

/// Returns the end of the number that starts at `at`.
fn number(bytes: &[u8], mut at: usize) -> Option<usize> {
    if bytes.get(at) == Some(&b'-') {
        at += 1;
    }
    at = match bytes.get(at)? {
        b'0' => at + 1,
        _ => digits(bytes, at)?,
    };
    if bytes.get(at) == Some(&b'.') {
        at = digits(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        let signed = matches!(bytes.get(at + 1), Some(b'+' | b'-'));
        at = digits(bytes, at + 1 + usize::from(signed))?;
    }
    Some(at)
}

/// Returns the end of one or more digits.
fn digits(bytes: &[u8], at: usize) -> Option<usize> {
    let count = bytes.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then_some(at + count)
}

#[cfg(test)]
mod tests;
