//! Checks the capabilities that an author declares.

use serde_json::{Map, Value};

use crate::engine::OWN_EXTENSIONS;

/// Adds a capability. Returns the problem with it, if there is one.
pub(super) fn declare(declared: &mut Map<String, Value>, kind: &str, name: String, settings: Value) -> Option<String> {
    if !settings.is_object() {
        return Some(format!(
            "the settings of the {kind} `{name}` must be an object, found `{settings}`\nhelp: use `json!({{}})` if there are none"
        ));
    }
    if declared.contains_key(&name) {
        return Some(format!("duplicate {kind} `{name}`"));
    }
    declared.insert(name, settings);
    None
}

/// Returns the problem with the name of an extension, if there is one.
///
/// See [`_meta`](https://modelcontextprotocol.io/specification/2026-07-28/basic#meta).
pub(super) fn check_extension(name: &str) -> Option<String> {
    if OWN_EXTENSIONS.contains(&name) {
        return Some(format!("the extension `{name}` is declared by the server itself\nhelp: remove `.extension(…)`"));
    }
    let has_valid_ends = |part: &str, start: fn(&char) -> bool| {
        part.chars().next().is_some_and(|c| start(&c)) && part.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let is_label = |label: &str| {
        has_valid_ends(label, char::is_ascii_alphabetic) && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let is_name = |name: &str| {
        name.is_empty()
            || has_valid_ends(name, char::is_ascii_alphanumeric)
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    let is_valid = name.split_once('/').is_some_and(|(prefix, name)| prefix.split('.').all(is_label) && is_name(name));
    (!is_valid).then(|| {
        format!("invalid name `{name}` of an extension, expected a prefix and a name as in `com.example/charts`")
    })
}
