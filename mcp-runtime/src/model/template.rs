//! URI templates: <https://www.rfc-editor.org/rfc/rfc6570>, levels 1 to 3.
//!
//! The macros parse a template into constant parts; here URIs are matched against them and made from them. The RFC defines only
//! the latter. A match undoes it: the values that it finds expand to the same URI, up to which characters are percent-encoded.

#[cfg(test)]
mod tests;

/// One part of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Text that stands for itself.
    Literal(&'static str),
    /// `{…}`
    Expression {
        /// What stands in front of the variables.
        operator: Operator,
        /// The names of the variables.
        variables: &'static [&'static str],
    },
}

/// What an expression does with its variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `{a}`
    Simple,
    /// `{+a}`: reserved characters such as `/` stay as they are.
    Reserved,
    /// `{#a}`: the same behind a `#`.
    Fragment,
    /// `{.a}`
    Label,
    /// `{/a}`
    Path,
    /// `{;a}`
    PathParameter,
    /// `{?a}`
    Query,
    /// `{&a}`
    QueryContinuation,
}

impl Operator {
    /// What stands in front of the first value.
    fn first(self) -> &'static str {
        match self {
            Self::Simple | Self::Reserved => "",
            Self::Fragment => "#",
            Self::Label => ".",
            Self::Path => "/",
            Self::PathParameter => ";",
            Self::Query => "?",
            Self::QueryContinuation => "&",
        }
    }

    /// What stands in front of every further value.
    fn separator(self) -> &'static str {
        match self {
            Self::Simple | Self::Reserved | Self::Fragment => ",",
            Self::Label | Self::Path | Self::PathParameter => self.first(),
            Self::Query | Self::QueryContinuation => "&",
        }
    }

    /// Whether each value comes with its name.
    pub(crate) fn is_named(self) -> bool {
        matches!(self, Self::PathParameter | Self::Query | Self::QueryContinuation)
    }

    fn keeps_reserved(self) -> bool {
        matches!(self, Self::Reserved | Self::Fragment)
    }

    /// What ends a named value.
    fn ends(self) -> &'static [u8] {
        if self == Self::PathParameter { b";/?#" } else { b"&#" }
    }
}

/// How long a URI may be. Longer ones match nothing.
const LONGEST: usize = 1 << 16;

/// Finds the variables' values in a URI, in the order of the template.
///
/// Values are percent-decoded. Those of named expressions (`{?a}`, `{&a}`, `{;a}`) may be absent, and come in any order; all
/// others must be there and not be empty. Where a URI can be taken apart in several ways, the earlier variable takes as much as
/// it can, but a `{+a}` leaves what starts a named expression behind it. The time is linear in the length of the URI.
pub(crate) fn matches(parts: &[Part], uri: &str) -> Option<Vec<(&'static str, String)>> {
    let starts_otherwise = matches!(parts.first(), Some(Part::Literal(text)) if literal_at(text, uri, 0).is_none());
    if uri.len() > LONGEST || starts_otherwise {
        return None;
    }
    let tokens = tokens(parts);
    let ends = value_ends(uri)?;
    let reaches = reaches(&tokens, uri, &ends);
    if !reaches.first().is_some_and(|reaches| reaches[0]) {
        return None;
    }
    let mut found = Vec::new();
    let mut at = 0;
    for (token, next) in tokens.iter().zip(reaches.iter().skip(1)) {
        match token {
            Token::Literal(text) => at = literal_at(text, uri, at)?,
            Token::Value { name, class } => {
                let stop = uri.bytes().skip(at).take_while(|&byte| class.has(byte)).count() + at;
                let end = (at + 1..=stop).rev().find(|&end| ends[end] && next[end])?;
                found.push((*name, decode(uri.get(at..end)?)?));
                at = end;
            }
            Token::Named { operator, names } => {
                if let Some((pairs, end)) =
                    pairs(*operator, names, uri, at, &stops(*operator, uri)).filter(|(_, end)| next[*end])
                {
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

/// Makes a URI. What has no value is left out; of several values of one name the first counts.
pub(crate) fn expand(parts: &[Part], values: &[(&str, &str)]) -> String {
    let mut uri = String::new();
    for part in parts {
        let (operator, variables) = match part {
            Part::Literal(text) => {
                encode(text, true, &mut uri);
                continue;
            }
            Part::Expression { operator, variables } => (*operator, *variables),
        };
        let mut lead = operator.first();
        for variable in variables {
            let Some((_, value)) = values.iter().find(|(name, _)| name == variable) else { continue };
            uri.push_str(lead);
            lead = operator.separator();
            if operator.is_named() {
                encode(variable, true, &mut uri);
                // Only path parameters do without the sign.
                if !value.is_empty() || operator != Operator::PathParameter {
                    uri.push('=');
                }
            }
            encode(value, operator.keeps_reserved(), &mut uri);
        }
    }
    uri
}

/// What a template comes down to when it is matched.
#[derive(Debug)]
enum Token {
    Literal(&'static str),
    Value { name: &'static str, class: Class },
    Named { operator: Operator, names: &'static [&'static str] },
}

/// The bytes that a value may be made of.
#[derive(Debug)]
enum Class {
    /// Anything but reserved characters.
    Plain,
    /// Anything but these.
    Except(Vec<u8>),
}

impl Class {
    fn has(&self, byte: u8) -> bool {
        let allowed = match self {
            Self::Plain => !is_reserved(byte),
            Self::Except(excluded) => !excluded.contains(&byte),
        };
        allowed && !byte.is_ascii_control()
    }
}

fn tokens(parts: &[Part]) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        match *part {
            Part::Literal(text) => tokens.push(Token::Literal(text)),
            Part::Expression { operator, variables } if operator.is_named() => {
                tokens.push(Token::Named { operator, names: variables });
            }
            Part::Expression { operator, variables } => {
                let mut lead = operator.first();
                for &name in variables {
                    if !lead.is_empty() {
                        tokens.push(Token::Literal(lead));
                    }
                    lead = operator.separator();
                    let class = if operator.keeps_reserved() {
                        Class::Except(named_behind(parts, index))
                    } else {
                        Class::Plain
                    };
                    tokens.push(Token::Value { name, class });
                }
            }
        }
    }
    tokens
}

/// Returns the characters with which named expressions behind this part start.
fn named_behind(parts: &[Part], index: usize) -> Vec<u8> {
    let behind = parts.iter().skip(index + 1).filter_map(|part| match part {
        Part::Expression { operator, .. } if operator.is_named() => operator.first().bytes().next(),
        _ => None,
    });
    behind.collect()
}

/// Tells for each position whether a value may end there: not within a character, encoded or not. Returns `None` if the
/// percent-encoding is broken.
fn value_ends(uri: &str) -> Option<Vec<bool>> {
    let mut ends: Vec<bool> = (0..=uri.len()).map(|at| uri.is_char_boundary(at)).collect();
    for (at, _) in uri.match_indices('%') {
        let hex = uri.as_bytes().get(at + 1..at + 3)?;
        if !hex.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        ends[at + 1] = false;
        ends[at + 2] = false;
    }
    Some(ends)
}

/// Tells for each token and position whether this token and all that follow match the rest of the URI from there.
///
/// It goes from the end to the start, so that each answer follows from the ones behind it, and none is looked for twice.
fn reaches(tokens: &[Token], uri: &str, ends: &[bool]) -> Vec<Vec<bool>> {
    let bytes = uri.as_bytes();
    let mut next: Vec<bool> = (0..=bytes.len()).map(|at| at == bytes.len()).collect();
    let mut all = vec![next.clone()];
    for token in tokens.iter().rev() {
        let mut here = vec![false; bytes.len() + 1];
        match token {
            Token::Literal(text) => {
                for (at, here) in here.iter_mut().enumerate() {
                    *here = literal_at(text, uri, at).is_some_and(|end| next[end]);
                }
            }
            Token::Value { class, .. } => {
                for at in (0..bytes.len()).rev() {
                    here[at] = class.has(bytes[at]) && (ends[at + 1] && next[at + 1] || here[at + 1]);
                }
            }
            Token::Named { operator, names } => {
                let stops = stops(*operator, uri);
                for (at, here) in here.iter_mut().enumerate() {
                    *here = next[at] || pairs(*operator, names, uri, at, &stops).is_some_and(|(_, end)| next[end]);
                }
            }
        }
        next.clone_from(&here);
        all.push(here);
    }
    all.reverse();
    all
}

/// Returns the end of the literal if it stands at this position, as it is or as it is expanded.
fn literal_at(text: &str, uri: &str, at: usize) -> Option<usize> {
    let rest = uri.as_bytes().get(at..)?;
    if rest.starts_with(text.as_bytes()) {
        return Some(at + text.len());
    }
    if text.bytes().all(|byte| is_unreserved(byte) || is_reserved(byte) || byte == b'%') {
        return None;
    }
    let mut encoded = String::new();
    encode(text, true, &mut encoded);
    rest.starts_with(encoded.as_bytes()).then(|| at + encoded.len())
}

/// Tells for each position where the value of a named expression that starts there ends.
fn stops(operator: Operator, uri: &str) -> Vec<usize> {
    let mut stops = vec![uri.len(); uri.len() + 1];
    for (at, byte) in uri.bytes().enumerate().rev() {
        let stopped = operator.ends().contains(&byte) || byte.is_ascii_control();
        stops[at] = if stopped { at } else { stops[at + 1] };
    }
    stops
}

/// Names with their values as they stand in the URI.
type Pairs<'a> = Vec<(&'static str, &'a str)>;

/// Reads as many pairs of a named expression as there are at this position, each name once, and returns where they end.
fn pairs<'a>(
    operator: Operator,
    names: &[&'static str],
    uri: &'a str,
    at: usize,
    stops: &[usize],
) -> Option<(Pairs<'a>, usize)> {
    let mut found: Pairs<'a> = Vec::new();
    let mut at = at;
    let mut lead = operator.first();
    while let Some(rest) = uri.get(at..).and_then(|rest| rest.strip_prefix(lead)) {
        let start = uri.len() - rest.len();
        let stop = stops[start];
        let pair = uri.get(start..stop)?;
        let fresh = names.iter().filter(|name| !found.iter().any(|(seen, _)| seen == *name));
        // Only as much is read as a name is long: the rest may be long, and is read again from further positions.
        let Some((name, value)) = fresh.filter_map(|name| Some((*name, value_of(pair, name)?))).next() else { break };
        found.push((name, value));
        at = stop;
        lead = operator.separator();
    }
    (!found.is_empty()).then_some((found, at))
}

/// Returns the value in `name=value`, which is empty if nothing but the name is there.
fn value_of<'a>(pair: &'a str, name: &str) -> Option<&'a str> {
    let rest = pair.strip_prefix(name)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('=') }
}

fn decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        decoded.push(if byte == b'%' { digit(rest.next())? << 4 | digit(rest.next())? } else { byte });
    }
    String::from_utf8(decoded).ok()
}

/// Percent-encodes what is not unreserved. If `keeps_reserved`, reserved characters and what is encoded already stay too.
fn encode(text: &str, keeps_reserved: bool, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        let encoded = || bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        if is_unreserved(byte) || keeps_reserved && (is_reserved(byte) || byte == b'%' && encoded()) {
            out.push(char::from(byte));
        } else {
            let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
            out.extend(['%', digit(byte >> 4), digit(byte)]);
        }
    }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn is_reserved(byte: u8) -> bool {
    b":/?#[]@!$&'()*+,;=".contains(&byte)
}
