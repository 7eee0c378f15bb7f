//! The constraints of one argument.

use quote::ToTokens;
use regex_lite::Regex;
use syn::{Expr, LitStr};

use super::{
    Kind,
    bounds::{Length, Range},
    literal::{Literal, Number},
    shape::Shape,
    spelled::spelled,
};
use crate::{errors::Errors, syntax::ArgumentSyntax};

/// A constraint, as a keyword of the schema.
pub(crate) enum Rule {
    Minimum(Bound),
    Maximum(Bound),
    ExclusiveMaximum(Bound),
    MinLength(u64),
    MaxLength(u64),
    Pattern(String),
    Format(String),
    Examples(Vec<String>),
    Header(String),
}

/// The bound of a range.
pub(crate) enum Bound {
    Integer(i128),
    Float(f64),
}

/// The constraints that a known value can be held against.
#[derive(Default)]
pub(super) struct Rules {
    range: Option<Range>,
    length: Option<Length>,
    pattern: Option<(String, Regex)>,
    pub(super) format: Option<LitStr>,
    examples: Vec<Literal>,
    pub(super) header: Option<LitStr>,
}

impl Rules {
    pub(super) fn check(kind: Kind, given: ArgumentSyntax, shape: Shape, of: &syn::Type, errors: &mut Errors) -> Self {
        let mut unfit = |tokens: &dyn ToTokens, rule: &str, fits: &str| {
            let of = spelled(of);
            errors.on(tokens.to_token_stream(), format_args!("`{rule}` does not fit `{of}`, it is for {fits}"));
        };
        if let Some(range) = given.range.as_ref().filter(|_| !shape.has_range()) {
            unfit(range, "range", "numbers");
        }
        if let Some(length) = given.length.as_ref().filter(|_| !shape.has_length()) {
            unfit(length, "length", "text and lists");
        }
        if let Some(pattern) = given.pattern.as_ref().filter(|_| !shape.has_pattern()) {
            unfit(pattern, "pattern", "text");
        }
        let has_header = kind != Kind::Tool || Shape::has_header(of);
        if let Some(header) = given.header.as_ref().filter(|_| !has_header) {
            unfit(header, "header", "text, whole numbers and `bool`");
        }
        let mut rules = Self {
            range: given.range.filter(|_| shape.has_range()).and_then(|range| Range::check(&range, errors)),
            length: given.length.filter(|_| shape.has_length()).and_then(|length| Length::check(&length, errors)),
            pattern: given.pattern.filter(|_| shape.has_pattern()).and_then(|pattern| regex(&pattern, errors)),
            format: given.format,
            examples: Vec::new(),
            header: given.header.filter(|header| has_header && is_header(kind, header, errors)),
        };
        for example in &given.examples {
            match Literal::of(example) {
                Some(literal) => {
                    rules.hold("example", &literal, shape, example, errors);
                    rules.examples.push(literal);
                }
                None => errors.on(example, "an example is a literal, or an array of literals"),
            }
        }
        rules
    }

    /// Reports what a known value breaks.
    pub(super) fn hold(&self, what: &str, value: &Literal, shape: Shape, tokens: &Expr, errors: &mut Errors) {
        let broken: Vec<String> = match mismatch(value, shape) {
            Some(expected) => vec![format!("is {}, expected {expected}", value.kind())],
            None => [self.range_broken(value), self.length_broken(value), self.pattern_broken(value)]
                .into_iter()
                .flatten()
                .collect(),
        };
        for why in broken {
            errors.on(tokens, format_args!("the {what} `{}` {why}", value.json()));
        }
    }

    fn range_broken(&self, value: &Literal) -> Option<String> {
        let range = self.range.as_ref()?;
        match value {
            Literal::Number(number) => (!range.contains(number)).then(|| format!("is outside the range `{range}`")),
            Literal::Text(_) | Literal::Truth(_) => Some(format!("is {}, but `range` is for numbers", value.kind())),
            Literal::List(_) => None,
        }
    }

    fn length_broken(&self, value: &Literal) -> Option<String> {
        let length = self.length.as_ref()?;
        match length_of(value) {
            Some(found) => (!length.contains(found)).then(|| format!("has the length {found}, expected {length}")),
            None => Some(format!("is {}, but `length` is for text and lists", value.kind())),
        }
    }

    fn pattern_broken(&self, value: &Literal) -> Option<String> {
        let (pattern, regex) = self.pattern.as_ref()?;
        match value {
            Literal::Text(text) => (!regex.is_match(text)).then(|| format!("does not match the pattern `{pattern}`")),
            Literal::Number(_) | Literal::Truth(_) => Some(format!("is {}, but `pattern` is for text", value.kind())),
            Literal::List(_) => None,
        }
    }

    pub(super) fn into_list(self) -> Vec<Rule> {
        let mut rules = Vec::new();
        if let Some(Range { low, high, half_open }) = self.range {
            rules.extend(low.map(|low| Rule::Minimum(low.into())));
            let maximum = if half_open { Rule::ExclusiveMaximum } else { Rule::Maximum };
            rules.extend(high.map(|high| maximum(high.into())));
        }
        if let Some(Length { least, most }) = self.length {
            rules.extend(least.map(Rule::MinLength));
            rules.extend(most.map(Rule::MaxLength));
        }
        rules.extend(self.pattern.map(|(pattern, _)| Rule::Pattern(pattern)));
        rules.extend(self.format.map(|format| Rule::Format(format.value())));
        if !self.examples.is_empty() {
            rules.push(Rule::Examples(self.examples.iter().map(Literal::json).collect()));
        }
        rules.extend(self.header.map(|header| Rule::Header(header.value())));
        rules
    }
}

/// What a value of a known type would be, if this is none.
fn mismatch(value: &Literal, shape: Shape) -> Option<&'static str> {
    match (shape, value) {
        (Shape::Unknown, _)
        | (Shape::Text | Shape::Letter, Literal::Text(_))
        | (Shape::List, Literal::List(_))
        | (Shape::Truth, Literal::Truth(_))
        | (Shape::Float, Literal::Number(_))
        | (Shape::Integer { signed: true }, Literal::Number(Number::Integer(_))) => None,
        (Shape::Integer { signed: false }, Literal::Number(Number::Integer(integer))) if *integer >= 0 => None,
        (Shape::Integer { signed: false }, Literal::Number(Number::Integer(_))) => Some("no negative one"),
        (Shape::Integer { .. }, _) => Some("a whole number"),
        (Shape::Float, _) => Some("a number"),
        (Shape::Text, _) => Some("text"),
        (Shape::Letter, _) => Some("one character"),
        (Shape::List, _) => Some("a list"),
        (Shape::Truth, _) => Some("`true` or `false`"),
    }
}

fn length_of(value: &Literal) -> Option<u64> {
    let length = match value {
        Literal::Text(text) => text.chars().count(),
        Literal::List(items) => items.len(),
        Literal::Number(_) | Literal::Truth(_) => return None,
    };
    u64::try_from(length).ok()
}

fn regex(pattern: &LitStr, errors: &mut Errors) -> Option<(String, Regex)> {
    match Regex::new(&pattern.value()) {
        Ok(regex) => Some((pattern.value(), regex)),
        Err(error) => {
            errors.on(pattern, format_args!("`{}` is no regular expression: {error}", pattern.value()));
            None
        }
    }
}

/// Says whether a header can bear the name: a token of [RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#name-tokens).
fn is_header(kind: Kind, header: &LitStr, errors: &mut Errors) -> bool {
    let name = header.value();
    if kind != Kind::Tool {
        errors.on(header, format_args!("only an argument of a tool is mirrored in a header, not {}", kind.argument()));
        return false;
    }
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        let message = format!("`{name}` cannot be part of a header's name");
        errors.help(header, message, "use letters, digits and `-`, such as `Region`");
        return false;
    }
    true
}

impl From<Number> for Bound {
    fn from(number: Number) -> Self {
        match number {
            Number::Integer(integer) => Self::Integer(integer),
            Number::Float(float, _) => Self::Float(float),
        }
    }
}
