//! `#[prompt]`

use super::{Common, EnclosingType, Kind};
use crate::{
    errors::Errors,
    syntax::{Function, PromptSyntax},
};

/// A checked prompt.
pub(crate) struct Prompt {
    pub(crate) common: Common,
}

impl Prompt {
    /// Checks a prompt and returns it with its function.
    pub(crate) fn check(given: PromptSyntax, enclosing_type: &EnclosingType, errors: &mut Errors) -> (Self, Function) {
        let PromptSyntax { mut function, common } = given;
        (Self { common: Common::check(Kind::Prompt, enclosing_type, common, &mut function, errors) }, function)
    }
}
