//! JSON pointers in the fragment of a reference, such as `#/$defs/Note`.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// The location of the types that a generated schema refers to.
const DEFINITIONS: &str = "#/$defs/";

/// Returns the name of the definition that `reference` points to, or `None` if it points to anything else.
pub(super) fn definition(reference: &str) -> Option<String> {
    let token = reference.strip_prefix(DEFINITIONS)?;
    if token.contains('/') { None } else { decode(token) }
}

/// Replaces the name of the definition that a reference points to, or into, by its new name.
pub(super) fn rename(reference: &mut String, names: &BTreeMap<String, String>) {
    let Some(path) = reference.strip_prefix(DEFINITIONS) else { return };
    let (token, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
    if let Some(name) = decode(token).and_then(|name| names.get(&name)) {
        *reference = format!("{DEFINITIONS}{}{rest}", name.replace('%', "%25").replace('~', "~0").replace('/', "~1"));
    }
}

/// Decodes a token of a pointer in a URI fragment: first the percent-encoding, then `~1` and `~0`.
///
/// Returns `None` if the token is not UTF-8.
pub(super) fn decode(token: &str) -> Option<String> {
    let token = percent_decode_str(token).decode_utf8().ok()?;
    Some(token.replace("~1", "/").replace("~0", "~"))
}

/// Returns the JSON pointer to an object inside a value, which is found by its address.
pub(super) fn locate(root: &Value, object: &Map<String, Value>) -> Option<String> {
    match root {
        Value::Object(members) if std::ptr::eq(members, object) => Some(String::new()),
        Value::Object(members) => members.iter().find_map(|(name, value)| {
            let path = locate(value, object)?;
            Some(format!("/{}{path}", name.replace('~', "~0").replace('/', "~1")))
        }),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| Some(format!("/{index}{}", locate(item, object)?)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_definitions_are_decoded() {
        for (reference, expected) in [
            ("#/$defs/Note", Some("Note")),
            ("#/$defs/A%20b", Some("A b")),
            ("#/$defs/a~1b~0c", Some("a/b~c")),
            ("#/$defs/%C3%BC", Some("ü")),
            ("#/$defs/100%", Some("100%")),
            ("#/$defs/%FF", None),
            ("#/$defs/Note/properties/a", None),
            ("#/properties/a", None),
            ("#", None),
        ] {
            assert_eq!(definition(reference).as_deref(), expected, "{reference}");
        }
    }
}
