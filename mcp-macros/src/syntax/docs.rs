//! Doc comments.

use syn::{Attribute, Expr, Lit, Meta};

/// The text of doc comments as rustdoc renders it.
#[derive(Default)]
pub(crate) struct Docs {
    pub(crate) fragments: Vec<DocFragment>,
}

/// Text, or a macro that expands to text.
pub(crate) enum DocFragment {
    Text(String),
    Macro(Box<Expr>),
}

impl Docs {
    pub(super) fn read(attributes: &[Attribute]) -> Self {
        let mut lines = Vec::new();
        let mut fragments = Vec::new();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
            let Meta::NameValue(doc) = &attribute.meta else { continue };
            match &doc.value {
                Expr::Lit(literal) => {
                    if let Lit::Str(text) = &literal.lit {
                        lines.extend(plain_lines(&text.value()));
                    }
                }
                other => {
                    fragments.push(DocFragment::Text(text_of(&std::mem::take(&mut lines)) + "\n"));
                    fragments.push(DocFragment::Macro(Box::new(other.clone())));
                    lines.push(String::new());
                }
            }
        }
        fragments.push(DocFragment::Text(text_of(&lines)));
        trim(&mut fragments);
        Self { fragments }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fragments.iter().all(|fragment| matches!(fragment, DocFragment::Text(text) if text.is_empty()))
    }

    /// Appends a paragraph.
    pub(crate) fn append(&mut self, paragraph: &str) {
        let separator = if self.is_empty() { "" } else { "\n\n" };
        self.fragments.push(DocFragment::Text(format!("{separator}{paragraph}")));
    }

    /// Creates the text from the option `description`, which replaces the comments.
    pub(crate) fn of(description: Expr) -> Self {
        Self {
            fragments: vec![match description {
                Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) => DocFragment::Text(text.value()),
                other => DocFragment::Macro(Box::new(other)),
            }],
        }
    }
}

/// Returns the lines of a comment without the `*` at the margin of a block comment.
fn plain_lines(comment: &str) -> Vec<String> {
    if !comment.contains('\n') {
        return vec![comment.to_owned()];
    }
    let lines: Vec<&str> = comment.lines().collect();
    let inner = || lines[1..].iter().filter(|line| !line.trim().is_empty());
    let starred = inner().next().is_some() && inner().all(|line| line.trim_start().starts_with('*'));
    let margin = inner().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    let plain = |line: &str| {
        if starred {
            line.trim_start().strip_prefix('*').unwrap_or("").to_owned()
        } else {
            // One space is removed later.
            format!(" {}", line.get(margin..).unwrap_or(""))
        }
    };
    std::iter::once(lines[0].to_owned()).chain(lines[1..].iter().map(|line| plain(line))).collect()
}

fn text_of(lines: &[String]) -> String {
    let plain = |line: &String| line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned();
    lines.iter().map(plain).collect::<Vec<_>>().join("\n")
}

/// Removes blank lines at both ends, and empty fragments.
fn trim(fragments: &mut Vec<DocFragment>) {
    if let Some(DocFragment::Text(first)) = fragments.first_mut() {
        *first = first.trim_start_matches('\n').to_owned();
    }
    if let Some(DocFragment::Text(last)) = fragments.last_mut() {
        last.truncate(last.trim_end().len());
    }
    fragments.retain(|fragment| !matches!(fragment, DocFragment::Text(text) if text.is_empty()));
}

#[cfg(test)]
mod tests {
    use syn::{ItemFn, parse_str};

    use super::{DocFragment, Docs};

    fn read(docs: &str) -> Vec<String> {
        let item: ItemFn = parse_str(&format!("{docs}\nfn f() {{}}")).expect("a function");
        let shown = |fragment| match fragment {
            DocFragment::Text(text) => text,
            DocFragment::Macro(_) => "<macro>".to_owned(),
        };
        Docs::read(&item.attrs).fragments.into_iter().map(shown).collect()
    }

    #[test]
    fn comments_match_rustdoc() {
        for (docs, expected) in [
            ("/// One line.", vec!["One line."]),
            ("/// First.\n///\n/// Second,\n/// two lines.  ", vec!["First.\n\nSecond,\ntwo lines."]),
            ("///\n/// Blank at both ends.\n///", vec!["Blank at both ends."]),
            ("/// - list\n///   indented\n///\tx", vec!["- list\n  indented\n\tx"]),
            ("///without a space", vec!["without a space"]),
            ("/** A block. */", vec!["A block."]),
            ("/** A block,\n  * with stars.\n  *\n  * End.\n */", vec!["A block,\nwith stars.\n\nEnd."]),
            ("/**\n    Indented\n      more.\n */", vec!["Indented\n  more."]),
            ("#[doc = \"An attribute.\"]\n/// And a comment.", vec!["An attribute.\nAnd a comment."]),
            ("#[doc = include_str!(\"a.md\")]", vec!["<macro>"]),
            ("/// Before.\n#[doc = include_str!(\"a.md\")]\n/// After.", vec!["Before.\n", "<macro>", "\nAfter."]),
            ("#[doc(hidden)]", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(read(docs), expected, "{docs}");
        }
    }
}
