/// What the source of an icon must be.
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
