//! `#[tool(…)]`

use proc_macro2::{Ident, Span, TokenStream};
use syn::{Expr, Path};

use super::{
    CommonSyntax, Function, common,
    options::{OptionSpec, Options, spec},
};
use crate::errors::Errors;

const HINTS: [OptionSpec; 4] = [
    spec("read_only", "read_only` or `read_only = true"),
    spec("destructive", "destructive` or `destructive = true"),
    spec("idempotent", "idempotent` or `idempotent = true"),
    spec("open_world", "open_world` or `open_world = true"),
];

const OWN: [OptionSpec; 3] = [
    spec("task", r#"task`, `task = "required"` or `task = "deferred""#),
    spec("ui", "ui = path::to::page"),
    spec("visibility", "visibility = [model, app]"),
];

pub(super) static KNOWN: [&[OptionSpec]; 4] = [&common::NAMES, &HINTS, &OWN, &common::OTHERS];

/// The parsed options and function of `#[tool]`.
pub(crate) struct ToolSyntax {
    pub(crate) function: Function,
    pub(crate) common: CommonSyntax,
    /// `read_only`, `destructive`, `idempotent` and `open_world`
    pub(crate) hints: [Option<(bool, Span)>; 4],
    /// The optional value of `task` and the position of the option.
    pub(crate) task: Option<(Option<Expr>, Span)>,
    pub(crate) ui: Option<Path>,
    pub(crate) visibility: Vec<Ident>,
}

impl ToolSyntax {
    pub(crate) fn read(given: TokenStream, function: Function, errors: &mut Errors) -> Self {
        let mut options = Options::new("tool", KNOWN.into_iter().flatten());
        options.read(given, errors);
        Self {
            function,
            common: CommonSyntax::read(&mut options, errors),
            hints: HINTS.map(|hint| options.boolean(hint.name, errors)),
            task: options.optional_value("task", errors),
            ui: options.path("ui", errors),
            visibility: options.array("visibility", errors),
        }
    }
}
