//! `#[server]`

use proc_macro2::TokenStream;
use syn::Path;

use super::{
    Function, common,
    options::{OptionSpec, Options},
};
use crate::errors::Errors;

/// The parsed options and function of `#[server]`.
pub(crate) struct ServerSyntax {
    pub(crate) function: Function,
    pub(crate) krate: Option<Path>,
}

impl ServerSyntax {
    pub(crate) fn read(given: TokenStream, function: Function, errors: &mut Errors) -> Self {
        Self { function, krate: only_crate("server", given, errors) }
    }
}

/// Parses the options of an attribute whose only option is `crate`.
pub(super) fn only_crate(attribute: &'static str, given: TokenStream, errors: &mut Errors) -> Option<Path> {
    static OTHERS: [OptionSpec; 8] = common::OTHERS;
    let mut options = Options::new(attribute, OTHERS.iter().filter(|known| known.name == "crate"));
    options.read(given, errors);
    options.path("crate", errors)
}
