//! The pages of lists, and the capabilities that follow from the registered entries.

use std::{ops::Deref, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::encode::encode_function;
use crate::{
    auth::Scopes,
    error::Fault,
    excerpt::excerpt,
    handler::{
        Encoding, Function,
        entry::{EntryInfo, EntryKind},
    },
    model::{CacheScope, ResourceLink},
    revision::encode::{self, Object},
};

/// A list of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
    /// The tools without the tools that only pages call.
    #[cfg(feature = "ui")]
    ModelTools,
}

/// The number of list kinds.
const LISTS: usize = if cfg!(feature = "ui") { 5 } else { 4 };

impl ListKind {
    /// Returns the member of the result that holds the list.
    pub(super) fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            #[cfg(feature = "ui")]
            Self::ModelTools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }
}

/// Every page of every list of one revision.
#[derive(Debug)]
pub(crate) struct Lists {
    /// The pages of each list, in the order of [`ListKind`].
    pages: [Vec<Page>; LISTS],
}

#[derive(Debug)]
pub(super) struct Page {
    /// The cursor of the page. `None` for the first one.
    cursor: Option<String>,
    result: Vec<u8>,
}

impl Lists {
    pub(super) fn new(pages: [Vec<Page>; LISTS]) -> Self {
        Self { pages }
    }

    /// Returns the page with a cursor. Returns `None` if the cursor is invalid or was issued before the list changed.
    pub(crate) fn page(&self, kind: ListKind, cursor: Option<&str>) -> Option<&[u8]> {
        let found = self.pages[kind as usize].iter().find(|page| page.cursor.as_deref() == cursor);
        found.map(|page| page.result.as_slice())
    }
}

/// How long and by whom the lists of each kind may be cached, in the order of [`EntryKind::ALL`].
pub(crate) type ListCaches = [(Duration, CacheScope); EntryKind::ALL.len()];

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
        (list, member): (&str, &str),
        elements: &[P],
        cursor: Option<&str>,
        sees: impl Fn(&EntryInfo<'_>, Option<&Scopes>) -> bool,
    ) -> Result<Vec<u8>, Fault> {
        let after = cursor.map(|cursor| last_key(list, cursor)).transpose()?;
        let start = after.map_or(0, |after| elements.partition_point(|listed| listed.key() <= after.as_str()));
        let mut seen = elements[start..].iter().filter(|listed| listed.is_seen(&sees));
        let page: Vec<_> = seen.by_ref().take(self.page_size.max(1)).collect();
        let next = seen.next().and(page.last()).map(|last| cursor_after(list, last.key()));
        Ok(self.write(member, page, next.as_deref()))
    }

    /// Writes every page of a list.
    pub(super) fn pages<P: Deref<Target: Listed>>(&self, kind: ListKind, elements: &[P]) -> Vec<Page> {
        let mut pages = Vec::new();
        let mut chunks = elements.chunks(self.page_size.max(1)).peekable();
        let mut cursor = None;
        loop {
            let chunk: &[P] = chunks.next().unwrap_or_default();
            let next = chunks.peek().and(chunk.last()).map(|last| cursor_after(kind.member(), last.key()));
            pages.push(Page { cursor: cursor.take(), result: self.write(kind.member(), chunk, next.as_deref()) });
            match next {
                Some(next) => cursor = Some(next),
                None => return pages,
            }
        }
    }

    fn write<'i, P: Deref<Target: Listed> + 'i>(
        &self,
        member: &str,
        elements: impl IntoIterator<Item = &'i P>,
        next: Option<&str>,
    ) -> Vec<u8> {
        let mut result = Vec::new();
        let mut object = Object::begin(&mut result);
        encode::array(object.key(member), elements, |out, listed| listed.encode(out, self.encoding));
        object.optional("nextCursor", next);
        if let Some(caches) = &self.caches {
            let kind = match member {
                "tools" => EntryKind::Tool,
                "prompts" => EntryKind::Prompt,
                _ => EntryKind::Resource,
            };
            let (ttl, scope) = caches[kind as usize];
            self.encoding.cache_hints(&mut result, ttl, scope);
        }
        self.encoding.end_result(&mut result, None);
        result
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

/// Writes a page of `resources/list` that includes the links that functions returned.
///
/// The links may differ from page to page, so the cursor is an offset rather than the key of the last element.
///
/// # Errors
///
/// Fails if `start` is beyond the end of the list.
pub(crate) fn write_resources(
    mut registered: Vec<&dyn Listed>,
    linked: &[ResourceLink],
    encoding: &Encoding,
    start: usize,
    (page_size, ttl): (usize, Duration),
    sees: impl Fn(&EntryInfo<'_>, Option<&Scopes>) -> bool,
) -> Result<Vec<u8>, Fault> {
    registered.retain(|listed| listed.is_seen(&sees));
    let total = registered.len() + linked.len();
    if start > 0 && start >= total {
        return Err(unknown_cursor(&cursor_from(start)));
    }
    let end = total.min(start.saturating_add(page_size.max(1)));
    let next = (end < total).then(|| cursor_from(end));
    let mut out = Vec::new();
    let mut object = Object::begin(&mut out);
    encode::array(object.key("resources"), start..end, |out, index| match registered.get(index) {
        Some(listed) => listed.encode(out, encoding),
        None => {
            let mut object = Object::begin(out);
            encode::resource_link(&mut object, encoding.features, &linked[index - registered.len()]);
            object.end();
        }
    });
    object.optional("nextCursor", next.as_deref());
    // The functions may list different resources to each caller.
    encoding.cache_hints(&mut out, ttl, CacheScope::Private);
    encoding.end_result(&mut out, None);
    Ok(out)
}

/// Returns the cursor of a list that continues after an element.
fn cursor_after(list: &str, key: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}:{key}"))
}

/// Returns the key of the element after which a cursor continues.
fn last_key(list: &str, cursor: &str) -> Result<String, Fault> {
    let decoded = decode(cursor);
    let key = decoded.as_deref().and_then(|text| text.strip_prefix(list)?.strip_prefix(':'));
    key.map(str::to_owned).ok_or_else(|| unknown_cursor(cursor))
}

fn cursor_from(offset: usize) -> String {
    URL_SAFE_NO_PAD.encode(format!("from:{offset}"))
}

/// Returns the offset at which a cursor of [`write_resources`] continues.
pub(crate) fn decode_offset(cursor: &str) -> Result<usize, Fault> {
    let decoded = decode(cursor);
    let offset = decoded.as_deref().and_then(|text| text.strip_prefix("from:")?.parse().ok());
    offset.ok_or_else(|| unknown_cursor(cursor))
}

fn decode(cursor: &str) -> Option<String> {
    URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok())
}

fn unknown_cursor(cursor: &str) -> Fault {
    Fault::InvalidParams(format!("`cursor` was not returned by this list: {:?}", excerpt(cursor)))
}

/// A set of kinds of entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Kinds(pub(crate) u8);

impl Kinds {
    pub(crate) const ALL: Self = Self((1 << EntryKind::ALL.len()) - 1);

    pub(crate) fn iter(self) -> impl Iterator<Item = EntryKind> {
        EntryKind::ALL.iter().copied().filter(move |kind| self.has(*kind))
    }

    /// Returns the kinds that satisfy a condition.
    pub(crate) fn matching(condition: impl Fn(EntryKind) -> bool) -> Self {
        let mut kinds = Self::default();
        Self::ALL.iter().filter(|kind| condition(*kind)).for_each(|kind| kinds.insert(kind));
        kinds
    }

    pub(crate) fn insert(&mut self, kind: EntryKind) {
        self.0 |= 1 << kind as u8;
    }

    /// Returns the kinds that both sets contain.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn has(self, kind: EntryKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

impl From<EntryKind> for Kinds {
    fn from(kind: EntryKind) -> Self {
        let mut kinds = Self::default();
        kinds.insert(kind);
        kinds
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
    /// Returns the union of both sets.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            tools: self.tools || other.tools,
            resources: self.resources || other.resources,
            prompts: self.prompts || other.prompts,
            completions: self.completions || other.completions,
            logging: self.logging || other.logging,
            tasks: self.tasks || other.tasks,
            skills: self.skills || other.skills,
            pages: self.pages || other.pages,
        }
    }

    /// Returns the kinds of entries that the server has.
    pub(crate) fn kinds(self) -> Kinds {
        Kinds::matching(|kind| self.has(kind))
    }

    /// Returns whether the server has entries of a kind.
    pub(crate) fn has(self, kind: EntryKind) -> bool {
        match kind {
            EntryKind::Tool => self.tools,
            EntryKind::Resource => self.resources,
            EntryKind::Prompt => self.prompts,
            EntryKind::Method => false,
        }
    }
}
