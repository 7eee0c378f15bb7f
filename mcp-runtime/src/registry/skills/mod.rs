//! The skills that a server serves, which are kept in memory.
//!
//! They are read once, when the server is built. The contents therefore match their digests even if the files change
//! later, and no URI reaches the file system.
//!
//! See [Skills](https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx).

#[cfg(feature = "skills")]
mod front_matter;
#[cfg(feature = "skills")]
mod read;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use super::lists::{Listed, Sees};
use crate::{
    handler::{Encoding, entry::EntryInfo},
    model::{Resource, ResourceLink},
    revision::encode::{self, Object},
};

/// The tags of every skill, for visibility rules.
const TAGS: &[Cow<'static, str>] = &[Cow::Borrowed("skill")];

/// Skills, their files, and the directories of these files.
#[derive(Debug, Default)]
pub(crate) struct Skills {
    /// Whether the server has a directory of skills, even if it is empty.
    is_served: bool,
    /// The skills, sorted by URI.
    skills: Vec<Arc<Skill>>,
    /// The files and directories by URI.
    nodes: BTreeMap<String, Node>,
}

/// A skill, as clients see it.
#[derive(Debug)]
pub(crate) struct Skill {
    /// The URI of its `SKILL.md`.
    pub(crate) uri: String,
    pub(crate) description: String,
    name: String,
    /// The directory of the skill, relative to the directory that the server was configured with.
    path: String,
    /// The entry in `skills/list`, as JSON: the front matter, and the files with their digests.
    entry: Vec<u8>,
}

/// A file or a directory.
#[derive(Debug)]
pub(crate) struct Node {
    link: ResourceLink,
    /// The skills that contain this file or directory and, for a directory, the skills below it. The file or directory
    /// is visible if one of these skills is.
    skills: Vec<Arc<Skill>>,
    /// The contents of a file. `None` for a directory.
    contents: Option<Box<Resource>>,
}

impl Skills {
    pub(crate) fn is_served(&self) -> bool {
        self.is_served
    }

    /// Returns the skills, by URI.
    pub(crate) fn all(&self) -> &[Arc<Skill>] {
        &self.skills
    }

    /// Returns the skill whose `SKILL.md` has this URI, if `sees` accepts it.
    pub(crate) fn skill(&self, uri: &str, sees: impl Fn(&EntryInfo<'_>) -> bool) -> Option<&Skill> {
        let index = self.skills.binary_search_by(|skill| skill.uri.as_str().cmp(uri)).ok()?;
        Some(&*self.skills[index]).filter(|skill| sees(&skill.info()))
    }

    /// Returns the files of all skills, by URI.
    pub(super) fn files(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(|node| node.contents.is_some())
    }

    /// Returns the file or directory with a URI, if `sees` accepts it.
    pub(crate) fn node(&self, uri: &str, sees: impl Fn(&EntryInfo<'_>) -> bool) -> Option<&Node> {
        self.nodes.get(uri).filter(|node| node.is_seen(&|info, _| sees(info)))
    }

    /// Returns the file with a URI, if `sees` accepts it.
    pub(crate) fn file(&self, uri: &str, sees: impl Fn(&EntryInfo<'_>) -> bool) -> Option<&Node> {
        self.node(uri, sees).filter(|node| node.contents.is_some())
    }

    /// Returns the children of a directory, by URI, or `None` for a file.
    pub(crate) fn children(&self, directory: &Node) -> Option<Vec<&Node>> {
        let None = directory.contents else { return None };
        let prefix = format!("{}/", directory.link.uri);
        let below = self.nodes.range(prefix.clone()..).take_while(|(uri, _)| uri.starts_with(&prefix));
        Some(below.filter(|(uri, _)| !uri[prefix.len()..].contains('/')).map(|(_, node)| node).collect())
    }
}

impl Skill {
    /// Writes the result of `skills/get`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, encoding: &Encoding, ttl: Duration) {
        let mut result = Object::begin(out);
        result.raw("skill", &self.entry);
        encoding.cache_hints(out, ttl, encoding.cache_scope());
        encoding.end_result(out, None);
    }

    /// Returns the part of the skill that visibility rules see.
    fn info(&self) -> EntryInfo<'_> {
        EntryInfo::of_skill(&self.name, &self.path, TAGS)
    }
}

impl Node {
    /// Writes the result of `resources/read`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, encoding: &Encoding, ttl: Duration) {
        let mut result = Object::begin(out);
        encode::array(result.key("contents"), &self.contents, |out, file| {
            encode::resource_contents(out, encoding.dialect.features(), file, "", None)
        });
        encoding.cache_hints(out, ttl, encoding.cache_scope());
        encoding.end_result(out, None);
    }
}

impl Listed for Skill {
    fn key(&self) -> &str {
        &self.uri
    }

    fn is_seen(&self, sees: &Sees<'_>) -> bool {
        sees(&self.info(), None)
    }

    fn encode(&self, out: &mut Vec<u8>, _encoding: &Encoding) {
        out.extend_from_slice(&self.entry);
    }
}

impl Listed for Node {
    fn key(&self) -> &str {
        &self.link.uri
    }

    fn is_seen(&self, sees: &Sees<'_>) -> bool {
        self.skills.iter().any(|skill| skill.is_seen(sees))
    }

    fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding) {
        let mut object = Object::begin(out);
        encode::resource_link(&mut object, encoding.dialect.features(), &self.link);
        object.end();
    }
}
