//! Combines a page and the files it refers to into one text, and checks the text against the policy.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    BRIDGE,
    policy::{Policy, Use, has_computed_host},
    scan::{CssUse, Part, Tag, css_urls, js_urls, parts, srcset_urls},
};

/// The media types of files that a page may contain as `data:` URIs, by file extension.
const TYPES: [(&str, &str); 15] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("svg", "image/svg+xml"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("ico", "image/x-icon"),
    ("mp3", "audio/mpeg"),
    ("ogg", "audio/ogg"),
    ("wav", "audio/wav"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("vtt", "text/vtt"),
    ("bmp", "image/bmp"),
];

/// The attributes that load images and media.
const SOURCES: [(&str, &str); 10] = [
    ("img", "src"),
    ("input", "src"),
    ("image", "href"),
    ("image", "xlink:href"),
    ("video", "poster"),
    ("video", "src"),
    ("audio", "src"),
    ("source", "src"),
    ("track", "src"),
    ("body", "background"),
];

/// A page in one text.
#[derive(Debug)]
pub struct Bundle {
    /// The text.
    pub html: String,
    /// Every file that was read.
    pub files: Vec<PathBuf>,
}

/// Reads a page. Files beside it become part of the text.
///
/// # Errors
///
/// Returns every mistake with its line.
pub fn bundle(page: &Path, policy: &Policy) -> Result<Bundle, Vec<String>> {
    let directory = page.parent().unwrap_or(Path::new(""));
    let mut bundler = Bundler { policy, directory, files: Vec::new(), problems: Vec::new() };
    let html = fs::read_to_string(page).map_err(|error| vec![format!("cannot read `{}`: {error}", page.display())])?;
    bundler.files.push(page.to_owned());
    let name = page.file_name().unwrap_or_default().to_string_lossy();
    let html = bundler.page(Source { name: &name, text: &html, directory });
    let Bundler { files, problems, .. } = bundler;
    if problems.is_empty() { Ok(Bundle { html, files }) } else { Err(problems) }
}

/// A text that refers to other files.
#[derive(Clone, Copy)]
struct Source<'a> {
    name: &'a str,
    text: &'a str,
    /// The directory of relative references.
    directory: &'a Path,
}

struct Bundler<'a> {
    policy: &'a Policy,
    /// The directory of the page, which contains all files.
    directory: &'a Path,
    files: Vec<PathBuf>,
    problems: Vec<String>,
}

/// The target of a reference.
enum Target<'a> {
    /// A file, relative to the directory of the page if it begins with `/`.
    File(&'a str),
    Url(&'a str),
    Data,
    /// A part of the page, or another scheme.
    Other,
}

impl<'a> Target<'a> {
    fn of(reference: &'a str) -> Self {
        let reference = reference.trim();
        let scheme = reference.split_once(':').map(|(scheme, _)| scheme).filter(|scheme| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        });
        match scheme.map(str::to_ascii_lowercase).as_deref() {
            Some("http" | "https" | "ws" | "wss") => Self::Url(reference),
            Some("data") => Self::Data,
            Some(_) => Self::Other,
            None if reference.starts_with("//") => Self::Url(reference),
            None => match reference.split(['?', '#']).next() {
                Some("") | None => Self::Other,
                Some(path) => Self::File(path),
            },
        }
    }
}

impl Bundler<'_> {
    fn report(&mut self, source: Source<'_>, at: usize, message: impl std::fmt::Display) {
        let line = source.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        self.problems.push(format!("{}:{line}: {message}", source.name));
    }

    fn check_url(&mut self, source: Source<'_>, at: usize, kind: Use, url: &str) {
        if self.policy.permits(kind, url) {
            return;
        }
        let option = kind.option();
        let url = url.strip_prefix("//").map_or_else(|| url.to_owned(), |rest| format!("https://{rest}"));
        let end = url.match_indices('/').nth(2).map_or(url.len(), |(end, _)| end);
        let message = format!("the policy of the page forbids `{url}`");
        self.report(source, at, format_args!("{message}\nhelp: add `{option} = [\"{}\"]`", &url[..end]));
    }

    /// Reads a file that a source refers to.
    fn read(&mut self, source: Source<'_>, at: usize, reference: &str) -> Option<(PathBuf, Vec<u8>)> {
        let decoded = percent_decoded(reference);
        let path = match decoded.strip_prefix('/') {
            Some(path) => self.directory.join(path),
            None => source.directory.join(&decoded),
        };
        let path = match path.canonicalize() {
            Ok(path) if !path.starts_with(self.directory) => {
                self.report(source, at, format_args!("`{reference}` is outside of the directory of the page"));
                return None;
            }
            // A device or a pipe may have no end.
            Ok(path) if !path.is_file() => Err(io::Error::other("not a file")),
            found => found,
        };
        match path.and_then(|path| Ok((fs::read(&path)?, path))) {
            Ok((bytes, path)) => {
                if !self.files.contains(&path) {
                    self.files.push(path.clone());
                }
                Some((path, bytes))
            }
            Err(error) => {
                self.report(source, at, format_args!("cannot read `{reference}`: {error}"));
                None
            }
        }
    }

    fn read_text(&mut self, source: Source<'_>, at: usize, reference: &str) -> Option<(PathBuf, String)> {
        let (path, bytes) = self.read(source, at, reference)?;
        let text = String::from_utf8(bytes);
        if text.is_err() {
            self.report(source, at, format_args!("`{reference}` is not UTF-8"));
        }
        Some((path, text.ok()?))
    }

    fn page(&mut self, source: Source<'_>) -> String {
        let html = source.text;
        let doctype = "<!doctype html";
        let begins = html.trim_start_matches('\u{feff}').trim_start();
        if !starts_ignoring_case(begins, doctype) {
            self.report(source, 0, "a page begins with `<!doctype html>`");
        }
        self.document(source)
    }

    /// Returns the text of a page, or of a document in `srcdoc`.
    fn document(&mut self, source: Source<'_>) -> String {
        let html = source.text;
        let (mut out, mut deferred, mut body_end) = (String::with_capacity(html.len()), String::new(), None);
        for part in parts(html) {
            match part {
                Part::Other(range) => {
                    if starts_ignoring_case(&html[range.clone()], "</body") {
                        body_end = Some(out.len());
                    }
                    out.push_str(&html[range]);
                }
                Part::Tag(tag) => self.tag(source, tag, &mut out),
                Part::Raw(tag, content, end) => match &*tag.name {
                    "script" => self.script(source, tag, content, end, &mut out, &mut deferred),
                    "style" => {
                        let start = content.start;
                        out.push_str(&html[tag.range]);
                        let css = Source { text: &html[content.clone()], ..source };
                        out.push_str(&self.style(css, source, start));
                        out.push_str(&html[content.end..end]);
                    }
                    _ => out.push_str(&html[tag.range.start..end]),
                },
            }
        }
        out.insert_str(body_end.unwrap_or(out.len()), &deferred);
        out
    }

    fn tag(&mut self, source: Source<'_>, mut tag: Tag, out: &mut String) {
        let at = tag.range.start;
        let mut changed = false;
        for (name, attribute) in SOURCES {
            if name != tag.name {
                continue;
            }
            let Some(value) = tag.get(attribute).map(str::to_owned) else { continue };
            match Target::of(&value) {
                Target::Url(url) => self.check_url(source, at, Use::Resource, url),
                Target::File(_) => {
                    if let Some(data) = self.data_uri(source, at, &value) {
                        tag.set(attribute, data);
                        changed = true;
                    }
                }
                Target::Data | Target::Other => {}
            }
        }
        if let Some(set) = tag.get("srcset").filter(|_| matches!(&*tag.name, "img" | "source")).map(str::to_owned) {
            for candidate in srcset_urls(&set) {
                match Target::of(candidate) {
                    Target::Url(url) => self.check_url(source, at, Use::Resource, url),
                    Target::File(_) => {
                        self.report(source, at, "files in `srcset` cannot become part of the page\nhelp: use `src`");
                    }
                    Target::Data | Target::Other => {}
                }
            }
        }
        let (frame, base) = (tag.get("src").unwrap_or_default(), tag.get("href").unwrap_or_default());
        match (&*tag.name, Target::of(frame), Target::of(base)) {
            ("iframe", Target::Url(url), _) => self.check_url(source, at, Use::Frame, url),
            ("iframe", Target::File(_) | Target::Data, _) => {
                self.report(source, at, "a frame needs a URL\nhelp: use `srcdoc` for a frame without one");
            }
            ("base", _, Target::Url(url)) => self.check_url(source, at, Use::Base, url),
            ("object" | "embed", ..) => {
                self.report(source, at, format_args!("hosts forbid `<{}>` in every page", tag.name));
            }
            ("meta", ..) if tag.get("http-equiv").is_some_and(|value| value.eq_ignore_ascii_case("refresh")) => {
                self.report(source, at, "`<meta http-equiv=\"refresh\">` would replace the page");
            }
            ("link", ..) => return self.link(source, tag, out),
            _ => {}
        }
        for target in ["href", "xlink:href"].into_iter().filter(|_| tag.name == "use").filter_map(|name| tag.get(name))
        {
            if !matches!(Target::of(target), Target::Other) {
                let message = format!("`<use>` cannot load `{target}`");
                self.report(source, at, format_args!("{message}\nhelp: write the element into the page"));
            }
        }
        if let Some(style) = tag.get("style").map(str::to_owned) {
            let css = Source { text: &style, ..source };
            let bundled = self.style(css, source, at);
            changed |= bundled != style;
            tag.set("style", bundled);
        }
        if let Some(html) = tag.get("srcdoc").filter(|_| tag.name == "iframe").map(str::to_owned) {
            let name = format!("srcdoc of {}", source.name);
            let bundled = self.document(Source { name: &name, text: &html, ..source });
            changed |= bundled != html;
            tag.set("srcdoc", bundled);
        }
        out.push_str(if changed { tag.html(&tag.name, &[]) } else { source.text[tag.range].to_owned() }.as_str());
    }

    fn link(&mut self, source: Source<'_>, mut tag: Tag, out: &mut String) {
        let at = tag.range.start;
        let rel = tag.get("rel").unwrap_or_default().to_ascii_lowercase();
        let is = |wanted: &str| rel.split_ascii_whitespace().any(|rel| rel == wanted);
        let href = tag.get("href").unwrap_or_default().to_owned();
        match Target::of(&href) {
            Target::File(path) if is("stylesheet") => {
                let Some((file, css)) = self.read_text(source, at, path) else { return };
                let css = Source { name: path, text: &css, directory: file.parent().unwrap_or(Path::new("")) };
                let style = self.style(css, css, 0);
                tag.is_self_closing = false;
                out.push_str(&tag.html("style", &["rel", "href", "type", "crossorigin", "integrity"]));
                out.push_str(&escaped(&style, "</style", r"<\"));
                out.push_str("</style>");
                return;
            }
            Target::File(_) if is("icon") => match self.data_uri(source, at, &href) {
                Some(data) => tag.set("href", data),
                None => return,
            },
            // The file is part of the page, or cannot be loaded from it.
            Target::File(_) => return,
            Target::Url(url) if !(is("dns-prefetch") || is("preconnect") || is("canonical")) => {
                self.check_url(source, at, Use::Resource, url);
            }
            Target::Data if is("stylesheet") => {
                self.report(source, at, "the policy of a page permits no `data:` styles")
            }
            _ => {}
        }
        out.push_str(&tag.html("link", &[]));
    }

    fn script(
        &mut self,
        source: Source<'_>,
        mut tag: Tag,
        content: std::ops::Range<usize>,
        end: usize,
        out: &mut String,
        deferred: &mut String,
    ) {
        let at = tag.range.start;
        let kind = tag.get("type").unwrap_or_default().to_ascii_lowercase();
        let is_module = kind == "module";
        let is_code = is_module || kind.is_empty() || kind.contains("javascript");
        // Scripts of SVG.
        for target in ["href", "xlink:href"].into_iter().filter_map(|name| tag.get(name)) {
            match Target::of(target) {
                Target::Url(url) => self.check_url(source, at, Use::Resource, url),
                _ => {
                    let message = format!("`{target}` cannot become part of a script of SVG");
                    self.report(source, at, format_args!("{message}\nhelp: write `<script src>` outside of the SVG"));
                }
            }
        }
        let Some(reference) = tag.get("src").map(str::to_owned) else {
            if is_code {
                self.code(Source { text: &source.text[content.clone()], ..source }, source, content.start);
            }
            return out.push_str(&source.text[tag.range.start..end]);
        };
        match Target::of(&reference) {
            _ if reference.trim() == BRIDGE => out.push_str(&format!("<script src=\"{BRIDGE}\"></script>")),
            Target::Url(url) => {
                self.check_url(source, at, Use::Resource, url);
                out.push_str(&source.text[tag.range.start..end]);
            }
            Target::File(path) => {
                let Some((file, js)) = self.read_text(source, at, path) else { return };
                let js = Source { name: path, text: &js, directory: file.parent().unwrap_or(Path::new("")) };
                if is_code {
                    self.code(js, js, 0);
                }
                tag.is_self_closing = false;
                let start = tag.html("script", &["src", "defer", "async", "crossorigin", "integrity"]);
                // Both sequences would end or change the element.
                let js = escaped(&escaped(js.text, "</script", r"\x3c"), "<!--", r"\x3c");
                let is_deferred = !is_module && (tag.get("defer").is_some() || tag.get("async").is_some());
                let out = if is_deferred { deferred } else { out };
                out.push_str(&format!("{start}{js}</script>"));
            }
            Target::Data => self.report(source, at, "the policy of a page permits no `data:` scripts"),
            Target::Other => {
                let message = format!("unknown script `{reference}`");
                self.report(source, at, format_args!("{message}\nhelp: the bridge is `{BRIDGE}`"));
            }
        }
    }

    /// Checks the constant URLs of a script at a position of another text.
    fn code(&mut self, js: Source<'_>, outer: Source<'_>, start: usize) {
        for found in js_urls(js.text) {
            let at = start + found.at;
            let is_template = js.text[found.at..].starts_with('`');
            match Target::of(found.url) {
                Target::Url(url) if is_template && has_computed_host(url) => {}
                Target::Url(url) => {
                    let kind = if found.is_script { Use::Resource } else { Use::Connect };
                    self.check_url(outer, at, kind, url);
                }
                // Strings that name no file are not imports.
                Target::File(path) => {
                    let base = if path.starts_with('/') { self.directory } else { js.directory };
                    if base.join(path.trim_start_matches('/')).is_file() {
                        let message = format!("the script imports `{path}`, which cannot become part of the page");
                        self.report(outer, at, format_args!("{message}\nhelp: build the page as one script"));
                    }
                }
                Target::Data | Target::Other => {}
            }
        }
    }

    /// Returns a style sheet at a position of another text with its files as `data:` URIs.
    fn style(&mut self, css: Source<'_>, outer: Source<'_>, start: usize) -> String {
        let (mut out, mut last) = (String::with_capacity(css.text.len()), 0);
        for found in css_urls(css.text) {
            let at = start + found.range.start;
            match Target::of(&found.url) {
                Target::Url(url) => self.check_url(outer, at, Use::Resource, url),
                Target::Data if found.kind == CssUse::Import => {
                    self.report(outer, at, "the policy of a page permits no `data:` styles");
                }
                Target::File(_) | Target::Data if found.kind == CssUse::Font => {
                    let message = "the policy of a page permits no fonts in `data:` URIs";
                    let url: String = found.url.chars().take(40).collect();
                    let message = format!("{message}, so `{url}` cannot become part of it");
                    self.report(outer, at, format_args!("{message}\nhelp: load it from an origin in `resources`"));
                }
                Target::File(path) if found.kind == CssUse::Import => {
                    let message = format!("the style sheet `{path}` cannot become part of another one");
                    self.report(outer, at, format_args!("{message}\nhelp: link it from the page"));
                }
                Target::File(_) => {
                    // The name of the style sheet is that of `outer`, and so is the line.
                    let from = Source { directory: css.directory, ..outer };
                    if let Some(data) = self.data_uri(from, at, &found.url) {
                        out.push_str(&css.text[last..found.range.start]);
                        out.push_str(&format!("url(\"{data}\")"));
                        last = found.range.end;
                    }
                }
                Target::Data | Target::Other => {}
            }
        }
        out + &css.text[last..]
    }

    /// Returns a file as a `data:` URI, with the fragment of the reference, which selects a part of an SVG image.
    fn data_uri(&mut self, source: Source<'_>, at: usize, reference: &str) -> Option<String> {
        let reference = reference.trim();
        let (path, fragment) = reference.split_at(reference.find('#').unwrap_or(reference.len()));
        let reference = path.split('?').next().unwrap_or(path);
        let extension = reference.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        let extension = extension.unwrap_or_default();
        let Some((_, mime)) = TYPES.iter().find(|(known, _)| *known == extension) else {
            self.report(source, at, format_args!("`{reference}` has an unsupported file type"));
            return None;
        };
        let (_, bytes) = self.read(source, at, reference)?;
        let mut uri = format!("data:{mime};base64,{}", STANDARD.encode(bytes));
        for c in fragment.chars() {
            // Neither HTML nor CSS must see an end of the URI.
            match c {
                '"' | '\'' | '\\' | '<' | '>' | ' ' | '\0'..='\x1f' => uri.push_str(&format!("%{:02X}", c as u32)),
                _ => uri.push(c),
            }
        }
        Some(uri)
    }
}

fn starts_ignoring_case(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

/// Replaces the `<` with which every `sequence` begins. The sequence is in lower case, and the text in any case.
fn escaped(text: &str, sequence: &str, replacement: &str) -> String {
    let (mut out, mut last) = (String::with_capacity(text.len()), 0);
    for (at, _) in text.to_ascii_lowercase().match_indices(sequence) {
        out.push_str(&text[last..at]);
        out.push_str(replacement);
        last = at + "<".len();
    }
    out + &text[last..]
}

/// Decodes `%20` and the like. Returns the text unchanged if the result is not UTF-8.
fn percent_decoded(text: &str) -> String {
    let (mut decoded, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *byte == b'%').and_then(|digits| str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(code.unwrap_or(*byte));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the assets of the integration tests.
    fn assets() -> PathBuf {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/it/pages/assets")).canonicalize().unwrap()
    }

    /// Returns the text of a page whose files are the assets.
    fn page(html: &str) -> Result<String, String> {
        let directory = assets();
        let policy = Policy::of(&[&["https://a.example"], &["https://a.example"], &[], &[]]);
        let mut bundler = Bundler { policy: &policy, directory: &directory, files: Vec::new(), problems: Vec::new() };
        let html = bundler.page(Source { name: "page", text: html, directory: &directory });
        if bundler.problems.is_empty() { Ok(html) } else { Err(bundler.problems.join("\n")) }
    }

    fn bundled(body: &str) -> Result<String, String> {
        let doctype = "<!doctype html>";
        page(&format!("{doctype}{body}")).map(|html| html.replace(doctype, ""))
    }

    const DOT: &str = "data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciPjxjaXJjbGUgcj0iMSIvPjwvc3ZnPg==";

    #[test]
    fn files_become_part_of_the_page() {
        let unchanged = [
            // An element of SVG ends with its tag.
            r##"<svg><path style="fill: url(#a)" d="M0 0"/><circle r="1"/></svg>"##,
            r##"<svg><use href="#a"/></svg>"##,
            // Commas in URLs separate no images.
            r#"<img srcset="data:image/gif;base64,R0lGODlhAQABAAAAACw= 1x, https://a.example/b.png 2x">"#,
            // The name of a namespace is not loaded.
            r#"<style>@namespace svg url(http://www.w3.org/2000/svg); @namespace "x"; a { b: c }</style>"#,
            r#"<style>@import "https://a.example/a.css" print; a::after { content: "https://b.example" }</style>"#,
            r#"<style>a { b: image-set("https://a.example/a.png" type("image/png")) }</style>"#,
            r#"<iframe srcdoc="<p>a</p>"></iframe>"#,
            r#"<iframe srcdoc="<!-- a --><p>a</p>"></iframe>"#,
            "<script>fetch(`https://${host}/`)</script>",
            // Data is not a program.
            r#"<script type="application/json">import "https://b.example/x"</script>"#,
            r#"<!-- > <img src="https://b.example/x"> -->"#,
            r#"<textarea><img src="https://b.example/x"></textarea>"#,
            r#"<title><img src="https://b.example/x"></title>"#,
            r#"<meta charset="utf-8">"#,
            r#"<script async src="https://a.example/a.js"></script>"#,
            // A string that names no file is not an import.
            r#"<script>import "./absent.js"</script>"#,
            r#"<link rel="icon" href="data:image/gif;base64,R0lGODlhAQABAAAAACw=">"#,
            // These load nothing into the page.
            r#"<link rel="dns-prefetch" href="https://b.example"><link rel="preconnect" href="https://b.example">"#,
            r#"<link rel="canonical" href="https://b.example">"#,
        ];
        let script = "'\\x3c/SCRIPT>\\x3c/script> \\x3c!--';\n";
        let image = format!("url(&quot;{DOT}&quot;)");
        for (body, expected) in unchanged.map(|html| (html, html.to_owned())).into_iter().chain([
            ("<svg><image href='img/dot.svg'/><g/></svg>", format!("<svg><image href=\"{DOT}\" /><g/></svg>")),
            ("<img src=img/dot.svg>", format!("<img src=\"{DOT}\">")),
            ("<IMG SRC=img/dot.svg>", format!("<img src=\"{DOT}\">")),
            ("<img src='img/d%6ft.svg'>", format!("<img src=\"{DOT}\">")),
            ("<img src=img//dot.svg>", format!("<img src=\"{DOT}\">")),
            // The version of a file is not part of its name.
            ("<img src='img/dot.svg?v=2'>", format!("<img src=\"{DOT}\">")),
            ("<img src=' img/dot.svg?v=2#view '>", format!("<img src=\"{DOT}#view\">")),
            (
                "<style>p { background: url('img/dot.svg#a\"b</i>') }</style>",
                format!("<style>p {{ background: url(\"{DOT}#a%22b%3C/i%3E\") }}</style>"),
            ),
            // The first attribute of a name counts.
            ("<img src=img/dot.svg src=https://b.example/x>", format!("<img src=\"{DOT}\">")),
            ("<img src=img/dot.svg alt='&amp;lt;'>", format!("<img src=\"{DOT}\" alt=\"&amp;lt;\">")),
            ("<input disabled src=img/dot.svg>", format!("<input disabled src=\"{DOT}\">")),
            ("<link rel='shortcut icon' href=img/dot.svg>", format!("<link rel=\"shortcut icon\" href=\"{DOT}\">")),
            ("<link rel=modulepreload href=board.js>", String::new()),
            ("<p style='a: URL(img/dot.svg)'>", format!("<p style=\"a: {image}\">")),
            ("<p style=\"a: image-set('img/dot.svg' 1x)\">", format!("<p style=\"a: image-set({image} 1x)\">")),
            (
                "<iframe srcdoc='<img src=img/dot.svg>'></iframe>",
                format!("<iframe srcdoc=\"<img src=&quot;{DOT}&quot;>\"></iframe>"),
            ),
            (
                "<body><script defer src=ends.js></script>b</body><script>'</body>'</script>",
                format!("<body>b<script>{script}</script></body><script>'</body>'</script>"),
            ),
            (
                "<body><script async src=ends.js></script><script id=a src=ends.js /></script>b</body>\n",
                format!("<body><script id=\"a\">{script}</script>b<script>{script}</script></body>\n"),
            ),
            // A module runs after the page is read, wherever it is.
            (
                "<body><script type=module async src=ends.js></script>b</body>",
                format!("<body><script type=\"module\">{script}</script>b</body>"),
            ),
            ("<script src=' mcp-runtime:bridge '>", "<script src=\"mcp-runtime:bridge\"></script>".to_owned()),
            // The last end tag counts, since what follows another one is part of the body.
            (
                "<body><script defer src=ends.js></script>a</body>b</body>",
                format!("<body>a</body>b<script>{script}</script></body>"),
            ),
            ("<script src=ends.js integrity=sha256-a crossorigin></script>", format!("<script>{script}</script>")),
            (
                "<link rel=stylesheet href=ends.css integrity=sha256-a crossorigin>",
                "<style>a::after { content: '<\\/STYLE><\\/style>' }\n</style>".to_owned(),
            ),
            // References are relative to the style sheet.
            (
                "<link rel=stylesheet href=lib/nested.css>",
                format!("<style>p {{ background: url(\"{DOT}\") }}\n</style>"),
            ),
            (
                "<link rel=stylesheet href=ends.css />",
                "<style>a::after { content: '<\\/STYLE><\\/style>' }\n</style>".to_owned(),
            ),
        ]) {
            assert_eq!(bundled(body), Ok(expected), "{body}");
        }
    }

    #[test]
    fn each_attribute_of_images_and_media_becomes_data() {
        for attribute in [
            "img src",
            "input src",
            "image href",
            "image xlink:href",
            "video poster",
            "video src",
            "audio src",
            "source src",
            "track src",
            "body background",
        ] {
            let found = bundled(&format!("<{attribute}=img/dot.svg>"));
            assert_eq!(found, Ok(format!("<{attribute}=\"{DOT}\">")));
        }
    }

    #[test]
    fn a_page_begins_with_its_doctype() {
        for html in ["<!doctype html>", "<!DOCTYPE HTML><p>", "\u{feff}<!doctype html>", "\n <!doctype html>"] {
            assert_eq!(page(html).as_deref(), Ok(html));
        }
        for html in ["", "<!doctype", "<html>", "<p><!doctype html>"] {
            assert_eq!(page(html), Err("page:1: a page begins with `<!doctype html>`".to_owned()), "{html}");
        }
    }

    #[test]
    fn a_bundle_names_its_files() {
        let directory = assets();
        let policy = Policy::of(&[
            &["https://api.example.com", "wss://live.example.com"],
            &["https://cdn.example.com"],
            &["https://frames.example.com"],
            &[],
        ]);
        let Bundle { html, files } = bundle(&directory.join("board.html"), &policy).unwrap();
        assert!(html.contains(DOT), "{html}");
        let names = ["board.html", "img/dot.svg", "board.css", "board.js", "module.js"];
        assert_eq!(files, names.map(|name| directory.join(name)));
        let problems = bundle(&directory.join("board.html"), &Policy::default()).unwrap_err();
        assert_eq!(
            problems[0],
            "board.css:1: the policy of the page forbids `https://cdn.example.com/more.css`\n\
             help: add `resources = [\"https://cdn.example.com\"]`"
        );
    }

    #[test]
    fn references_that_hosts_block_are_reported() {
        let forbidden = "the policy of the page forbids `https://b.example/x`";
        let fonts = "the policy of a page permits no fonts in `data:` URIs";
        for (body, expected) in [
            ("<style>@import url(data:text/css,a)</style>", "page:1: the policy of a page permits no `data:` styles"),
            ("<style>@import 'data:text/css,a';</style>", "the policy of a page permits no `data:` styles"),
            ("<style>@font-face { src: url(data:font/woff2;base64,AA==) }</style>", fonts),
            ("<style>@font-face { src: url(img/dot.svg) }</style>", fonts),
            ("<style>@font-face { src: local(a), url(data:application/octet-stream,A) }</style>", fonts),
            ("<svg><use href='img/dot.svg#a'/></svg>", "`<use>` cannot load `img/dot.svg#a`"),
            ("<svg><use xlink:href='https://a.example/a.svg#a'/></svg>", "`<use>` cannot load"),
            ("<svg><script href='https://b.example/x'></script></svg>", forbidden),
            ("<svg><script xlink:href='board.js'></script></svg>", "`board.js` cannot become part of a script of SVG"),
            ("<iframe srcdoc='\n<img src=https://b.example/x>'>", "srcdoc of page:2: "),
            ("<iframe srcdoc='<script>fetch(\"https://b.example/x\")</script>'>", forbidden),
            ("<meta http-equiv=Refresh content='0; url=https://b.example/x'>", "would replace the page"),
            ("<style>a { b: image-set('https://b.example/x' 1x) }</style>", forbidden),
            ("<p style='a: URL(https://b.example/x)'>", forbidden),
            ("<img src='HTTPS://b.example/x'>", "the policy of the page forbids `HTTPS://b.example/x`"),
            ("<img src='https://${host}/x'>", "the policy of the page forbids `https://${host}/x`"),
            ("<script>fetch('https://${host}/x', `a`)</script>", "the policy of the page forbids `https://${host}/x`"),
            ("<!-- --!><img src='https://b.example/x'><!-- -->", forbidden),
            ("<!--><img src='https://b.example/x'><!-- -->", forbidden),
            ("<script src='..'></script>", "`..` is outside of the directory of the page"),
            ("<script src='img'></script>", "cannot read `img`: not a file"),
            ("<img srcset='a.png, https://a.example/b.png 2x'>", "files in `srcset` cannot become part of the page"),
            ("<source srcset='https://b.example/x 2x'>", forbidden),
            ("<img src=img/absent.SVG>", "cannot read `img/absent.SVG`"),
            ("<script type=text/javascript>fetch('https://b.example/x')</script>", forbidden),
            ("<img src='https&#X3A;//b.example/x'>", forbidden),
            ("<img src=' https://b.example/x'>", forbidden),
            ("<img src = https://b.example/x>", forbidden),
            ("<img src='https&colon;//b.example/x'>", forbidden),
            ("<img src=//b.example/x>", forbidden),
            // A quote in a name does not begin a value.
            ("<p =\"><img src='https://b.example/x'>", forbidden),
            ("<p></p><img src='https://b.example/x'><!-- -->", forbidden),
            ("<img src=1x:a.png>", "cannot read `1x:a.png`"),
            ("<img src=img/a:b.png>", "cannot read `img/a:b.png`"),
            ("<img src=board.js>", "`board.js` has an unsupported file type"),
            ("<iframe src=frame.html></iframe>", "a frame needs a URL"),
            ("<iframe src='data:text/html,a'></iframe>", "a frame needs a URL"),
            ("<base href='https://b.example/x'>", "help: add `base_uris = [\"https://b.example\"]`"),
            ("<object data=img/dot.svg>", "hosts forbid `<object>` in every page"),
            ("<embed src=img/dot.svg>", "hosts forbid `<embed>` in every page"),
            ("<link rel='preload stylesheet' href=data:text/css,a>", "the policy of a page permits no `data:` styles"),
            ("<link rel=stylesheet href=https://b.example/x>", forbidden),
            ("<style>@import 'ends.css'</style>", "`ends.css` cannot become part of another one\nhelp: link it"),
            ("<script src=https://b.example/x></script>", forbidden),
            ("<script></SCRIPT><img src='https://b.example/x'>", forbidden),
            ("<script src=mcp-runtime:host></script>", "unknown script `mcp-runtime:host`\nhelp: the bridge is"),
            ("<script src=latin1.js></script>", "`latin1.js` is not UTF-8"),
            ("<script>\n\nfetch('https://b.example/x')</script>", "page:3: the policy of the page forbids"),
            ("<script>fetch('https://b.example/x')</script>", "help: add `connect = [\"https://b.example\"]`"),
            ("<script>import 'https://b.example/x'</script>", "help: add `resources = [\"https://b.example\"]`"),
        ] {
            let found = bundled(body).unwrap_err();
            assert!(found.contains(expected), "{body}\n{found}");
        }
    }

    #[test]
    fn imports_of_files_are_reported() {
        let line = |line, path| {
            let problem = format!("the script imports `{path}`, which cannot become part of the page");
            format!("lib/imports.js:{line}: {problem}\nhelp: build the page as one script")
        };
        let found = bundled("<script type=module src=lib/imports.js></script>");
        assert_eq!(found, Err([line(1, "/board.js"), line(2, "./imports.js")].join("\n")));
        let data = bundled("<script type=text/plain src=lib/imports.js></script>");
        assert!(data.is_ok_and(|html| html.contains("import \"/board.js\"")));
    }
}
