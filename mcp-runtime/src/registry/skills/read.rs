//! Reads directories of skills, and reports every problem with them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{Node, Skill, Skills, front_matter::FrontMatter};
use crate::{
    jsonrpc::write,
    model::{Resource, ResourceBody, ResourceLink},
};

const SKILL_FILE: &str = "SKILL.md";
/// The maximum number of files of a skill.
const MAX_FILES: usize = 512;
/// The maximum size of a skill in bytes.
const MAX_BYTES: usize = 16 << 20;
/// The maximum number of files and directories that are visited.
const MAX_ENTRIES: usize = 1 << 14;
/// The maximum nesting depth of directories.
const MAX_DEPTH: usize = 32;

impl Skills {
    /// Reads the skills in some directories.
    ///
    /// # Errors
    ///
    /// Returns one message per problem, each with the path of the file.
    pub(crate) fn read(directories: &[PathBuf]) -> Result<Self, Vec<String>> {
        let mut reader = Reader::default();
        for directory in directories {
            reader.read_root(directory);
        }
        if reader.problems.is_empty() { Ok(reader.finish(!directories.is_empty())) } else { Err(reader.problems) }
    }
}

/// The skills, files and directories that were read so far.
#[derive(Default)]
struct Reader {
    drafts: Vec<Draft>,
    files: BTreeMap<String, ReadFile>,
    directories: BTreeMap<String, ReadDirectory>,
    problems: Vec<String>,
    /// The number of files and directories that were visited.
    visited: usize,
}

/// A skill that is being read.
struct Draft {
    /// The skill, without its entry, and without its description until its front matter is read.
    skill: Skill,
    path: PathBuf,
    fields: Map<String, Value>,
    files: usize,
    bytes: usize,
    /// Whether the skill exceeds a limit, which has been reported.
    is_full: bool,
}

struct ReadFile {
    link: ResourceLink,
    contents: Resource,
    digest: String,
    /// The skills that contain it.
    within: Vec<usize>,
}

struct ReadDirectory {
    path: PathBuf,
    name: String,
    /// The skills that contain it.
    within: Vec<usize>,
}

/// A directory that is being read.
struct Location<'a> {
    /// The path for messages, which starts with the path that the author configured.
    path: &'a Path,
    /// The names of the directories from the root to this one.
    segments: &'a [String],
    /// The canonical paths of the root and of these directories.
    ancestors: &'a [PathBuf],
    /// The canonical path of this directory, which is the last ancestor.
    real: &'a Path,
    /// The skills that contain this directory, innermost last.
    within: &'a [usize],
}

impl Reader {
    fn read_root(&mut self, path: &Path) {
        let root = match fs::canonicalize(path) {
            Ok(root) => root,
            Err(error) => return self.report(path, &format!("cannot be read: {error}")),
        };
        if path.join(SKILL_FILE).exists() {
            let problem = format!(
                "is a skill, not a directory of skills: it contains a `{SKILL_FILE}`\nhelp: use its parent directory"
            );
            return self.report(path, &problem);
        }
        let ancestors = [root.clone()];
        self.read_directory(&Location { path, segments: &[], ancestors: &ancestors, real: &root, within: &[] });
    }

    fn read_directory(&mut self, location: &Location<'_>) {
        let names = match names(location.real) {
            Ok(names) => names,
            Err(error) => return self.report(location.path, &format!("cannot be read: {error}")),
        };
        let mut within = location.within.to_vec();
        let is_skill = !location.segments.is_empty() && names.iter().any(|name| name == SKILL_FILE);
        if !self.enter(location, is_skill) {
            return;
        }
        if is_skill {
            within.push(self.drafts.len());
            self.drafts.push(Draft::new(location));
        }
        if let Some(directory) = self.directories.get_mut(&uri(location.segments)) {
            directory.within.clone_from(&within);
        }
        for name in names {
            self.visited += 1;
            if self.visited > MAX_ENTRIES {
                return;
            }
            self.read_entry(&Location { within: &within, ..*location }, &name);
        }
    }

    /// Adds a directory. Returns `false` if its URI belongs to another directory with which it cannot be merged.
    fn enter(&mut self, location: &Location<'_>, is_skill: bool) -> bool {
        let Some(name) = location.segments.last() else { return true };
        let uri = uri(location.segments);
        if let Some(other) = self.directories.get(&uri)
            && (is_skill || !other.within.is_empty())
        {
            let problem = format!("has the same URI `{uri}` as `{}`", other.path.display());
            self.report(location.path, &problem);
            return false;
        }
        let directory = ReadDirectory { path: location.path.to_owned(), name: name.clone(), within: Vec::new() };
        self.directories.insert(uri, directory);
        true
    }

    fn read_entry(&mut self, location: &Location<'_>, name: &std::ffi::OsStr) {
        let path = location.path.join(name);
        if self.visited == MAX_ENTRIES {
            return self.report(&path, &format!("exceeds the limit of {MAX_ENTRIES} files and directories"));
        }
        let Some(name) = name.to_str() else { return self.report(&path, "has a name that is not valid UTF-8") };
        if name.starts_with('.') {
            return;
        }
        let found = fs::canonicalize(location.real.join(name)).and_then(|target| Ok((fs::metadata(&target)?, target)));
        let (metadata, target) = match found {
            Ok(found) => found,
            Err(error) => return self.report(&path, &format!("cannot be read: {error}")),
        };
        if !location.ancestors.first().is_some_and(|root| target.starts_with(root)) {
            return self.report(&path, "is a link to a target outside the directory of skills");
        }
        let segments = [location.segments, &[name.to_owned()]].concat();
        if metadata.is_dir() {
            if name == SKILL_FILE {
                return self.report(&path, "is a directory, expected a file");
            }
            if location.ancestors.contains(&target) {
                return self.report(&path, "is a link to a directory that contains it");
            }
            if location.ancestors.len() >= MAX_DEPTH {
                return self.report(&path, &format!("is nested more than {MAX_DEPTH} directories deep"));
            }
            let ancestors = [location.ancestors, std::slice::from_ref(&target)].concat();
            self.read_directory(&Location {
                path: &path,
                segments: &segments,
                ancestors: &ancestors,
                real: &target,
                within: location.within,
            });
        } else if !location.within.is_empty() {
            if metadata.is_file() {
                self.read_file(&path, &target, &segments, location);
            } else {
                self.report(&path, "is neither a file nor a directory");
            }
        }
    }

    fn read_file(&mut self, path: &Path, target: &Path, segments: &[String], location: &Location<'_>) {
        let Some(remaining) = self.remaining_bytes(location.within) else { return };
        let bytes = match read_at_most(target, remaining) {
            Ok(bytes) => bytes,
            Err(error) => return self.report(path, &format!("cannot be read: {error}")),
        };
        if !self.count_file(location.within, bytes.len()) {
            return;
        }
        let (uri, name) = (uri(segments), segments.last().cloned().unwrap_or_default());
        let (digest, size) = (digest(&bytes), bytes.len() as u64);
        let contents = match String::from_utf8(bytes) {
            Ok(text) => Resource::text(uri.clone(), text).with_mime_type(media_type(&name, true)),
            Err(error) => Resource::blob(uri.clone(), error.into_bytes()).with_mime_type(media_type(&name, false)),
        };
        let mut link = ResourceLink::new(uri.clone(), name.clone()).with_size(size);
        link.mime_type.clone_from(&contents.mime_type);
        if let Some(&skill) = location.within.last()
            && self.drafts[skill].skill.uri == uri
            && let Some(front_matter) = self.front_matter(path, &contents, location)
        {
            link.name = front_matter.name;
            link.description = Some(front_matter.description.clone());
            self.drafts[skill].skill.description = front_matter.description;
            self.drafts[skill].fields = front_matter.fields;
        } else if let Some(&skill) = location.within.last() {
            link.description = Some(format!("A file of the skill `{}`.", self.drafts[skill].skill.name));
        }
        self.files.insert(uri, ReadFile { link, contents, digest, within: location.within.to_vec() });
    }

    fn front_matter(&mut self, path: &Path, contents: &Resource, location: &Location<'_>) -> Option<FrontMatter> {
        let ResourceBody::Text(text) = &contents.body else {
            self.report(path, "is not valid UTF-8");
            return None;
        };
        match FrontMatter::read(text, location.segments.last()?) {
            Ok(front_matter) => Some(front_matter),
            Err(problems) => {
                problems.iter().for_each(|problem| self.report(path, &format!("cannot be served: {problem}")));
                None
            }
        }
    }

    /// Returns the number of bytes that may be added to all of these skills, or `None` if one of them is full.
    fn remaining_bytes(&self, within: &[usize]) -> Option<usize> {
        let skills = || within.iter().map(|&skill| &self.drafts[skill]);
        if skills().any(|skill| skill.is_full) {
            return None;
        }
        skills().map(|skill| MAX_BYTES - skill.bytes).min()
    }

    /// Counts a file that is part of these skills. Returns `false` if it exceeds a limit of one of them.
    fn count_file(&mut self, within: &[usize], bytes: usize) -> bool {
        let mut fits = true;
        for &index in within {
            let skill = &mut self.drafts[index];
            let limit = if skill.files == MAX_FILES {
                format!("{MAX_FILES} files")
            } else if bytes > MAX_BYTES - skill.bytes {
                format!("{MAX_BYTES} bytes")
            } else {
                skill.files += 1;
                skill.bytes += bytes;
                continue;
            };
            (skill.is_full, fits) = (true, false);
            let path = skill.path.clone();
            self.report(&path, &format!("is a skill with more than {limit}, the maximum that clients must accept"));
        }
        fits
    }

    fn report(&mut self, path: &Path, problem: &str) {
        self.problems.push(format!("`{}` {problem}", path.display()));
    }

    fn finish(self, is_served: bool) -> Skills {
        let mut skills = finished(self.drafts, &self.files);
        let of = |indices: Vec<usize>| indices.into_iter().map(|index| Arc::clone(&skills[index])).collect();
        let mut nodes = BTreeMap::new();
        for (uri, directory) in self.directories {
            let prefix = format!("{uri}/");
            let below = skills.iter().enumerate().filter(|(_, skill)| skill.uri.starts_with(&prefix));
            let mut within = directory.within;
            within.extend(below.map(|(index, _)| index));
            within.sort_unstable();
            within.dedup();
            if !within.is_empty() {
                let link = ResourceLink::new(uri.clone(), directory.name).with_mime_type(DIRECTORY);
                nodes.insert(uri, Node { link, skills: of(within), contents: None });
            }
        }
        for (uri, file) in self.files {
            let contents = Some(Box::new(file.contents));
            nodes.insert(uri, Node { link: file.link, skills: of(file.within), contents });
        }
        skills.sort_unstable_by(|left, right| left.uri.cmp(&right.uri));
        Skills { is_served, skills, nodes }
    }
}

impl Draft {
    fn new(location: &Location<'_>) -> Self {
        let skill = Skill {
            uri: format!("{}/{SKILL_FILE}", uri(location.segments)),
            description: String::new(),
            name: location.segments.last().cloned().unwrap_or_default(),
            path: location.segments.join("/"),
            entry: Vec::new(),
        };
        Self { skill, path: location.path.to_owned(), fields: Map::new(), files: 0, bytes: 0, is_full: false }
    }
}

/// Returns the skills with their entries in `skills/list`.
fn finished(drafts: Vec<Draft>, files: &BTreeMap<String, ReadFile>) -> Vec<Arc<Skill>> {
    let mut listed: Vec<Vec<Value>> = vec![Vec::new(); drafts.len()];
    for (uri, file) in files {
        for &skill in &file.within {
            listed[skill].push(json!({"uri": uri, "digest": file.digest, "size": file.link.size}));
        }
    }
    let skills = drafts.into_iter().zip(listed).map(|(Draft { mut skill, fields, .. }, files)| {
        write::plain(&mut skill.entry, &json!({"uri": skill.uri, "frontmatter": fields, "resources": files}));
        Arc::new(skill)
    });
    skills.collect()
}

/// Returns the names in a directory, sorted.
fn names(path: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let names = fs::read_dir(path)?.take(MAX_ENTRIES).map(|entry| Ok(entry?.file_name()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}

/// Reads at most one byte more than `limit`, which is enough to see that a file is too large.
fn read_at_most(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn digest(bytes: &[u8]) -> String {
    let hex = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("sha256:{hex}")
}

/// Returns the URI of a file or a directory.
fn uri(segments: &[String]) -> String {
    let segments: Vec<_> = segments.iter().map(|segment| utf8_percent_encode(segment, RESERVED).to_string()).collect();
    format!("skill://{}", segments.join("/"))
}

/// The characters that a segment of a URI must not contain.
///
/// See [RFC 3986, 2.3](https://www.rfc-editor.org/rfc/rfc3986#section-2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The media type of a directory.
const DIRECTORY: &str = "inode/directory";

/// Returns the media type of a file by its extension, or else by whether it is text.
fn media_type(name: &str, is_text: bool) -> &'static str {
    let extension = name.rsplit_once('.').unwrap_or_default().1.to_ascii_lowercase();
    let known = |line: &'static str| line.split_once(' ').filter(|(suffix, _)| *suffix == extension);
    let fallback = if is_text { "text/plain" } else { "application/octet-stream" };
    include_str!("media_types.txt").lines().find_map(known).map_or(fallback, |(_, media_type)| media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_uris_are_encoded() {
        for (segment, expected) in [
            ("a-b._~9Z", "a-b._~9Z"),
            ("a b", "a%20b"),
            ("é", "%C3%A9"),
            ("a/b?#%", "a%2Fb%3F%23%25"),
            ("\u{1}\u{7f}", "%01%7F"),
        ] {
            assert_eq!(uri(&["skill".to_owned(), segment.to_owned()]), format!("skill://skill/{expected}"));
        }
    }
}
