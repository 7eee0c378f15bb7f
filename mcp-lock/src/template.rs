//! Resources that a URI template covers.

use mcp_runtime_uri_template::{matches, parse};

/// Returns whether a URI matches a URI template (RFC 6570).
///
/// Templates that other frameworks list may use level 4. `{name:3}` is treated as `{name}`, and an expression that
/// explodes a variable, such as `{path*}`, matches any text. An invalid template matches only itself.
#[must_use]
pub fn covers(template: &str, uri: &str) -> bool {
    let (template, optional) = without_modifiers(template);
    let matches = |template: &str| parse(template).is_ok_and(|parts| matches(&parts, uri).is_some());
    template == uri || matches(&template) || optional.is_some_and(|template| matches(&template))
}

/// Removes the modifiers of level 4 from a template.
///
/// If the template has an exploded query, which may be absent, also returns the part before the query.
fn without_modifiers(template: &str) -> (String, Option<String>) {
    let mut plain = String::new();
    let mut optional = None;
    let mut rest = template;
    while let Some((literal, (expression, after))) =
        rest.split_once('{').and_then(|(literal, rest)| Some((literal, rest.split_once('}')?)))
    {
        plain.push_str(literal);
        let names: Vec<&str> = expression.split(',').map(|name| name.split(':').next().unwrap_or(name)).collect();
        let names = names.join(",");
        if expression.contains('*') {
            if expression.starts_with(['?', '&']) {
                optional = Some(plain.clone());
            }
            let names = names.replace('*', "");
            plain.push_str(&format!("{{+{}}}", names.trim_start_matches(['+', '#', '.', '/', ';', '?', '&'])));
        } else {
            plain.push_str(&format!("{{{names}}}"));
        }
        rest = after;
    }
    plain.push_str(rest);
    (plain, optional)
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn templates_cover_uris() {
        for (template, uri, expected) in [
            ("notes://note/{id}", "notes://note/7", true),
            ("notes://note/{id}", "notes://note/", false),
            ("notes://note/{id}", "notes://note/7/history", false),
            ("notes://note/{id}", "notes://all", false),
            ("notes://{kind}/{id}.md", "notes://note/7.md", true),
            ("notes://{kind}/{id}.md", "notes://note/7.txt", false),
            ("file:///{+path}", "file:///a/b/c", true),
            ("file:///{path*}", "file:///a/b/c", true),
            ("file:///{path*}", "file:///", false),
            ("file://{/path*}", "file:///a/b/c", true),
            ("file:///{name:3}", "file:///abc", true),
            ("notes://search{?query}", "notes://search?query=x", true),
            ("notes://search{?query}", "notes://search", true),
            ("notes://search{?query*}", "notes://search?a=b&c=d", true),
            ("notes://search{?query*}", "notes://search", true),
            ("notes://search?a=1{&rest*}", "notes://search?a=1", true),
            ("notes://all", "notes://all", true),
            ("broken{", "broken", false),
            ("notes://tag/{tag}", "notes://tag/ünter", true),
        ] {
            assert_eq!(covers(template, uri), expected, "{template} {uri}");
        }
    }
}
