//! The pages of lists, and the capabilities that follow from the registered entries.

use std::{ops::Deref, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::encode::encode_function;
use crate::{
    auth::Scopes,
    error::{Fault, excerpt},
    handler::{
        Encoding, Function,
        entry::{EntryInfo, EntryKind},
    },
    model::{CacheScope, ResourceLink},
    revision::{
        Dialect,
        encode::{self, Object},
    },
};

/// Defines the lists: the member of a result that holds the list, the kind of its entries, and its name in the notification
/// of its changes, if they are announced on their own.
macro_rules! lists {
    ($($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $list:ident = $member:literal, $kind:ident, $announced:expr;)*) => {
        /// A list of entries.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum ListKind {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $list,)*
        }

        impl ListKind {
            pub(super) const ALL: &'static [Self] = &[$($(#[cfg($cfg)])? Self::$list),*];

            /// Returns the member of the result that holds the list.
            pub(super) fn member(self) -> &'static str {
                match self {
                    $($(#[cfg($cfg)])? Self::$list => $member,)*
                }
            }

            /// Returns the kind of the entries.
            pub(crate) fn kind(self) -> EntryKind {
                match self {
                    $($(#[cfg($cfg)])? Self::$list => EntryKind::$kind,)*
                }
            }

            /// Returns the name in the notification of changes.
            pub(crate) fn announced(self) -> Option<&'static str> {
                match self {
                    $($(#[cfg($cfg)])? Self::$list => $announced,)*
                }
            }
        }
    };
}

// Processes announce changes to each other by the order of the lists: a new list comes after `Templates`.
lists! {
    Tools = "tools", Tool, Some("tools");
    /// The changes of templates are announced as changes of resources.
    Resources = "resources", Resource, Some("resources");
    Prompts = "prompts", Prompt, Some("prompts");
    Templates = "resourceTemplates", Resource, None;
    /// The tools without the tools that only pages call.
    #[cfg(feature = "ui")]
    ModelTools = "tools", Tool, None;
}

/// How long and by whom the lists of each kind may be cached, in the order of [`EntryKind`].
pub(crate) type ListCaches = [(Duration, CacheScope); EntryKind::COUNT];

/// A writer of list pages.
#[derive(Debug)]
pub(crate) struct Pager<'a> {
    pub(crate) encoding: &'a Encoding,
    /// The maximum number of elements on a page.
    pub(crate) page_size: usize,
    /// How long and by whom a page of the lists of each kind may be cached. `None` for lists whose results do not contain
    /// a cache hint.
    pub(crate) caches: Option<ListCaches>,
}

impl Pager<'_> {
    /// Writes one page of the elements that `sees` accepts. `elements` must be sorted by key.
    ///
    /// # Errors
    ///
    /// Fails if the cursor is invalid. A cursor stays valid when the element that it names is removed: the page
    /// begins with the next one.
    pub(crate) fn page_of<P: Deref<Target: Listed>>(
        &self,
        (list, member, kind): (&str, &str, EntryKind),
        elements: &[P],
        cursor: Option<&str>,
        sees: impl Fn(&EntryInfo<'_>, Option<&Scopes>) -> bool,
    ) -> Result<Vec<u8>, Fault> {
        let after = cursor.map(|cursor| last_key(list, cursor)).transpose()?;
        let start = after.map_or(0, |after| elements.partition_point(|listed| listed.key() <= after.as_str()));
        let mut seen = elements[start..].iter().filter(|listed| listed.is_seen(&sees));
        let page: Vec<_> = seen.by_ref().take(self.page_size.max(1)).collect();
        let next = seen.next().and(page.last()).map(|last| cursor_after(list, last.key()));
        let mut result = Vec::new();
        let mut object = Object::begin(&mut result);
        encode::array(object.key(member), page, |out, listed| listed.encode(out, self.encoding));
        object.optional("nextCursor", next.as_deref());
        if let Some(caches) = &self.caches {
            let (ttl, scope) = caches[kind as usize];
            self.encoding.cache_hints(&mut result, ttl, scope);
        }
        self.encoding.end_result(&mut result, None);
        Ok(result)
    }
}

/// Decides whether a list contains an element, by its description and the scopes that it requires.
pub(super) type Sees<'a> = dyn Fn(&EntryInfo<'_>, Option<&Scopes>) -> bool + 'a;

/// An element of a list.
pub(crate) trait Listed {
    /// Returns the key by which the list is sorted.
    fn key(&self) -> &str;

    /// Returns whether `sees` accepts the element.
    fn is_seen(&self, sees: &Sees<'_>) -> bool;

    /// Writes the element.
    fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding);
}

impl Listed for Function {
    fn key(&self) -> &str {
        self.key()
    }

    fn is_seen(&self, sees: &Sees<'_>) -> bool {
        sees(&self.info(), self.scopes.as_ref())
    }

    fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding) {
        encode_function(out, encoding, self);
    }
}

/// A resource that a function lists, to callers who may call the function.
impl Listed for ResourceLink {
    fn key(&self) -> &str {
        &self.uri
    }

    fn is_seen(&self, _: &Sees<'_>) -> bool {
        true
    }

    fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding) {
        let mut object = Object::begin(out);
        encode::resource_link(&mut object, encoding.dialect.features(), self);
        object.end();
    }
}

/// Returns the cursor of a list that continues after an element.
pub(crate) fn cursor_after(list: &str, key: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}:{key}"))
}

/// Returns the key of the element after which a cursor continues.
pub(crate) fn last_key(list: &str, cursor: &str) -> Result<String, Fault> {
    let decoded = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let key = decoded.as_deref().and_then(|text| text.strip_prefix(list)?.strip_prefix(':'));
    key.map(str::to_owned).ok_or_else(|| unknown_cursor(cursor))
}

/// Returns the error for a cursor that was not returned by the list.
pub(crate) fn unknown_cursor(cursor: &str) -> Fault {
    Fault::InvalidParams(format!("`cursor` was not returned by this list: {:?}", excerpt(cursor)))
}

/// A set of lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ListSet(pub(crate) u8);

impl ListSet {
    pub(crate) const ALL: Self = Self((1 << ListKind::ALL.len()) - 1);

    pub(crate) fn iter(self) -> impl Iterator<Item = ListKind> {
        ListKind::ALL.iter().copied().filter(move |kind| self.has(*kind))
    }

    /// Returns the lists whose changes a dialect announces.
    pub(crate) fn listed_in(dialect: &Dialect) -> Self {
        Self::matching(|kind| kind.announced().is_some_and(|list| dialect.lists.contains(&list)))
    }

    /// Returns the lists that satisfy a condition.
    pub(crate) fn matching(condition: impl Fn(ListKind) -> bool) -> Self {
        let mut lists = Self::default();
        Self::ALL.iter().filter(|kind| condition(*kind)).for_each(|kind| lists.insert(kind));
        lists
    }

    pub(crate) fn insert(&mut self, kind: ListKind) {
        self.0 |= 1 << kind as u8;
    }

    /// Returns the lists that both sets contain.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn has(self, kind: ListKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

impl From<ListKind> for ListSet {
    fn from(kind: ListKind) -> Self {
        Self(1 << kind as u8)
    }
}

/// The capabilities that the server declares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ServerCapabilities {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
    pub(crate) completions: bool,
    pub(crate) logging: bool,
    /// Whether calls of some tool may become tasks.
    pub(crate) tasks: bool,
    pub(crate) skills: bool,
    /// Whether the server has pages of MCP Apps.
    pub(crate) pages: bool,
}

impl ServerCapabilities {
    /// Returns the lists that the server has.
    pub(crate) fn lists(self) -> ListSet {
        ListSet::matching(|kind| match kind {
            ListKind::Tools => self.tools,
            #[cfg(feature = "ui")]
            ListKind::ModelTools => self.tools,
            ListKind::Resources | ListKind::Templates => self.resources,
            ListKind::Prompts => self.prompts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::DIALECTS;

    #[test]
    fn every_dialect_announces_known_lists_and_every_list_is_announced_in_some_dialect() {
        let mut lists: Vec<_> = DIALECTS.into_iter().flat_map(|dialect| dialect.lists.iter().copied()).collect();
        lists.sort_unstable();
        lists.dedup();
        let mut known: Vec<_> = ListKind::ALL.iter().filter_map(|kind| kind.announced()).collect();
        known.sort_unstable();
        assert_eq!(lists, known);
    }

    /// Processes of an earlier version read the announcements of later versions, and the reverse.
    #[test]
    fn the_announcements_of_processes_keep_their_bits() {
        let bits = [ListKind::Tools, ListKind::Resources, ListKind::Prompts].map(|kind| ListSet::from(kind).0);
        assert_eq!(bits, [1, 2, 4]);
    }
}
