use super::{Common, Kind, Owner};
use crate::{
    errors::Errors,
    syntax::{Function, PromptSyntax},
};

/// A prompt that can be chosen.
pub(crate) struct Prompt {
    pub(crate) common: Common,
}

impl Prompt {
    /// Checks a prompt, and gives back the function that it was made of.
    pub(crate) fn check(given: PromptSyntax, owner: &Owner, errors: &mut Errors) -> (Self, Function) {
        let PromptSyntax { mut function, common } = given;
        (Self { common: Common::check(Kind::Prompt, owner, common, &mut function, errors) }, function)
    }
}
