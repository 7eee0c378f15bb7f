//! The description of an entry by which rules select it.

use std::{
    any::Any,
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Weak},
};

use super::{Collect, Entry, EntryRef, SourceLocation};
use crate::mutex::Mutex;

/// The entries of a mounted server.
#[derive(Default)]
pub(crate) struct EntryGroup(Mutex<HashMap<usize, Option<Weak<dyn Any + Send + Sync>>>>);

impl EntryGroup {
    /// Adds entries, and removes entries that do not exist any more. The weak references keep the addresses from being used again.
    pub(crate) fn add(&self, entries: &[Entry]) {
        fn weak<T: Send + Sync + 'static>(entry: &EntryRef<T>) -> Option<Weak<dyn Any + Send + Sync>> {
            match entry {
                EntryRef::Static(_) => None,
                EntryRef::Shared(entry) => Some(Arc::downgrade(&(Arc::clone(entry) as Arc<dyn Any + Send + Sync>))),
            }
        }
        let mut members = self.0.lock();
        members.retain(|_, entry| entry.as_ref().is_none_or(|entry| entry.strong_count() > 0));
        members.extend(entries.iter().filter_map(|entry| {
            let weak = match entry {
                Entry::Tool(entry) => weak(entry),
                Entry::Resource(entry) => weak(entry),
                Entry::Prompt(entry) => weak(entry),
                Entry::Method(entry) => weak(entry),
            };
            Some((entry.info().address()?, weak))
        }));
    }

    pub(crate) fn contains(&self, info: &EntryInfo<'_>) -> bool {
        info.address().is_some_and(|address| self.0.lock().contains_key(&address))
    }
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum EntryKind {
    /// A `#[tool]`.
    Tool,
    /// A `#[resource]`, static or templated.
    Resource,
    /// A `#[prompt]`.
    Prompt,
    /// A method of an extension, which is not listed.
    Method,
}

impl EntryKind {
    /// The number of kinds.
    pub(crate) const COUNT: usize = Self::Method as usize + 1;
}

/// An annotated function or a skill, by which functions are selected: for
/// [`Server::only`](crate::Server::only), [`prefix`](crate::Server::prefix), [`rename`](crate::Server::rename),
/// [`layer_for`](crate::Server::layer_for), [`visible_to`](crate::Server::visible_to) and
/// [`Handle::set_enabled`](crate::Handle::set_enabled).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct EntryInfo<'a> {
    /// The kind.
    pub kind: EntryKind,
    /// The name in the protocol. For a resource, this is its name, not its URI. [`Server::only`](crate::Server::only)
    /// sees the name in the annotation, [`rename`](crate::Server::rename) and [`prefix`](crate::Server::prefix) the
    /// name that earlier rules gave the function, and everything else the final name.
    pub name: &'a str,
    /// The `tags(…)` of the annotation.
    pub tags: &'a [Cow<'static, str>],
    /// The crate that defines the function, as named in its `Cargo.toml`.
    pub package: &'a str,
    /// The module that defines the function, as `module_path!()` names it.
    pub module: &'a str,
    /// The function, qualified by its type if it is a method: `add` or `Notes::add`. Empty for a skill and for an entry
    /// that the program created.
    pub function: &'a str,
    /// The source of a function, which identifies it.
    pub(super) source: Option<&'a SourceLocation>,
}

impl<'a> EntryInfo<'a> {
    /// Returns the address of the description of a function, which distinguishes it from other functions.
    pub(crate) fn address(&self) -> Option<usize> {
        self.source.map(|source| std::ptr::from_ref(source).addr())
    }

    /// Returns the entry with another name.
    pub(crate) fn named(self, name: &'a str) -> Self {
        Self { name, ..self }
    }

    pub(crate) fn of_skill(name: &'a str, path: &'a str, tags: &'a [Cow<'static, str>]) -> Self {
        Self { kind: EntryKind::Resource, name, tags, package: "", module: path, function: "", source: None }
    }

    /// Returns whether the function has a tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }

    /// Returns whether `C` registers the function: a function by its name, or the functions of a `#[tools]` block by
    /// the name of its type.
    ///
    /// ```
    /// # use mcp_runtime::{Server, tools};
    /// struct Notes;
    ///
    /// #[tools]
    /// impl Notes {
    ///     /// Add a note.
    ///     #[tool]
    ///     fn add(text: &str) {}
    ///
    ///     /// Delete all notes.
    ///     #[tool]
    ///     fn clear() {}
    /// }
    ///
    /// let server = Server::empty("notes", "1.0.0")
    ///     .with::<Notes>()
    ///     .only(|entry| entry.function != "Notes::clear")
    ///     .prefix(|entry| entry.is::<Notes>(), "notes_");
    /// assert!(server.check().is_ok());
    /// ```
    pub fn is<C: Collect>(&self) -> bool {
        self.source.is_some_and(|source| C::entries().iter().any(|entry| std::ptr::eq(&entry.common().source, source)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::{Context, handler::entry::ToolEntry};

    #[test]
    fn a_group_forgets_entries_that_do_not_exist_any_more() {
        let group = EntryGroup::default();
        for _ in 0..3 {
            let run = async |_: Map<String, Value>, _: Context| "a";
            group.add(&[ToolEntry::new("a", json!({"type": "object"}), run).into()]);
            assert_eq!(group.0.lock().len(), 1);
        }
    }
}
