//! A registered function, what it accepts and returns, the types whose decoding enforces their schema, and arguments that
//! arrive as strings.

use std::{
    any::TypeId,
    borrow::Cow,
    collections::{BTreeMap, HashMap, VecDeque},
    marker::PhantomData,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use serde_json::{Map, Value};

use super::{
    Encoding, comma,
    entry::{
        ArgumentEntry, CommonEntry, Entry, EntryInfo, EntryKind, Hints, OutputType, Part, ResourceEntry, ServerFnEntry,
        TaskSupport,
    },
    schema::{self, Checker, SchemaError, SchemaProfile, Violation},
};
use crate::{
    auth::Scopes,
    jsonrpc::{raw, write},
    revision::Revision,
};

/// The arguments that a function accepts and the result that it returns, with their schemas.
#[derive(Debug)]
pub(crate) struct Contract {
    pub(crate) arguments: Cow<'static, [ArgumentEntry]>,
    pub(crate) schema: Value,
    /// Whether the arguments are checked, because decoding into their types may accept what the schema refuses.
    pub(crate) is_checked: bool,
    checker: OnceLock<Checker>,
    output: Option<OutputType>,
    output_schema: OnceLock<Option<OutputSchema>>,
    pub(crate) mime_type: Option<Cow<'static, str>>,
}

/// The schema of a structured result.
#[derive(Debug)]
pub(crate) struct OutputSchema {
    pub(crate) schema: Value,
    /// Whether results may be values other than objects, which some dialects require to be wrapped in an object.
    pub(crate) wraps: bool,
    /// The checkers of results, without and with the object that wraps them. Compiled for the first result that is
    /// checked; `None` if the schema has a keyword that is not supported.
    checkers: [OnceLock<Option<Checker>>; 2],
}

impl OutputSchema {
    /// Returns the violations of a result, which must have structured content. A result that takes too long to check
    /// has no violations.
    pub(crate) fn violations(&self, result: &str, is_wrapped: bool) -> Vec<Violation> {
        let checker = self.checkers[usize::from(is_wrapped)].get_or_init(|| {
            let schema = if is_wrapped { schema::wrap(self.schema.clone()) } else { self.schema.clone() };
            let unsupported =
                |error: SchemaError| tracing::warn!(%error, "results are not checked against their output schema");
            // As in arguments, `null` is valid only where the schema allows it.
            Checker::of_arguments(&mcp_schema::wrap(schema, "structuredContent")).map_err(unsupported).ok()
        });
        checker.as_ref().and_then(|checker| checker.quick_violations(result)).unwrap_or_default()
    }
}

impl Contract {
    /// Creates a contract. Compiles the schema if arguments are checked; otherwise it is compiled for the first invalid
    /// call.
    ///
    /// # Errors
    ///
    /// Returns an error if the schema is invalid.
    pub(crate) fn new(
        arguments: Cow<'static, [ArgumentEntry]>,
        schema: Value,
        is_checked: bool,
    ) -> Result<Self, SchemaError> {
        let checker = if is_checked { OnceLock::from(Checker::of_arguments(&schema)?) } else { OnceLock::new() };
        let output_schema = OnceLock::new();
        Ok(Self { arguments, schema, is_checked, checker, output: None, output_schema, mime_type: None })
    }

    /// Sets the return type.
    pub(crate) fn with_output(mut self, output: OutputType) -> Self {
        self.output = Some(output);
        self
    }

    /// Sets the media type of a resource.
    pub(crate) fn with_mime_type(mut self, mime_type: Option<Cow<'static, str>>) -> Self {
        self.mime_type = mime_type;
        self
    }

    /// Returns the schema of the result if the function returns structured results. It is generated on first use.
    pub(crate) fn output_schema(&self) -> Option<&OutputSchema> {
        self.output_schema
            .get_or_init(|| {
                let mut generator = schema::output_generator();
                let schema = match self.output.as_ref()? {
                    OutputType::Generated(schema) => schema(&mut generator)?.to_value(),
                    OutputType::Given(schema) => schema.clone(),
                };
                let schema = schema::output(schema, generator);
                Some(OutputSchema { wraps: !schema::is_object(&schema), schema, checkers: Default::default() })
            })
            .as_ref()
    }

    /// Returns whether the check of the arguments may take so long that it must not run on a thread that serves
    /// connections.
    pub(crate) fn is_slow_to_check(&self, arguments: &str) -> bool {
        self.is_checked && self.checker().is_slow(arguments)
    }

    /// Returns the violations of the arguments.
    pub(crate) fn check(&self, arguments: &str) -> Vec<Violation> {
        let checker = self.checker();
        if checker.accepts(arguments) { Vec::new() } else { checker.violations(arguments) }
    }

    pub(super) fn checker(&self) -> &Checker {
        self.checker.get_or_init(|| {
            Checker::of_arguments(&self.schema).unwrap_or_else(|error| {
                tracing::error!(%error, "the schema of a function cannot be compiled");
                Checker::default()
            })
        })
    }
}

/// A type that cannot be decoded from any value that its schema refuses.
///
/// It is implemented for types of the standard library and of `serde_json`, whose `Deserialize` and `JsonSchema` are
/// known here, and for no other types: an attribute or an implementation of an author can make the schema of a type
/// stricter than its decoding, and nothing in the schema reveals that. Sets are missing because they accept duplicates,
/// and maps with other keys because `schemars` describes these by patterns.
pub trait EnforcesSchema {}

macro_rules! enforce {
    ($($ty:ty),+) => {
        $(impl EnforcesSchema for $ty {})+
    };
}

enforce!(bool, char, u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64);
enforce!(str, String, PathBuf, Value, Map<String, Value>);

impl<T: EnforcesSchema> EnforcesSchema for Option<T> {}
impl<T: EnforcesSchema + ?Sized> EnforcesSchema for Box<T> {}
impl<T: EnforcesSchema + ToOwned + ?Sized> EnforcesSchema for Cow<'_, T> {}
impl<T: EnforcesSchema> EnforcesSchema for [T] {}
impl<T: EnforcesSchema, const N: usize> EnforcesSchema for [T; N] {}
impl<T: EnforcesSchema> EnforcesSchema for Vec<T> {}
impl<T: EnforcesSchema> EnforcesSchema for VecDeque<T> {}
impl<V: EnforcesSchema> EnforcesSchema for BTreeMap<String, V> {}
impl<V: EnforcesSchema, S> EnforcesSchema for HashMap<String, V, S> {}

macro_rules! enforce_tuples {
    () => {};
    ($first:ident $($rest:ident)*) => {
        impl<$first: EnforcesSchema, $($rest: EnforcesSchema),*> EnforcesSchema for ($first, $($rest,)*) {}
        enforce_tuples!($($rest)*);
    };
}

enforce_tuples!(A B C D E F G H I J K L);

/// Determines whether decoding into a type enforces its schema: the inherent constant of a type that implements
/// [`EnforcesSchema`] takes precedence over the constant of [`AnyDecoding`].
#[derive(Debug)]
pub struct Decoding<T: ?Sized>(PhantomData<T>);

impl<T: EnforcesSchema + ?Sized> Decoding<T> {
    /// Decoding enforces the schema.
    pub const ENFORCES_SCHEMA: bool = true;
}

/// The decoding of all types.
pub trait AnyDecoding {
    /// Decoding may accept values that the schema refuses.
    const ENFORCES_SCHEMA: bool = false;
}

impl<T: ?Sized> AnyDecoding for Decoding<T> {}

/// Converts strings to the JSON object that the schema describes: `"5"` becomes `5` if the argument is a number.
///
/// A string that is not valid JSON stays a string, and violations show it unchanged.
pub(crate) fn from_strings<'a>(
    contract: &Contract,
    strings: impl IntoIterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
) -> String {
    let mut out = vec![b'{'];
    for (name, text) in strings {
        let property = contract.schema.get("properties").and_then(|properties| properties.get(&*name));
        // Forms send an empty string for a field that was left empty.
        if text.is_empty() && !accepts_strings(property) && !is_required(contract, &name) {
            continue;
        }
        comma(&mut out);
        write::string(&mut out, &name);
        out.push(b':');
        write_string_as(&mut out, property, &text);
    }
    out.push(b'}');
    String::from_utf8_lossy(&out).into_owned()
}

/// Converts a string to the JSON that the schema describes.
pub(crate) fn json_of_string(schema: Option<&Value>, text: &str) -> String {
    let mut out = Vec::new();
    write_string_as(&mut out, schema, text);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_string_as(out: &mut Vec<u8>, schema: Option<&Value>, text: &str) {
    if !accepts_strings(schema) && is_other_json(text) {
        out.extend_from_slice(text.trim().as_bytes());
    } else {
        write::string(out, text);
    }
}

fn is_required(contract: &Contract, name: &str) -> bool {
    contract.schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
}

/// Returns whether a schema accepts strings, judging by its `type`, `enum`, `anyOf` and `oneOf` keywords.
fn accepts_strings(schema: Option<&Value>) -> bool {
    let Some(schema) = schema else { return true };
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => match schema.get("enum") {
            Some(Value::Array(values)) => values.iter().any(Value::is_string),
            _ => ["anyOf", "oneOf"]
                .iter()
                .find_map(|key| schema.get(key)?.as_array())
                .is_none_or(|branches| branches.iter().any(|branch| accepts_strings(Some(branch)))),
        },
    }
}

/// Returns whether the text is valid JSON other than a string.
fn is_other_json(text: &str) -> bool {
    raw::kind(text) != raw::Kind::String && serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}

/// A registered function.
#[derive(Debug)]
pub(crate) struct Function {
    /// Distinguishes the function from all other functions of the process, even from later functions of the same entry.
    pub(crate) id: u64,
    pub(crate) entry: Entry,
    /// The name in the protocol.
    pub(crate) name: Cow<'static, str>,
    pub(crate) contract: Contract,
    pub(crate) uses_context: bool,
    /// The scopes that a caller needs. `None` if it needs none.
    pub(crate) scopes: Option<Scopes>,
    /// The permitted values of each argument. Empty if its schema does not list them.
    pub(crate) choices: Vec<Arc<[String]>>,
    /// The form in which the schemas of a tool are listed.
    pub(crate) schemas: SchemaProfile,
    /// The arguments of a tool that HTTP clients repeat in headers.
    pub(crate) headers: Vec<MirroredArgument>,
    /// Whether only pages call the tool.
    #[cfg(feature = "ui")]
    pub(crate) is_app_only: bool,
    /// The list element in each revision, encoded on first use. Registries that share the function also share the
    /// element.
    pub(crate) encoded: [OnceLock<Box<[u8]>>; Revision::ALL.len()],
}

/// An argument that HTTP clients repeat in a header.
#[derive(Debug)]
pub(crate) struct MirroredArgument {
    /// The part of the header's name after `Mcp-Param-`.
    pub(crate) name: String,
    /// The chain of properties that leads to the argument.
    pub(crate) path: Vec<String>,
}

impl Function {
    pub(crate) fn kind(&self) -> EntryKind {
        self.entry.kind()
    }

    pub(crate) fn common(&self) -> &CommonEntry {
        self.entry.common()
    }

    /// Returns whether one of these entries describes the function.
    pub(crate) fn is_one_of(&self, entries: &[Entry]) -> bool {
        entries.iter().any(|entry| std::ptr::eq(entry.common(), self.common()))
    }

    /// Returns the key by which functions of the kind are sorted and found: a name, a URI or a URI template.
    pub(crate) fn key(&self) -> &Cow<'static, str> {
        self.resource().map_or(&self.name, |entry| &entry.uri)
    }

    /// Returns the annotations of a tool.
    pub(crate) fn hints(&self) -> Hints {
        if let Entry::Tool(entry) = &self.entry { entry.hints } else { Hints::default() }
    }

    /// Returns whether calls may be tasks.
    pub(crate) fn task(&self) -> TaskSupport {
        if let Entry::Tool(entry) = &self.entry { entry.task } else { TaskSupport::Forbidden }
    }

    /// Returns whether the function is a resource that hosts show as a page.
    #[cfg(feature = "ui")]
    pub(crate) fn is_page(&self) -> bool {
        let page = self.resource().filter(|resource| resource.uri.starts_with(crate::ui::SCHEME));
        page.is_some_and(|page| page.mime_type.as_deref() == Some(crate::ui::MEDIA_TYPE))
    }

    /// Returns the entry of a resource.
    pub(crate) fn resource(&self) -> Option<&ResourceEntry> {
        if let Entry::Resource(entry) = &self.entry { Some(entry) } else { None }
    }

    /// Returns the URI template of a resource, unless its URI is static.
    pub(crate) fn template(&self) -> Option<&[Part]> {
        self.resource()?.template.as_deref()
    }

    /// Returns the function that lists the resources of a template.
    pub(crate) fn list_fn(&self) -> Option<ServerFnEntry> {
        self.resource()?.list
    }

    /// Returns `true` if the function, or a function that lists or completes for it, takes a reference to a type.
    pub(crate) fn takes(&self, wanted: TypeId) -> bool {
        let common = self.common();
        let mut dependencies = common.dependencies.to_vec();
        let completing = common.arguments.iter().filter_map(|argument| argument.complete);
        self.list_fn().into_iter().chain(completing).for_each(|function| (function.dependencies)(&mut dependencies));
        dependencies.iter().any(|dependency| (dependency.type_id)() == wanted)
    }

    /// Returns the information that is passed to visibility rules, to the predicates of layers and to
    /// [`Handle::set_enabled`](crate::Handle::set_enabled).
    pub(crate) fn info(&self) -> EntryInfo<'_> {
        self.common().info(self.kind(), &self.name)
    }

    /// Returns `true` if some argument can be completed.
    pub(crate) fn completes(&self) -> bool {
        let closure = self.common().handler.closures().and_then(|closures| closures.complete.as_ref());
        let is_completed = |argument: &ArgumentEntry| argument.complete.is_some() || closure.is_some();
        self.contract.arguments.iter().any(is_completed) || self.choices.iter().any(|choices| !choices.is_empty())
    }

    /// Writes the list element. Calls `write` to encode it the first time.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding, write: impl FnOnce(&mut Vec<u8>)) {
        let encoded = self.encoded[encoding.dialect.revision() as usize].get_or_init(|| {
            let mut encoded = Vec::new();
            write(&mut encoded);
            encoded.into()
        });
        out.extend_from_slice(encoded);
    }
}
