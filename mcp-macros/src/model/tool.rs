use proc_macro2::Span;

use super::{Common, Kind, Owner};
use crate::{
    errors::Errors,
    syntax::{Function, ToolSyntax},
};

/// A tool that can be called.
pub(crate) struct Tool {
    pub(crate) common: Common,
    pub(crate) read_only: Option<bool>,
    pub(crate) destructive: Option<bool>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) open_world: Option<bool>,
}

impl Tool {
    /// Checks a tool, and gives back the function that it was made of.
    pub(crate) fn check(given: ToolSyntax, owner: &Owner, errors: &mut Errors) -> (Self, Function) {
        let ToolSyntax { mut function, common, read_only, destructive, idempotent, open_world } = given;
        check_hints(read_only, destructive, errors);
        let hint = |given: Option<(bool, Span)>| given.map(|(value, _)| value);
        let tool = Self {
            common: Common::check(Kind::Tool, owner, common, &mut function, errors),
            read_only: hint(read_only),
            destructive: hint(destructive),
            idempotent: hint(idempotent),
            open_world: hint(open_world),
        };
        (tool, function)
    }
}

fn check_hints(read_only: Option<(bool, Span)>, destructive: Option<(bool, Span)>, errors: &mut Errors) {
    if let (Some((true, _)), Some((true, place))) = (read_only, destructive) {
        let message =
            "`destructive` contradicts `read_only`: what changes nothing cannot destroy\nhelp: remove one of the two";
        errors.at(place, message);
    }
}
