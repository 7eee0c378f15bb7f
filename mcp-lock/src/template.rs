//! Whether a URI can have come from a URI template (RFC 6570).

/// Says whether a template, with some values, gives a URI. What is between the braces is judged by its operator only.
#[must_use]
pub fn stands_for(template: &str, uri: &str) -> bool {
    let Some((literal, rest)) = template.split_once('{') else { return template == uri };
    let (Some(uri), Some((expression, rest))) = (uri.strip_prefix(literal), rest.split_once('}')) else { return false };
    // A reserved expansion takes slashes, a query may be missing, a plain value is one segment.
    let (may_be_empty, takes_all) = match expression.chars().next() {
        Some('+' | '#' | '/' | '.' | ';') => (false, true),
        Some('?' | '&') => (true, true),
        _ => (false, expression.ends_with('*')),
    };
    let end = if takes_all { uri.len() } else { uri.find(['/', '?', '#']).unwrap_or(uri.len()) };
    let start = usize::from(!may_be_empty);
    (start..=end).filter(|at| uri.is_char_boundary(*at)).any(|at| stands_for(rest, &uri[at..]))
}

#[cfg(test)]
mod tests {
    use super::stands_for;

    #[test]
    fn uris_of_templates() {
        for (template, uri, expected) in [
            ("notes://note/{id}", "notes://note/7", true),
            ("notes://note/{id}", "notes://note/", false),
            ("notes://note/{id}", "notes://note/7/history", false),
            ("notes://note/{id}", "notes://all", false),
            ("notes://{kind}/{id}.md", "notes://note/7.md", true),
            ("notes://{kind}/{id}.md", "notes://note/7.txt", false),
            ("file:///{+path}", "file:///a/b/c", true),
            ("notes://search{?query}", "notes://search?query=x", true),
            ("notes://search{?query}", "notes://search", true),
            ("notes://all", "notes://all", true),
            ("broken{", "broken", false),
            ("tag/{tag}", "tag/ünter", true),
        ] {
            assert_eq!(stands_for(template, uri), expected, "{template} {uri}");
        }
    }
}
