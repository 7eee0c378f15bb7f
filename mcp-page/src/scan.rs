//! Reads the tags of HTML, and the URLs of CSS and JavaScript.
//!
//! The scanners find what a browser would load. They are not parsers: they accept everything, and a script is searched
//! only for calls with constant URLs.

use std::ops::Range;

/// A start tag.
pub(crate) struct Tag {
    /// In lower case.
    pub(crate) name: String,
    /// The position in the text, with the angle brackets.
    pub(crate) range: Range<usize>,
    /// The attributes, with names in lower case and decoded values.
    pub(crate) attributes: Vec<(String, String)>,
    /// Whether the tag ends with `/>`, which ends an element of SVG.
    pub(crate) is_self_closing: bool,
}

impl Tag {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn set(&mut self, name: &str, value: String) {
        if let Some((_, old)) = self.attributes.iter_mut().find(|(other, _)| other == name) {
            *old = value;
        }
    }

    /// Returns the tag as HTML, with another name and without some attributes.
    pub(crate) fn html(&self, name: &str, without: &[&str]) -> String {
        let mut html = format!("<{name}");
        for (name, value) in self.attributes.iter().filter(|(name, _)| !without.contains(&name.as_str())) {
            html.push(' ');
            html.push_str(name);
            if !value.is_empty() {
                html.push_str(&format!("=\"{}\"", value.replace('&', "&amp;").replace('"', "&quot;")));
            }
        }
        html + if self.is_self_closing { " />" } else { ">" }
    }
}

/// A part of HTML.
pub(crate) enum Part {
    /// Anything that loads nothing.
    Other(Range<usize>),
    /// A start tag.
    Tag(Tag),
    /// A start tag whose content is text, up to the end of the end tag: the tag, and the content.
    Raw(Tag, Range<usize>, usize),
}

/// Splits HTML into parts that cover it.
pub(crate) fn parts(html: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(start) = html[at..].find('<').map(|found| at + found) {
        let rest = &html[start..];
        parts.push(Part::Other(at..start));
        let until = |end: &str, from: usize| {
            let found = rest.get(from..).and_then(|rest| rest.find(end));
            found.map_or(html.len(), |found| start + from + found + end.len())
        };
        if rest[1..].starts_with(|c: char| c.is_ascii_alphabetic()) {
            let tag = tag(html, start);
            at = tag.range.end;
            if !matches!(&*tag.name, "script" | "style" | "textarea" | "title") {
                parts.push(Part::Tag(tag));
                continue;
            }
            let lower = html[at..].to_ascii_lowercase();
            let end = lower.find(&format!("</{}", tag.name)).map_or(html.len(), |found| at + found);
            let content = at..end;
            at = html[end..].find('>').map_or(html.len(), |found| end + found + 1);
            parts.push(Part::Raw(tag, content, at));
            continue;
        }
        at = if rest.starts_with("<!--") { until("-->", 2).min(until("--!>", 4)) } else { until(">", 0) };
        parts.push(Part::Other(start..at));
    }
    parts.push(Part::Other(at..html.len()));
    parts
}

/// Reads the start tag at a position.
fn tag(html: &str, start: usize) -> Tag {
    let bytes = html.as_bytes();
    let mut at = start + 1;
    let skip = |at: &mut usize, while_it: &dyn Fn(u8) -> bool| {
        let from = *at;
        while bytes.get(*at).is_some_and(|byte| while_it(*byte)) {
            *at += 1;
        }
        &html[from..*at]
    };
    let is_space = |byte: u8| byte.is_ascii_whitespace();
    let name = skip(&mut at, &|byte| !is_space(byte) && !b"/>".contains(&byte)).to_ascii_lowercase();
    let mut attributes: Vec<(String, String)> = Vec::new();
    let is_self_closing = loop {
        let before = skip(&mut at, &|byte| is_space(byte) || byte == b'/');
        if bytes.get(at).is_none_or(|byte| *byte == b'>') {
            break before.ends_with('/');
        }
        // A name may begin with `=`.
        let first = at;
        if bytes[at] == b'=' {
            at += 1;
        }
        skip(&mut at, &|byte| !is_space(byte) && !b"/>=".contains(&byte));
        let attribute = html[first..at].to_ascii_lowercase();
        skip(&mut at, &is_space);
        let mut value = "";
        if bytes.get(at) == Some(&b'=') {
            at += 1;
            skip(&mut at, &is_space);
            match bytes.get(at) {
                Some(quote @ (b'"' | b'\'')) => {
                    at += 1;
                    value = skip(&mut at, &|byte| byte != *quote);
                    at = (at + 1).min(bytes.len());
                }
                _ => value = skip(&mut at, &|byte| !is_space(byte) && byte != b'>'),
            }
        }
        if attributes.iter().all(|(other, _)| *other != attribute) {
            attributes.push((attribute, decoded(value)));
        }
    };
    let end = (at + 1).min(html.len());
    Tag { name, range: start..end, attributes, is_self_closing }
}

/// Replaces the character references that occur in URLs and styles.
fn decoded(value: &str) -> String {
    let mut text = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('&') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(';');
        let decoded = end.and_then(|end| match &rest[1..end] {
            "amp" => Some('&'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "colon" => Some(':'),
            "sol" => Some('/'),
            number => {
                let number = number.strip_prefix('#')?;
                let code = match number.strip_prefix(['x', 'X']) {
                    Some(hex) => u32::from_str_radix(hex, 16),
                    None => number.parse(),
                };
                char::from_u32(code.ok()?)
            }
        });
        match (decoded, end) {
            (Some(c), Some(end)) => {
                text.push(c);
                rest = &rest[end + 1..];
            }
            _ => {
                text.push('&');
                rest = &rest[1..];
            }
        }
    }
    text + rest
}

/// Returns the URLs of an attribute `srcset`. They may contain commas, but not end with one.
pub(crate) fn srcset_urls(set: &str) -> Vec<&str> {
    let (mut urls, mut rest) = (Vec::new(), set);
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
        if rest.is_empty() {
            return urls;
        }
        let (candidate, after) = rest.split_at(rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len()));
        let url = candidate.trim_end_matches(',');
        urls.push(url);
        // A width or density follows, unless the URL ends with a comma.
        rest = if url == candidate { after.split_once(',').map_or("", |(_, rest)| rest) } else { after };
    }
}

/// A URL in a style sheet.
pub(crate) struct CssUrl {
    /// The position of `url(…)`, or of the string that is imported or names an image.
    pub(crate) range: Range<usize>,
    pub(crate) url: String,
    pub(crate) kind: CssUse,
}

/// The purpose for which a style sheet loads a URL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CssUse {
    Import,
    Font,
    Image,
}

/// Returns the URLs of a style sheet.
pub(crate) fn css_urls(css: &str) -> Vec<CssUrl> {
    let bytes = css.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut kind) = (0, CssUse::Image);
    // The number of open parentheses since `image-set(`, whose strings are URLs.
    let mut image_set = 0_usize;
    // The text after a quote, and the position after its end.
    let string = |at: usize| {
        let mut end = at + 1;
        while bytes.get(end).is_some_and(|byte| *byte != bytes[at]) {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let end = end.min(bytes.len());
        (css[at + 1..end].to_owned(), (end + 1).min(bytes.len()))
    };
    while at < bytes.len() {
        let has = |word: &str| {
            bytes[at..].len() >= word.len() && bytes[at..at + word.len()].eq_ignore_ascii_case(word.as_bytes())
        };
        if has("/*") {
            at = css[at + 2..].find("*/").map_or(bytes.len(), |end| at + 2 + end + 2);
        } else if has("@import") {
            kind = CssUse::Import;
            at += "@import".len();
        } else if has("@font-face") {
            kind = CssUse::Font;
            at += "@font-face".len();
        } else if has("@namespace") {
            // The URL is a name, and is not loaded.
            at = css[at..].find(';').map_or(bytes.len(), |end| at + end);
        } else if has("image-set(") {
            image_set = 1;
            at += "image-set(".len();
        } else if has("url(") {
            let start = at;
            at += "url(".len();
            while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
                at += 1;
            }
            let url = match bytes.get(at) {
                Some(b'"' | b'\'') => {
                    let (url, end) = string(at);
                    at = end;
                    url
                }
                _ => {
                    let end = css[at..].find(')').map_or(bytes.len(), |end| at + end);
                    css[at..end].trim().to_owned()
                }
            };
            at = css[at..].find(')').map_or(bytes.len(), |end| at + end + 1);
            found.push(CssUrl { range: start..at, url, kind });
        } else if matches!(bytes[at], b'"' | b'\'') {
            let (url, end) = string(at);
            if kind == CssUse::Import || image_set == 1 {
                found.push(CssUrl { range: at..end, url, kind });
            }
            at = end;
        } else {
            match bytes[at] {
                // The end of `@import`, or of `@font-face`.
                b';' if kind == CssUse::Import => kind = CssUse::Image,
                b'}' => (kind, image_set) = (CssUse::Image, 0),
                b'(' if image_set > 0 => image_set += 1,
                b')' => image_set = image_set.saturating_sub(1),
                _ => {}
            }
            at += 1;
        }
    }
    found
}

/// A constant URL in a script.
pub(crate) struct JsUrl<'a> {
    pub(crate) at: usize,
    pub(crate) url: &'a str,
    /// Whether the URL is that of a script. Otherwise the script connects to it.
    pub(crate) is_script: bool,
}

/// Returns the URLs and relative paths with which a script imports or connects, as in `fetch("https://…")`.
pub(crate) fn js_urls(js: &str) -> Vec<JsUrl<'_>> {
    const CONNECTS: [&str; 4] = ["fetch(", "WebSocket(", "EventSource(", "sendBeacon("];
    const IMPORTS: [&str; 5] = ["import(", "importScripts(", "Worker(", "from", "import"];
    let mut found = Vec::new();
    for (at, quote) in js.match_indices(['"', '\'', '`']) {
        let rest = &js[at + 1..];
        let is_url = ["https://", "http://", "wss://", "ws://", "//"].iter().any(|scheme| rest.starts_with(scheme));
        let is_relative = rest.starts_with("./") || rest.starts_with("../") || (rest.starts_with('/') && !is_url);
        if !is_url && !is_relative {
            continue;
        }
        let line = js[..at].rfind('\n').map_or(0, |line| line + 1);
        let start = js[line..at].trim_start();
        let is_open = (start.starts_with('*') || start.starts_with("/*")) && !start.contains("*/");
        let is_comment = start.starts_with("//") || is_open;
        let before = js[..at].trim_end();
        let calls = |names: &[&str]| {
            names.iter().any(|name| {
                let rest = before.strip_suffix(name);
                rest.is_some_and(|rest| !rest.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$'))
            })
        };
        let is_script = calls(&IMPORTS);
        if is_comment || !(is_script || (is_url && (calls(&CONNECTS) || is_opened(before)))) {
            continue;
        }
        let end = rest.find(quote).unwrap_or(rest.len());
        found.push(JsUrl { at, url: &rest[..end], is_script });
    }
    found
}

/// Returns whether the text before a URL ends like a call of `XMLHttpRequest`, as in `request.open("GET", `.
fn is_opened(before: &str) -> bool {
    let method = before.strip_suffix(',').map(str::trim_end);
    let start = method.and_then(|method| {
        let quote = method.chars().last().filter(|c| "\"'`".contains(*c))?;
        method[..method.len() - 1].rfind(quote)
    });
    start.is_some_and(|start| before[..start].trim_end().ends_with(".open("))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_scripts_are_found_in_calls_and_imports() {
        for (js, expected) in [
            (r#"fetch("https://a.example/x")"#, Some(("https://a.example/x", false))),
            (r#"fetch("//a.example/x")"#, Some(("//a.example/x", false))),
            (r#"window.fetch( 'https://a.example/x')"#, Some(("https://a.example/x", false))),
            ("fetch(`https://a.example/${id}`)", Some(("https://a.example/${id}", false))),
            (r#"new WebSocket("wss://a.example")"#, Some(("wss://a.example", false))),
            (r#"new EventSource("https://a.example")"#, Some(("https://a.example", false))),
            (r#"navigator.sendBeacon("https://a.example")"#, Some(("https://a.example", false))),
            (r#"new Worker("https://a.example/x.js")"#, Some(("https://a.example/x.js", true))),
            (r#"importScripts("https://a.example/x.js")"#, Some(("https://a.example/x.js", true))),
            (r#"request.open("GET", "https://a.example")"#, Some(("https://a.example", false))),
            (r#"import"https://a.example/x.js""#, Some(("https://a.example/x.js", true))),
            (r#"import{x}from"./x.js""#, Some(("./x.js", true))),
            (r#"import "../x.js""#, Some(("../x.js", true))),
            (r#"await import("/x.js")"#, Some(("/x.js", true))),
            (r#"/*! license */fetch("https://a.example/x")"#, Some(("https://a.example/x", false))),
            (r#"prefetch("https://a.example/x")"#, None),
            (r#"link.href = "https://a.example/x""#, None),
            (r#"fetch("notes.json")"#, None),
            (r#" // fetch("https://a.example/x")"#, None),
            (r#"/* fetch("https://a.example/x")"#, None),
            (r#"/x/.test(a) && fetch("https://a.example/x")"#, Some(("https://a.example/x", false))),
            (r#"Array.from("./x.js")"#, None),
            (r#"import "x"; a = "../b""#, None),
            (r#"fetch("notes.json") // x"#, None),
            (r#"my_fetch("https://a.example/x")"#, None),
            (r#"$fetch("https://a.example/x")"#, None),
            ("a *\nfetch('https://a.example/x')", Some(("https://a.example/x", false))),
            (r#"a = "image/*"; fetch("https://a.example/x")"#, Some(("https://a.example/x", false))),
            (r#"a * fetch("https://a.example/x")"#, Some(("https://a.example/x", false))),
            (r#"a = "//b.example"; fetch("https://a.example/x")"#, Some(("https://a.example/x", false))),
            ("", None),
        ] {
            let found = js_urls(js);
            let found: Vec<_> = found.iter().map(|found| (found.url, found.is_script)).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{js}");
        }
    }

    #[test]
    fn urls_of_style_sheets_are_found() {
        let (import, font, image) = (CssUse::Import, CssUse::Font, CssUse::Image);
        for (css, expected) in [
            (r#"@import "a"; b { c: "d" url(e) }"#, vec![("\"a\"", "a", import), ("url(e)", "e", image)]),
            (
                "@font-face { font-family: a; src: url( 'b' ) } c { d: url(e) }",
                vec![("url( 'b' )", "b", font), ("url(e)", "e", image)],
            ),
            ("b { c: url('d)e') }", vec![("url('d)e')", "d)e", image)]),
            ("/* url(a) */ b { c: url(d) }", vec![("url(d)", "d", image)]),
            ("b { /*'*/ c: url(d) }", vec![("url(d)", "d", image)]),
            ("b { c: d('e') }", vec![]),
            (r#"b { c: "\\"; d: url(e); f: "g" }"#, vec![("url(e)", "e", image)]),
            (r#"b { c: "\""; d: url(e) }"#, vec![("url(e)", "e", image)]),
            (r#"b { c: "\"#, vec![]),
            ("b { c: url(", vec![("url(", "", image)]),
            ("b { c: image-set('d' 1x); e: 'f' }", vec![("'d'", "d", image)]),
            ("b { c: image-set('d' type('e'), 'f' 2x) }", vec![("'d'", "d", image), ("'f'", "f", image)]),
        ] {
            let found = css_urls(css);
            let found: Vec<_> = found.iter().map(|it| (&css[it.range.clone()], &*it.url, it.kind)).collect();
            assert!(found == expected, "{css}");
        }
    }

    #[test]
    fn urls_of_srcset_are_found() {
        for (set, expected) in [
            ("", &[][..]),
            ("a.png", &["a.png"]),
            (" a.png 1x ,\tb.png 2x", &["a.png", "b.png"]),
            ("a.png, b.png 2x", &["a.png", "b.png"]),
            ("a,b.png 1x, c.png", &["a,b.png", "c.png"]),
        ] {
            assert_eq!(srcset_urls(set), expected, "{set}");
        }
    }

    #[test]
    fn character_references_are_decoded() {
        for (value, expected) in [
            ("a", "a"),
            ("a&amp;b &lt;&gt; &quot;&apos;", "a&b <> \"'"),
            ("https&#0000000058;&sol;&#47;a&#x2E;example", "https://a.example"),
            ("?a=b&c=d&", "?a=b&c=d&"),
            ("&unknown; &#xd800; &amp;amp;", "&unknown; &#xd800; &amp;"),
        ] {
            assert_eq!(decoded(value), expected);
        }
    }

    /// Malformed pages must not panic.
    #[test]
    fn every_beginning_of_a_page_is_read() {
        let html = r#"<!DOCTYPE html>é<p =a é='x' b="y" c=z d><!-- <a> --><style>/*é*/@import 'é'; a { b: url( "é" ) url(é) 'é' }</style>
            <script>fetch("https://é/"); r.open('é', "https://é"); import("./é")</script><title>é</title><br/></p &amp; a="&#x41;&é;&">"#;
        for (end, _) in html.char_indices() {
            let html = &html[..end];
            let covered: usize = parts(html)
                .iter()
                .map(|part| match part {
                    Part::Other(range) => range.len(),
                    Part::Tag(tag) => tag.range.len(),
                    Part::Raw(tag, _, end) => end - tag.range.start,
                })
                .sum();
            assert_eq!(covered, html.len(), "{html}");
            css_urls(html);
            js_urls(html);
        }
    }
}
