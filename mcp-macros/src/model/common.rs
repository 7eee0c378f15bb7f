//! Parts that tools, resources and prompts have in common.

use mcp_runtime_uri_template::{ICON_SOURCE, check_meta_key, is_icon_size, is_icon_source};
use syn::{Ident, LitStr, Path, ext::IdentExt};

use super::{Call, EnclosingType, Execution, Kind, literal::json, signature};
use crate::{
    errors::Errors,
    syntax::{CommonSyntax, Docs, Function, IconSyntax, MetaSyntax, ScopeSyntax},
};

/// The parts that tools, resources and prompts have in common.
pub(crate) struct Common {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Docs,
    pub(crate) icons: Vec<Icon>,
    pub(crate) tags: Vec<String>,
    /// Groups of alternatives: one scope of each group is required.
    pub(crate) scopes: Vec<Vec<String>>,
    /// Keys, and their values as JSON.
    pub(crate) meta: Vec<(String, String)>,
    pub(crate) timeout_milliseconds: Option<u64>,
    pub(crate) call: Call,
    pub(crate) crate_path: Option<Path>,
}

/// A checked icon.
pub(crate) struct Icon {
    pub(crate) uri: String,
    pub(crate) mime_type: Option<String>,
    pub(crate) sizes: Vec<String>,
    /// `Light` or `Dark`
    pub(crate) theme: Option<Ident>,
}

impl Common {
    pub(super) fn check(
        kind: Kind,
        enclosing_type: &EnclosingType,
        given: CommonSyntax,
        function: &mut Function,
        errors: &mut Errors,
    ) -> Self {
        let mut description = given.description.map_or_else(|| std::mem::take(&mut function.docs), Docs::of);
        if let Some(note) = function.deprecation() {
            description.append(&note);
        }
        let call = signature::check(kind, enclosing_type, function, given.blocking, errors);
        if let (Some(timeout), Execution::Sync) = (&given.timeout, call.execution) {
            let message = "a `timeout` cannot interrupt a synchronous function, which blocks the server's thread";
            errors.help(timeout, message, "add `blocking`, or make the function `async`");
        }
        Self {
            name: name(kind, given.name.as_ref(), &function.signature.ident, errors),
            title: given.title.map(|title| title.value()),
            description,
            icons: given.icons.iter().map(|icon| checked_icon(icon, errors)).collect(),
            tags: distinct("tag", &given.tags, errors),
            scopes: checked_scopes(&given.scopes, errors),
            meta: checked_meta(&given.meta, errors),
            timeout_milliseconds: given
                .timeout
                .as_ref()
                .and_then(|timeout| checked_duration("timeout", timeout, errors)),
            call,
            crate_path: given.crate_path,
        }
    }
}

fn name(kind: Kind, given: Option<&LitStr>, function: &Ident, errors: &mut Errors) -> String {
    let name = given.map_or_else(|| function.unraw().to_string(), LitStr::value);
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    let rule = match (kind, name.len()) {
        (_, 0) => "expected at least 1 character",
        (Kind::Tool, _) if !is_plain => "expected only ASCII letters, digits, `_`, `.` and `-`",
        (Kind::Tool, 129..) => "expected at most 128 characters",
        _ => return name,
    };
    let message = format!("invalid name `{name}` of {}: {rule}", kind.subject());
    match given {
        Some(given) => errors.on(given, message),
        None => errors.help(function, message, r#"set a name: `name = "…"`"#),
    }
    name
}

/// Reads an option whose value is a duration, in milliseconds.
pub(super) fn checked_duration(option: &str, given: &LitStr, errors: &mut Errors) -> Option<u64> {
    milliseconds(&given.value())
        .map_err(|why| {
            let message = format!("invalid {option} `{}`: {why}", given.value());
            errors.help(given, message, format_args!("write `{option} = \"30s\"`"));
        })
        .ok()
}

fn checked_icon(given: &IconSyntax, errors: &mut Errors) -> Icon {
    let IconSyntax { uri, mime, sizes, theme } = given;
    let source = uri.value();
    if !is_icon_source(&source) {
        errors.on(uri, format_args!("invalid icon `{source}`, expected {ICON_SOURCE}"));
    }
    let is_image = |mime: &&LitStr| mime.value().strip_prefix("image/").is_some_and(|subtype| !subtype.is_empty());
    if let Some(mime) = mime.as_ref().filter(|mime| !is_image(mime)) {
        let message = format!("invalid media type `{}` of an icon, expected one such as `image/png`", mime.value());
        errors.on(mime, message);
    }
    for size in sizes.iter().filter(|size| !is_icon_size(&size.value())) {
        errors.on(
            size,
            format_args!("invalid size `{}` of an icon, expected one such as `48x48`, or `any`", size.value()),
        );
    }
    let theme = theme.as_ref().and_then(|theme| {
        let name = match theme.get_ident().map(ToString::to_string).as_deref() {
            Some("light") => "Light",
            Some("dark") => "Dark",
            _ => {
                errors.on(theme, "unknown theme of an icon, expected one of `light`, `dark`");
                return None;
            }
        };
        Some(Ident::new(name, proc_macro2::Span::call_site()))
    });
    Icon { uri: source, mime_type: mime.as_ref().map(LitStr::value), sizes: distinct("size", sizes, errors), theme }
}

/// Checks the scopes that a function or a block requires.
pub(super) fn checked_scopes(given: &[ScopeSyntax], errors: &mut Errors) -> Vec<Vec<String>> {
    let mut groups: Vec<Vec<String>> = Vec::new();
    for ScopeSyntax(alternatives) in given {
        let names = distinct("scope", alternatives, errors);
        let valid = alternatives.iter().filter(|scope| is_scope(scope, errors)).count();
        if groups.contains(&names) {
            errors.on(&alternatives[0], format_args!("duplicate scope `{}`", names.join("`, `")));
        } else if valid == alternatives.len() {
            groups.push(names);
        }
    }
    groups
}

/// Returns whether a scope is valid: a token of [RFC 6749](https://www.rfc-editor.org/rfc/rfc6749#section-3.3).
fn is_scope(scope: &LitStr, errors: &mut Errors) -> bool {
    let name = scope.value();
    if name == "offline_access" {
        errors.on(scope, "the scope `offline_access` concerns the authorization server and cannot be required");
        return false;
    }
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '\\') {
        return true;
    }
    let message = format!("invalid scope `{name}`, expected visible ASCII characters without `\"`, `\\` and spaces");
    errors.on(scope, message);
    false
}

fn distinct(what: &str, given: &[LitStr], errors: &mut Errors) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for literal in given {
        let value = literal.value();
        if values.contains(&value) {
            errors.on(literal, format_args!("duplicate {what} `{value}`"));
        } else {
            values.push(value);
        }
    }
    values
}

fn checked_meta(given: &[MetaSyntax], errors: &mut Errors) -> Vec<(String, String)> {
    let mut values: Vec<(String, String)> = Vec::new();
    for MetaSyntax { key, value } in given {
        let name = key.value();
        if values.iter().any(|(other, _)| *other == name) {
            errors.on(key, format_args!("duplicate key `{name}` of `meta`"));
        } else if let Err(why) = check_meta_key(&name) {
            errors.on(key, format_args!("invalid key `{name}` of `_meta`: {why}"));
        }
        values.push((name, json(value, errors)));
    }
    values
}

/// Parses a duration such as `30s` and returns milliseconds.
fn milliseconds(text: &str) -> Result<u64, &'static str> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("expected an integer and a unit: `ms`, `s`, `m` or `h`"),
    };
    let number: u64 = number.parse().map_err(|_| "expected an integer before the unit")?;
    match number.checked_mul(unit) {
        Some(0) => Err("expected a duration greater than zero"),
        Some(milliseconds) => Ok(milliseconds),
        None => Err("expected a shorter duration"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positive_integers_with_a_unit_are_durations() {
        for (text, expected) in [
            ("30s", Some(30_000)),
            ("500ms", Some(500)),
            ("5m", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("0s", None),
            ("", None),
            ("30", None),
            ("s", None),
            ("1.5s", None),
            ("-1s", None),
            ("30 s", None),
            ("30sec", None),
            ("99999999999999999999s", None),
            ("18446744073709551615h", None),
        ] {
            assert_eq!(milliseconds(text).ok(), expected, "{text}");
        }
    }
}
