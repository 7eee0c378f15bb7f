//! `#[resource]`

use mcp_runtime_uri_template::{ParseError, Part};
use proc_macro2::{Ident, Span};
use syn::{Expr, LitStr, Path, ext::IdentExt};

use super::{Common, EnclosingType, Kind, NamedFunction, ParameterSource, common::checked_duration, literal::Number};
use crate::{
    errors::{Errors, nearest, one_of},
    syntax::{CompleteSyntax, Function, ResourceSyntax},
};

/// A checked resource or resource template.
pub(crate) struct Resource {
    pub(crate) common: Common,
    pub(crate) uri: String,
    /// The parts of a template; `None` for a static URI.
    pub(crate) template: Option<Vec<Part>>,
    pub(crate) mime_type: Option<String>,
    pub(crate) size: Option<u64>,
    /// `User` and `Assistant`
    pub(crate) audience: Vec<Ident>,
    pub(crate) priority: Option<f64>,
    pub(crate) last_modified: Option<String>,
    /// For how many milliseconds the contents may be cached, and whether every caller may receive them.
    pub(crate) cache: Option<(u64, bool)>,
    pub(crate) list: Option<NamedFunction>,
    /// Whether the resource is a page, whose contents carry its `_meta`.
    pub(crate) is_page: bool,
}

impl Resource {
    /// Checks a resource and returns it with its function.
    pub(crate) fn check(
        given: ResourceSyntax,
        enclosing_type: &EnclosingType,
        errors: &mut Errors,
    ) -> (Self, Function) {
        #[cfg(feature = "ui")]
        if let Some(uri) = given.uri.as_ref().filter(|uri| uri.value().starts_with(mcp_page::SCHEME))
            && given.mime.as_ref().is_none_or(|mime| mime.value() != mcp_page::MEDIA_TYPE)
        {
            let message = "the scheme `ui` is reserved for pages";
            errors.help(uri, message, "write `#[ui(…)]` instead of `#[resource(…)]`");
        }
        Self::check_as(Kind::Resource, given, enclosing_type, errors)
    }

    /// Checks a resource or a page.
    pub(super) fn check_as(
        kind: Kind,
        given: ResourceSyntax,
        enclosing_type: &EnclosingType,
        errors: &mut Errors,
    ) -> (Self, Function) {
        let ResourceSyntax { mut function, common, uri, mime, size, audience, priority, .. } = given;
        let ResourceSyntax { last_modified, ttl, public, list, complete, .. } = given;
        let mut common = Common::check(kind, enclosing_type, common, &mut function, errors);
        let parts = parts_of(kind, uri.as_ref(), errors);
        if let (Some(uri), Some(parts)) = (&uri, &parts) {
            check_variables(uri, parts, &common, errors);
        }
        complete.into_iter().for_each(|given| add_completion(given, &mut common, enclosing_type, errors));
        let template = parts.filter(|parts| parts.iter().any(|part| matches!(part, Part::Expression { .. })));
        if let (None, Some(uri)) = (&template, &uri) {
            check_static(uri, list.as_ref(), errors);
        }
        if let (Some(_), Some(size)) = (&template, &size) {
            errors.on(size, "`size` is not applicable to a template");
        }
        let cache = checked_cache(ttl.as_ref(), public, !common.scopes.is_empty(), errors);
        let resource = Self {
            common,
            uri: uri.map(|uri| uri.value()).unwrap_or_default(),
            template,
            mime_type: mime.filter(|mime| is_mime(mime, errors)).map(|mime| mime.value()),
            size: size.as_ref().and_then(|size| checked_size(size, errors)),
            audience: checked_audience(&audience, errors),
            priority: priority.as_ref().and_then(|priority| checked_priority(priority, errors)),
            last_modified: last_modified.filter(|time| is_time(time, errors)).map(|time| time.value()),
            cache,
            list: list.map(|path| enclosing_type.named_function(&path)),
            is_page: kind == Kind::Page,
        };
        (resource, function)
    }
}

fn parts_of(kind: Kind, uri: Option<&LitStr>, errors: &mut Errors) -> Option<Vec<Part>> {
    let Some(uri) = uri else {
        let (subject, help) = match kind {
            Kind::Page => ("page", r#"write `#[ui("ui://notes/board")]`"#),
            _ => {
                let help = r#"write `#[resource("notes://all")]`, or a template such as `#[resource("notes://{id}")]`"#;
                ("resource", help)
            }
        };
        errors.help_at(Span::call_site(), format_args!("missing URI of the {subject}"), help);
        return None;
    };
    let report = |found: Vec<ParseError>| {
        for error in found {
            errors.at(subspan(uri, error.range.clone()), error);
        }
    };
    mcp_runtime_uri_template::parse(&uri.value()).map_err(report).ok()
}

/// Returns the span of a range of a literal, if the compiler provides it, or the span of the whole literal.
pub(super) fn subspan(literal: &LitStr, at: std::ops::Range<usize>) -> Span {
    let token = literal.token();
    let written = token.to_string();
    let start = written.find('"').map_or(0, |quote| quote + 1);
    let is_verbatim = written.get(start..).is_some_and(|rest| rest.starts_with(&literal.value()));
    let span = is_verbatim.then(|| token.subspan(start + at.start..start + at.end)).flatten();
    span.unwrap_or_else(|| literal.span())
}

/// Compares the variables of the URI with the arguments of the function.
fn check_variables(uri: &LitStr, parts: &[Part], common: &Common, errors: &mut Errors) {
    let variables: Vec<&str> = variables_of(parts).collect();
    let arguments = &common.call.arguments;
    let function = &common.call.function;
    let is_free = |name: &str| !variables.contains(&name);
    let is_missing = |variable: &str| !arguments.iter().any(|argument| argument.name == variable);
    for variable in variables.iter().filter(|variable| is_missing(variable)) {
        let free = arguments.iter().map(|argument| argument.name.as_str()).filter(|name| is_free(name));
        let is_state = |parameter: &ParameterSource| match parameter {
            ParameterSource::Server(name, _) => name == variable,
            ParameterSource::Caller(_) => false,
        };
        let help = match nearest(variable, free) {
            _ if common.call.parameters.iter().any(is_state) => {
                format!("take the parameter by value, `{variable}: String`, because a reference is server state")
            }
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("add the parameter `{variable}: String` to `{function}`"),
        };
        let message = format!("`{function}` has no parameter for the template variable `{variable}`");
        errors.help_at(span_of(uri, variable), message, help);
    }
    for argument in arguments.iter().filter(|argument| is_free(&argument.name)) {
        let name = &argument.name;
        // A variable with a similar name was reported already, together with this parameter.
        if nearest(name, variables.iter().copied().filter(|variable| is_missing(variable))).is_some() {
            continue;
        }
        let what = if variables.is_empty() { "URI" } else { "template" };
        let message = format!("the parameter `{name}` is not a variable of the {what} `{}`", uri.value());
        let help = format!("add `{{{name}}}` to the URI, or take the parameter by reference if it is server state");
        errors.help(&argument.name_tokens, message, help);
    }
}

fn variables_of(parts: &[Part]) -> impl Iterator<Item = &str> {
    let expressions = parts.iter().filter_map(|part| match part {
        Part::Literal(_) => None,
        Part::Expression { variables, .. } => Some(variables),
    });
    expressions.flatten().map(String::as_str)
}

fn span_of(uri: &LitStr, variable: &str) -> Span {
    let value = uri.value();
    let starts = value.match_indices(variable).map(|(start, _)| start);
    let is_name = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'.';
    let bytes = value.as_bytes();
    let whole = |start: &usize| {
        let before = start.checked_sub(1).map(|before| bytes[before]);
        let after = bytes.get(start + variable.len());
        before.is_some_and(|c| !c.is_ascii_alphanumeric()) && after.is_some_and(|c| !is_name(*c))
    };
    starts.filter(whole).last().map_or(uri.span(), |start| subspan(uri, start..start + variable.len()))
}

fn add_completion(given: CompleteSyntax, common: &mut Common, enclosing_type: &EnclosingType, errors: &mut Errors) {
    let CompleteSyntax { variable, function } = given;
    let name = variable.unraw().to_string();
    let names: Vec<String> = common.call.arguments.iter().map(|argument| argument.name.clone()).collect();
    let Some(argument) = common.call.arguments.iter_mut().find(|argument| argument.name == name) else {
        let message = format!("unknown argument `{name}`");
        match (nearest(&name, names.iter().map(String::as_str)), names.is_empty()) {
            (Some(near), _) => errors.help(variable, message, format_args!("did you mean `{near}`?")),
            (None, false) => {
                let expected = one_of(names.iter().map(String::as_str));
                errors.on(variable, format_args!("{message}, expected {expected}"));
            }
            (None, true) => errors.on(variable, message),
        }
        return;
    };
    if argument.complete.is_some() {
        return errors.on(variable, format_args!("duplicate completion of the argument `{name}`"));
    }
    argument.complete = Some(enclosing_type.named_function(&function));
}

fn check_static(uri: &LitStr, list: Option<&Path>, errors: &mut Errors) {
    if let Some(list) = list {
        let message = format!("`list` is only applicable to templates, but `{}` is a single resource", uri.value());
        errors.help(list, message, "remove `list`: the resource itself is listed");
    }
}

fn is_mime(mime: &LitStr, errors: &mut Errors) -> bool {
    let value = mime.value();
    let is_token =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "!#$&-^_.+".contains(c));
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype)) {
        return true;
    }
    errors.on(mime, format_args!("invalid media type `{value}`, expected one such as `text/plain`"));
    false
}

fn is_time(time: &LitStr, errors: &mut Errors) -> bool {
    let value = time.value();
    if is_date_or_date_time(&value) {
        return true;
    }
    let expected = "expected an ISO 8601 date and time such as `2025-01-12T15:00:58Z`, or a date";
    errors.on(time, format_args!("invalid time `{value}`, {expected}"));
    false
}

fn checked_size(size: &Expr, errors: &mut Errors) -> Option<u64> {
    let bytes = match Number::of(size) {
        Some(Number::Integer(bytes)) => u64::try_from(bytes).ok(),
        _ => None,
    };
    if bytes.is_none() {
        errors.on(size, "a size must be an integer number of bytes");
    }
    bytes
}

/// Checks how long and by whom the contents may be cached.
fn checked_cache(
    ttl: Option<&LitStr>,
    public: Option<(bool, Span)>,
    has_scopes: bool,
    errors: &mut Errors,
) -> Option<(u64, bool)> {
    match public {
        Some((true, span)) if has_scopes => reject_public(span, errors),
        Some((_, span)) if ttl.is_none() => {
            errors.help_at(span, "`public` has no effect on contents that are not cached", "add `ttl = \"5m\"`");
        }
        _ => {}
    }
    let milliseconds = checked_duration("ttl", ttl?, errors)?;
    Some((milliseconds, public.is_some_and(|(is_public, _)| is_public)))
}

/// Reports that a resource with scopes is `public`.
pub(super) fn reject_public(span: Span, errors: &mut Errors) {
    let message = "a resource that requires `scopes` cannot be `public`: shared caches do not check scopes";
    errors.help_at(span, message, "remove `public`");
}

fn checked_audience(given: &[Ident], errors: &mut Errors) -> Vec<Ident> {
    let mut audience: Vec<Ident> = Vec::new();
    for role in given {
        let name = match role.to_string().as_str() {
            "user" => "User",
            "assistant" => "Assistant",
            other => {
                errors.on(role, format_args!("unknown audience `{other}`, expected one of `user`, `assistant`"));
                continue;
            }
        };
        let name = Ident::new(name, role.span());
        if audience.contains(&name) {
            errors.on(role, format_args!("duplicate audience `{role}`"));
        } else {
            audience.push(name);
        }
    }
    audience
}

#[allow(clippy::cast_precision_loss, reason = "only 0 and 1 are kept")]
fn checked_priority(given: &Expr, errors: &mut Errors) -> Option<f64> {
    let priority = match Number::of(given) {
        Some(Number::Integer(integer)) => integer as f64,
        Some(Number::Float(float, _)) => float,
        None => f64::INFINITY,
    };
    if (0.0..=1.0).contains(&priority) {
        return Some(priority);
    }
    // The tokens of a negative number are separated by a space.
    let shown = quote::ToTokens::to_token_stream(given).to_string().replace(' ', "");
    errors.on(given, format_args!("the priority `{shown}` is outside the range `0.0..=1.0`"));
    None
}

/// Returns whether the text is a date, or a date and a time with an offset from UTC, in the profile of ISO 8601 of
/// [RFC 3339](https://www.rfc-editor.org/rfc/rfc3339#section-5.6).
fn is_date_or_date_time(text: &str) -> bool {
    text.split_once('T').map_or_else(|| is_date(text), |(date, time)| is_date(date) && is_time_of_day(time))
}

fn is_date(text: &str) -> bool {
    let [Some(year), Some(month), Some(day)] = fields(text, '-', [4, 2, 2]) else { return false };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// Accepts a leap second in every minute, because its validity depends on the offset.
fn is_time_of_day(text: &str) -> bool {
    let Some(start) = text.find(['Z', '+', '-']) else { return false };
    let (time, offset) = text.split_at(start);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let has_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let is_offset = offset == "Z" || matches!(fields(&offset[1..], ':', [2, 2]), [Some(0..=23), Some(0..=59)]);
    let is_time = matches!(fields(time, ':', [2, 2, 2]), [Some(0..=23), Some(0..=59), Some(0..=60)]);
    is_time && has_fraction && is_offset
}

/// Reads numbers with fixed numbers of digits. The last one is `None` if there are further fields.
fn fields<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> [Option<u16>; N] {
    let mut parts = text.splitn(N, separator);
    digits.map(|digits| {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { part.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_recognized() {
        for (text, expected) in [
            ("2025-01-12", true),
            ("2024-02-29", true),
            ("2000-02-29", true),
            ("2025-04-30", true),
            ("2016-12-31T23:59:60Z", true),
            ("2025-01-12T15:00:58Z", true),
            ("2025-01-12T15:00:58.123+02:00", true),
            ("2025-01-12T15:00:58-11:30", true),
            ("2023-02-29", false),
            ("1900-02-29", false),
            ("2025-04-31", false),
            ("2025-01-32", false),
            ("2025-01-00", false),
            ("2025-01-12T15:00:61Z", false),
            ("2025-01-12T15:00:58+24:00", false),
            ("2025-13-01", false),
            ("2025-00-01", false),
            ("2025-1-1", false),
            ("2025-01-12-01", false),
            ("2025-01-12T15:00:58", false),
            ("2025-01-12T15:00Z", false),
            ("2025-01-12T24:00:00Z", false),
            ("2025-01-12T15:00:58.Z", false),
            ("2025-01-12T15:00:58+2:00", false),
            ("2025-01-12T15:00:58Zulu", false),
            ("2025-01-12 15:00:58Z", false),
            ("2025-01-12T", false),
            ("yesterday", false),
            ("", false),
        ] {
            assert_eq!(is_date_or_date_time(text), expected, "{text}");
        }
    }
}
