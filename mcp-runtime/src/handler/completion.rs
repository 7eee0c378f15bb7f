//! The inputs and the result of completion functions (`completion/complete`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Encoding, ErrorOutput, HandlerError};
use crate::{
    jsonrpc::write,
    model::add_meta,
    revision::encode::{self, Object},
};

/// The maximum number of values in one result.
///
/// See [Completion results](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion#completion-results).
const MAX_VALUES: usize = 100;

/// The values of the arguments that the user has already filled in, by name.
///
/// ```
/// use mcp_runtime::function::EarlierArguments;
///
/// /// Completes a city of the country that was chosen first.
/// fn cities(earlier: &EarlierArguments, start: &str) -> Vec<&'static str> {
///     let cities = match earlier.get("country") {
///         Some("Switzerland") => ["Basel", "Bern"],
///         _ => ["Berlin", "Paris"],
///     };
///     cities.into_iter().filter(|city| city.starts_with(start)).collect()
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EarlierArguments(pub(crate) BTreeMap<String, String>);

impl EarlierArguments {
    /// Returns the value of an argument, if the client sent it. Only clients of revision 2025-06-18 or later do.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}

/// The result of a completion: at most 100 values, ordered by relevance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completions {
    pub(crate) values: Vec<String>,
    pub(crate) total: Option<usize>,
    pub(crate) has_more: bool,
    pub(crate) meta: Map<String, Value>,
}

impl Completions {
    /// Creates a result from all matches. The first 100 are sent, the rest are only counted.
    pub fn new(values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut values = values.into_iter();
        let first: Vec<String> = values.by_ref().take(MAX_VALUES).map(Into::into).collect();
        let total = first.len() + values.count();
        Self { has_more: total > first.len(), total: Some(total), values: first, meta: Map::new() }
    }

    /// Creates a result from the candidates that match a value, regardless of case: first the candidates that start
    /// with it, then the candidates that contain it. This is how the values of enums are completed.
    ///
    /// ```
    /// # use mcp_runtime::Completions;
    /// let cities = ["New York", "York", "Yorktown", "Paris"];
    /// assert_eq!(Completions::matching("york", cities), Completions::new(["York", "Yorktown", "New York"]));
    /// ```
    pub fn matching(value: &str, candidates: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let value = value.to_lowercase();
        let (mut starting, mut containing) = (Vec::new(), Vec::new());
        for candidate in candidates {
            let candidate = candidate.into();
            match candidate.to_lowercase().find(&value) {
                Some(0) => starting.push(candidate),
                Some(_) => containing.push(candidate),
                None => {}
            }
        }
        Self::new(starting.into_iter().chain(containing))
    }

    /// Sets the total number of matches if the values are only the first of them. `None` means that there are more matches,
    /// and that their number is unknown.
    #[must_use]
    pub fn with_total(mut self, total: impl Into<Option<usize>>) -> Self {
        self.total = total.into();
        self.has_more = self.total.is_none_or(|total| total > self.values.len());
        self
    }

    /// Adds a member to the `_meta` of the result.
    ///
    /// # Panics
    ///
    /// Panics if the key is malformed or has a prefix that the protocol reserves, such as `io.modelcontextprotocol/`.
    #[track_caller]
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        add_meta(&mut self.meta, key, value);
        self
    }

    /// Writes the result of `completion/complete`.
    pub(crate) fn write(&self, encoding: &Encoding) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(br#"{"completion":"#);
        let mut completion = Object::begin(&mut out);
        encode::array(completion.key("values"), &self.values, |out, value| write::string(out, value));
        if let Some(total) = self.total {
            write::plain(completion.key("total"), &total);
        }
        write::plain(completion.key("hasMore"), &self.has_more);
        completion.end();
        encoding.end_result(&mut out, Some(&self.meta));
        out
    }
}

/// A type that a completion function may return.
#[diagnostic::on_unimplemented(
    message = "a completion function cannot return `{Self}`",
    label = "expected strings, `Completions`, or a `Result` of them"
)]
pub trait CompletionsOutput {
    /// Converts the value into a result.
    #[doc(hidden)]
    fn completions(self) -> Result<Completions, HandlerError>;
}

impl CompletionsOutput for Completions {
    fn completions(self) -> Result<Completions, HandlerError> {
        Ok(self)
    }
}

impl<S: Into<String>> CompletionsOutput for Vec<S> {
    fn completions(self) -> Result<Completions, HandlerError> {
        Ok(Completions::new(self))
    }
}

impl<S: Into<String>, const N: usize> CompletionsOutput for [S; N] {
    fn completions(self) -> Result<Completions, HandlerError> {
        Ok(Completions::new(self))
    }
}

impl<T: CompletionsOutput, E: ErrorOutput> CompletionsOutput for Result<T, E> {
    fn completions(self) -> Result<Completions, HandlerError> {
        self.map_err(HandlerError::from_error)?.completions()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_100_values_are_sent_and_all_are_counted() {
        let numbers = |count: usize| Completions::new((0..count).map(|number| number.to_string()));
        for (completions, sent, total, has_more) in [
            (numbers(250), 100, Some(250), true),
            (numbers(100), 100, Some(100), false),
            (numbers(2).with_total(2), 2, Some(2), false),
            (numbers(2).with_total(3), 2, Some(3), true),
            (numbers(2).with_total(None), 2, None, true),
            (numbers(101).with_total(100), 100, Some(100), false),
        ] {
            let found = (completions.values.len(), completions.total, completions.has_more);
            assert_eq!(found, (sent, total, has_more));
        }
    }

    #[test]
    fn values_that_start_with_the_text_precede_those_that_contain_it() {
        let candidates = ["Zürich", "Bad Ragaz", "ragout", "RAGTIME", "Bern"];
        for (text, expected) in [
            ("", &candidates[..]),
            ("rag", &["ragout", "RAGTIME", "Bad Ragaz"]),
            ("RAGO", &["ragout"]),
            ("ÜRICH", &["Zürich"]),
            ("d r", &["Bad Ragaz"]),
            ("x", &[]),
        ] {
            assert_eq!(Completions::matching(text, candidates).values, expected, "{text:?}");
        }
    }
}
