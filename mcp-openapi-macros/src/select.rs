//! The operations of a document: their names, and the patterns that choose them.

use std::collections::HashSet;

use mcp_schema::nearest;

use crate::document::{DocumentError, Documents, Node};

/// The maximum length of the name of a tool. Clients refuse longer ones, which may have a prefix of the client, too.
const MAX_NAME: usize = 64;
const METHODS: [&str; 7] = ["get", "head", "options", "post", "put", "patch", "delete"];

/// An operation that is imported.
pub(crate) struct Selected<'a> {
    pub(crate) name: String,
    pub(crate) method: &'static str,
    pub(crate) path: &'a str,
    /// The parent, which may have parameters and servers, too.
    pub(crate) item: Node<'a>,
    pub(crate) node: Node<'a>,
}

pub(crate) struct Selection<'a> {
    pub(crate) operations: Vec<Selected<'a>>,
    /// The indexes of patterns that choose nothing, over both lists, with their messages.
    pub(crate) unmatched: Vec<(usize, String)>,
    pub(crate) errors: Vec<DocumentError>,
}

impl Selected<'_> {
    fn id(&self) -> Option<&str> {
        self.node.text("operationId")
    }

    fn is_matched(&self, pattern: &str) -> bool {
        let (method, rest) = pattern.split_once(' ').unwrap_or(("", pattern));
        let is_method = method.is_empty() || method.eq_ignore_ascii_case(self.method);
        if rest.starts_with('/') {
            return is_method && matches(rest.as_bytes(), self.path.as_bytes());
        }
        let names = self.id().into_iter().chain([&*self.name]);
        names.into_iter().any(|name| matches(pattern.as_bytes(), name.as_bytes()))
    }
}

/// Returns the operations that a pattern of `include` matches, or all, except for those that a pattern of `exclude` matches.
pub(crate) fn operations<'a>(documents: &'a Documents, include: &[String], exclude: &[String]) -> Selection<'a> {
    let mut errors = Vec::new();
    let all = match all(documents, &mut errors) {
        Ok(all) => all,
        Err(error) => {
            return Selection { operations: Vec::new(), unmatched: Vec::new(), errors: vec![error] };
        }
    };
    let mut unmatched = Vec::new();
    for (index, pattern) in include.iter().chain(exclude).enumerate() {
        if !all.iter().any(|operation| operation.is_matched(pattern)) {
            let known: Vec<&str> = if pattern.contains('/') && !pattern.contains('*') && pattern.starts_with('/') {
                all.iter().map(|operation| operation.path).collect()
            } else {
                all.iter().map(|operation| operation.id().unwrap_or(&operation.name)).collect()
            };
            let help = nearest(pattern, known.iter().copied());
            let help = help.map_or_else(String::new, |name| format!("\nhelp: did you mean `{name}`?"));
            unmatched.push((index, format!("`{pattern}` matches no operation of the document{help}")));
        }
    }
    let is_chosen = |operation: &Selected<'_>| {
        let is_matched = |patterns: &[String]| patterns.iter().any(|pattern| operation.is_matched(pattern));
        (include.is_empty() || is_matched(include)) && !is_matched(exclude)
    };
    let operations = all.into_iter().filter(is_chosen).collect();
    Selection { operations, unmatched, errors }
}

fn all<'a>(documents: &'a Documents, errors: &mut Vec<DocumentError>) -> Result<Vec<Selected<'a>>, DocumentError> {
    let root = documents.root();
    if let Some(version) = root.get("swagger") {
        return Err(version.error("Swagger 2.0 is not supported, convert the document to OpenAPI 3"));
    }
    let version = root.get("openapi").ok_or_else(|| root.error("`openapi`, the version, is missing"))?;
    let text = version.value.as_str().map_or_else(|| version.value.to_string(), str::to_owned);
    if !text.starts_with("3.") {
        return Err(version.error(format!("unsupported version `{text}`, expected 3.0 or 3.1")));
    }
    let paths = root.get("paths").ok_or_else(|| root.error("`paths` is missing"))?;
    let mut found = Vec::new();
    for (path, item) in paths.members().filter(|(path, _)| !path.starts_with("x-")) {
        if !path.starts_with('/') {
            errors.push(item.error(format!("the path `{path}` must begin with `/`")));
            continue;
        }
        if let Some(char) = path.chars().find(|char| !char.is_ascii_graphic() || "\"<>\\^`|".contains(*char)) {
            errors.push(item.error(format!("the path `{path}` contains {char:?}, which must be percent-encoded")));
            continue;
        }
        let item = match documents.resolve(item) {
            Ok(item) => item,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        for method in METHODS {
            if let Some(node) = item.get(method) {
                found.push(Selected { name: String::new(), method, path, item: item.clone(), node });
            }
        }
    }
    let mut used = HashSet::new();
    for operation in &mut found {
        let by_path = || limited(&words(&format!("{}_{}", operation.method, operation.path)));
        let own = operation.node.text("operationId").map(words).filter(|name| !name.is_empty());
        let mut name = own.map_or_else(by_path, |name| limited(&name));
        if used.contains(&name) {
            name = by_path();
        }
        let (stem, mut number) = (name.clone(), 2);
        while !used.insert(name.clone()) {
            name = limited(&format!("{stem}_{number}"));
            number += 1;
        }
        operation.name = name;
    }
    Ok(found)
}

/// Replaces everything but letters, digits, `-` and `_`.
pub(crate) fn words(text: &str) -> String {
    let mut name = String::new();
    for char in text.chars() {
        if char.is_ascii_alphanumeric() || char == '-' {
            name.push(char);
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    name.trim_end_matches('_').to_owned()
}

/// Shortens a name. The end is a hash, so that it does not depend on other names.
pub(crate) fn limited(name: &str) -> String {
    if name.len() <= MAX_NAME {
        return name.to_owned();
    }
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{}_{hash:08x}", name[..MAX_NAME - 9].trim_end_matches('_'))
}

/// Returns whether a pattern matches: `*` any text without `/`, `**` any text.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', b'*', rest @ ..] => (0..=text.len()).any(|at| matches(rest, &text[at..])),
        [b'*', rest @ ..] => {
            let end = text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
            (0..=end).any(|at| matches(rest, &text[at..]))
        }
        [first, rest @ ..] => text.first() == Some(first) && matches(rest, &text[1..]),
    }
}
