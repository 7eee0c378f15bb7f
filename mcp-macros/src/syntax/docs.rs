//! Doc comments.

use syn::{Attribute, Expr, Lit, Meta};

/// The text of doc comments, as rustdoc would show it.
#[derive(Default)]
pub(crate) struct Docs {
    pub(crate) pieces: Vec<Piece>,
}

/// Text, or a macro that gives text.
pub(crate) enum Piece {
    Text(String),
    Macro(Box<Expr>),
}

impl Docs {
    pub(super) fn read(attributes: &[Attribute]) -> Self {
        let mut lines = Vec::new();
        let mut pieces = Vec::new();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
            let Meta::NameValue(doc) = &attribute.meta else { continue };
            match &doc.value {
                Expr::Lit(literal) => {
                    if let Lit::Str(text) = &literal.lit {
                        lines.extend(plain_lines(&text.value()));
                    }
                }
                other => {
                    pieces.push(Piece::Text(text_of(&std::mem::take(&mut lines)) + "\n"));
                    pieces.push(Piece::Macro(Box::new(other.clone())));
                    lines.push(String::new());
                }
            }
        }
        pieces.push(Piece::Text(text_of(&lines)));
        trim(&mut pieces);
        Self { pieces }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, Piece::Text(text) if text.is_empty()))
    }

    /// Takes the option `description` instead of the comments.
    pub(crate) fn of(description: Expr) -> Self {
        Self {
            pieces: vec![match description {
                Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) => Piece::Text(text.value()),
                other => Piece::Macro(Box::new(other)),
            }],
        }
    }
}

/// The lines of one comment: the `*` at the margin of a block comment is no part of it.
fn plain_lines(comment: &str) -> Vec<String> {
    if !comment.contains('\n') {
        return vec![comment.to_owned()];
    }
    let lines: Vec<&str> = comment.lines().collect();
    let inner = || lines[1..].iter().filter(|line| !line.trim().is_empty());
    let starred = inner().next().is_some() && inner().all(|line| line.trim_start().starts_with('*'));
    let margin = inner().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    let plain = |line: &str| match starred {
        true => line.trim_start().strip_prefix('*').unwrap_or("").to_owned(),
        // One space is taken off later.
        false => format!(" {}", line.get(margin..).unwrap_or("")),
    };
    std::iter::once(lines[0].to_owned()).chain(lines[1..].iter().map(|line| plain(line))).collect()
}

fn text_of(lines: &[String]) -> String {
    let plain = |line: &String| line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned();
    lines.iter().map(plain).collect::<Vec<_>>().join("\n")
}

/// Takes off blank lines at both ends, and empty pieces.
fn trim(pieces: &mut Vec<Piece>) {
    if let Some(Piece::Text(first)) = pieces.first_mut() {
        *first = first.trim_start_matches('\n').to_owned();
    }
    if let Some(Piece::Text(last)) = pieces.last_mut() {
        last.truncate(last.trim_end().len());
    }
    pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
}

#[cfg(test)]
mod tests {
    use syn::{ItemFn, parse_str};

    use super::{Docs, Piece};

    fn read(docs: &str) -> Vec<String> {
        let item: ItemFn = parse_str(&format!("{docs}\nfn f() {{}}")).expect("a function");
        let shown = |piece| match piece {
            Piece::Text(text) => text,
            Piece::Macro(_) => "<macro>".to_owned(),
        };
        Docs::read(&item.attrs).pieces.into_iter().map(shown).collect()
    }

    #[test]
    fn comments_read_as_rustdoc_shows_them() {
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
