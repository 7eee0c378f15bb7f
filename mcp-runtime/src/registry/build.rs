//! Turns the entries that macros emit into registered entries, and reports every problem with them.

use std::{
    any::TypeId,
    collections::{HashMap, HashSet},
    panic::resume_unwind,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use serde_json::Value;

use super::{
    names::{Names, ScopeRules, Table},
    skills::Skills,
};
use crate::{
    error::BuildError,
    handler::{
        Context, Contract, Dependency, EarlierArguments, Function, SchemaProfile, StateMap,
        entry::{CommonEntry, Entry, EntryKind, EntryScopes, OutputType, Part, ServerFnEntry},
        schema::{Checker, SchemaError},
        uses_context,
    },
};

/// The minimum number of contracts per thread, below which starting a thread takes longer than it saves.
const MIN_PER_THREAD: usize = 100;

/// Entries to register, and the state that is available to them.
pub(crate) struct Selection<'a> {
    /// Whether the schemas of all entries are generated and checked now. Otherwise, those of annotated tools wait until
    /// they are listed or called.
    pub(crate) checks_schemas: bool,
    pub(crate) entries: Vec<Entry>,
    pub(crate) names: &'a Names,
    pub(crate) scopes: &'a ScopeRules,
    pub(crate) states: &'a StateMap,
}

/// A builder that registers entries and collects the problems with them.
pub(super) struct Builder<'a> {
    /// Its entries are passed on their own.
    pub(super) selection: Selection<'a>,
    pub(super) schemas: SchemaProfile,
    pub(super) problems: Vec<String>,
}

impl Builder<'_> {
    /// Registers entries beside other functions and skills. Entries with problems are left out, and optional entries
    /// whose key is taken.
    pub(super) fn register<'b>(
        &mut self,
        entries: Vec<Entry>,
        others: impl Iterator<Item = &'b Function>,
        skills: &Skills,
    ) -> Vec<Arc<Function>> {
        let mut functions = Vec::new();
        let mut compiled = compiled(&entries, self.selection.checks_schemas).into_iter().peekable();
        for (index, entry) in entries.into_iter().enumerate() {
            let contract = compiled.next_if(|(compiled, _)| *compiled == index);
            let contract = contract.map_or_else(|| Ok(Contract::new(&entry)), |(_, contract)| contract);
            let (is_optional, count) = (is_optional(&entry), self.problems.len());
            let function = self.function(entry, contract);
            if is_optional && self.problems.len() > count {
                for problem in self.problems.drain(count..) {
                    tracing::warn!(%problem, "an optional entry is left out");
                }
                continue;
            }
            if let Some(function) = function.as_ref().filter(|_| self.selection.checks_schemas) {
                let _ = function.generate_output();
            }
            functions.extend(function.map(Arc::new));
        }
        leave_out_taken(&mut functions, others, skills);
        functions
    }

    /// Returns the collected problems as an error, if there are any.
    pub(super) fn finish(self) -> Result<(), BuildError> {
        if self.problems.is_empty() { Ok(()) } else { Err(BuildError::new(self.problems)) }
    }

    fn function(&mut self, entry: Entry, contract: Result<Contract, SchemaError>) -> Option<Function> {
        let (common, kind) = (entry.common(), entry.kind());
        self.problems.extend(common.problems.iter().map(|problem| format!("{}: {problem}", common.describe())));
        let name = self.selection.names.name_of(&entry).unwrap_or_else(|problem| {
            self.problems.push(problem);
            common.name.clone()
        });
        if let EntryScopes::Scopes(scopes) = &common.scopes
            && let Some(problem) = scopes.problem()
        {
            self.problems.push(format!("{}: {problem}", common.describe()));
        }
        if let Entry::Tool(tool) = &entry
            && let OutputType::Given(schema) = &tool.output
            && let Err(error) = Checker::of_arguments(schema)
        {
            self.problems.push(format!("the output schema of {} is invalid: {error}", common.describe()));
        }
        if let Entry::Resource(resource) = &entry
            && let Some(list) = resource.list
        {
            self.check_server_fn(common, list, &[]);
        }
        for dependency in common.dependencies {
            let name = dependency.parameter;
            let help = match name {
                "self" => "add `.with_state(…)`".to_owned(),
                _ => format!("add `.with_state(…)`; if `{name}` is an argument, take it by value"),
            };
            self.check_dependency(common, &format!("its parameter `{name}`"), dependency, &help);
        }
        for argument in &*common.arguments {
            if let Some(function) = argument.complete {
                let provided = [TypeId::of::<str>(), TypeId::of::<EarlierArguments>()];
                self.check_server_fn(common, function, &provided);
            }
        }
        let contract = match contract {
            Ok(contract) => contract,
            Err(error) => {
                self.problems.push(format!("the schema of {} is invalid: {error}", common.describe()));
                return None;
            }
        };
        if kind == EntryKind::Prompt {
            self.check_prompt_arguments(common, &contract);
        }
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Some(Function {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            uses_context: uses_context(common.dependencies),
            scopes: self.selection.scopes.of(common, &common.info(kind, &name)),
            contract,
            schemas: self.schemas,
            #[cfg(feature = "ui")]
            is_app_only: crate::ui::ToolUi::of(&common.meta).is_ok_and(|ui| ui.is_app_only()),
            encoded: OnceLock::new(),
            output: OnceLock::new(),
            name,
            entry,
        })
    }

    /// Reports arguments of prompts that are objects or lists: the protocol has strings only.
    fn check_prompt_arguments(&mut self, common: &CommonEntry, contract: &Contract) {
        for argument in &*contract.arguments {
            let schema = contract.schema();
            if let Some(found) = structure(&schema["properties"][&*argument.name], schema) {
                self.problems.push(format!(
                    "the argument `{}` of the prompt {} is {found}, but arguments of prompts are strings\n\
                     help: take text, a number, a `bool` or an enum without data",
                    argument.name,
                    common.describe()
                ));
            }
        }
    }

    /// Checks that the server has the state that a server function needs. A request provides the types in `provided`.
    fn check_server_fn(&mut self, common: &CommonEntry, function: ServerFnEntry, provided: &[TypeId]) {
        let mut dependencies = Vec::new();
        (function.dependencies)(&mut dependencies);
        for dependency in dependencies.iter().filter(|dependency| !provided.contains(&(dependency.type_id)())) {
            let user = format!("its function `{}`", function.function);
            self.check_dependency(common, &user, dependency, "add `.with_state(…)`");
        }
    }

    /// Checks that the server has the state that a dependency refers to. `user` is the parameter or function that needs
    /// it, and `help` says how to provide it.
    fn check_dependency(&mut self, common: &CommonEntry, user: &str, dependency: &Dependency, help: &str) {
        let type_id = (dependency.type_id)();
        if type_id == TypeId::of::<Context>() || self.selection.states.contains(type_id) {
            return;
        }
        let wanted = (dependency.type_name)();
        let names = self.selection.states.type_names();
        let arc = "alloc::sync::Arc<";
        let shared =
            names.iter().find(|name| name.strip_prefix(arc).and_then(|name| name.strip_suffix('>')) == Some(wanted));
        let inner = wanted.strip_prefix(arc).and_then(|name| name.strip_suffix('>'));
        let help = match (shared, inner.filter(|inner| names.contains(inner))) {
            (Some(shared), _) => format!("add the `{shared}` with `.with_shared(…)` instead of `.with_state(…)`"),
            (None, Some(inner)) => format!("take `&{inner}`: functions take shared state without its `Arc`"),
            (None, None) => help.to_owned(),
        };
        let available = match names.as_slice() {
            [] => "no state".to_owned(),
            names => {
                format!("only {}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
            }
        };
        let source = common.describe();
        self.problems
            .push(format!("{source} needs `&{wanted}` for {user}, but the server has {available}\nhelp: {help}"));
    }

    /// Reports functions with the same key, and the remedy. `relation` relates a function
    /// to its key.
    pub(super) fn check_unique(&mut self, kind: &str, relation: &str, remedy: &str, table: &Table) {
        if !table.has_duplicates() {
            return;
        }
        let sorted = table.sorted();
        for ((first, _), (second, _)) in sorted.iter().zip(sorted.iter().skip(1)) {
            if first.key() == second.key() {
                let (key, first, second) = (first.key(), source_of(first), source_of(second));
                self.problems.push(format!("two {kind} {relation} `{key}`: {first} and {second}\nhelp: {remedy}"));
            }
        }
    }

    /// Reports templates that differ only in the names of their variables. The second could never match.
    pub(super) fn check_templates(&mut self, templates: &Table) {
        let mut shapes: HashMap<_, &Function> = HashMap::new();
        for (template, _) in templates.sorted() {
            let other = *shapes.entry(shape(template.template())).or_insert(template);
            if other.key() != template.key() {
                let (first, second) = (source_of(other), source_of(template));
                self.problems.push(format!(
                    "the templates `{}` of {first} and `{}` of {second} match the same URIs",
                    other.key(),
                    template.key()
                ));
            }
        }
    }

    /// Reports annotated tools whose page is not registered. The tools of upstream servers may have pages that are not.
    #[cfg(feature = "ui")]
    pub(super) fn check_pages(&mut self, tools: &Table, resources: [&Table; 2]) {
        for (tool, _) in tools.all().filter(|(tool, _)| !tool.common().source.function.is_empty()) {
            let Ok(crate::ui::ToolUi { resource_uri: Some(uri), .. }) = crate::ui::ToolUi::of(&tool.common().meta)
            else {
                continue;
            };
            if !resources.iter().any(|table| table.all().any(|(page, _)| page.is_page() && **page.key() == uri)) {
                self.problems.push(format!(
                    "{} has the page `{uri}`, which is not registered\nhelp: add its function with `Server::with`",
                    source_of(tool)
                ));
            }
        }
    }

    /// Reports resources whose URI is also the URI of a file or directory of a skill.
    pub(super) fn check_skills(&mut self, resources: &Table, skills: &Skills) {
        if !skills.is_served() {
            return;
        }
        let is_taken = |(found, _): &&(Arc<Function>, bool)| skills.node(found.key(), |_| true).is_some();
        for (found, _) in resources.sorted().into_iter().filter(is_taken) {
            self.problems.push(format!(
                "{} and a file of a skill have the same URI `{}`",
                source_of(found),
                found.key()
            ));
        }
    }
}

fn is_optional(entry: &Entry) -> bool {
    entry.common().handler.closures().is_some_and(|closures| closures.is_optional)
}

/// Removes optional functions whose name, URI or shape of a template belongs to another function.
fn leave_out_taken<'a>(
    functions: &mut Vec<Arc<Function>>,
    others: impl Iterator<Item = &'a Function>,
    skills: &Skills,
) {
    if !functions.iter().any(|function| is_optional(&function.entry)) {
        return;
    }
    let key = |function: &Function| match function.template() {
        Some(template) => (function.kind(), shape(Some(template))),
        None => (function.kind(), vec![function.key().clone().into_owned()]),
    };
    let mut taken: HashSet<_> = others.map(key).collect();
    taken.extend(functions.iter().filter(|function| !is_optional(&function.entry)).map(|function| key(function)));
    functions.retain(|function| {
        let is_kept = !is_optional(&function.entry)
            || skills.node(function.key(), |_| true).is_none() && taken.insert(key(function));
        if !is_kept {
            tracing::warn!(
                entry = source_of(function),
                key = &**function.key(),
                "an optional entry is left out: it exists"
            );
        }
        is_kept
    });
}

fn source_of(function: &Function) -> String {
    function.common().describe()
}

/// Returns a template without the names of its variables, except where they are part of the URI.
fn shape(template: Option<&[Part]>) -> Vec<String> {
    let parts = template.unwrap_or_default().iter();
    parts
        .map(|part| match part {
            Part::Literal(text) => text.clone().into_owned(),
            Part::Expression { operator, variables } if operator.is_named() => format!("{operator:?}{variables:?}"),
            Part::Expression { operator, variables } => format!("{operator:?}{}", variables.len()),
        })
        .collect()
}

/// Compiles the contracts that cannot wait until they are needed, and returns them with the indices of their entries.
/// `checks_all` compiles the others as well, and discards the result, so that tests of debug builds run the code that
/// compiles them later.
///
/// Compiling takes the most time, so several threads compile if there are many entries.
fn compiled(entries: &[Entry], checks_all: bool) -> Vec<(usize, Result<Contract, SchemaError>)> {
    let compile = |(index, entry): &(usize, &Entry)| {
        let contract = Contract::new(entry);
        let compiled = contract.compile();
        (*index, compiled.map(|()| if is_compiled_early(entry) { contract } else { Contract::new(entry) }))
    };
    let due = entries.iter().enumerate().filter(|(_, entry)| checks_all || is_compiled_early(entry));
    let entries: Vec<_> = due.collect();
    let max_threads = entries.len() / MIN_PER_THREAD;
    // Asking for the number of cores takes longer than compiling a few contracts.
    let threads =
        if max_threads < 2 { 1 } else { thread::available_parallelism().map_or(1, usize::from).min(max_threads) };
    if threads < 2 {
        return entries.iter().map(compile).collect();
    }
    thread::scope(|scope| {
        let shares = entries.chunks(entries.len().div_ceil(threads));
        let workers: Vec<_> =
            shares.map(|share| scope.spawn(move || share.iter().map(compile).collect::<Vec<_>>())).collect();
        let compiled = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        compiled.flatten().collect()
    })
}

/// Returns whether the schema of an entry is always compiled when it is registered: because a program created it, so that
/// building the program has not checked it, or because the capabilities of the server depend on the permitted values of
/// arguments, which completions offer.
fn is_compiled_early(entry: &Entry) -> bool {
    let CommonEntry { arguments, schema, .. } = entry.common();
    schema.is_some() || entry.kind() != EntryKind::Tool && !arguments.is_empty()
}

/// Returns `an object` or `a list` if no other value matches a schema. `root` contains the definitions.
fn structure(schema: &Value, root: &Value) -> Option<&'static str> {
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => return Some("an object"),
        Some("array") => return Some("a list"),
        Some(_) => return None,
        None => {}
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return structure(root.pointer(reference.strip_prefix('#')?)?, root);
    }
    let branches = ["anyOf", "oneOf"].iter().find_map(|keyword| schema.get(*keyword)?.as_array())?;
    let found: Option<Vec<_>> = branches.iter().map(|branch| structure(branch, root)).collect();
    found?.first().copied()
}
