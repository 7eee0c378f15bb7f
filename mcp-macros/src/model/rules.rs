//! The constraints of an argument.

use quote::ToTokens;
use regex_lite::Regex;
use syn::{Expr, LitStr};

use super::{
    Kind,
    bounds::{Length, Range},
    literal::{Literal, Number},
    types::{TypeClass, source_text},
};
use crate::{
    errors::{Errors, nearest, one_of},
    syntax::ArgumentSyntax,
};

/// The formats that the runtime enforces.
const FORMATS: &[&str] = &["date", "date-time", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];

/// The formats that the protocol permits in forms.
const FORM_FORMATS: &[&str] = &["email", "uri", "date", "date-time"];

/// A constraint that becomes a keyword of the schema.
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

/// The constraints of an argument, against which literals are checked.
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
    pub(super) fn check(
        kind: Kind,
        given: ArgumentSyntax,
        type_class: TypeClass,
        ty: &syn::Type,
        errors: &mut Errors,
    ) -> Self {
        let has_header = kind != Kind::Tool || TypeClass::has_header(ty);
        let range = applicable(given.range, type_class.has_range(), "range", "numbers", ty, errors);
        let length = applicable(given.length, type_class.has_length(), "length", "strings and arrays", ty, errors);
        let pattern = applicable(given.pattern, type_class.has_pattern(), "pattern", "strings", ty, errors);
        let format = applicable(given.format, type_class.has_format(), "format", "strings", ty, errors);
        let header = applicable(given.header, has_header, "header", "strings, integers and `bool`", ty, errors);
        let mut rules = Self {
            range: range.and_then(|range| Range::of_numbers(&range, type_class, errors)),
            length: length.and_then(|length| Length::check(&length, errors)),
            pattern: pattern.and_then(|pattern| regex(&pattern, errors)),
            format: format.filter(|format| is_format(kind, format, errors)),
            examples: Vec::new(),
            header: header.filter(|header| is_header(kind, header, errors)),
        };
        for example in &given.examples {
            match Literal::of(example) {
                Some(literal) => {
                    rules.check_value("example", &literal, type_class, example, errors);
                    rules.examples.push(literal);
                }
                None => errors.on(example, "an example must be a literal or an array of literals"),
            }
        }
        rules
    }

    /// Reports the constraints that a literal violates.
    pub(super) fn check_value(
        &self,
        what: &str,
        value: &Literal,
        type_class: TypeClass,
        tokens: &Expr,
        errors: &mut Errors,
    ) {
        let violations: Vec<String> = match expected_instead(value, type_class) {
            Some(expected) => vec![format!("is {}, expected {expected}", value.kind())],
            None => [self.range_violation(value), self.length_violation(value), self.pattern_violation(value)]
                .into_iter()
                .flatten()
                .collect(),
        };
        for violation in violations {
            errors.on(tokens, format_args!("the {what} `{}` {violation}", value.json()));
        }
    }

    fn range_violation(&self, value: &Literal) -> Option<String> {
        let range = self.range.as_ref()?;
        match value {
            Literal::Number(number) => (!range.contains(number)).then(|| format!("is outside the range `{range}`")),
            Literal::Str(_) | Literal::Bool(_) => {
                Some(format!("is {}, but `range` is only applicable to numbers", value.kind()))
            }
            Literal::Array(_) => None,
        }
    }

    fn length_violation(&self, value: &Literal) -> Option<String> {
        let length = self.length.as_ref()?;
        match length_of(value) {
            Some(found) => (!length.contains(found)).then(|| format!("has the length {found}, expected {length}")),
            None => Some(format!("is {}, but `length` is only applicable to strings and arrays", value.kind())),
        }
    }

    fn pattern_violation(&self, value: &Literal) -> Option<String> {
        let (pattern, regex) = self.pattern.as_ref()?;
        match value {
            Literal::Str(text) => (!regex.is_match(text)).then(|| format!("does not match the pattern `{pattern}`")),
            Literal::Number(_) | Literal::Bool(_) => {
                Some(format!("is {}, but `pattern` is only applicable to strings", value.kind()))
            }
            Literal::Array(_) => None,
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

/// Returns an option, or reports it if it is not applicable to the type.
fn applicable<T: ToTokens>(
    given: Option<T>,
    is_applicable: bool,
    rule: &str,
    types: &str,
    ty: &syn::Type,
    errors: &mut Errors,
) -> Option<T> {
    if let Some(given) = given.as_ref().filter(|_| !is_applicable) {
        let ty = source_text(ty);
        errors.on(given, format_args!("`{rule}` is not applicable to `{ty}`, only to {types}"));
    }
    given.filter(|_| is_applicable)
}

/// Returns the expected kind of value if this literal does not have the type.
fn expected_instead(value: &Literal, type_class: TypeClass) -> Option<String> {
    let expected = match (type_class, value) {
        (TypeClass::Unknown, _)
        | (TypeClass::Str | TypeClass::Char, Literal::Str(_))
        | (TypeClass::Slice, Literal::Array(_))
        | (TypeClass::Bool, Literal::Bool(_))
        | (TypeClass::Float, Literal::Number(_)) => return None,
        (TypeClass::Integer { min, max }, Literal::Number(Number::Integer(integer))) => {
            if (min..=max).contains(integer) {
                return None;
            }
            if min == 0 && *integer < 0 {
                "a non-negative integer"
            } else {
                return Some(format!("an integer from {min} to {max}"));
            }
        }
        (TypeClass::Integer { .. }, _) => "an integer",
        (TypeClass::Float, _) => "a number",
        (TypeClass::Str, _) => "a string",
        (TypeClass::Char, _) => "a single character",
        (TypeClass::Slice, _) => "an array",
        (TypeClass::Bool, _) => "`true` or `false`",
    };
    Some(expected.to_owned())
}

fn length_of(value: &Literal) -> Option<u64> {
    let length = match value {
        Literal::Str(text) => text.chars().count(),
        Literal::Array(items) => items.len(),
        Literal::Number(_) | Literal::Bool(_) => return None,
    };
    u64::try_from(length).ok()
}

fn is_format(kind: Kind, format: &LitStr, errors: &mut Errors) -> bool {
    let name = format.value();
    let (known, problem) = match kind {
        Kind::Form => (FORM_FORMATS, format!("unsupported format `{name}` of a form field")),
        _ => (FORMATS, format!("unknown format `{name}`")),
    };
    if known.contains(&&*name) {
        return true;
    }
    let mut message = format!("{problem}, expected {}", one_of(known.iter().copied()));
    if let Some(nearest) = nearest(&name, known.iter().copied()) {
        message.push_str(&format!("\nhelp: did you mean `{nearest}`?"));
    }
    if kind != Kind::Form {
        message.push_str(
            "\nhelp: for a format of your own, use `pattern`, or a type whose `Deserialize` implementation checks it",
        );
    }
    errors.on(format, message);
    false
}

fn regex(pattern: &LitStr, errors: &mut Errors) -> Option<(String, Regex)> {
    match Regex::new(&pattern.value()) {
        Ok(regex) => Some((pattern.value(), regex)),
        Err(error) => {
            errors.on(pattern, format_args!("invalid regular expression `{}`: {error}", pattern.value()));
            None
        }
    }
}

/// Returns whether the name is valid in a header: a [token](https://www.rfc-editor.org/rfc/rfc9110#name-tokens).
fn is_header(kind: Kind, header: &LitStr, errors: &mut Errors) -> bool {
    let name = header.value();
    if kind != Kind::Tool {
        errors.on(
            header,
            format_args!("only an argument of a tool can be mirrored in a header, not {}", kind.argument()),
        );
        return false;
    }
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        let message = format!("invalid header name `{name}`");
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
