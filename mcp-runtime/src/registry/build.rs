//! Turns the entries that macros emit into registered entries, and reports every problem with them.

use std::{
    any::TypeId,
    borrow::Cow,
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
        Context, Contract, Dependency, EarlierArguments, Function, MirroredArgument, SchemaProfile, StateMap,
        entry::{
            ArgumentDefault, ArgumentEntry, Bound, CommonEntry, Entry, EntryKind, EntryScopes, OutputType, Part, Rule,
            ServerFnEntry,
        },
        schema::{self, Checker, HEADER, Keyword, Property, SchemaError},
        uses_context,
    },
};

/// The minimum number of contracts per thread, below which starting a thread takes longer than it saves.
const MIN_PER_THREAD: usize = 100;

/// A builder that registers entries and collects the problems with them.
pub(super) struct Builder<'a> {
    names: &'a Names,
    scopes: &'a ScopeRules,
    states: &'a StateMap,
    schemas: SchemaProfile,
    problems: Vec<String>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(names: &'a Names, scopes: &'a ScopeRules, states: &'a StateMap, schemas: SchemaProfile) -> Self {
        Self { names, scopes, states, schemas, problems: Vec::new() }
    }

    /// Registers entries beside other functions and skills. Entries with problems are left out, and optional entries
    /// whose key is taken.
    pub(super) fn register<'b>(
        &mut self,
        entries: Vec<Entry>,
        others: impl Iterator<Item = &'b Function>,
        skills: &Skills,
    ) -> Vec<Arc<Function>> {
        let mut functions = Vec::new();
        for (entry, contract) in contracts(entries) {
            let (is_optional, count) = (is_optional(&entry), self.problems.len());
            let function = self.function(entry, contract);
            if is_optional && self.problems.len() > count {
                for problem in self.problems.drain(count..) {
                    tracing::warn!(%problem, "an optional entry is left out");
                }
                continue;
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
        let name = self.names.name_of(&entry).unwrap_or_else(|problem| {
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
        let with_headers = contract.and_then(|contract| {
            let headers = if kind == EntryKind::Tool { headers(&contract.schema)? } else { Vec::new() };
            Ok((contract, headers))
        });
        let (contract, headers) = match with_headers {
            Ok(compiled) => compiled,
            Err(error) => {
                self.problems.push(format!("the schema of {} is invalid: {error}", common.describe()));
                return None;
            }
        };
        if kind == EntryKind::Prompt {
            self.check_prompt_arguments(common, &contract);
        }
        let arguments = common.arguments.iter();
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Some(Function {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            uses_context: uses_context(common.dependencies),
            scopes: self.scopes.of(common, &common.info(kind, &name)),
            choices: arguments.map(|argument| choices(&contract.schema, &argument.name).into()).collect(),
            contract: match &entry {
                Entry::Tool(entry) => contract.with_output(entry.output.clone()),
                Entry::Resource(entry) => contract.with_mime_type(entry.mime_type.clone()),
                Entry::Prompt(_) | Entry::Method(_) => contract,
            },
            schemas: self.schemas,
            headers,
            #[cfg(feature = "ui")]
            is_app_only: crate::ui::ToolUi::of(&common.meta).is_ok_and(|ui| ui.is_app_only()),
            encoded: std::array::from_fn(|_| OnceLock::new()),
            name,
            entry,
        })
    }

    /// Reports arguments of prompts that are objects or lists: the protocol has strings only.
    fn check_prompt_arguments(&mut self, common: &CommonEntry, contract: &Contract) {
        for argument in &*contract.arguments {
            let schema = &contract.schema["properties"][&*argument.name];
            if let Some(found) = structure(schema, &contract.schema) {
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
        if type_id == TypeId::of::<Context>() || self.states.contains(type_id) {
            return;
        }
        let wanted = (dependency.type_name)();
        let names = self.states.type_names();
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
        let mut last: Option<&Function> = None;
        for (entry, _) in table.all() {
            if let Some(last) = last.filter(|last| last.key() == entry.key()) {
                let (first, second) = (source_of(last), source_of(entry));
                let key = entry.key();
                self.problems.push(format!("two {kind} {relation} `{key}`: {first} and {second}\nhelp: {remedy}"));
            }
            last = Some(entry);
        }
    }

    /// Reports templates that differ only in the names of their variables. The second could never match.
    pub(super) fn check_templates(&mut self, templates: &Table) {
        let mut shapes: HashMap<_, &Function> = HashMap::new();
        for (template, _) in templates.all() {
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
    pub(super) fn check_pages(&mut self, registry: &super::Registry) {
        for (tool, _) in registry.functions() {
            if tool.kind() != EntryKind::Tool || tool.common().source.function.is_empty() {
                continue;
            }
            let Ok(crate::ui::ToolUi { resource_uri: Some(uri), .. }) = crate::ui::ToolUi::of(&tool.common().meta)
            else {
                continue;
            };
            if !registry.functions().any(|(page, _)| page.is_page() && **page.key() == uri) {
                self.problems.push(format!(
                    "{} has the page `{uri}`, which is not registered\nhelp: add its function with `Server::with`",
                    source_of(tool)
                ));
            }
        }
    }

    /// Reports resources whose URI is also the URI of a file or directory of a skill.
    pub(super) fn check_skills(&mut self, resources: &Table, skills: &Skills) {
        for (found, _) in resources.all().filter(|(found, _)| skills.node(found.key(), |_| true).is_some()) {
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

/// Compiles the contracts of all entries. This is most of the work of starting a server, so it uses several threads if
/// there are many entries.
fn contracts(entries: Vec<Entry>) -> Vec<(Entry, Result<Contract, SchemaError>)> {
    let compile = |entry: &Entry| {
        let CommonEntry { arguments, schema, .. } = entry.common();
        (entry.clone(), contract(arguments.clone(), schema.as_ref()))
    };
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

/// Returns the permitted values of an argument. Empty if its schema does not list them.
fn choices(schema: &Value, name: &str) -> Vec<String> {
    let property = &schema["properties"][name];
    if property["type"] == "boolean" {
        return vec!["false".to_owned(), "true".to_owned()];
    }
    let values = property["enum"].as_array().into_iter().flatten();
    values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

/// Compiles the contract of a function with these arguments, whose schema is `schema` if it does not follow from them.
///
/// # Errors
///
/// Fails if a default, an example or a bound is not valid JSON, or if the schema is invalid.
pub(crate) fn contract(
    arguments: Cow<'static, [ArgumentEntry]>,
    schema: Option<&Value>,
) -> Result<Contract, SchemaError> {
    let mut generator = schema::generator();
    if let Some(schema) = schema {
        if !schema::is_object(schema) {
            return Err(SchemaError::new("its `type` is not `object`"));
        }
        let schema = schema::whole_input(schema.clone(), generator)?;
        return Contract::new(arguments, schema, true);
    }
    if let [argument] = &*arguments
        && argument.flattened
    {
        let schema = (argument.ty.schema)(&mut generator).to_value();
        let schema = schema::whole_input(schema, generator)?;
        let is_checked = !argument.ty.enforces_schema;
        return Contract::new(arguments, schema, is_checked);
    }
    let mut properties = Vec::with_capacity(arguments.len());
    for argument in &*arguments {
        if (argument.ty.has_structured_keys)() {
            return Err(SchemaError::new(format!(
                "argument `{}`: the keys of a JSON object are strings, but those of this map are structs or lists\n\
                 help: take a list of pairs, as `Vec<(K, V)>`",
                argument.name
            )));
        }
        let default = match argument.default {
            None => None,
            Some(ArgumentDefault::Json(json)) => Some(serde_json::from_str(json)),
            Some(ArgumentDefault::Expression(serialize)) => Some(serialize()),
        };
        let default = default
            .transpose()
            .map_err(|error| SchemaError::new(format!("the default of `{}`: {error}", argument.name)))?;
        properties.push(Property {
            name: &argument.name,
            description: &argument.description,
            schema: (argument.ty.schema)(&mut generator).to_value(),
            required: default.is_none() && !(argument.ty.optional)(),
            default,
            keywords: argument.rules.iter().map(keyword).collect::<Result<_, _>>()?,
        });
    }
    let schema = schema::input(properties, generator)?;
    let is_checked =
        |argument: &ArgumentEntry| !argument.ty.enforces_schema || argument.rules.iter().any(Rule::is_constraint);
    let is_checked = arguments.iter().any(is_checked);
    Contract::new(arguments, schema, is_checked)
}

fn keyword(rule: &Rule) -> Result<Keyword, SchemaError> {
    Ok(match *rule {
        Rule::Minimum(bound) => Keyword::Minimum(number(bound)?),
        Rule::Maximum(bound) => Keyword::Maximum(number(bound)?),
        Rule::ExclusiveMinimum(bound) => Keyword::ExclusiveMinimum(number(bound)?),
        Rule::ExclusiveMaximum(bound) => Keyword::ExclusiveMaximum(number(bound)?),
        Rule::MinLength(length) => Keyword::MinLength(length),
        Rule::MaxLength(length) => Keyword::MaxLength(length),
        Rule::Pattern(pattern) => Keyword::Pattern(pattern),
        Rule::Format(format) => Keyword::Format(format),
        Rule::Header(header) => Keyword::Extension(HEADER, header.into()),
        Rule::Examples(examples) => {
            let parsed: Result<Vec<_>, _> = examples.iter().map(|json| serde_json::from_str(json)).collect();
            Keyword::Examples(parsed.map_err(|error| SchemaError::new(format!("an example: {error}")))?)
        }
    })
}

fn number(bound: Bound) -> Result<serde_json::Number, SchemaError> {
    match bound {
        Bound::Integer(integer) => serde_json::Number::from_i128(integer),
        Bound::Float(float) => serde_json::Number::from_f64(float),
    }
    .ok_or_else(|| SchemaError::new(format!("the bound {bound:?} is not a JSON number")))
}

/// Returns the arguments that HTTP clients repeat in headers.
///
/// # Errors
///
/// Fails if an `x-mcp-header` breaks a rule of the specification.
///
/// See [x-mcp-header](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header).
pub(crate) fn headers(schema: &Value) -> Result<Vec<MirroredArgument>, SchemaError> {
    let mut found = Vec::new();
    find_headers(schema, &mut Vec::new(), &mut found)?;
    if count_headers(schema) > found.len() {
        return Err(SchemaError::new("an `x-mcp-header` is not reachable through `properties` alone"));
    }
    let mut names: Vec<String> = found.iter().map(|header| header.name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(SchemaError::new(format!("two arguments use the header `{}`", pair[0]))),
        None => Ok(found),
    }
}

fn find_headers(schema: &Value, path: &mut Vec<String>, found: &mut Vec<MirroredArgument>) -> Result<(), SchemaError> {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        if let Some(header) = property.get(HEADER) {
            let header = header.as_str().unwrap_or_default();
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if header.is_empty() || !header.bytes().all(token) {
                return Err(SchemaError::new(format!(
                    "the header {header:?} of `{}` is not an HTTP token",
                    path.join(".")
                )));
            }
            if !matches!(property["type"].as_str(), Some("string" | "integer" | "boolean")) {
                return Err(SchemaError::new(format!(
                    "`{}` has a header, but is not a string, integer or boolean",
                    path.join(".")
                )));
            }
            found.push(MirroredArgument { name: header.to_owned(), path: path.clone() });
        }
        find_headers(property, path, found)?;
        path.pop();
    }
    Ok(())
}

/// Counts the header annotations anywhere in a schema.
fn count_headers(schema: &Value) -> usize {
    match schema {
        Value::Object(members) => {
            usize::from(members.get(HEADER).is_some_and(Value::is_string))
                + members.values().map(count_headers).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(count_headers).sum(),
        _ => 0,
    }
}
