//! URIs and their templates, as [RFC 6570](https://www.rfc-editor.org/rfc/rfc6570) has them, up to level 3.

use std::ops::Range;

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Literal(String),
    Expression { operator: Operator, variables: Vec<String> },
}

/// What stands before the variables of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Simple,
    Reserved,
    Fragment,
    Label,
    Path,
    PathParameter,
    Query,
    QueryContinuation,
}

/// What is wrong with a template, and where in its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) at: Range<usize>,
    pub(super) what: String,
    pub(super) help: Option<String>,
}

impl Malformed {
    fn new(at: Range<usize>, what: impl Into<String>) -> Self {
        Self { at, what: what.into(), help: None }
    }

    fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// Takes a URI or a template apart; all that is wrong with it is reported.
pub(super) fn parse(template: &str) -> Result<Vec<Part>, Vec<Malformed>> {
    let (mut parts, mut errors, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 0;
    while at < template.len() {
        let rest = &template[at..];
        let end = match rest.starts_with('{') {
            true => {
                // A brace that is not closed ends where the next one opens.
                let end = rest[1..].find(['{', '}']).map_or(rest.len(), |end| end + 1);
                match rest[end..].starts_with('}') {
                    true => {
                        parts.extend(expression(&rest[1..end], at + 1, &mut seen, &mut errors));
                        end + 1
                    }
                    false => {
                        let what = format!("`{}` is not closed", &rest[..end]);
                        errors.push(Malformed::new(at..at + end, what).help("an expression ends with `}`"));
                        end
                    }
                }
            }
            false => {
                let end = rest.find('{').unwrap_or(rest.len());
                literal(&rest[..end], at, &mut errors);
                parts.push(Part::Literal(rest[..end].to_owned()));
                end
            }
        };
        at += end;
    }
    if let Some(error) = scheme_missing(template) {
        errors.insert(0, error);
    }
    if errors.is_empty() { Ok(parts) } else { Err(errors) }
}

fn expression(inner: &str, at: usize, seen: &mut Vec<String>, errors: &mut Vec<Malformed>) -> Option<Part> {
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
            let what = format!("`{{{inner}}}` begins with `{reserved}`, which is no operator of RFC 6570");
            errors.push(Malformed::new(whole, what).help("the operators are `+`, `#`, `.`, `/`, `;`, `?` and `&`"));
            return None;
        }
        Some(_) => Operator::Simple,
        None => {
            errors.push(Malformed::new(whole, "`{}` names no variable"));
            return None;
        }
    };
    let names = if operator == Operator::Simple { inner } else { &inner[1..] };
    let mut at = at + inner.len() - names.len();
    let before = errors.len();
    let mut variables = Vec::new();
    for name in names.split(',') {
        let place = at..at + name.len();
        at = place.end + 1;
        match variable(name, &format!("{{{inner}}}"), seen) {
            Ok(()) => {
                seen.push(name.to_owned());
                variables.push(name.to_owned());
            }
            Err((what, help)) => {
                let place = if place.is_empty() { whole.clone() } else { place };
                errors.push(Malformed { at: place, what, help });
            }
        }
    }
    (errors.len() == before).then_some(Part::Expression { operator, variables })
}

fn variable(name: &str, expression: &str, seen: &[String]) -> Result<(), (String, Option<String>)> {
    let level = "only levels 1 to 3 of RFC 6570 can be matched against a URI";
    if let Some(plain) = name.strip_suffix('*') {
        return Err((
            format!("`{expression}` explodes `{plain}`, which is a modifier of level 4: {level}"),
            Some(format!("write `{plain}` without `*`")),
        ));
    }
    if let Some((plain, _)) = name.split_once(':') {
        return Err((
            format!("`{expression}` takes a prefix of `{plain}`, which is a modifier of level 4: {level}"),
            Some(format!("write `{plain}`, and constrain the parameter: `#[arg(length = …)]`")),
        ));
    }
    if name.is_empty() {
        return Err((format!("a variable of `{expression}` has no name"), None));
    }
    let is_name = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !name.split('.').all(is_name) {
        let help = "a name is made of letters, digits, `_`, and single dots between them";
        return Err((format!("`{name}` is no name of a variable"), Some(help.to_owned())));
    }
    if seen.iter().any(|other| other == name) {
        return Err((format!("the variable `{name}` stands twice in the template"), None));
    }
    Ok(())
}

fn literal(text: &str, at: usize, errors: &mut Vec<Malformed>) {
    for (index, c) in text.char_indices() {
        let place = at + index..at + index + c.len_utf8();
        let hex = |index: usize| text.as_bytes().get(index).is_some_and(u8::is_ascii_hexdigit);
        if c == '}' {
            errors.push(Malformed::new(place, "`}` closes nothing").help("a `}` of the URI itself is written `%7D`"));
        } else if c == '%' && !(hex(index + 1) && hex(index + 2)) {
            let help = "a `%` of the URI itself is written `%25`";
            errors.push(Malformed::new(place, "`%` is not followed by two hexadecimal digits").help(help));
        } else if c.is_control() || " \"<>\\^`|".contains(c) {
            let encoded: String = c.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
            let what = format!("`{}` cannot stand in a URI", c.escape_debug());
            errors.push(Malformed::new(place, what).help(format!("write `{encoded}`")));
        }
    }
}

/// A URI begins with a scheme; only a template may leave it to a variable.
fn scheme_missing(template: &str) -> Option<Malformed> {
    let start = template.split('{').next().unwrap_or_default();
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
    };
    if start.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme)) || template.starts_with('{') {
        return None;
    }
    let what = format!("`{template}` has no scheme");
    let help = "a resource is named by a whole URI, such as `notes://all` or `file:///{+path}`";
    Some(Malformed::new(0..template.len(), what).help(help))
}

#[cfg(test)]
mod tests;
