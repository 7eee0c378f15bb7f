//! `#[tool(…)]`, and `#[tools] impl Type { … }`

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::{Expr, ImplItem, ItemImpl, Meta, Path};

use super::{
    CommonSyntax, Function, Kind, PromptSyntax, ResourceSyntax, ScopeSyntax, common,
    function::{RawFunction, kind_of, reject_second_kind},
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

pub(super) static TOOL: [&[OptionSpec]; 4] = [&common::NAMES, &HINTS, &OWN, &common::OTHERS];

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
        let mut options = Options::new("tool", TOOL.into_iter().flatten());
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

/// A parsed `impl` block without the attributes of the macros, and its annotated methods.
pub(crate) struct ToolsSyntax {
    pub(crate) block: ItemImpl,
    pub(crate) methods: Vec<Method>,
    /// The scopes that all methods require.
    pub(crate) scopes: Vec<ScopeSyntax>,
    pub(crate) crate_path: Option<Path>,
}

/// An annotated method.
pub(crate) enum Method {
    Tool(Box<ToolSyntax>),
    Resource(Box<ResourceSyntax>),
    Prompt(Box<PromptSyntax>),
}

impl Method {
    /// Parses the options of a function.
    pub(crate) fn read(kind: Kind, given: TokenStream, function: Function, errors: &mut Errors) -> Self {
        match kind {
            Kind::Resource => Self::Resource(Box::new(ResourceSyntax::read(given, function, errors))),
            Kind::Prompt => Self::Prompt(Box::new(PromptSyntax::read(given, function, errors))),
            _ => Self::Tool(Box::new(ToolSyntax::read(given, function, errors))),
        }
    }

    fn function(&self) -> &Function {
        match self {
            Self::Tool(tool) => &tool.function,
            Self::Resource(resource) => &resource.function,
            Self::Prompt(prompt) => &prompt.function,
        }
    }
}

impl ToolsSyntax {
    pub(crate) fn read(given: TokenStream, mut block: ItemImpl, errors: &mut Errors) -> Self {
        let mut options =
            Options::new("tools", common::OTHERS.iter().filter(|known| matches!(known.name, "scopes" | "crate")));
        options.read(given, errors);
        let (scopes, crate_path) = (options.list("scopes", errors), options.path("crate", errors));
        let mut methods = Vec::new();
        for item in &mut block.items {
            let ImplItem::Fn(method) = item else { continue };
            if !method.attrs.iter().any(|attribute| kind_of(attribute).is_some()) {
                continue;
            }
            let mut raw = RawFunction::from(method.clone());
            let kinds = raw.take_kinds();
            let method = read(raw, &kinds, errors);
            *item = ImplItem::Verbatim(method.function().to_token_stream());
            methods.push(method);
        }
        if methods.is_empty() && errors.is_empty() {
            errors.help(
                block.impl_token,
                "this `impl` block has no annotated methods",
                "annotate methods with `#[tool]`, `#[resource]` or `#[prompt]`",
            );
        }
        Self { block, methods, scopes, crate_path }
    }
}

fn read(raw: RawFunction, kinds: &[syn::Attribute], errors: &mut Errors) -> Method {
    let (attribute, others) = kinds.split_first().expect("an annotated method has an attribute");
    others.iter().for_each(|other| reject_second_kind(other, errors));
    let given = match &attribute.meta {
        Meta::List(list) => list.tokens.clone(),
        _ => TokenStream::new(),
    };
    let kind = kind_of(attribute).expect("a kind");
    Method::read(kind, given, Function::new(raw, errors), errors)
}
