//! Reads directories of skills, and says everything that is wrong with them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{Content, DIRECTORY, Label, Node, Skill, Skills, front_matter::FrontMatter, media};
use crate::{
    jsonrpc::write,
    model::{Resource, ResourceBody, ResourceLink},
};

const SKILL_FILE: &str = "SKILL.md";
/// The most files of a skill.
const MOST_FILES: usize = 512;
/// The most bytes of a skill.
const MOST_BYTES: usize = 16 << 20;
/// The most files and directories that are looked at.
const MOST_ENTRIES: usize = 1 << 14;
/// The deepest that directories may stand in each other.
const DEEPEST: usize = 32;

impl Skills {
    /// Reads the skills in some directories.
    ///
    /// # Errors
    ///
    /// A sentence for each thing that is wrong, with the file that is to blame.
    pub(crate) fn read(directories: &[PathBuf]) -> Result<Self, Vec<String>> {
        let mut reader = Reader::default();
        for directory in directories {
            reader.read_root(directory);
        }
        if reader.problems.is_empty() { Ok(reader.finish(!directories.is_empty())) } else { Err(reader.problems) }
    }
}

/// What was read until now.
#[derive(Default)]
struct Reader {
    skills: Vec<Draft>,
    files: BTreeMap<String, ReadFile>,
    directories: BTreeMap<String, ReadDirectory>,
    problems: Vec<String>,
    /// How many files and directories were looked at.
    looked_at: usize,
}

/// A skill that is being read.
struct Draft {
    uri: String,
    path: PathBuf,
    name: String,
    description: String,
    /// The names of the directories that lead to it, with its own.
    segments: Vec<String>,
    fields: Map<String, Value>,
    files: usize,
    bytes: usize,
    /// Whether it has more files or bytes than it may have, which was said.
    is_full: bool,
}

struct ReadFile {
    link: ResourceLink,
    contents: Resource,
    digest: String,
    bytes: usize,
    /// The skills that it is a part of.
    within: Vec<usize>,
}

struct ReadDirectory {
    path: PathBuf,
    name: String,
    /// The skills that it is a part of.
    within: Vec<usize>,
}

/// Where the reader stands.
struct Place<'a> {
    /// As the author would write it, for messages.
    path: &'a Path,
    /// The names of the directories that lead here.
    segments: &'a [String],
    /// The same directories without links, and before them the one that all stand in.
    ancestors: &'a [PathBuf],
    /// The last of them, which is the one that is read.
    real: &'a Path,
    /// The skills that they are a part of, the innermost last.
    within: &'a [usize],
}

impl Reader {
    fn read_root(&mut self, path: &Path) {
        let root = match fs::canonicalize(path) {
            Ok(root) => root,
            Err(why) => return self.blame(path, &format!("cannot be read: {why}")),
        };
        if path.join(SKILL_FILE).exists() {
            let why = format!("is a skill, not a directory of skills: it holds a `{SKILL_FILE}` itself");
            return self.blame(path, &why);
        }
        let ancestors = [root.clone()];
        self.read_directory(&Place { path, segments: &[], ancestors: &ancestors, real: &root, within: &[] });
    }

    fn read_directory(&mut self, place: &Place<'_>) {
        let names = match names(place.real) {
            Ok(names) => names,
            Err(why) => return self.blame(place.path, &format!("cannot be read: {why}")),
        };
        let mut within = place.within.to_vec();
        let is_skill = !place.segments.is_empty() && names.iter().any(|name| name == SKILL_FILE);
        if !self.enter(place, is_skill) {
            return;
        }
        if is_skill {
            within.push(self.skills.len());
            self.skills.push(Draft::new(place));
        }
        if let Some(directory) = self.directories.get_mut(&uri(place.segments)) {
            directory.within.clone_from(&within);
        }
        for name in names {
            self.looked_at += 1;
            if self.looked_at > MOST_ENTRIES {
                return;
            }
            self.read_entry(&Place { within: &within, ..*place }, &name);
        }
    }

    /// Notes a directory; false if another directory of skills has one of the same name, and they cannot be one.
    fn enter(&mut self, place: &Place<'_>, is_skill: bool) -> bool {
        let Some(name) = place.segments.last() else { return true };
        let uri = uri(place.segments);
        if let Some(other) = self.directories.get(&uri)
            && (is_skill || !other.within.is_empty())
        {
            let why = format!("would be `{uri}`, and so would `{}`", other.path.display());
            self.blame(place.path, &why);
            return false;
        }
        let directory = ReadDirectory { path: place.path.to_owned(), name: name.clone(), within: Vec::new() };
        self.directories.insert(uri, directory);
        true
    }

    fn read_entry(&mut self, place: &Place<'_>, name: &std::ffi::OsStr) {
        let path = place.path.join(name);
        if self.looked_at == MOST_ENTRIES {
            return self.blame(&path, &format!("is one too many: at most {MOST_ENTRIES} files are looked at"));
        }
        let Some(name) = name.to_str() else { return self.blame(&path, "has a name that is no UTF-8") };
        if name.starts_with('.') {
            return;
        }
        let found = fs::canonicalize(place.real.join(name)).and_then(|target| Ok((fs::metadata(&target)?, target)));
        let (metadata, target) = match found {
            Ok(found) => found,
            Err(why) => return self.blame(&path, &format!("cannot be read: {why}")),
        };
        if !place.ancestors.first().is_some_and(|root| target.starts_with(root)) {
            return self.blame(&path, "is a link that leads out of the directory of skills");
        }
        let segments = [place.segments, &[name.to_owned()]].concat();
        if metadata.is_dir() {
            if name == SKILL_FILE {
                return self.blame(&path, "is a directory, where a file must be");
            }
            if place.ancestors.contains(&target) {
                return self.blame(&path, "is a link to a directory that it stands in");
            }
            if place.ancestors.len() >= DEEPEST {
                return self.blame(&path, &format!("stands deeper than {DEEPEST} directories"));
            }
            let ancestors = [place.ancestors, std::slice::from_ref(&target)].concat();
            self.read_directory(&Place {
                path: &path,
                segments: &segments,
                ancestors: &ancestors,
                real: &target,
                within: place.within,
            });
        } else if !place.within.is_empty() {
            if metadata.is_file() {
                self.read_file(&path, &target, &segments, place);
            } else {
                self.blame(&path, "is neither a file nor a directory");
            }
        }
    }

    fn read_file(&mut self, path: &Path, target: &Path, segments: &[String], place: &Place<'_>) {
        let Some(room) = self.room(place.within) else { return };
        let bytes = match read_at_most(target, room) {
            Ok(bytes) => bytes,
            Err(why) => return self.blame(path, &format!("cannot be read: {why}")),
        };
        if !self.count(place.within, bytes.len()) {
            return;
        }
        let (uri, name) = (uri(segments), segments.last().cloned().unwrap_or_default());
        let (digest, size) = (digest(&bytes), bytes.len());
        let contents = match String::from_utf8(bytes) {
            Ok(text) => Resource::text(uri.clone(), text).with_mime_type(media::of(&name, true)),
            Err(error) => Resource::blob(uri.clone(), error.into_bytes()).with_mime_type(media::of(&name, false)),
        };
        let mut link = ResourceLink::new(uri.clone(), name.clone()).with_size(size as u64);
        link.mime_type.clone_from(&contents.mime_type);
        if let Some(&skill) = place.within.last()
            && name == SKILL_FILE
            && self.skills[skill].segments == place.segments
            && let Some(front_matter) = self.front_matter(path, &contents, place)
        {
            link.name = front_matter.name;
            link.description = Some(front_matter.description.clone());
            self.skills[skill].description = front_matter.description;
            self.skills[skill].fields = front_matter.fields;
        }
        self.files.insert(uri, ReadFile { link, contents, digest, bytes: size, within: place.within.to_vec() });
    }

    fn front_matter(&mut self, path: &Path, contents: &Resource, place: &Place<'_>) -> Option<FrontMatter> {
        let ResourceBody::Text(text) = &contents.body else {
            self.blame(path, "is no UTF-8");
            return None;
        };
        match FrontMatter::read(text, place.segments.last()?) {
            Ok(front_matter) => Some(front_matter),
            Err(problems) => {
                problems.iter().for_each(|why| self.blame(path, &format!("cannot be served: {why}")));
                None
            }
        }
    }

    /// How many bytes some skills still take; none if one of them takes nothing more.
    fn room(&self, within: &[usize]) -> Option<usize> {
        let skills = || within.iter().map(|&skill| &self.skills[skill]);
        if skills().any(|skill| skill.is_full) {
            return None;
        }
        skills().map(|skill| MOST_BYTES - skill.bytes).min()
    }

    /// Counts a file of some skills; false if that is more than one of them takes.
    fn count(&mut self, within: &[usize], bytes: usize) -> bool {
        let mut fits = true;
        for &index in within {
            let skill = &mut self.skills[index];
            let why = if skill.files == MOST_FILES {
                format!("has more than {MOST_FILES} files")
            } else if bytes > MOST_BYTES - skill.bytes {
                format!("has more than {MOST_BYTES} bytes")
            } else {
                skill.files += 1;
                skill.bytes += bytes;
                continue;
            };
            (skill.is_full, fits) = (true, false);
            let path = skill.path.clone();
            self.blame(&path, &format!("is a skill that {why}, which clients need not take"));
        }
        fits
    }

    fn blame(&mut self, path: &Path, why: &str) {
        self.problems.push(format!("`{}` {why}", path.display()));
    }

    fn finish(self, is_served: bool) -> Skills {
        let labels: Vec<_> = self.skills.iter().map(Draft::label).collect();
        let entries = self.entries();
        let mut nodes = BTreeMap::new();
        for (uri, directory) in self.directories {
            let prefix = format!("{uri}/");
            let below = self.skills.iter().enumerate();
            let below = below.filter(|(_, draft)| draft.uri.starts_with(&prefix)).map(|(index, _)| index);
            let link = ResourceLink::new(uri.clone(), directory.name).with_mime_type(DIRECTORY);
            let mut skills: Vec<_> = directory.within.iter().copied().chain(below).collect();
            skills.sort_unstable();
            skills.dedup();
            if !skills.is_empty() {
                let labels = skills.into_iter().map(|skill| Arc::clone(&labels[skill])).collect();
                nodes.insert(uri, Node { link, labels, content: Content::Directory(Vec::new()) });
            }
        }
        for (uri, file) in self.files {
            let labels = file.within.into_iter().map(|skill| Arc::clone(&labels[skill])).collect();
            nodes.insert(uri, Node { link: file.link, labels, content: Content::File(file.contents) });
        }
        connect(&mut nodes);
        let drafts = self.skills.into_iter().zip(labels).zip(entries);
        let mut skills: Vec<_> = drafts
            .map(|((Draft { uri, description, .. }, label), entry)| Skill { uri, description, label, entry })
            .collect();
        skills.sort_unstable_by(|left, right| left.uri.cmp(&right.uri));
        Skills { is_served, skills, nodes }
    }

    /// Writes what clients are told of each skill.
    fn entries(&self) -> Vec<Vec<u8>> {
        let mut files: Vec<Vec<Value>> = vec![Vec::new(); self.skills.len()];
        for (uri, file) in &self.files {
            for &skill in &file.within {
                files[skill].push(json!({"uri": uri, "digest": file.digest, "size": file.bytes}));
            }
        }
        let drafts = self.skills.iter().zip(files);
        let entries = drafts.map(|(draft, files)| {
            let mut entry = Vec::new();
            write::plain(&mut entry, &json!({"uri": draft.uri, "frontmatter": draft.fields, "resources": files}));
            entry
        });
        entries.collect()
    }
}

impl Draft {
    fn new(place: &Place<'_>) -> Self {
        Self {
            uri: format!("{}/{SKILL_FILE}", uri(place.segments)),
            path: place.path.to_owned(),
            name: place.segments.last().cloned().unwrap_or_default(),
            description: String::new(),
            segments: place.segments.to_vec(),
            fields: Map::new(),
            files: 0,
            bytes: 0,
            is_full: false,
        }
    }

    fn label(&self) -> Arc<Label> {
        Arc::new(Label { name: self.name.clone(), path: self.segments.join("/") })
    }
}

/// Tells each directory what stands in it.
fn connect(nodes: &mut BTreeMap<String, Node>) {
    let uris: Vec<_> = nodes.keys().cloned().collect();
    for uri in uris {
        let parent = uri.rsplit_once('/').and_then(|(parent, _)| nodes.get_mut(parent));
        if let Some(Node { content: Content::Directory(children), .. }) = parent {
            children.push(uri);
        }
    }
}

/// The names in a directory, sorted.
fn names(path: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)?.take(MOST_ENTRIES) {
        names.push(entry?.file_name());
    }
    names.sort_unstable();
    Ok(names)
}

/// Reads a file, but no more of it than tells that it is too long.
fn read_at_most(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn digest(bytes: &[u8]) -> String {
    let hex = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("sha256:{hex}")
}

/// The URI of a file or a directory.
fn uri(segments: &[String]) -> String {
    let segments: Vec<_> = segments.iter().map(|segment| encode(segment)).collect();
    format!("skill://{}", segments.join("/"))
}

/// Encodes what a segment of a URI must not hold.
///
/// See [RFC 3986, 2.3](https://www.rfc-editor.org/rfc/rfc3986#section-2.3).
fn encode(segment: &str) -> String {
    let mut encoded = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
