//! The senders of requests, and the parameters of queries and forms.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, Request};

use crate::shares::Peer;

/// The sender of a request: its headers, and its address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sender<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) peer: Peer,
}

impl<'a> Sender<'a> {
    pub(super) fn of(request: &'a Request<Bytes>) -> Self {
        Self { headers: request.headers(), peer: Peer::of(request.extensions()) }
    }
}

/// The maximum number of parameters.
const MAX_PARAMETERS: usize = 200;

/// Parameters in the form of `application/x-www-form-urlencoded`.
#[derive(Debug)]
pub(super) struct Parameters<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Parameters<'a> {
    /// # Errors
    ///
    /// Returns a message if there are too many, or if a parameter other than `resource` occurs more than once.
    ///
    /// See [RFC 6749, 3.1](https://www.rfc-editor.org/rfc/rfc6749#section-3.1).
    pub(super) fn parse(text: &'a [u8]) -> Result<Self, &'static str> {
        let pairs: Vec<_> = form_urlencoded::parse(text).take(MAX_PARAMETERS + 1).collect();
        if pairs.len() > MAX_PARAMETERS {
            return Err("there are too many parameters");
        }
        for (index, (name, _)) in pairs.iter().enumerate() {
            if name != "resource" && pairs[..index].iter().any(|(other, _)| other == name) {
                return Err("a parameter occurs more than once");
            }
        }
        Ok(Self(pairs))
    }

    /// Returns a parameter. An empty one counts as absent, as the standard says.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(found, value)| found == name && !value.is_empty()).map(|(_, value)| &**value)
    }
}

/// Adds parameters to a URL, whose own query is kept.
pub(super) fn with_parameters(url: &str, parameters: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters);
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}{}", query.finish())
}

/// Returns a form with these parameters.
pub(super) fn form(parameters: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish()
}
