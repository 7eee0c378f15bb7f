//! Parses templates.

#[cfg(test)]
mod tests;

use std::{fmt, ops::Range};

use crate::{
    part::{Operator, Part},
    percent::starts_with_hex_pair,
};

/// An error in a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The offending bytes of the template.
    pub range: Range<usize>,
    /// The description of the error.
    pub message: String,
    /// A suggestion of how to fix it.
    pub help: Option<String>,
}

impl ParseError {
    fn new(range: Range<usize>, message: impl Into<String>) -> Self {
        Self { range, message: message.into(), help: None }
    }

    fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "\nhelp: {help}"))
    }
}

impl std::error::Error for ParseError {}

/// The maximum length of a template, in bytes. The memory to match a URI grows with the product of both lengths.
const MAX_LENGTH: usize = 4096;

/// Parses a template. A URI without braces is a template with a single literal.
///
/// # Errors
///
/// Returns all errors, in the order of the template. A template with expressions has at most 4,096 bytes.
pub fn parse(template: &str) -> Result<Vec<Part>, Vec<ParseError>> {
    if template.len() > MAX_LENGTH && template.contains(['{', '}']) {
        return Err(vec![ParseError::new(
            0..template.len(),
            format!("the template is longer than {MAX_LENGTH} bytes"),
        )]);
    }
    let mut parser = Parser { parts: Vec::new(), errors: Vec::new(), seen: Vec::new() };
    parser.errors.extend(missing_scheme(template));
    let mut at = 0;
    while at < template.len() {
        let rest = &template[at..];
        at += if rest.starts_with('{') { parser.braced(rest, at) } else { parser.literal(rest, at) };
    }
    if parser.errors.is_empty() { Ok(parser.parts) } else { Err(parser.errors) }
}

struct Parser {
    parts: Vec<Part>,
    errors: Vec<ParseError>,
    /// The names of the variables so far.
    seen: Vec<String>,
}

impl Parser {
    /// Parses the expression at the start of `rest` and returns its length.
    fn braced(&mut self, rest: &str, at: usize) -> usize {
        // An unclosed brace extends to the next one.
        let end = rest[1..].find(['{', '}']).map_or(rest.len(), |end| end + 1);
        if rest[end..].starts_with('}') {
            let expression = self.expression(&rest[1..end], at + 1);
            self.parts.extend(expression);
            return end + 1;
        }
        let message = format!("`{}` is not closed", &rest[..end]);
        self.errors.push(ParseError::new(at..at + end, message).help("add the closing `}`"));
        end
    }

    fn expression(&mut self, inner: &str, at: usize) -> Option<Part> {
        let whole = at - 1..at + inner.len() + 1;
        let operator = match inner.chars().next() {
            Some('+') => Operator::Reserved,
            Some('#') => Operator::Fragment,
            Some('.') => Operator::Label,
            Some('/') => Operator::Path,
            Some(';') => Operator::PathParameter,
            Some('?') => Operator::Query,
            Some('&') => Operator::QueryContinuation,
            Some(reserved @ ('=' | ',' | '!' | '@' | '|')) => {
                let message = format!("unknown operator `{reserved}` in `{{{inner}}}`");
                let help = "use one of the operators of RFC 6570: `+`, `#`, `.`, `/`, `;`, `?`, `&`";
                self.errors.push(ParseError::new(whole, message).help(help));
                return None;
            }
            Some(_) => Operator::Simple,
            None => {
                self.errors.push(ParseError::new(whole, "`{}` has no variable"));
                return None;
            }
        };
        let names = if operator == Operator::Simple { inner } else { &inner[1..] };
        let mut at = at + inner.len() - names.len();
        let errors_before = self.errors.len();
        let mut variables = Vec::new();
        for name in names.split(',') {
            let range = at..at + name.len();
            at = range.end + 1;
            match check_variable(name, &format!("{{{inner}}}"), &self.seen) {
                Ok(()) => {
                    self.seen.push(name.to_owned());
                    variables.push(name.to_owned());
                }
                Err((message, help)) => {
                    let range = if range.is_empty() { whole.clone() } else { range };
                    self.errors.push(ParseError { range, message, help });
                }
            }
        }
        (self.errors.len() == errors_before).then_some(Part::Expression { operator, variables })
    }

    /// Parses the text up to the next brace and returns its length.
    fn literal(&mut self, rest: &str, at: usize) -> usize {
        let text = &rest[..rest.find('{').unwrap_or(rest.len())];
        for (index, c) in text.char_indices() {
            let range = at + index..at + index + c.len_utf8();
            if c == '}' {
                let error = ParseError::new(range, "unmatched `}`");
                self.errors.push(error.help("write `%7D` for a `}` that is part of the URI"));
            } else if c == '%' && !starts_with_hex_pair(&text[index + 1..]) {
                let error = ParseError::new(range, "`%` is not followed by two hexadecimal digits");
                self.errors.push(error.help("write `%25` for a `%` that is part of the URI"));
            } else if c.is_control() || " \"<>\\^`|".contains(c) {
                let encoded: String = c.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
                let message = format!("`{}` is not allowed in a URI", c.escape_debug());
                self.errors.push(ParseError::new(range, message).help(format!("write `{encoded}`")));
            }
        }
        self.parts.push(Part::Literal(text.to_owned()));
        text.len()
    }
}

/// Checks the name of a variable. An error consists of a message and a suggestion.
fn check_variable(name: &str, expression: &str, seen: &[String]) -> Result<(), (String, Option<String>)> {
    const LEVEL_4: &str = "of RFC 6570 level 4, but only levels 1 to 3 are supported";

    if let Some(plain) = name.strip_suffix('*') {
        return Err((
            format!("`{expression}` uses the modifier `*` {LEVEL_4}"),
            Some(format!("write `{plain}` without `*`")),
        ));
    }
    if let Some((plain, length)) = name.split_once(':') {
        return Err((
            format!("`{expression}` uses the modifier `:{length}` {LEVEL_4}"),
            Some(format!("write `{plain}`, and constrain the parameter: `#[arg(length = …)]`")),
        ));
    }
    if name.is_empty() {
        return Err((format!("`{expression}` has a variable without a name"), None));
    }
    let is_name = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !name.split('.').all(is_name) {
        let help = "use ASCII letters, digits and `_`, with single dots in between";
        return Err((format!("`{name}` is not a valid variable name"), Some(help.to_owned())));
    }
    if seen.iter().any(|other| other == name) {
        return Err((format!("duplicate variable `{name}`"), None));
    }
    Ok(())
}

/// Returns an error if the template starts with neither a scheme nor an expression.
fn missing_scheme(template: &str) -> Option<ParseError> {
    let start = template.split('{').next().unwrap_or_default();
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
    };
    if start.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme)) || template.starts_with('{') {
        return None;
    }
    let help = "write an absolute URI, such as `notes://all` or `file:///{+path}`";
    Some(ParseError::new(0..template.len(), format!("`{template}` has no scheme")).help(help))
}
