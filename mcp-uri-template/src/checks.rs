//! Checks of values that the macros, the runtime and the proxy share: keys of `_meta`, and icons.

/// Checks a key of the `_meta` of an author: an optional prefix of labels and a name, as in `com.example/unit`. Prefixes
/// that the protocol reserves are refused.
///
/// See [`_meta`](https://modelcontextprotocol.io/specification/2026-07-28/basic#meta).
///
/// # Errors
///
/// Returns the violated rule.
pub fn check_meta_key(key: &str) -> Result<(), &'static str> {
    check_key(key)?;
    if ["traceparent", "tracestate", "baggage"].contains(&key) {
        return Err("it is reserved for the trace context, which the framework sends");
    }
    let labels: Vec<_> = key.split_once('/').map(|(prefix, _)| prefix.split('.').collect()).unwrap_or_default();
    let is_name = |label: &&str| ["mcp", "modelcontextprotocol"].iter().any(|name| label.eq_ignore_ascii_case(name));
    // Revision 2025-06-18 reserves prefixes in which a label follows the name; later ones, those whose second label is the name.
    if labels.get(1).is_some_and(is_name) || labels.iter().rev().skip(1).any(is_name) {
        return Err(
            "prefixes with the label `mcp` or `modelcontextprotocol` in second place, or before another label, \
                    are reserved for the protocol",
        );
    }
    Ok(())
}

/// Checks the format of a key, which may have a reserved prefix.
///
/// # Errors
///
/// Returns the violated rule.
pub fn check_key(key: &str) -> Result<(), &'static str> {
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

/// The expected source of an icon, for messages.
pub const ICON_SOURCE: &str = "an `https:` or a `data:image/…;base64,…` URI";

/// Returns whether clients may load an icon from a URI.
///
/// See [Icons](https://modelcontextprotocol.io/specification/2026-07-28/basic#icons).
pub fn is_icon_source(uri: &str) -> bool {
    let data = || uri.strip_prefix("data:image/")?.split_once(',');
    uri.starts_with("https://") || data().is_some_and(|(media_type, _)| media_type.ends_with(";base64"))
}

/// Returns whether a text is a size of an icon: `any`, or its width and height, as in `48x48`.
pub fn is_icon_size(size: &str) -> bool {
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    size == "any" || size.split_once('x').is_some_and(|(width, height)| is_number(width) && is_number(height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_prefixes_are_those_of_any_revision() {
        for (key, is_reserved) in [
            ("io.modelcontextprotocol/a", true),
            ("dev.mcp/a", true),
            ("DEV.MCP/", true),
            ("org.modelcontextprotocol.api/a", true),
            ("com.mcp.tools/a", true),
            ("com.example.mcp/a", false),
            ("mcp/a", false),
            ("mcp.example/a", true),
            ("com.example.mcp.tools/a", true),
            ("com.example.modelcontextprotocol.tools.more/a", true),
            ("modelcontextprotocol/a", false),
            ("com.mcps/a", false),
            ("com.mcp", false),
            ("traceparent", true),
            ("baggage", true),
            ("com.example/traceparent", false),
        ] {
            assert_eq!(check_key(key), Ok(()), "{key}");
            assert_eq!(check_meta_key(key).is_err(), is_reserved, "{key}");
        }
    }

    #[test]
    fn errors_name_the_part_of_the_key() {
        for (key, expected) in [
            ("com.example-/a", "before the `/`, expected labels"),
            ("com.example/a-", "after the `/`, expected only ASCII letters"),
            ("a-", "expected only ASCII letters"),
        ] {
            assert!(check_key(key).is_err_and(|rule| rule.starts_with(expected)), "{key}");
        }
    }

    #[test]
    fn icons_come_from_https_or_base64() {
        for (uri, is_valid) in [
            ("https://example.com/a.svg", true),
            ("data:image/png;base64,AAAA", true),
            ("data:image/svg+xml;charset=utf-8;base64,AAAA", true),
            ("data:image/svg+xml,<svg/>", false),
            ("data:image/svg+xml;utf8,<svg/>;base64,", false),
            ("data:image/png;base64", false),
            ("data:text/html;base64,AAAA", false),
            ("http://example.com/a.svg", false),
            ("http://example.com/data:image/png;base64,AAAA", false),
        ] {
            assert_eq!(is_icon_source(uri), is_valid, "{uri}");
        }
    }
}
