//! `#[arg(…)]`

use proc_macro2::Span;
use syn::{Attribute, Expr, LitStr, Meta, Path};

use super::options::{Known, Options, known};
use crate::errors::Errors;

static KNOWN: [Known; 13] = [
    known("default", "default` or `default = 10"),
    known("range", "range = 1..=100"),
    known("length", "length = 1..=80"),
    known("pattern", r#"pattern = "^[a-z]+$""#),
    known("format", r#"format = "date-time""#),
    known("examples", r#"examples("one", "two", …)"#),
    known("rename", r#"rename = "aName""#),
    known("title", r#"title = "For people""#),
    known("description", r#"description = "For the model""#),
    known("header", r#"header = "Region""#),
    known("complete", "complete = path::to::function"),
    known("env", r#"env = "VARIABLE""#),
    known("flatten", "flatten"),
];

/// The options of a parameter as written.
#[derive(Default)]
pub(crate) struct ArgumentSyntax {
    /// The value, if one is given, and the option.
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
            description: options.prose("description", errors),
            header: options.text("header", errors),
            complete: options.path("complete", errors),
            env: options.text("env", errors),
            flatten: options.switch("flatten", errors),
        }
    }
}
