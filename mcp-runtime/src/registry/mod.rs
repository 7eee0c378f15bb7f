//! The registered functions, validated, with their schemas and the encoded bytes of each list.
//!
//! Registration has three stages. A macro emits an [`Entry`](crate::handler::entry::Entry); [`build`] validates it and
//! turns it into a [`Function`](crate::handler::Function); a [`Registry`] holds these. A registry is immutable: a change
//! creates another registry, which shares the functions.

mod build;
mod encode;
mod lists;
mod names;
mod skills;

use std::{
    any::{Any, TypeId},
    collections::HashSet,
    mem,
    sync::{Arc, OnceLock},
};

use self::{build::Builder, lists::Listed, names::Table};
use crate::{
    auth::Scopes,
    error::{BuildError, Fault},
    handler::{
        Context, Function, SchemaProfile,
        entry::{Entry, EntryInfo, EntryKind, ServerFnEntry, TaskSupport},
        get_or_compute,
    },
    model::ResourceLink,
    revision::{Dialect, Revision},
};

pub(crate) use self::{
    build::Selection,
    lists::{ListKind, ListSet, Pager, ServerCapabilities, cursor_after, last_key, unknown_cursor},
    names::{Change, Names, ScopeRules},
    skills::Skills,
};

/// A snapshot of everything that a server has registered.
///
/// Readers never wait for a change: they keep the snapshot with which they started.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// The tools by name.
    pub(crate) tools: Table,
    /// The prompts by name.
    pub(crate) prompts: Table,
    /// The resources by URI.
    pub(crate) resources: Table,
    /// The resource templates by URI template.
    pub(crate) templates: Table,
    /// The methods of extensions by name.
    pub(crate) methods: Table,
    pub(crate) skills: Arc<Skills>,
    /// Whether the server forwards its log, so that every function may send log messages.
    forwards_log: bool,
    /// The form in which the schemas of tools are listed.
    schemas: SchemaProfile,
    pub(crate) capabilities: ServerCapabilities,
    /// Whether some function, enabled or not, requires scopes.
    pub(crate) requires_scopes: bool,
    /// Whether only pages call some tool, enabled or not.
    #[cfg(feature = "ui")]
    pub(crate) has_app_only_tools: bool,
    /// The prepared responses for each of [`Revision::ALL`].
    prepared: [Prepared; Revision::ALL.len()],
}

/// The responses of one revision that are the same for every client, encoded when they are first needed.
#[derive(Debug, Default)]
struct Prepared {
    /// The first page of each list, in the order of [`ListKind`].
    first_pages: [OnceLock<Vec<u8>>; ListKind::ALL.len()],
    /// The result of `initialize` or `server/discover`.
    description: OnceLock<Vec<u8>>,
}

/// The remedy for two functions with the same name.
const RENAME: &str = "rename one of them with `name = \"…\"`, `Server::rename` or `Server::prefix`, or leave it out with \
    `Server::only`; `Handle::replace_entries` replaces entries of a running server";
/// The remedy for two resources with the same URI, which cannot be changed.
const LEAVE_OUT: &str = "leave one of them out with `Server::only`";

/// The resource that a URI identifies, and the values of its template's variables.
pub(crate) struct Found<'a> {
    pub(crate) function: &'a Arc<Function>,
    pub(crate) variables: Vec<(&'a str, String)>,
}

impl Registry {
    /// Creates a registry without entries. Its skills never change.
    pub(crate) fn new(skills: Skills, forwards_log: bool, schemas: SchemaProfile) -> Self {
        Self { skills: Arc::new(skills), forwards_log, schemas, ..Self::default() }
            .with_capabilities(ServerCapabilities::default())
    }

    /// Registers entries, and enables the entries that are already registered. Returns `None` if nothing changes.
    ///
    /// # Errors
    ///
    /// Returns every duplicate name, missing state and invalid schema, with the source lines.
    pub(crate) fn with(&self, mut selection: Selection<'_>) -> Result<Option<Self>, BuildError> {
        let mut entries = mem::take(&mut selection.entries);
        let mut builder = Builder { selection, schemas: self.schemas, problems: Vec::new() };
        let enabled = self.set_enabled_entries(&entries, true);
        let mut seen = HashSet::with_capacity_and_hasher(entries.len(), foldhash::fast::RandomState::default());
        seen.extend(self.functions().map(|(function, _)| std::ptr::from_ref(function.common())));
        entries.retain(|entry| seen.insert(std::ptr::from_ref(entry.common())));
        if entries.is_empty() {
            return Ok(enabled);
        }
        let before = enabled.as_ref().unwrap_or(self);
        let added = builder.register(entries, before.functions().map(|(function, _)| &**function), &before.skills);
        let of = |kind| added.iter().filter(move |function| function.kind() == kind);
        let (templates, resources): (Vec<_>, Vec<_>) =
            of(EntryKind::Resource).partition(|function| function.template().is_some());
        let after = before.changed(
            before.tools.with(of(EntryKind::Tool)),
            before.prompts.with(of(EntryKind::Prompt)),
            before.resources.with(resources.into_iter()),
            before.templates.with(templates.into_iter()),
            before.methods.with(of(EntryKind::Method)),
        );
        builder.check_unique("tools", "are named", RENAME, &after.tools);
        builder.check_unique("prompts", "are named", RENAME, &after.prompts);
        builder.check_unique("resources", "have the URI", LEAVE_OUT, &after.resources);
        builder.check_unique("resource templates", "have the URI template", LEAVE_OUT, &after.templates);
        builder.check_unique("methods", "are named", LEAVE_OUT, &after.methods);
        builder.check_templates(&after.templates);
        builder.check_skills(&after.resources, &after.skills);
        #[cfg(feature = "ui")]
        builder.check_pages(&after.tools, [&after.resources, &after.templates]);
        builder.finish()?;
        Ok(Some(after))
    }

    /// Removes the functions that `is_removed` selects. Returns `None` if there are none.
    pub(crate) fn without(&self, is_removed: impl Fn(&Function) -> bool) -> Option<Self> {
        self.edited(|function, enabled| (!is_removed(function)).then_some(enabled))
    }

    /// Enables or disables entries. Returns `None` if nothing changes.
    pub(crate) fn set_enabled_entries(&self, entries: &[Entry], enabled: bool) -> Option<Self> {
        self.set_enabled(|function| function.is_one_of(entries).then_some(enabled))
    }

    /// Enables and disables the entries for which `decide` returns a value. Returns `None` if nothing changes.
    pub(crate) fn set_enabled(&self, decide: impl Fn(&Function) -> Option<bool>) -> Option<Self> {
        self.edited(|function, enabled| Some(decide(function).unwrap_or(enabled)))
    }

    /// Returns a registry with the same entries and no prepared responses.
    pub(crate) fn unprepared(&self) -> Self {
        self.edited_always(|_, enabled| Some(enabled))
    }

    fn edited(&self, decide: impl Fn(&Function, bool) -> Option<bool>) -> Option<Self> {
        let changes = self.functions().any(|(function, enabled)| decide(function, *enabled) != Some(*enabled));
        changes.then(|| self.edited_always(decide))
    }

    fn edited_always(&self, decide: impl Fn(&Function, bool) -> Option<bool>) -> Self {
        self.changed(
            self.tools.edited(&decide),
            self.prompts.edited(&decide),
            self.resources.edited(&decide),
            self.templates.edited(&decide),
            self.methods.edited(&decide),
        )
    }

    fn changed(&self, tools: Table, prompts: Table, resources: Table, templates: Table, methods: Table) -> Self {
        let (skills, forwards_log, schemas) = (Arc::clone(&self.skills), self.forwards_log, self.schemas);
        Self { tools, prompts, resources, templates, methods, skills, forwards_log, schemas, ..Self::default() }
            .with_capabilities(self.capabilities)
    }

    /// Adds the capabilities that the entries need to the capabilities that were declared before. Clients may rely on
    /// the latter, so they are never withdrawn, even if a list becomes empty. Disabled entries count, since they may be
    /// enabled again.
    fn with_capabilities(mut self, mut declared: ServerCapabilities) -> Self {
        declared.tools |= self.tools.all().next().is_some();
        declared.skills |= self.skills.is_served();
        declared.resources |=
            declared.skills || self.resources.all().next().is_some() || self.templates.all().next().is_some();
        declared.prompts |= self.prompts.all().next().is_some();
        declared.completions |=
            self.prompts.all().chain(self.templates.all()).any(|(function, _)| function.completes());
        declared.logging |=
            self.forwards_log && self.functions().next().is_some() || self.takes(TypeId::of::<Context>());
        declared.tasks |= self.tools.all().any(|(tool, _)| tool.task() != TaskSupport::Forbidden);
        let requires_scopes = self.functions().any(|(function, _)| function.scopes.is_some());
        self.requires_scopes = requires_scopes;
        #[cfg(feature = "ui")]
        {
            declared.pages |= self.resources.all().any(|(resource, _)| resource.is_page());
            self.has_app_only_tools = self.tools.all().any(|(tool, _)| tool.is_app_only);
        }
        self.capabilities = declared;
        self
    }

    /// Returns the function of every entry, and whether the entry is enabled.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &(Arc<Function>, bool)> {
        [&self.tools, &self.prompts, &self.resources, &self.templates, &self.methods].into_iter().flat_map(Table::all)
    }

    /// Returns whether the function of some entry takes a reference to a type.
    pub(crate) fn takes(&self, wanted: TypeId) -> bool {
        self.functions().any(|(function, _)| function.takes(wanted))
    }

    /// Returns the lists for which the two registries enable different entries.
    pub(crate) fn changed_lists(&self, other: &Self) -> ListSet {
        ListSet::matching(|kind| match kind {
            ListKind::Tools => !self.tools.enables_same(&other.tools),
            #[cfg(feature = "ui")]
            ListKind::ModelTools => false,
            ListKind::Resources => {
                !(self.resources.enables_same(&other.resources) && self.templates.enables_same(&other.templates))
            }
            ListKind::Templates => !self.templates.enables_same(&other.templates),
            ListKind::Prompts => !self.prompts.enables_same(&other.prompts),
        })
    }

    /// Tells the entry that serves a URI to a client that the client has subscribed to it. Returns what ends with the
    /// subscription. Considers only functions that `sees` accepts.
    pub(crate) fn subscribed(&self, uri: &str, sees: impl Fn(&Function) -> bool) -> Option<Box<dyn Any + Send + Sync>> {
        let found = self.resource(uri, sees)?;
        Some(found.function.common().handler.closures()?.subscribed.as_ref()?(uri))
    }

    /// Returns the resource with a URI, or else the first template that matches the URI. Considers only functions that
    /// `sees` accepts.
    pub(crate) fn resource(&self, uri: &str, sees: impl Fn(&Function) -> bool) -> Option<Found<'_>> {
        if let Some(resource) = self.resources.get(uri)
            && sees(resource)
        {
            return Some(Found { function: resource, variables: Vec::new() });
        }
        self.templates.enabled().iter().find_map(|template| {
            let variables = mcp_runtime_uri_template::matches(template.template()?, uri)?;
            sees(template).then_some(Found { function: template, variables })
        })
    }

    /// Returns the function that a completion request refers to, by a listed template or by a URI.
    pub(crate) fn reference(&self, uri: &str, sees: impl Fn(&Function) -> bool) -> Option<&Arc<Function>> {
        let template = self.templates.get(uri).filter(|function| sees(function));
        template.or_else(|| self.resource(uri, sees).map(|found| found.function))
    }

    /// Returns the elements of `resources/list`, by URI: resources, the files of skills, and what functions list.
    pub(crate) fn listed_resources<'a>(&'a self, links: &'a [ResourceLink]) -> Vec<&'a dyn Listed> {
        let mut listed: Vec<_> = self.resources.enabled().iter().map(|resource| &**resource as &dyn Listed).collect();
        listed.extend(self.skills.files().map(|file| file as &dyn Listed));
        listed.extend(links.iter().map(|link| link as &dyn Listed));
        listed.sort_by(|left, right| left.key().cmp(right.key()));
        listed
    }

    #[cfg(feature = "ui")]
    fn model_tools(&self) -> Vec<&Function> {
        self.tools.enabled().iter().map(|tool| &**tool).filter(|tool| !tool.is_app_only).collect()
    }

    /// Returns the templates that contribute to `resources/list`, each with the function that lists its resources.
    pub(crate) fn listing(&self) -> impl Iterator<Item = (&Arc<Function>, ServerFnEntry)> {
        self.templates.enabled().iter().filter_map(|template| Some((template, template.list_fn()?)))
    }

    /// Returns the first page of an unfiltered list in the pager's revision. Encodes it the first time.
    pub(crate) fn first_page(&self, pager: &Pager<'_>, kind: ListKind) -> &[u8] {
        let prepared = &self.prepared[pager.encoding.dialect.revision() as usize];
        // Only an invalid cursor is an error.
        let encode = || self.page(pager, kind, None, |_, _| true).unwrap_or_default();
        get_or_compute::<Vec<u8>>(&prepared.first_pages[kind as usize], encode)
    }

    /// Writes one page of a list with the entries that `sees` accepts.
    ///
    /// # Errors
    ///
    /// Fails if the cursor is invalid. A cursor stays valid when the entry that it names is removed: the page begins
    /// with the next one.
    pub(crate) fn page(
        &self,
        pager: &Pager<'_>,
        kind: ListKind,
        cursor: Option<&str>,
        sees: impl Fn(&EntryInfo<'_>, Option<&Scopes>) -> bool,
    ) -> Result<Vec<u8>, Fault> {
        let list = (kind.member(), kind.member(), kind.kind());
        match kind {
            ListKind::Tools => pager.page_of(list, self.tools.enabled(), cursor, sees),
            ListKind::Prompts => pager.page_of(list, self.prompts.enabled(), cursor, sees),
            ListKind::Resources => pager.page_of(list, &self.listed_resources(&[]), cursor, sees),
            ListKind::Templates => pager.page_of(list, self.templates.enabled(), cursor, sees),
            #[cfg(feature = "ui")]
            ListKind::ModelTools => pager.page_of(list, &self.model_tools(), cursor, sees),
        }
    }

    /// Returns the result of `initialize` or `server/discover`. Calls `write` to encode it the first time.
    pub(crate) fn description(&self, dialect: &Dialect, write: impl FnOnce() -> Vec<u8>) -> &[u8] {
        self.prepared[dialect.revision() as usize].description.get_or_init(write)
    }
}
