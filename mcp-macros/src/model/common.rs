//! Parts that tools, resources and prompts have in common.

use syn::{Ident, LitStr, Path, ext::IdentExt};

use super::{Call, EnclosingType, Execution, Kind, duration::milliseconds, literal::Literal, signature};
use crate::{
    errors::Errors,
    syntax::{CommonSyntax, Docs, Function, MetaSyntax, ScopeSyntax},
};

/// The parts that tools, resources and prompts have in common.
pub(crate) struct Common {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Docs,
    pub(crate) icons: Vec<String>,
    pub(crate) tags: Vec<String>,
    /// Groups of alternatives: one scope of each group is required.
    pub(crate) scopes: Vec<Vec<String>>,
    /// Keys, and their values as JSON.
    pub(crate) meta: Vec<(String, String)>,
    pub(crate) timeout_milliseconds: Option<u64>,
    pub(crate) call: Call,
    pub(crate) crate_path: Option<Path>,
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
            icons: given.icons.iter().filter_map(|icon| checked_icon(icon, errors)).collect(),
            tags: distinct("tag", &given.tags, errors),
            scopes: checked_scopes(&given.scopes, errors),
            meta: checked_meta(&given.meta, errors),
            timeout_milliseconds: given.timeout.as_ref().and_then(|timeout| checked_timeout(timeout, errors)),
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

fn checked_timeout(timeout: &LitStr, errors: &mut Errors) -> Option<u64> {
    milliseconds(&timeout.value())
        .map_err(|why| {
            let message = format!("invalid timeout `{}`: {why}", timeout.value());
            errors.help(timeout, message, r#"write `timeout = "30s"`"#);
        })
        .ok()
}

fn checked_icon(icon: &LitStr, errors: &mut Errors) -> Option<String> {
    let uri = icon.value();
    if uri.starts_with("https://") || uri.starts_with("http://") || uri.starts_with("data:image/") {
        return Some(uri);
    }
    errors.on(icon, format_args!("invalid icon `{uri}`, expected an `https:` or a `data:image/…` URI"));
    None
}

/// Checks the scopes that a function or a block requires.
pub(super) fn checked_scopes(given: &[ScopeSyntax], errors: &mut Errors) -> Vec<Vec<String>> {
    let mut groups: Vec<Vec<String>> = Vec::new();
    for scope in given {
        let alternatives: &[LitStr] = match scope {
            ScopeSyntax::One(scope) => std::slice::from_ref(scope),
            ScopeSyntax::Any(alternatives) => alternatives,
        };
        let names = distinct("scope", alternatives, errors);
        let valid = alternatives.iter().filter_map(|scope| checked_scope(scope, errors)).count();
        if groups.contains(&names) {
            errors.on(&alternatives[0], format_args!("duplicate scope `{}`", names.join("`, `")));
        } else if valid == alternatives.len() {
            groups.push(names);
        }
    }
    groups
}

/// Checks a scope, which is a token of [RFC 6749](https://www.rfc-editor.org/rfc/rfc6749#section-3.3).
fn checked_scope(scope: &LitStr, errors: &mut Errors) -> Option<String> {
    let name = scope.value();
    if name == "offline_access" {
        errors.on(scope, "the scope `offline_access` concerns the authorization server and cannot be required");
        return None;
    }
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '\\') {
        return Some(name);
    }
    let message = format!("invalid scope `{name}`, expected visible ASCII characters without `\"`, `\\` and spaces");
    errors.on(scope, message);
    None
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
        match Literal::of(value) {
            Some(literal) => values.push((name, literal.json())),
            None => errors.on(value, "a value of `meta` must be a literal or an array of literals"),
        }
    }
    values
}

/// Checks a key, which consists of an optional prefix of labels and a name.
///
/// See [`_meta`](https://modelcontextprotocol.io/specification/2026-07-28/basic#meta).
fn check_meta_key(key: &str) -> Result<(), &'static str> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let has_valid_end = |part: &str| part.ends_with(|c: char| c.is_ascii_alphanumeric());
    let is_label = |label: &str| {
        label.starts_with(|c: char| c.is_ascii_alphabetic())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && has_valid_end(label)
    };
    if prefix.is_some_and(|prefix| !prefix.split('.').all(is_label)) {
        return Err("before the `/`, expected labels as in `com.example`: ASCII letters, digits and `-`, \
                    starting with a letter and not ending with `-`");
    }
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && has_valid_end(name);
    if name.is_empty() || is_name {
        return Ok(());
    }
    Err(if prefix.is_some() {
        "after the `/`, expected only ASCII letters, digits, `-`, `_` and `.`, \
         starting and ending with a letter or digit"
    } else {
        "expected only ASCII letters, digits, `-`, `_` and `.`, starting and ending with a letter or digit"
    })
}
