//! `#[prompt(…)]`

use proc_macro2::TokenStream;

use super::{
    CommonSyntax, Function, common,
    options::{OptionSpec, Options},
};
use crate::errors::Errors;

pub(super) static KNOWN: [&[OptionSpec]; 2] = [&common::NAMES, &common::OTHERS];

/// The parsed options and function of `#[prompt]`.
pub(crate) struct PromptSyntax {
    pub(crate) function: Function,
    pub(crate) common: CommonSyntax,
}

impl PromptSyntax {
    pub(crate) fn read(given: TokenStream, function: Function, errors: &mut Errors) -> Self {
        let mut options = Options::new("prompt", KNOWN.into_iter().flatten());
        options.read(given, errors);
        Self { function, common: CommonSyntax::read(&mut options, errors) }
    }
}
