//! `#[arg(…)]`

use proc_macro2::Span;
use syn::{Attribute, Expr, LitStr, Meta, Path};

use super::options::{OptionSpec, Options, spec};
use crate::errors::Errors;

pub(super) static KNOWN: [OptionSpec; 13] = [
    spec("default", "default` or `default = 10"),
    spec("range", "range = 1..=100"),
    spec("length", "length = 1..=80"),
    spec("pattern", r#"pattern = "^[a-z]+$""#),
    spec("format", r#"format = "date-time""#),
    spec("examples", r#"examples("one", "two", …)"#),
    spec("rename", r#"rename = "aName""#),
    spec("title", r#"title = "For people""#),
    spec("description", r#"description = "For the model""#),
    spec("header", r#"header = "Region""#),
    spec("complete", "complete = path::to::function"),
    spec("env", r#"env = "VARIABLE""#),
    spec("flatten", "flatten` or `flatten = true"),
];

/// The parsed options of a parameter.
#[derive(Default)]
pub(crate) struct ArgumentSyntax {
    /// The optional value and the position of the option.
    pub(crate) default: Option<(Option<Expr>, Span)>,
    pub(crate) range: Option<Expr>,
    pub(crate) length: Option<Expr>,
    pub(crate) pattern: Option<LitStr>,
    pub(crate) format: Option<LitStr>,
    pub(crate) examples: Vec<Expr>,
    pub(crate) rename: Option<LitStr>,
    pub(crate) title: Option<LitStr>,
    pub(crate) description: Option<Expr>,
    pub(crate) header: Option<LitStr>,
    pub(crate) complete: Option<Path>,
    pub(crate) env: Option<LitStr>,
    pub(crate) flatten: Option<(bool, Span)>,
}

impl ArgumentSyntax {
    pub(super) fn read(attributes: &[Attribute], errors: &mut Errors) -> Self {
        let mut options = Options::new("arg", &KNOWN);
        for attribute in attributes {
            match &attribute.meta {
                Meta::List(list) => options.read(list.tokens.clone(), errors),
                meta => errors.on(meta, "expected options: `#[arg(name = value, …)]`"),
            }
        }
        Self {
            default: options.optional_value("default", errors),
            range: options.value("range", errors),
            length: options.value("length", errors),
            pattern: options.text("pattern", errors),
            format: options.text("format", errors),
            examples: options.list("examples", errors),
            rename: options.text("rename", errors),
            title: options.text("title", errors),
            description: options.text_or_macro("description", errors),
            header: options.text("header", errors),
            complete: options.path("complete", errors),
            env: options.text("env", errors),
            flatten: options.boolean("flatten", errors),
        }
    }
}
