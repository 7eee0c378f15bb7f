//! `#[tool(…)]`

use proc_macro2::{Span, TokenStream};
use syn::Expr;

use super::{
    CommonSyntax, Function, common,
    options::{OptionSpec, Options, spec},
};
use crate::errors::Errors;

const HINTS: [OptionSpec; 4] = [
    spec("read_only", "read_only"),
    spec("destructive", "destructive"),
    spec("idempotent", "idempotent"),
    spec("open_world", "open_world"),
];

const EXECUTION: [OptionSpec; 1] = [spec("task", r#"task = "required""#)];

/// The parsed options and function of `#[tool]`.
pub(crate) struct ToolSyntax {
    pub(crate) function: Function,
    pub(crate) common: CommonSyntax,
    pub(crate) read_only: Option<(bool, Span)>,
    pub(crate) destructive: Option<(bool, Span)>,
    pub(crate) idempotent: Option<(bool, Span)>,
    pub(crate) open_world: Option<(bool, Span)>,
    /// The optional value of `task` and the position of the option.
    pub(crate) task: Option<(Option<Expr>, Span)>,
}

impl ToolSyntax {
    pub(crate) fn read(given: TokenStream, function: Function, errors: &mut Errors) -> Self {
        static KNOWN: [&[OptionSpec]; 4] = [&common::NAMES, &HINTS, &EXECUTION, &common::OTHERS];
        let mut options = Options::new("tool", KNOWN.into_iter().flatten());
        options.read(given, errors);
        Self {
            function,
            common: CommonSyntax::take(&mut options, errors),
            read_only: options.flag_option("read_only", errors),
            destructive: options.flag_option("destructive", errors),
            idempotent: options.flag_option("idempotent", errors),
            open_world: options.flag_option("open_world", errors),
            task: options.optional_value("task", errors),
        }
    }
}
