//! The skills that a server serves, all of them in memory.
//!
//! They are read once, when the server is built: what is served is what its digest says, whatever becomes of the
//! files, and no URI leads to the file system.
//!
//! See [Skills](https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx).

#[cfg(feature = "skills")]
mod front_matter;
#[cfg(feature = "skills")]
mod media;
#[cfg(feature = "skills")]
mod read;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::lists::Listed;
use crate::{
    handler::{
        Encoding,
        entry::{EntryInfo, EntryKind},
    },
    model::{Resource, ResourceLink},
    revision::encode::{self, Object},
};

/// The media type of a directory.
#[cfg(feature = "skills")]
const DIRECTORY: &str = "inode/directory";

/// What every skill is tagged with, for whoever decides who sees what.
const TAGS: &[&str] = &["skill"];

/// Skills, their files, and the directories that those stand in.
#[derive(Debug, Default)]
pub(crate) struct Skills {
    /// Whether the server was given a directory of skills, even if it is empty.
    is_served: bool,
    /// By URI.
    skills: Vec<Skill>,
    /// By URI.
    nodes: BTreeMap<String, Node>,
}

/// A skill as clients know it.
#[derive(Debug)]
pub(crate) struct Skill {
    /// The URI of its `SKILL.md`.
    pub(crate) uri: String,
    pub(crate) description: String,
    label: Arc<Label>,
    /// The JSON of its front matter, its files and their digests.
    entry: Vec<u8>,
}

/// What is decided by when a skill is shown or hidden.
#[derive(Debug)]
struct Label {
    name: String,
    /// Its directory, from the one that the server was given.
    path: String,
}

/// A file or a directory.
#[derive(Debug)]
pub(crate) struct Node {
    link: ResourceLink,
    /// The skills that it is a part of; of a directory also those that are below it. Who sees one of them sees it.
    labels: Vec<Arc<Label>>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    File(Resource),
    /// The URIs of what stands in it, sorted.
    Directory(Vec<String>),
}

impl Skills {
    pub(crate) fn is_served(&self) -> bool {
        self.is_served
    }

    /// The skills, by URI.
    pub(crate) fn all(&self) -> &[Skill] {
        &self.skills
    }

    /// Finds the skill whose `SKILL.md` a URI names, for somebody.
    pub(crate) fn skill(&self, uri: &str, sees: impl Fn(&EntryInfo<'_>) -> bool) -> Option<&Skill> {
        let index = self.skills.binary_search_by(|skill| skill.uri.as_str().cmp(uri)).ok()?;
        Some(&self.skills[index]).filter(|skill| sees(&skill.label.info()))
    }

    /// The files of all skills, by URI.
    pub(super) fn files(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(|node| matches!(node.content, Content::File(_)))
    }

    /// Finds a file or a directory for somebody.
    pub(crate) fn node(&self, uri: &str, sees: impl Fn(&EntryInfo<'_>) -> bool) -> Option<&Node> {
        self.nodes.get(uri).filter(|node| node.is_seen(&sees))
    }

    /// Finds a file for somebody.
    pub(crate) fn file(&self, uri: &str, sees: impl Fn(&EntryInfo<'_>) -> bool) -> Option<&Node> {
        self.node(uri, sees).filter(|node| matches!(node.content, Content::File(_)))
    }

    /// What stands in a directory, by URI; nothing if it is a file.
    pub(crate) fn children(&self, directory: &Node) -> Option<Vec<&Node>> {
        match &directory.content {
            Content::File(_) => None,
            Content::Directory(children) => Some(children.iter().filter_map(|uri| self.nodes.get(uri)).collect()),
        }
    }
}

impl Skill {
    /// Writes the result of `skills/get`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, encoding: &Encoding, ttl: Duration) {
        let mut result = Object::begin(out);
        result.raw("skill", &self.entry);
        encoding.cache_hints(out, ttl);
        encoding.end_result(out, None);
    }
}

impl Node {
    /// Writes the result of `resources/read`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, encoding: &Encoding, ttl: Duration) {
        let mut result = Object::begin(out);
        let file = match &self.content {
            Content::File(resource) => Some(resource),
            Content::Directory(_) => None,
        };
        encode::array(result.key("contents"), file, |out, file| encode::resource_contents(out, file, "", None));
        encoding.cache_hints(out, ttl);
        encoding.end_result(out, None);
    }
}

impl Label {
    fn info(&self) -> EntryInfo<'_> {
        EntryInfo { kind: EntryKind::Resource, name: &self.name, tags: TAGS, krate: "", module: &self.path }
    }
}

impl Listed for Skill {
    fn key(&self) -> &str {
        &self.uri
    }

    fn is_seen(&self, sees: &dyn Fn(&EntryInfo<'_>) -> bool) -> bool {
        sees(&self.label.info())
    }

    fn encode(&self, out: &mut Vec<u8>, _wire: &Encoding) {
        out.extend_from_slice(&self.entry);
    }
}

impl Listed for Node {
    fn key(&self) -> &str {
        &self.link.uri
    }

    fn is_seen(&self, sees: &dyn Fn(&EntryInfo<'_>) -> bool) -> bool {
        self.labels.iter().any(|label| sees(&label.info()))
    }

    fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding) {
        let mut object = Object::begin(out);
        encode::resource_link(&mut object, encoding.features, &self.link);
        object.end();
    }
}
