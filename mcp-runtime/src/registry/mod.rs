//! Every entry, sorted and checked, with its schema and the finished bytes of each list.

mod build;
mod lists;

use std::collections::HashMap;

pub(crate) use build::{Selection, build, contract};
pub(crate) use lists::{ListKind, Lists, offset, write_resources};

use crate::{
    handler::{
        Contract,
        entry::{Common, PromptEntry, ResourceEntry, ServerFnEntry, ToolEntry},
    },
    model::template,
};

/// Every function that the server offers.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// By name.
    tools: Vec<Tool>,
    tool_index: HashMap<&'static str, usize>,
    /// By name.
    prompts: Vec<Prompt>,
    prompt_index: HashMap<&'static str, usize>,
    /// By URI.
    resources: Vec<Resource>,
    resource_index: HashMap<&'static str, usize>,
    /// By template.
    templates: Vec<Resource>,
    offers: Offers,
}

/// What the server's functions amount to, as capabilities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Offers {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
    pub(crate) completions: bool,
    pub(crate) logging: bool,
}

/// What the three kinds have in common.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) common: &'static Common,
    pub(crate) contract: Contract,
    pub(crate) uses_context: bool,
    /// The values of each argument that takes only some.
    choices: Vec<Vec<String>>,
}

#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) entry: &'static ToolEntry,
    pub(crate) item: Item,
    /// The arguments that HTTP repeats in headers.
    pub(crate) headers: Vec<MirroredArgument>,
}

/// An argument that HTTP repeats in a header.
#[derive(Debug)]
pub(crate) struct MirroredArgument {
    /// What follows `Mcp-Param-`.
    pub(crate) name: String,
    /// The names of properties that lead to it.
    pub(crate) path: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) entry: &'static PromptEntry,
    pub(crate) item: Item,
}

#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) entry: &'static ResourceEntry,
    pub(crate) item: Item,
}

/// The resource behind a URI, and the variables of its template.
pub(crate) struct Found<'a> {
    pub(crate) item: &'a Item,
    pub(crate) variables: Vec<(&'static str, String)>,
}

/// How an argument is completed.
pub(crate) enum Completed<'a> {
    /// By a function, which may want the context.
    By(&'static ServerFnEntry, bool),
    /// From the only values that it takes.
    From(&'a [String]),
}

impl Registry {
    pub(crate) fn offers(&self) -> Offers {
        self.offers
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tool_index.get(name).map(|&index| &self.tools[index])
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&Prompt> {
        self.prompt_index.get(name).map(|&index| &self.prompts[index])
    }

    /// Finds what a URI names: a static resource, or the first template that it fits.
    pub(crate) fn resource(&self, uri: &str) -> Option<Found<'_>> {
        if let Some(&index) = self.resource_index.get(uri) {
            return Some(Found { item: &self.resources[index].item, variables: Vec::new() });
        }
        self.templates.iter().find_map(|template| {
            let variables = template::matches(template.entry.template?, uri)?;
            Some(Found { item: &template.item, variables })
        })
    }

    /// Finds what a completion refers to: a template as it is listed, or a URI.
    pub(crate) fn reference(&self, uri: &str) -> Option<&Item> {
        let template = self.templates.iter().find(|template| template.entry.uri == uri);
        template.map(|template| &template.item).or_else(|| self.resource(uri).map(|found| found.item))
    }

    pub(crate) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    pub(crate) fn prompts(&self) -> &[Prompt] {
        &self.prompts
    }

    pub(crate) fn resources(&self) -> &[Resource] {
        &self.resources
    }

    pub(crate) fn templates(&self) -> &[Resource] {
        &self.templates
    }

    /// Says whether a function has a say in `resources/list`.
    pub(crate) fn lists_resources(&self) -> bool {
        self.templates.iter().any(|template| template.entry.list.is_some())
    }

    /// The functions that list resources, each with whether it blocks; the first one's entry, whose limits hold for all; whether
    /// one wants the context.
    pub(crate) fn resource_lists(&self) -> (&'static Common, Vec<(&'static ServerFnEntry, bool)>, bool) {
        let lists = || self.templates.iter().filter(|template| template.entry.list.is_some());
        let functions: Vec<_> =
            lists().filter_map(|found| Some((found.entry.list.as_ref()?, found.item.common.blocking))).collect();
        let common = lists().next().map_or(self.templates[0].item.common, |template| template.item.common);
        let uses_context = functions.iter().any(|(function, _)| build::uses_context_by(function));
        (common, functions, uses_context)
    }
}

impl Item {
    /// Says how an argument is completed; nothing if there is no such argument.
    pub(crate) fn completed(&self, name: &str) -> Option<Completed<'_>> {
        let index = self.contract.arguments.iter().position(|argument| argument.name == name)?;
        Some(match &self.contract.arguments[index].complete {
            Some(function) => Completed::By(function, build::uses_context_by(function)),
            None => Completed::From(&self.choices[index]),
        })
    }
}
