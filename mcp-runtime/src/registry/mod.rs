//! Every entry, sorted and checked, with its schema and the finished bytes of each list.

mod build;
mod lists;
#[cfg_attr(not(feature = "skills"), expect(dead_code, reason = "nobody gives the server any"))]
mod skills;
mod stock;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

pub(crate) use build::{Selection, contract};
pub(crate) use lists::{ListKind, Lists, Pager, offset, write_resources};
pub(crate) use skills::{Node, Skills};
pub(crate) use stock::Stock;

use crate::{
    handler::{
        Contract,
        entry::{CommonEntry, EntryInfo, EntryKind, PromptEntry, ResourceEntry, ServerFnEntry, ToolEntry},
    },
    revision::Revision,
};

/// Places by name. The names are the author's own, so that nobody can choose them to collide.
type Index = HashMap<&'static str, usize, foldhash::fast::RandomState>;

/// Every function that the server offers.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// By name.
    tools: Vec<Arc<Tool>>,
    tool_index: Index,
    /// By name.
    prompts: Vec<Arc<Prompt>>,
    prompt_index: Index,
    /// By URI.
    resources: Vec<Arc<Resource>>,
    resource_index: Index,
    /// By template.
    templates: Vec<Arc<Resource>>,
    skills: Arc<Skills>,
    offers: Offers,
}

/// Some of the three kinds of entries, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Kinds(pub(crate) u8);

impl Kinds {
    pub(crate) const EACH: [EntryKind; 3] = [EntryKind::Tool, EntryKind::Resource, EntryKind::Prompt];
    pub(crate) const ALL: Self = Self(0b111);

    pub(crate) fn insert(&mut self, kind: EntryKind) {
        self.0 |= 1 << kind as u8;
    }

    pub(crate) fn has(self, kind: EntryKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

/// What the server's functions amount to, as capabilities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Offers {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
    pub(crate) completions: bool,
    pub(crate) logging: bool,
    /// Calls of a tool may be tasks.
    pub(crate) tasks: bool,
    pub(crate) skills: bool,
}

impl Offers {
    /// What either of two offers.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            tools: self.tools || other.tools,
            resources: self.resources || other.resources,
            prompts: self.prompts || other.prompts,
            completions: self.completions || other.completions,
            logging: self.logging || other.logging,
            tasks: self.tasks || other.tasks,
            skills: self.skills || other.skills,
        }
    }

    /// Says whether entries of a kind are offered.
    pub(crate) fn has(self, kind: EntryKind) -> bool {
        match kind {
            EntryKind::Tool => self.tools,
            EntryKind::Resource => self.resources,
            EntryKind::Prompt => self.prompts,
        }
    }
}

/// What the three kinds have in common.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) kind: EntryKind,
    pub(crate) common: &'static CommonEntry,
    pub(crate) contract: Arc<Contract>,
    pub(crate) uses_context: bool,
    /// The values of each argument that takes only some.
    choices: Vec<Vec<String>>,
    /// As it stands in a list, in each dialect; made when it is first listed, and kept whatever changes around it.
    spelled: [OnceLock<Box<[u8]>>; Revision::ALL.len()],
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
        self.tool_index.get(name).map(|&index| &*self.tools[index])
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&Prompt> {
        self.prompt_index.get(name).map(|&index| &*self.prompts[index])
    }

    /// Finds what a URI names for somebody: a static resource, or the first template that it fits.
    pub(crate) fn resource(&self, uri: &str, sees: impl Fn(&Item) -> bool) -> Option<Found<'_>> {
        if let Some(&index) = self.resource_index.get(uri)
            && sees(&self.resources[index].item)
        {
            return Some(Found { item: &self.resources[index].item, variables: Vec::new() });
        }
        self.templates.iter().find_map(|template| {
            let variables = mcp_uri_template::matches(template.entry.template?, uri)?;
            sees(&template.item).then_some(Found { item: &template.item, variables })
        })
    }

    /// Finds what a completion refers to: a template as it is listed, or a URI.
    pub(crate) fn reference(&self, uri: &str, sees: impl Fn(&Item) -> bool) -> Option<&Item> {
        let template = self.templates.iter().find(|template| template.entry.uri == uri && sees(&template.item));
        template.map(|template| &template.item).or_else(|| self.resource(uri, sees).map(|found| found.item))
    }

    pub(crate) fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    pub(crate) fn prompts(&self) -> &[Arc<Prompt>] {
        &self.prompts
    }

    pub(crate) fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    pub(crate) fn templates(&self) -> &[Arc<Resource>] {
        &self.templates
    }

    pub(crate) fn skills(&self) -> &Skills {
        &self.skills
    }

    /// Says in which kinds of entries another registry differs from this one.
    pub(crate) fn differs(&self, other: &Self) -> Kinds {
        let mut kinds = Kinds::default();
        if !are_same(&self.tools, &other.tools) {
            kinds.insert(EntryKind::Tool);
        }
        if !(are_same(&self.resources, &other.resources) && are_same(&self.templates, &other.templates)) {
            kinds.insert(EntryKind::Resource);
        }
        if !are_same(&self.prompts, &other.prompts) {
            kinds.insert(EntryKind::Prompt);
        }
        kinds
    }

    /// Says whether a function has a say in `resources/list`.
    pub(crate) fn lists_resources(&self) -> bool {
        self.templates.iter().any(|template| template.entry.list.is_some())
    }

    /// The functions that list resources for somebody; none if there are none.
    pub(crate) fn resource_lists(&self, sees: impl Fn(&Item) -> bool) -> Option<ResourceLists> {
        let lists = || self.templates.iter().filter(|found| found.entry.list.is_some() && sees(&found.item));
        let functions: Vec<_> =
            lists().filter_map(|found| Some((found.entry.list.as_ref()?, found.item.common.blocking))).collect();
        let common = lists().next()?.item.common;
        let uses_context = functions.iter().any(|(function, _)| build::uses_context_by(function));
        Some(ResourceLists { common, functions, uses_context })
    }
}

/// The functions that have a say in `resources/list`.
pub(crate) struct ResourceLists {
    /// The first one's entry, whose limits hold for all.
    pub(crate) common: &'static CommonEntry,
    /// Each with whether it blocks.
    pub(crate) functions: Vec<(&'static ServerFnEntry, bool)>,
    /// Whether one wants the context.
    pub(crate) uses_context: bool,
}

fn are_same<T>(left: &[Arc<T>], right: &[Arc<T>]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| Arc::ptr_eq(left, right))
}

impl Item {
    /// What is decided by when an entry is shown or hidden.
    pub(crate) fn info(&self) -> EntryInfo<'static> {
        self.common.info(self.kind)
    }

    /// Says how an argument is completed; nothing if there is no such argument.
    pub(crate) fn completed(&self, name: &str) -> Option<Completed<'_>> {
        let index = self.contract.arguments.iter().position(|argument| argument.name == name)?;
        Some(match &self.contract.arguments[index].complete {
            Some(function) => Completed::By(function, build::uses_context_by(function)),
            None => Completed::From(&self.choices[index]),
        })
    }
}
