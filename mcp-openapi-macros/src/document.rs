//! The files of a description: reading, references, and positions for errors.

use std::{
    collections::HashMap,
    fmt::{self, Display},
    fs, mem,
    path::{Path, PathBuf},
};

use percent_encoding::percent_decode_str;
use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};
use serde_json::{Map, Number, Value};

/// The maximum nesting depth of a file.
const DEPTH: usize = 128;
/// The maximum number of values in a file of YAML, whose aliases repeat values.
const MAX_VALUES: usize = 4_000_000;
/// The maximum length of a chain of references.
const MAX_REFERENCES: usize = 32;

/// The document and the files that it refers to, the document first.
pub(crate) struct Documents {
    files: Vec<File>,
    /// The beginnings of URLs, each with the file or the folder that takes its place.
    mappings: Vec<(String, PathBuf)>,
    /// Files that cannot be read, which are errors only where a reference to them is used.
    unreadable: Vec<(PathBuf, DocumentError)>,
}

pub(crate) struct File {
    path: PathBuf,
    /// The URL whose place it takes.
    url: Option<String>,
    text: String,
    value: Value,
    names: Names,
}

/// The names in a file, and the references to others.
#[derive(Default)]
struct Names {
    /// References to other files, each with the URL that it is relative to.
    references: Vec<(Option<String>, String)>,
    /// The URLs of schemas with an `$id`, and their pointers.
    ids: Vec<(String, String)>,
    /// Each `$anchor`, with the pointer of the schema with an `$id` that contains it, and its own.
    anchors: Vec<(String, String, String)>,
}

/// The target of a reference to another file or URL.
enum Target<'a> {
    /// A schema with an `$id`.
    Schema(&'a File, &'a str),
    /// A file, which may not exist, and the URL whose place it takes.
    File(PathBuf, Option<String>),
    /// A URL that is neither.
    Url(String),
}

/// A value of a file.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    pub(crate) file: &'a File,
    pub(crate) pointer: String,
    pub(crate) value: &'a Value,
}

/// An error with its location in a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DocumentError {
    path: PathBuf,
    location: Location,
    message: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Location {
    File,
    Position(usize, usize),
    Pointer(String),
}

impl Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        match &self.location {
            Location::File => write!(f, "{name}: {}", self.message),
            Location::Position(line, column) => write!(f, "{name}:{line}:{column}: {}", self.message),
            Location::Pointer(pointer) => write!(f, "{name}#{pointer}: {}", self.message),
        }
    }
}

impl DocumentError {
    /// Finds the position.
    pub(crate) fn locate(&mut self, documents: &Documents) {
        if let Location::Pointer(pointer) = &self.location
            && let Some(file) = documents.files.iter().find(|file| file.path == self.path)
        {
            let (line, column) = file.position(pointer);
            self.location = Location::Position(line, column);
        }
    }
}

impl Documents {
    /// Reads a file, and the files that it refers to. `mappings` are the beginnings of URLs, with the files or folders to read.
    pub(crate) fn read(path: &Path, mappings: Vec<(String, PathBuf)>) -> Result<Self, DocumentError> {
        let mut documents = Self { files: vec![File::read(path, None)?], mappings, unreadable: Vec::new() };
        let mut next = 0;
        while next < documents.files.len() {
            for (base, reference) in mem::take(&mut documents.files[next].names.references) {
                let target = documents.other(&documents.files[next], base.as_deref(), &reference);
                let Target::File(path, url) = target else { continue };
                let is_known = documents.files.iter().any(|file| file.path == path)
                    || documents.unreadable.iter().any(|(unreadable, _)| *unreadable == path);
                if is_known || !path.is_file() {
                    continue;
                }
                match File::read(&path, url) {
                    Ok(file) => documents.files.push(file),
                    Err(error) => documents.unreadable.push((path, error)),
                }
            }
            next += 1;
        }
        Ok(documents)
    }

    pub(crate) fn root(&self) -> Node<'_> {
        self.files[0].root()
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().filter_map(|file| file.path.to_str())
    }

    /// Returns the target of a reference, or the node itself.
    pub(crate) fn resolve<'a>(&'a self, node: Node<'a>) -> Result<Node<'a>, DocumentError> {
        let mut target = node.clone();
        for _ in 0..MAX_REFERENCES {
            match self.target(&target)? {
                Some(next) => target = next,
                None => return Ok(target),
            }
        }
        Err(node.error("the reference leads back to itself"))
    }

    /// Returns the value that a reference names, which may be a reference itself.
    pub(crate) fn target<'a>(&'a self, node: &Node<'a>) -> Result<Option<Node<'a>>, DocumentError> {
        let Some(reference) = node.value.get("$ref").and_then(Value::as_str) else { return Ok(None) };
        let fail = |message: String| node.child("$ref", node.value).error(message);
        let (name, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let (base, schema) = node.file.base(&node.pointer);
        let (file, schema) = if name.is_empty() {
            (node.file, schema)
        } else {
            match self.other(node.file, base, reference) {
                Target::Schema(file, pointer) => (file, pointer),
                Target::File(path, _) => {
                    if let Some((_, error)) = self.unreadable.iter().find(|(unreadable, _)| *unreadable == path) {
                        return Err(error.clone());
                    }
                    let file = self.files.iter().find(|file| file.path == path);
                    let missing = || fail(format!("the file of `{reference}` cannot be found at `{}`", path.display()));
                    (file.ok_or_else(missing)?, "")
                }
                Target::Url(url) => {
                    let help = format!("save it and add `references = [{url:?} => \"path/of/the/file\"]`");
                    return Err(fail(format!("`{url}` is not downloaded, {help}")));
                }
            }
        };
        let fragment = percent_decode_str(fragment).decode_utf8_lossy();
        // Many documents refer to the beginning of the file also below an `$id`.
        let pointer = [schema, ""].into_iter().find_map(|schema| file.find(schema, &fragment));
        let pointer = pointer.ok_or_else(|| fail(format!("`{reference}` does not exist")))?;
        let value = file.value.pointer(&pointer);
        Ok(value.map(|value| Node { file, pointer, value }))
    }

    /// Returns the target of a reference to another file or URL.
    fn other(&self, from: &File, base: Option<&str>, reference: &str) -> Target<'_> {
        let name = reference.split('#').next().unwrap_or_default();
        let url = join(base.unwrap_or_default(), name);
        let mut ids = self.files.iter().flat_map(|file| file.names.ids.iter().map(move |id| (file, id)));
        if let Some((file, (_, pointer))) = ids.find(|(_, (id, _))| *id == url) {
            return Target::Schema(file, pointer);
        }
        match self.mapped(&url) {
            Some(path) if is_url(name) || path.is_file() => Target::File(path, Some(url)),
            _ if is_url(name) => Target::Url(url),
            _ => Target::File(canonical(from.path.with_file_name("").join(decoded(name))), None),
        }
    }

    /// Returns the file that takes the place of a URL.
    fn mapped(&self, url: &str) -> Option<PathBuf> {
        let rests = self.mappings.iter().filter_map(|(start, path)| Some((start, url.strip_prefix(&**start)?, path)));
        let rests = rests.filter(|(start, rest, _)| rest.is_empty() || rest.starts_with('/') || start.ends_with('/'));
        let (_, rest, path) = rests.max_by_key(|(start, ..)| start.len())?;
        let rest = rest.trim_start_matches('/');
        Some(canonical(if rest.is_empty() { path.clone() } else { path.join(decoded(rest)) }))
    }
}

impl Names {
    /// Collects the names in a value. `base` is the URL that references are relative to, and `schema` the pointer of the schema
    /// with an `$id` that contains the value.
    fn collect(&mut self, value: &Value, pointer: &mut String, base: Option<&str>, schema: &str) {
        let length = pointer.len();
        let members = match value {
            Value::Object(members) => members,
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    pointer.push_str(&format!("/{index}"));
                    self.collect(item, pointer, base, schema);
                    pointer.truncate(length);
                }
                return;
            }
            _ => return,
        };
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        let id = text("$id").filter(|id| !id.starts_with('#'));
        let id = id.map(|id| (join(base.unwrap_or_default(), id.trim_end_matches('#')), pointer.clone()));
        let (base, schema) = id.as_ref().map_or((base, schema), |(id, pointer)| (Some(&**id), &**pointer));
        if let Some(anchor) = text("$anchor") {
            self.anchors.push((schema.to_owned(), anchor.to_owned(), pointer.clone()));
        }
        if let Some(reference) = text("$ref").filter(|reference| !reference.starts_with('#')) {
            self.references.push((base.map(str::to_owned), reference.to_owned()));
        }
        for (name, value) in members {
            pointer.push('/');
            pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
            self.collect(value, pointer, base, schema);
            pointer.truncate(length);
        }
        self.ids.extend(id);
    }
}

/// Returns whether a reference has a scheme, rather than being relative.
pub(crate) fn is_url(reference: &str) -> bool {
    let scheme = reference.split_once(':').map_or("", |(scheme, _)| scheme);
    scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Resolves a reference without a fragment against a hierarchical URL, as in RFC 3986, but without empty segments and trailing
/// slashes.
fn join(base: &str, reference: &str) -> String {
    if is_url(reference) || reference.is_empty() {
        return if reference.is_empty() { base.to_owned() } else { reference.to_owned() };
    }
    let base = base.split('?').next().unwrap_or_default();
    if reference.starts_with("//") {
        return format!("{}{reference}", base.split_inclusive(':').next().unwrap_or_default());
    }
    let authority = base.find("://").map_or(0, |at| at + 3);
    let (origin, path) = base.split_at(base[authority..].find('/').map_or(base.len(), |at| authority + at));
    let folder = if reference.starts_with('/') { "" } else { path.rsplit_once('/').map_or("", |(folder, _)| folder) };
    let mut segments = Vec::new();
    for segment in folder.split('/').chain(reference.split('/')).filter(|segment| !segment.is_empty()) {
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    format!("{origin}/{}", segments.join("/"))
}

fn decoded(name: &str) -> String {
    percent_decode_str(name).decode_utf8_lossy().into_owned()
}

fn canonical(path: PathBuf) -> PathBuf {
    fs::canonicalize(&path).unwrap_or(path)
}

impl File {
    fn read(path: &Path, url: Option<String>) -> Result<Self, DocumentError> {
        let fail =
            |path: &Path, message: String| DocumentError { path: path.to_owned(), location: Location::File, message };
        let path = fs::canonicalize(path)
            .map_err(|error| fail(path, format!("cannot be read from `{}`: {error}", path.display())))?;
        let text = fs::read_to_string(&path).map_err(|error| fail(&path, format!("cannot be read: {error}")))?;
        let complete = |text: String, value: Value| {
            let mut names = Names::default();
            names.collect(&value, &mut String::new(), url.as_deref(), "");
            Self { path: path.clone(), url: url.clone(), text, value, names }
        };
        let ((line, column), message) = if text.trim_start().starts_with('{') {
            match serde_json::from_str(&text) {
                Ok(value) => return Ok(complete(text, value)),
                Err(error) => ((error.line(), error.column()), error.to_string()),
            }
        } else {
            match Yaml::new(&text, None).document() {
                Ok(value) => return Ok(complete(text, value)),
                Err((position, message)) => (position, message),
            }
        };
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        Err(DocumentError { path, location: Location::Position(line, column), message })
    }

    fn root(&self) -> Node<'_> {
        Node { file: self, pointer: String::new(), value: &self.value }
    }

    /// Returns the URL that references at a pointer are relative to, and the pointer of the schema with an `$id` that contains it.
    fn base(&self, pointer: &str) -> (Option<&str>, &str) {
        let is_within =
            |start: &str| pointer.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let ids = self.names.ids.iter().filter(|(_, start)| is_within(start));
        let id = ids.max_by_key(|(_, start)| start.len());
        id.map_or((self.url.as_deref(), ""), |(id, start)| (Some(id), start))
    }

    /// Returns the pointer of a fragment of a schema with an `$id`, or of the file.
    fn find(&self, schema: &str, fragment: &str) -> Option<String> {
        if fragment.is_empty() || fragment.starts_with('/') {
            let pointer = format!("{schema}{fragment}");
            return self.value.pointer(&pointer).is_some().then_some(pointer);
        }
        let mut anchors = self.names.anchors.iter();
        anchors.find(|(of, name, _)| of == schema && name == fragment).map(|(_, _, pointer)| pointer.clone())
    }

    /// Finds the line and the column of a value, or of the nearest value that contains it. JSON is read as YAML for that.
    fn position(&self, pointer: &str) -> (usize, usize) {
        let mut yaml = Yaml::new(&self.text, Some(pointer));
        let _ = yaml.document();
        yaml.found
    }
}

impl<'a> Node<'a> {
    pub(crate) fn child(&self, name: &str, value: &'a Value) -> Self {
        let name = name.replace('~', "~0").replace('/', "~1");
        Self { file: self.file, pointer: format!("{}/{name}", self.pointer), value }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Self> {
        self.value.get(name).map(|value| self.child(name, value))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.value.get(name)?.as_str()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.value.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    /// Returns the members of an object, or none.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&'a str, Self)> + use<'a> {
        let parent = self.clone();
        let members = self.value.as_object().into_iter().flatten();
        members.map(move |(name, value)| (name.as_str(), parent.child(name, value)))
    }

    /// Returns the items of an array, or none.
    pub(crate) fn items(&self) -> impl Iterator<Item = Self> + use<'a> {
        let parent = self.clone();
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(move |(index, value)| parent.child(&index.to_string(), value))
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> DocumentError {
        let location = Location::Pointer(self.pointer.clone());
        DocumentError { path: self.file.path.clone(), location, message: message.into() }
    }
}

type YamlError = ((usize, usize), String);

/// Reads YAML 1.2 with its core schema.
struct Yaml<'a> {
    events: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, (Value, usize)>,
    values: usize,
    /// The value whose position is wanted.
    wanted: Option<&'a str>,
    pointer: String,
    found: (usize, usize),
}

impl<'a> Yaml<'a> {
    fn new(text: &'a str, wanted: Option<&'a str>) -> Self {
        let events = Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
        Self { events, anchors: HashMap::new(), values: 0, wanted, pointer: String::new(), found: (1, 1) }
    }

    fn document(&mut self) -> Result<Value, YamlError> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) => {}
                Event::StreamEnd => return Err((position(span), "the file is empty".to_owned())),
                event => return self.value(event, span, 0),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        match self.events.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(((error.marker().line(), error.marker().col() + 1), error.info().to_owned())),
            None => Err((self.found, "unexpected end".to_owned())),
        }
    }

    fn value(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Value, YamlError> {
        let fail = |message: String| Err((position(span), message));
        if depth > DEPTH {
            return fail(format!("nested deeper than {DEPTH} levels"));
        }
        let before = self.values;
        self.values += 1;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix == "str");
                (if is_text { Value::String(text.into_owned()) } else { plain(&text) }, anchor)
            }
            Event::SequenceStart(anchor, _) => {
                let mut items = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if event == Event::SequenceEnd {
                        break;
                    }
                    let name = items.len().to_string();
                    items.push(self.member(&name, event, span, span, depth)?);
                }
                (Value::Array(items), anchor)
            }
            Event::MappingStart(anchor, _) => (Value::Object(self.mapping(depth)?), anchor),
            Event::Alias(anchor) => {
                let Some((value, count)) = self.anchors.get(&anchor) else {
                    return fail("an alias contains itself".to_owned());
                };
                self.values += count;
                if self.values > MAX_VALUES {
                    return fail(format!("the file has more than {MAX_VALUES} values"));
                }
                (value.clone(), 0)
            }
            _ => return fail("expected a value".to_owned()),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, (value.clone(), self.values - before));
        }
        Ok(value)
    }

    fn mapping(&mut self, depth: usize) -> Result<Map<String, Value>, YamlError> {
        let mut members = Map::new();
        loop {
            let (event, key_span) = self.next()?;
            let name = match event {
                Event::MappingEnd => return Ok(members),
                Event::Scalar(text, ..) => text.into_owned(),
                _ => return Err((position(key_span), "a key must be text".to_owned())),
            };
            if name == "<<" {
                return Err((position(key_span), "merge keys are not part of YAML 1.2".to_owned()));
            }
            let (event, span) = self.next()?;
            let value = self.member(&name, event, span, key_span, depth)?;
            if members.contains_key(&name) {
                return Err((position(key_span), format!("duplicate key `{name}`")));
            }
            members.insert(name, value);
        }
    }

    /// Reads a part of a value, and notes its position.
    fn member(
        &mut self,
        name: &str,
        event: Event<'a>,
        span: Span,
        shown: Span,
        depth: usize,
    ) -> Result<Value, YamlError> {
        let Some(wanted) = self.wanted else { return self.value(event, span, depth + 1) };
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
        let rest = wanted.strip_prefix(&*self.pointer);
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            self.found = position(shown);
        }
        let value = self.value(event, span, depth + 1);
        self.pointer.truncate(length);
        value
    }
}

fn position(span: Span) -> (usize, usize) {
    (span.start.line(), span.start.col() + 1)
}

/// Returns the value of a plain scalar.
fn plain(text: &str) -> Value {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ if !digits.starts_with(|char: char| char.is_ascii_digit() || char == '.') => {}
        _ if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            if let Ok(number) = text.parse::<i64>() {
                return number.into();
            }
            if let Ok(number) = text.parse::<u64>() {
                return number.into();
            }
        }
        _ => {}
    }
    let is_number = digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte))
        && digits.starts_with(|char: char| char.is_ascii_digit() || char == '.');
    let number = text.parse::<f64>().ok().filter(|_| is_number).and_then(Number::from_f64);
    number.map_or_else(|| text.into(), Value::Number)
}
