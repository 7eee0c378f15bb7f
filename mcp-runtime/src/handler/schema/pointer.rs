//! JSON pointers in the fragment of a reference, such as `#/$defs/Note`.

use std::borrow::Cow;

/// Where schemars puts the types that a schema refers to.
const DEFINITIONS: &str = "#/$defs/";

/// Returns the name of the definition at the root that `reference` is about, and `None` for a reference to anything else.
pub(super) fn definition(reference: &str) -> Option<String> {
    let token = reference.strip_prefix(DEFINITIONS)?;
    if token.contains('/') { None } else { decode(token) }
}

/// Decodes one token of a pointer in a URI fragment: first its percent encoding, then `~1` and `~0`.
pub(super) fn decode(token: &str) -> Option<String> {
    let plain = percent_decode(token)?;
    Some(plain.replace("~1", "/").replace("~0", "~"))
}

fn percent_decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = (byte == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) => {
                decoded.push(value);
                at += 3;
            }
            None => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions() {
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
