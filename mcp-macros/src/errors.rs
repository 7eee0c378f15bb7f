//! Collected compile errors.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use std::fmt::Display;

/// The errors found so far.
#[derive(Debug, Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Reports an error on the offending tokens.
    pub(crate) fn on(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    /// Reports an error with a suggestion.
    pub(crate) fn help(&mut self, tokens: impl ToTokens, message: impl Display, help: impl Display) {
        self.on(tokens, format_args!("{message}\nhelp: {help}"));
    }

    /// Reports an unknown name, with the known name that is closest to it.
    pub(crate) fn unknown<'a>(
        &mut self,
        tokens: impl ToTokens,
        message: impl Display,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) {
        match nearest(name, known) {
            Some(nearest) => self.help(tokens, message, format_args!("did you mean `{nearest}`?")),
            None => self.on(tokens, message),
        }
    }

    /// Reports an error at a span.
    pub(crate) fn at(&mut self, span: Span, message: impl Display) {
        self.push(syn::Error::new(span, message));
    }

    /// Reports an error with a suggestion at a span.
    pub(crate) fn help_at(&mut self, span: Span, message: impl Display, help: impl Display) {
        self.at(span, format_args!("{message}\nhelp: {help}"));
    }

    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Returns the value, or reports the error.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0.map(syn::Error::into_compile_error).unwrap_or_default()
    }
}

/// Formats alternatives: ``one of `a`, `b` ``, or just `` `a` ``.
pub(crate) fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [only] => only.clone(),
        several => format!("one of {}", several.join(", ")),
    }
}

/// Returns the candidate that is closest to `word`, if it differs in at most a third of its characters.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(word.len()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_close_names() {
        let candidates = ["name", "title", "read_only", "idempotent", "icon", "icons", "timeout"];
        for (word, expected) in [
            ("idempotant", Some("idempotent")),
            ("readonly", Some("read_only")),
            ("tilte", Some("title")),
            ("nmae", Some("name")),
            ("time_out", Some("timeout")),
            ("icon", Some("icon")),
            ("cache", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, candidates), expected, "{word}");
        }
    }
}
