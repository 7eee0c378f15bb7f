//! The files of a description: reading, references, and positions for errors.

use std::{
    collections::HashMap,
    fmt::{self, Display},
    fs,
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
    /// Files that cannot be read, which are errors only where a reference to them is used.
    unreadable: Vec<(PathBuf, DocumentError)>,
}

pub(crate) struct File {
    path: PathBuf,
    text: String,
    value: Value,
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
    /// Reads a file, and the files that it refers to.
    pub(crate) fn read(path: &Path) -> Result<Self, DocumentError> {
        let mut documents = Self { files: vec![File::read(path)?], unreadable: Vec::new() };
        let mut next = 0;
        while next < documents.files.len() {
            let file = &documents.files[next];
            let mut paths = Vec::new();
            references(&file.value, &mut |reference| {
                if let Some(path) = target_path(&file.path, reference)
                    && !documents.files.iter().any(|file| file.path == path)
                    && !documents.unreadable.iter().any(|(unreadable, _)| *unreadable == path)
                    && !paths.contains(&path)
                {
                    paths.push(path);
                }
            });
            for path in paths {
                if path.is_file() {
                    match File::read(&path) {
                        Ok(file) => documents.files.push(file),
                        Err(error) => documents.unreadable.push((path, error)),
                    }
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
        if reference.contains("://") {
            return Err(fail(format!("`{reference}` is on another host, and references to URLs are not downloaded")));
        }
        let file = match target_path(&node.file.path, reference) {
            None => node.file,
            Some(path) => {
                if let Some((_, error)) = self.unreadable.iter().find(|(unreadable, _)| *unreadable == path) {
                    return Err(error.clone());
                }
                let file = self.files.iter().find(|file| file.path == path);
                file.ok_or_else(|| fail(format!("the file of `{reference}` cannot be found at `{}`", path.display())))?
            }
        };
        let fragment = reference.split_once('#').map_or("", |(_, fragment)| fragment);
        let pointer = percent_decode_str(fragment).decode_utf8_lossy();
        let value = file.value.pointer(&pointer);
        let value = value.ok_or_else(|| fail(format!("`{reference}` does not exist")))?;
        Ok(Some(Node { file, pointer: pointer.into_owned(), value }))
    }
}

/// Calls a function with each reference in a value.
fn references(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(members) => {
            if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                found(reference);
            }
            members.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// Returns the path of the file that a reference names, unless it is the file that contains the reference.
fn target_path(from: &Path, reference: &str) -> Option<PathBuf> {
    let name = reference.split('#').next().unwrap_or_default();
    if name.is_empty() || name.contains("://") {
        return None;
    }
    let path = from.parent()?.join(&*percent_decode_str(name).decode_utf8_lossy());
    let path = fs::canonicalize(&path).unwrap_or(path);
    (path != from).then_some(path)
}

impl File {
    fn read(path: &Path) -> Result<Self, DocumentError> {
        let fail =
            |path: &Path, message: String| DocumentError { path: path.to_owned(), location: Location::File, message };
        let path = fs::canonicalize(path)
            .map_err(|error| fail(path, format!("cannot be read from `{}`: {error}", path.display())))?;
        let text = fs::read_to_string(&path).map_err(|error| fail(&path, format!("cannot be read: {error}")))?;
        let ((line, column), message) = if text.trim_start().starts_with('{') {
            match serde_json::from_str(&text) {
                Ok(value) => return Ok(Self { path, text, value }),
                Err(error) => ((error.line(), error.column()), error.to_string()),
            }
        } else {
            match Yaml::new(&text, None).document() {
                Ok(value) => return Ok(Self { path, text, value }),
                Err((position, message)) => (position, message),
            }
        };
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        Err(DocumentError { path, location: Location::Position(line, column), message })
    }

    fn root(&self) -> Node<'_> {
        Node { file: self, pointer: String::new(), value: &self.value }
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
