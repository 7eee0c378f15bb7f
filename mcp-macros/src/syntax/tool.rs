//! `#[tool(…)]`

use proc_macro2::{Span, TokenStream};
use syn::Expr;

use super::{
    CommonSyntax, Function, common,
    options::{Known, Options, known},
};
use crate::errors::Errors;

const HINTS: [Known; 4] = [
    known("read_only", "read_only"),
    known("destructive", "destructive"),
    known("idempotent", "idempotent"),
    known("open_world", "open_world"),
];

const EXECUTION: [Known; 1] = [known("task", r#"task = "required""#)];

/// A `#[tool]` as written.
pub(crate) struct ToolSyntax {
    pub(crate) function: Function,
    pub(crate) common: CommonSyntax,
    pub(crate) read_only: Option<(bool, Span)>,
    pub(crate) destructive: Option<(bool, Span)>,
    pub(crate) idempotent: Option<(bool, Span)>,
    pub(crate) open_world: Option<(bool, Span)>,
    /// `task`, and the value if it has one.
    pub(crate) task: Option<(Option<Expr>, Span)>,
}

impl ToolSyntax {
    pub(crate) fn read(given: TokenStream, function: Function, errors: &mut Errors) -> Self {
        static KNOWN: [&[Known]; 4] = [&common::NAMES, &HINTS, &EXECUTION, &common::OTHERS];
        let mut options = Options::new("tool", KNOWN.into_iter().flatten());
        options.read(given, errors);
        Self {
            function,
            common: CommonSyntax::take(&mut options, errors),
            read_only: options.switch("read_only", errors),
            destructive: options.switch("destructive", errors),
            idempotent: options.switch("idempotent", errors),
            open_world: options.switch("open_world", errors),
            task: options.optional_value("task", errors),
        }
    }
}
