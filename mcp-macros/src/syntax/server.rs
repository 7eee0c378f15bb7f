//! `#[server]`

use proc_macro2::TokenStream;
use syn::Path;

use super::{
    Function, common,
    options::{Known, Options},
};
use crate::errors::Errors;

/// A `#[server]` as written.
pub(crate) struct ServerSyntax {
    pub(crate) function: Function,
    pub(crate) krate: Option<Path>,
}

impl ServerSyntax {
    pub(crate) fn read(given: TokenStream, function: Function, errors: &mut Errors) -> Self {
        Self { function, krate: only_crate("server", given, errors) }
    }
}

/// Reads the options of an attribute that has none but `crate`.
pub(super) fn only_crate(attribute: &'static str, given: TokenStream, errors: &mut Errors) -> Option<Path> {
    static OTHERS: [Known; 8] = common::OTHERS;
    let mut options = Options::new(attribute, OTHERS.iter().filter(|known| known.name == "crate"));
    options.read(given, errors);
    options.path("crate", errors)
}
