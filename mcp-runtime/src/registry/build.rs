//! Makes items of entries, and says everything that is wrong with them.

use std::{
    any::TypeId,
    collections::HashMap,
    panic::resume_unwind,
    sync::{Arc, OnceLock},
    thread,
};

use serde_json::Value;

use super::{Item, MirroredArgument, Prompt, Registry, Resource, Tool, stock::Piece};
use crate::{
    error::BuildError,
    handler::{
        Context, Contract, Dependency, EarlierArguments, StateMap,
        entry::{
            ArgumentDefault, ArgumentEntry, Bound, CommonEntry, Entry, EntryKind, Part, Rule, ServerFnEntry,
            SourceLocation,
        },
        schema::{self, Keyword, Property},
    },
};

/// As many contracts as take longer to compile than a thread takes to start.
const WORTH_A_THREAD: usize = 100;

/// Which entries a server takes, and what it has for them.
pub(crate) struct Selection<'a> {
    pub(crate) entries: Vec<Entry>,
    pub(crate) states: &'a StateMap,
}

/// Says whether a server function takes the context.
pub(super) fn uses_context_by(function: &ServerFnEntry) -> bool {
    let mut needs = Vec::new();
    (function.dependencies)(&mut needs);
    uses_context(&needs)
}

fn uses_context(needs: &[Dependency]) -> bool {
    needs.iter().any(|need| (need.type_id)() == TypeId::of::<Context>())
}

/// Collects what is wrong.
pub(super) struct Builder<'a> {
    states: &'a StateMap,
    problems: Vec<String>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(states: &'a StateMap) -> Self {
        Self { states, problems: Vec::new() }
    }

    /// Makes the items of entries, but for those that have none.
    pub(super) fn pieces(&mut self, entries: Vec<Entry>) -> Vec<Piece> {
        let contracts = contracts(entries);
        contracts.into_iter().filter_map(|(entry, contract)| self.piece(entry, contract)).collect()
    }

    /// Checks what concerns several items.
    pub(super) fn check(&mut self, all: &Registry) {
        self.check_unique("tools", "named", all.tools.iter().map(|tool| (tool.entry.common.name, &tool.item)));
        self.check_unique(
            "prompts",
            "named",
            all.prompts.iter().map(|prompt| (prompt.entry.common.name, &prompt.item)),
        );
        for (kind, found) in [("resources", &all.resources), ("resource templates", &all.templates)] {
            self.check_unique(kind, "at", found.iter().map(|found| (found.entry.uri, &found.item)));
        }
        self.check_templates(&all.templates);
        self.check_skills(all);
    }

    /// Ends with everything that is wrong, if anything is.
    pub(super) fn finish(self) -> Result<(), BuildError> {
        if self.problems.is_empty() { Ok(()) } else { Err(BuildError::new(self.problems)) }
    }

    fn piece(&mut self, entry: Entry, contract: Result<Contract, String>) -> Option<Piece> {
        let kind = entry.kind();
        match entry {
            Entry::Tool(entry) => {
                let contract = contract.map(|contract| contract.with_output(entry.output));
                let item = self.item(kind, &entry.common, contract, None)?;
                match headers(&item.contract.schema) {
                    Ok(headers) => Some(Piece::Tool(Arc::new(Tool { entry, item, headers }))),
                    Err(why) => self.refuse_schema(&entry.common, &why),
                }
            }
            Entry::Prompt(entry) => {
                let item = self.item(kind, &entry.common, contract, None)?;
                Some(Piece::Prompt(Arc::new(Prompt { entry, item })))
            }
            Entry::Resource(entry) => {
                if let Some(list) = &entry.list {
                    self.check_server_fn(&entry.common, list, &[]);
                }
                let item = self.item(kind, &entry.common, contract, entry.mime_type)?;
                Some(Piece::Resource(Arc::new(Resource { entry, item })))
            }
        }
    }

    fn item(
        &mut self,
        kind: EntryKind,
        common: &'static CommonEntry,
        contract: Result<Contract, String>,
        mime_type: Option<&'static str>,
    ) -> Option<Item> {
        for need in common.dependencies {
            self.check_need(&common.source, &format!("its parameter `{}`", need.parameter), need);
        }
        for argument in common.arguments {
            if let Some(function) = &argument.complete {
                let given = [TypeId::of::<str>(), TypeId::of::<EarlierArguments>()];
                self.check_server_fn(common, function, &given);
            }
        }
        let contract = match contract {
            Ok(contract) => Arc::new(contract.with_mime_type(mime_type)),
            Err(why) => return self.refuse_schema(common, &why),
        };
        let choices = common.arguments.iter().map(|argument| choices(&contract.schema, argument.name)).collect();
        let uses_context = uses_context(common.dependencies);
        Some(Item { kind, common, contract, uses_context, choices, spelled: std::array::from_fn(|_| OnceLock::new()) })
    }

    fn refuse_schema<T>(&mut self, common: &CommonEntry, why: &str) -> Option<T> {
        self.problems.push(format!("the schema of {} is invalid: {why}", describe(&common.source)));
        None
    }

    /// Checks what a function takes, but for what a request gives it.
    fn check_server_fn(&mut self, common: &CommonEntry, function: &ServerFnEntry, given: &[TypeId]) {
        let mut needs = Vec::new();
        (function.dependencies)(&mut needs);
        for need in &needs {
            if !given.contains(&(need.type_id)()) {
                self.check_need(&common.source, &format!("its function `{}`", function.function), need);
            }
        }
    }

    fn check_need(&mut self, source: &SourceLocation, of: &str, need: &Dependency) {
        let type_id = (need.type_id)();
        if type_id == TypeId::of::<Context>() || self.states.contains(type_id) {
            return;
        }
        let wanted = (need.type_name)();
        let given = match self.states.type_names().as_slice() {
            [] => "it was given no state".to_owned(),
            names => format!(
                "it was only given {}",
                names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ),
        };
        let source = describe(source);
        self.problems.push(format!(
            "{source} needs `&{wanted}` for {of}, but the server has none: add `.with_state(…)` ({given})"
        ));
    }

    /// Refuses resources whose URI a file of a skill has.
    fn check_skills(&mut self, all: &Registry) {
        for found in &all.resources {
            if all.skills.node(found.entry.uri, |_| true).is_some() {
                let source = describe(&found.item.common.source);
                self.problems.push(format!("{source} is at `{}`, and so is a part of a skill", found.entry.uri));
            }
        }
    }

    /// Refuses templates that differ in the names of their variables only: the second would never be reached.
    fn check_templates(&mut self, templates: &[Arc<Resource>]) {
        let mut shapes: HashMap<_, &Resource> = HashMap::new();
        for template in templates {
            let other = *shapes.entry(shape(template.entry.template)).or_insert(template);
            if other.entry.uri != template.entry.uri {
                let (first, second) = (describe(&other.item.common.source), describe(&template.item.common.source));
                self.problems.push(format!(
                    "the templates `{}` of {first} and `{}` of {second} match the same URIs",
                    other.entry.uri, template.entry.uri
                ));
            }
        }
    }

    fn check_unique<'i>(&mut self, kind: &str, how: &str, sorted: impl Iterator<Item = (&'static str, &'i Item)>) {
        let mut last: Option<(&str, &Item)> = None;
        for (name, item) in sorted {
            if let Some((_, first)) = last.filter(|(last, _)| *last == name) {
                let (first, second) = (describe(&first.common.source), describe(&item.common.source));
                self.problems.push(format!("two {kind} are {how} `{name}`: {first} and {second}"));
            }
            last = Some((name, item));
        }
    }
}

/// A template without the names of its variables, unless they are part of the URI.
fn shape(template: Option<&[Part]>) -> Vec<String> {
    let parts = template.unwrap_or_default().iter();
    parts
        .map(|part| match part {
            Part::Literal(text) => (*text).to_owned(),
            Part::Expression { operator, variables } if operator.is_named() => format!("{operator:?}{variables:?}"),
            Part::Expression { operator, variables } => format!("{operator:?}{}", variables.len()),
        })
        .collect()
}

/// Names a function and where it stands.
fn describe(source: &SourceLocation) -> String {
    format!("`{}` ({}:{}, crate `{}`)", source.function, source.file, source.line, source.package)
}

/// Compiles the contracts of all entries, which is most of the work of a start: of many of them on several threads.
fn contracts(entries: Vec<Entry>) -> Vec<(Entry, Result<Contract, String>)> {
    let compile = |entry: &Entry| (*entry, contract(entry.common().arguments));
    let most = entries.len() / WORTH_A_THREAD;
    // To find out how many cores there are takes longer than to compile a few contracts.
    let threads = if most < 2 { 1 } else { thread::available_parallelism().map_or(1, usize::from).min(most) };
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

/// Compiles what the caller of a function must keep to.
pub(crate) fn contract(arguments: &'static [ArgumentEntry]) -> Result<Contract, String> {
    let mut generator = schema::generator();
    if let [argument] = arguments
        && argument.flattened
    {
        let schema = (argument.of.schema)(&mut generator).to_value();
        let input = schema::whole_input(schema, generator)?;
        return Contract::new(arguments, input.schema, !input.implied);
    }
    let mut properties = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let default = match argument.default {
            None => None,
            Some(ArgumentDefault::Json(json)) => Some(serde_json::from_str(json)),
            Some(ArgumentDefault::Expression(serialize)) => Some(serialize()),
        };
        let default = default.transpose().map_err(|why| format!("the default of `{}`: {why}", argument.name))?;
        properties.push(Property {
            name: argument.name,
            description: argument.description,
            schema: (argument.of.schema)(&mut generator).to_value(),
            required: default.is_none() && !(argument.of.optional)(),
            default,
            keywords: argument.rules.iter().map(keyword).collect::<Result<_, _>>()?,
        });
    }
    let input = schema::input(properties, generator)?;
    Contract::new(arguments, input.schema, !input.implied)
}

fn keyword(rule: &Rule) -> Result<Keyword, String> {
    Ok(match *rule {
        Rule::Minimum(bound) => Keyword::Minimum(number(bound)?),
        Rule::Maximum(bound) => Keyword::Maximum(number(bound)?),
        Rule::ExclusiveMinimum(bound) => Keyword::ExclusiveMinimum(number(bound)?),
        Rule::ExclusiveMaximum(bound) => Keyword::ExclusiveMaximum(number(bound)?),
        Rule::MinLength(length) => Keyword::MinLength(length),
        Rule::MaxLength(length) => Keyword::MaxLength(length),
        Rule::Pattern(pattern) => Keyword::Pattern(pattern),
        Rule::Format(format) => Keyword::Format(format),
        Rule::Header(header) => Keyword::Header(header),
        Rule::Examples(examples) => {
            let parsed: Result<Vec<_>, _> = examples.iter().map(|json| serde_json::from_str(json)).collect();
            Keyword::Examples(parsed.map_err(|why| format!("an example: {why}"))?)
        }
    })
}

fn number(bound: Bound) -> Result<serde_json::Number, String> {
    match bound {
        Bound::Integer(integer) => serde_json::Number::from_i128(integer),
        Bound::Float(float) => serde_json::Number::from_f64(float),
    }
    .ok_or_else(|| format!("the bound {bound:?} is no JSON number"))
}

/// Finds the arguments that HTTP repeats in headers.
///
/// # Errors
///
/// A sentence that says what the specification forbids of an `x-mcp-header`.
///
/// See [x-mcp-header](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header).
fn headers(schema: &Value) -> Result<Vec<MirroredArgument>, String> {
    let mut found = Vec::new();
    find_headers(schema, &mut Vec::new(), &mut found)?;
    let everywhere = count_headers(schema);
    if everywhere > found.len() {
        return Err("an `x-mcp-header` stands where no chain of `properties` leads to".to_owned());
    }
    let mut names: Vec<String> = found.iter().map(|header| header.name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("the header `{}` is used for two arguments", pair[0])),
        None => Ok(found),
    }
}

fn find_headers(schema: &Value, path: &mut Vec<String>, found: &mut Vec<MirroredArgument>) -> Result<(), String> {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        if let Some(header) = property.get("x-mcp-header") {
            let header = header.as_str().unwrap_or_default();
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if header.is_empty() || !header.bytes().all(token) {
                return Err(format!("the header {header:?} of `{}` is no HTTP token", path.join(".")));
            }
            if !matches!(property["type"].as_str(), Some("string" | "integer" | "boolean")) {
                return Err(format!("`{}` has a header, but is no string, integer or boolean", path.join(".")));
            }
            found.push(MirroredArgument { name: header.to_owned(), path: path.clone() });
        }
        find_headers(property, path, found)?;
        path.pop();
    }
    Ok(())
}

/// Counts the annotations in a schema, wherever they stand.
fn count_headers(schema: &Value) -> usize {
    match schema {
        Value::Object(members) => {
            usize::from(members.get("x-mcp-header").is_some_and(Value::is_string))
                + members.values().map(count_headers).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(count_headers).sum(),
        _ => 0,
    }
}

/// The values that an argument takes, where its schema lists them.
fn choices(schema: &Value, name: &str) -> Vec<String> {
    let property = &schema["properties"][name];
    if property["type"] == "boolean" {
        return vec!["false".to_owned(), "true".to_owned()];
    }
    let values = property["enum"].as_array().into_iter().flatten();
    values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
}
