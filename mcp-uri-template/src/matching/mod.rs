//! Matches URIs against templates.

#[cfg(test)]
mod tests;

use crate::{
    part::{Operator, Part},
    percent::{decode, encode_reserved, is_literal, is_reserved, starts_with_hex_pair},
};

/// The longest URI that can match a template, in bytes.
pub const MAX_URI_LENGTH: usize = 1 << 16;

/// Matches a URI against a template and returns the values of the variables. Those of named expressions are in
/// the order of the URI, all others in the order of the template.
///
/// Values are percent-decoded. Variables of named expressions (`{?a}`, `{&a}`, `{;a}`) may be absent and appear in any
/// order; all other variables must have a value that is not empty. If a URI can be split in several ways, the earlier
/// variable is as long as possible, except that a `{+a}` ends at the first character that starts a later named
/// expression.
///
/// Returns `None` if the URI does not match or is longer than [`MAX_URI_LENGTH`]. The time is linear in the length of
/// the URI.
pub fn matches<'a, S, V>(parts: &'a [Part<S, V>], uri: &str) -> Option<Vec<(&'a str, String)>>
where
    S: AsRef<str>,
    V: AsRef<[S]>,
{
    let wrong_start =
        matches!(parts.first(), Some(Part::Literal(text)) if literal_end(text.as_ref(), uri, 0).is_none());
    if uri.len() > MAX_URI_LENGTH || wrong_start {
        return None;
    }
    let tokens = tokens(parts);
    let value_ends = value_ends(uri)?;
    let reachable = reachable(&tokens, uri, &value_ends);
    if !reachable.first().is_some_and(|reachable| reachable[0]) {
        return None;
    }
    let mut found = Vec::new();
    let mut at = 0;
    for (token, next) in tokens.iter().zip(reachable.iter().skip(1)) {
        match token {
            Token::Literal(text) => at = literal_end(text, uri, at)?,
            Token::Value { name, class } => {
                let stop = uri.bytes().skip(at).take_while(|&byte| class.contains(byte)).count() + at;
                let end = (at + 1..=stop).rev().find(|&end| value_ends[end] && next[end])?;
                found.push((*name, decode(uri.get(at..end)?)?));
                at = end;
            }
            Token::Named { operator, names } => {
                let pairs = named_pairs(*operator, names, uri, at, &named_ends(*operator, uri));
                if let Some((pairs, end)) = pairs.filter(|(_, end)| next[*end]) {
                    for (name, value) in pairs {
                        found.push((name, decode(value)?));
                    }
                    at = end;
                }
            }
        }
    }
    Some(found)
}

/// An element of a template, as it is matched.
#[derive(Debug)]
enum Token<'a> {
    Literal(&'a str),
    Value { name: &'a str, class: Class },
    Named { operator: Operator, names: Vec<&'a str> },
}

/// The bytes that may appear in a value.
#[derive(Debug)]
enum Class {
    /// All except reserved characters.
    Unreserved,
    /// All except these.
    Except(Vec<u8>),
}

impl Class {
    fn contains(&self, byte: u8) -> bool {
        let allowed = match self {
            Self::Unreserved => !is_reserved(byte),
            Self::Except(excluded) => !excluded.contains(&byte),
        };
        allowed && !byte.is_ascii_control()
    }
}

fn tokens<S: AsRef<str>, V: AsRef<[S]>>(parts: &[Part<S, V>]) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Literal(text) => tokens.push(Token::Literal(text.as_ref())),
            Part::Expression { operator, variables } if operator.is_named() => {
                let names = variables.as_ref().iter().map(AsRef::as_ref).collect();
                tokens.push(Token::Named { operator: *operator, names });
            }
            Part::Expression { operator, variables } => {
                let mut separator = operator.prefix();
                for name in variables.as_ref() {
                    if !separator.is_empty() {
                        tokens.push(Token::Literal(separator));
                    }
                    separator = operator.separator();
                    let class = if operator.keeps_reserved() {
                        Class::Except(later_named_prefixes(parts, index))
                    } else {
                        Class::Unreserved
                    };
                    tokens.push(Token::Value { name: name.as_ref(), class });
                }
            }
        }
    }
    tokens
}

/// Returns the characters with which the named expressions after this part start.
fn later_named_prefixes<S, V>(parts: &[Part<S, V>], index: usize) -> Vec<u8> {
    let later = parts.iter().skip(index + 1).filter_map(|part| match part {
        Part::Expression { operator, .. } if operator.is_named() => operator.prefix().bytes().next(),
        _ => None,
    });
    later.collect()
}

/// Computes for each position whether a value may end there, which is never inside a character or its percent-encoding.
///
/// Returns `None` if the percent-encoding is invalid.
fn value_ends(uri: &str) -> Option<Vec<bool>> {
    let mut ends: Vec<bool> = (0..=uri.len()).map(|at| uri.is_char_boundary(at)).collect();
    for (at, _) in uri.match_indices('%') {
        if !starts_with_hex_pair(&uri[at + 1..]) {
            return None;
        }
        ends[at + 1] = false;
        ends[at + 2] = false;
    }
    Some(ends)
}

/// Computes for each token and position whether this token and all later ones match the rest of the URI from there.
///
/// Works from the end to the start, so that each entry follows from later ones and is computed once.
fn reachable(tokens: &[Token<'_>], uri: &str, value_ends: &[bool]) -> Vec<Vec<bool>> {
    let bytes = uri.as_bytes();
    let mut next: Vec<bool> = (0..=bytes.len()).map(|at| at == bytes.len()).collect();
    let mut all = vec![next.clone()];
    for token in tokens.iter().rev() {
        let mut here = vec![false; bytes.len() + 1];
        match token {
            Token::Literal(text) => {
                for (at, here) in here.iter_mut().enumerate() {
                    *here = literal_end(text, uri, at).is_some_and(|end| next[end]);
                }
            }
            Token::Value { class, .. } => {
                for at in (0..bytes.len()).rev() {
                    here[at] = class.contains(bytes[at]) && (value_ends[at + 1] && next[at + 1] || here[at + 1]);
                }
            }
            Token::Named { operator, names } => {
                let ends = named_ends(*operator, uri);
                for (at, here) in here.iter_mut().enumerate() {
                    *here = next[at] || named_pairs(*operator, names, uri, at, &ends).is_some_and(|(_, end)| next[end]);
                }
            }
        }
        next.clone_from(&here);
        all.push(here);
    }
    all.reverse();
    all
}

/// Returns the end of the literal if it is at this position, verbatim or percent-encoded.
fn literal_end(text: &str, uri: &str, at: usize) -> Option<usize> {
    let rest = uri.as_bytes().get(at..)?;
    if rest.starts_with(text.as_bytes()) {
        return Some(at + text.len());
    }
    if text.bytes().all(is_literal) {
        return None;
    }
    let mut encoded = String::new();
    encode_reserved(text, &mut encoded);
    rest.starts_with(encoded.as_bytes()).then(|| at + encoded.len())
}

/// Computes for each position the end of a named value that starts there.
fn named_ends(operator: Operator, uri: &str) -> Vec<usize> {
    let mut ends = vec![uri.len(); uri.len() + 1];
    for (at, byte) in uri.bytes().enumerate().rev() {
        let is_end = operator.terminators().contains(&byte) || byte.is_ascii_control();
        ends[at] = if is_end { at } else { ends[at + 1] };
    }
    ends
}

/// Names with their values, still encoded.
type Pairs<'t, 'u> = Vec<(&'t str, &'u str)>;

/// Reads as many pairs of a named expression as possible, each name once, and returns them with the position after
/// them.
fn named_pairs<'t, 'u>(
    operator: Operator,
    names: &[&'t str],
    uri: &'u str,
    mut at: usize,
    ends: &[usize],
) -> Option<(Pairs<'t, 'u>, usize)> {
    let mut found: Pairs<'t, 'u> = Vec::new();
    let mut separator = operator.prefix();
    while let Some(rest) = uri.get(at..).and_then(|rest| rest.strip_prefix(separator)) {
        let start = uri.len() - rest.len();
        let end = ends[start];
        let pair = uri.get(start..end)?;
        let mut unused = names.iter().filter(|name| !found.iter().any(|(seen, _)| seen == *name));
        // Each comparison reads no more bytes than the name has, which keeps the total time linear.
        let Some((name, value)) = unused.find_map(|name| Some((*name, named_value(pair, name)?))) else { break };
        found.push((name, value));
        at = end;
        separator = operator.separator();
    }
    (!found.is_empty()).then_some((found, at))
}

/// Returns the value in `name=value`. A name alone has an empty value.
fn named_value<'u>(pair: &'u str, name: &str) -> Option<&'u str> {
    let rest = pair.strip_prefix(name)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('=') }
}
