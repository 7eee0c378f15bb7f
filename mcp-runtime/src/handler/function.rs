//! A registered function, and the schema of its result.

use std::{
    any::TypeId,
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
};

use serde_json::Value;

use super::{
    Dependency, Encoding,
    contract::{Contract, get_or_compute},
    entry::{
        ArgumentEntry, CommonEntry, Entry, EntryInfo, EntryKind, Hints, OutputType, Part, ResourceEntry, ServerFnEntry,
        TaskSupport,
    },
    schema::{self, Checker, SchemaError, SchemaProfile, Violation},
};
use crate::{auth::Scopes, revision::Revision};

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
    /// The form in which the schemas of a tool are listed.
    pub(crate) schemas: SchemaProfile,
    /// Whether only pages call the tool.
    #[cfg(feature = "ui")]
    pub(crate) is_app_only: bool,
    /// The list element in each revision, encoded on first use. Registries that share the function also share the
    /// element.
    pub(crate) encoded: OnceLock<Box<Encoded>>,
    /// The schema of structured results, generated on first use.
    pub(crate) output: OnceLock<Option<Box<OutputSchema>>>,
}

/// An element in each revision.
type Encoded = [OnceLock<Box<[u8]>>; Revision::ALL.len()];

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
        let page = self.resource().filter(|resource| resource.uri.starts_with(mcp_page::SCHEME));
        page.is_some_and(|page| page.mime_type.as_deref() == Some(mcp_page::MEDIA_TYPE))
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
        let is_wanted = |dependency: &Dependency| (dependency.type_id)() == wanted;
        let completing = common.arguments.iter().filter_map(|argument| argument.complete);
        common.dependencies.iter().any(is_wanted)
            || self.list_fn().into_iter().chain(completing).any(|function| {
                let mut dependencies = Vec::new();
                (function.dependencies)(&mut dependencies);
                dependencies.iter().any(is_wanted)
            })
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
        self.contract.arguments.iter().any(is_completed)
            || self.contract.choices().iter().any(|choices| !choices.is_empty())
    }

    /// Returns the schema of the result if the function returns structured results.
    pub(crate) fn output_schema(&self) -> Option<&OutputSchema> {
        get_or_compute(&self.output, || self.generate_output_or_none().map(Box::new)).as_deref()
    }

    /// Passes the schema of the result to `read`, as [`Contract::with_schema`] does.
    pub(crate) fn with_output_schema(&self, read: impl FnOnce(&OutputSchema)) {
        let generated;
        let output = match self.output.get() {
            Some(output) => output.as_deref(),
            None => {
                generated = self.generate_output_or_none();
                generated.as_ref()
            }
        };
        if let Some(output) = output {
            read(output);
        }
    }

    /// Generates the schema of the result, or none if the author's code panics.
    fn generate_output_or_none(&self) -> Option<OutputSchema> {
        catch_unwind(AssertUnwindSafe(|| self.generate_output())).unwrap_or_else(|_| {
            let function = self.common().describe();
            tracing::error!(function, "generating the output schema of a function panics, so it is omitted");
            None
        })
    }

    /// Generates the schema of the result. Panics if the author's code does.
    pub(crate) fn generate_output(&self) -> Option<OutputSchema> {
        let Entry::Tool(entry) = &self.entry else { return None };
        let mut generator = schema::output_generator();
        let schema = match &entry.output {
            OutputType::Generated(schema) => schema(&mut generator)?.to_value(),
            OutputType::Given(schema) => schema.clone(),
        };
        let schema = schema::output(schema, generator);
        Some(OutputSchema { wraps: !schema::is_object(&schema), schema, checkers: Default::default() })
    }

    /// Writes the list element. Calls `write` to encode it the first time.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, encoding: &Encoding, write: impl FnOnce(&mut Vec<u8>)) {
        let encoded = &self.encoded.get_or_init(Default::default)[encoding.dialect.revision() as usize];
        let encoded = get_or_compute(encoded, || {
            let mut encoded = Vec::new();
            write(&mut encoded);
            encoded.into()
        });
        out.extend_from_slice(encoded);
    }
}
