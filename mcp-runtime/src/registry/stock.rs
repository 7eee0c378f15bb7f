//! Every item that the server has, on offer or not, and the registry of those that are.

use std::{any::TypeId, collections::HashSet, sync::Arc};

use super::{Index, Item, Offers, Prompt, Registry, Resource, Selection, Skills, Tool, build::Builder};
use crate::{
    error::BuildError,
    handler::entry::{CommonEntry, Entry, ServerFnEntry, TaskSupport},
};

/// The items that a server has. A change makes another one, which shares the items that did not change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stock {
    pieces: Vec<Stocked>,
    skills: Arc<Skills>,
}

#[derive(Debug, Clone)]
struct Stocked {
    piece: Piece,
    enabled: bool,
}

/// An item with what only its kind has.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    Tool(Arc<Tool>),
    Prompt(Arc<Prompt>),
    /// A static one, or a template.
    Resource(Arc<Resource>),
}

impl Piece {
    fn item(&self) -> &Item {
        match self {
            Self::Tool(tool) => &tool.item,
            Self::Prompt(prompt) => &prompt.item,
            Self::Resource(resource) => &resource.item,
        }
    }

    /// What the item is listed by.
    fn key(&self) -> &'static str {
        match self {
            Self::Resource(resource) => resource.entry.uri,
            _ => self.item().common.name,
        }
    }

    /// The functions that serve the item beside its own.
    fn server_fns(&self) -> impl Iterator<Item = &ServerFnEntry> {
        let list = match self {
            Self::Resource(resource) => resource.entry.list.as_ref(),
            _ => None,
        };
        list.into_iter().chain(self.item().common.arguments.iter().filter_map(|argument| argument.complete.as_ref()))
    }

    fn takes(&self, wanted: TypeId) -> bool {
        let mut needs = self.item().common.dependencies.to_vec();
        self.server_fns().for_each(|function| (function.dependencies)(&mut needs));
        needs.iter().any(|need| (need.type_id)() == wanted)
    }
}

impl Stock {
    /// A stock of skills, which stay as they are.
    pub(crate) fn of_skills(skills: Skills) -> Self {
        Self { skills: Arc::new(skills), ..Self::default() }
    }

    /// Adds entries, each once; those that are there already stay as they are.
    ///
    /// # Errors
    ///
    /// Every duplicate name, missing state and invalid schema, each with the source lines that are to blame.
    pub(crate) fn with(&self, selection: Selection<'_>) -> Result<Self, BuildError> {
        let Selection { mut entries, states } = selection;
        let mut seen = HashSet::new();
        entries.retain(|entry| seen.insert(std::ptr::from_ref(entry.common())));
        entries.retain(|entry| !self.has(entry.common()));
        let mut builder = Builder::new(states);
        let mut stock = self.clone();
        stock.pieces.extend(builder.pieces(entries).into_iter().map(|piece| Stocked { piece, enabled: true }));
        let registry = Registry::of(stock.pieces.iter().map(|stocked| &stocked.piece));
        builder.check(&Registry { skills: Arc::clone(&stock.skills), ..registry });
        builder.finish()?;
        Ok(stock)
    }

    /// Takes entries out; says whether any was there.
    pub(crate) fn remove(&mut self, entries: &[Entry]) -> bool {
        let before = self.pieces.len();
        self.pieces.retain(|stocked| !is_one_of(stocked.piece.item().common, entries));
        self.pieces.len() < before
    }

    /// Enables or disables entries; says whether that changed anything.
    pub(crate) fn enable(&mut self, entries: &[Entry], enabled: bool) -> bool {
        self.set_enabled(|item| is_one_of(item.common, entries).then_some(enabled))
    }

    /// Enables and disables the items that `decide` says something of; says whether that changed anything.
    pub(crate) fn set_enabled(&mut self, decide: impl Fn(&Item) -> Option<bool>) -> bool {
        let mut changed = false;
        for Stocked { piece, enabled } in &mut self.pieces {
            let decided = decide(piece.item()).unwrap_or(*enabled);
            changed |= std::mem::replace(enabled, decided) != decided;
        }
        changed
    }

    /// Says whether an entry is there, on offer or not.
    pub(crate) fn has(&self, common: &'static CommonEntry) -> bool {
        self.items().any(|item| std::ptr::eq(item.common, common))
    }

    /// Every item, on offer or not.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        self.pieces.iter().map(|stocked| stocked.piece.item())
    }

    /// Says whether a function takes a reference to a type.
    pub(crate) fn takes(&self, wanted: TypeId) -> bool {
        self.pieces.iter().any(|stocked| stocked.piece.takes(wanted))
    }

    /// The registry of what is on offer. What was offered before is still offered, if only as an empty list; what is
    /// disabled as well, since it may come back.
    pub(crate) fn registry(&self, before: Offers, forwards_log: bool) -> Registry {
        let enabled = self.pieces.iter().filter(|stocked| stocked.enabled);
        let registry = Registry::of(enabled.map(|stocked| &stocked.piece));
        let skills = Arc::clone(&self.skills);
        Registry { skills, offers: before.or(self.offers(forwards_log)), ..registry }
    }

    /// What the items amount to. Where the log of functions is forwarded, even one without a context sends messages.
    fn offers(&self, forwards_log: bool) -> Offers {
        let skills = self.skills.is_served();
        let mut offers = Offers { skills, resources: skills, ..Offers::default() };
        for Stocked { piece, .. } in &self.pieces {
            let item = piece.item();
            let completes = match piece {
                Piece::Tool(tool) => {
                    offers.tools = true;
                    offers.tasks |= tool.entry.task != TaskSupport::Forbidden;
                    false
                }
                Piece::Prompt(_) => {
                    offers.prompts = true;
                    true
                }
                Piece::Resource(found) => {
                    offers.resources = true;
                    found.entry.template.is_some()
                }
            };
            offers.completions |= completes && item.completes();
            offers.logging |= forwards_log || item.uses_context;
        }
        offers
    }
}

impl Registry {
    /// Sorts items, and makes them to be found by name.
    fn of<'a>(pieces: impl Iterator<Item = &'a Piece>) -> Self {
        let mut registry = Self::default();
        let mut pieces: Vec<_> = pieces.collect();
        pieces.sort_by_key(|piece| piece.key());
        for piece in pieces {
            match piece {
                Piece::Tool(tool) => registry.tools.push(Arc::clone(tool)),
                Piece::Prompt(prompt) => registry.prompts.push(Arc::clone(prompt)),
                Piece::Resource(found) => match found.entry.template {
                    Some(_) => registry.templates.push(Arc::clone(found)),
                    None => registry.resources.push(Arc::clone(found)),
                },
            }
        }
        registry.tool_index = index(registry.tools.iter().map(|tool| tool.entry.common.name));
        registry.prompt_index = index(registry.prompts.iter().map(|prompt| prompt.entry.common.name));
        registry.resource_index = index(registry.resources.iter().map(|resource| resource.entry.uri));
        registry
    }
}

impl Item {
    /// Says whether the values of an argument can be completed.
    fn completes(&self) -> bool {
        self.contract.arguments.iter().any(|argument| argument.complete.is_some())
            || self.choices.iter().any(|choices| !choices.is_empty())
    }
}

fn index(names: impl Iterator<Item = &'static str>) -> Index {
    names.enumerate().map(|(position, name)| (name, position)).collect()
}

fn is_one_of(common: &'static CommonEntry, entries: &[Entry]) -> bool {
    entries.iter().any(|entry| std::ptr::eq(entry.common(), common))
}
