//! Checks of what users and models see: descriptions, names, hints, and how much of a model's context the tools use.

use std::collections::BTreeMap;

use mcp_runtime_lock::Listing;
use serde_json::{Value, json};

use super::codes::{self, Findings, Subject};

/// The longest tool description that the OpenAI API accepted.
const OPENAI_LIMIT: usize = 1024;
/// The length at which Claude Code truncates descriptions and instructions.
const CLAUDE_CODE_LIMIT: usize = 2048;

/// Checks the descriptions of all entries and their arguments.
pub(crate) fn descriptions(findings: &mut Findings, listing: &Listing) {
    let mut tools: BTreeMap<&str, &str> = BTreeMap::new();
    for tool in &listing.tools {
        let subject = Subject::of("tool", tool);
        check_entry(findings, &subject, tool);
        arguments(findings, &subject, "", &tool["inputSchema"]);
        let description = text(tool, "description");
        if let Some(other) = tools.get(description).filter(|_| !description.is_empty()) {
            let message = format!("the description is the same as that of `{other}`");
            findings.add(codes::SAME_DESCRIPTION, &subject, message);
        }
        tools.insert(description, text(tool, "name"));
        let length = description.chars().count();
        if length > OPENAI_LIMIT {
            findings.add(codes::LONG_DESCRIPTION, &subject, format!("the description has {length} characters"));
        }
    }
    for template in &listing.resource_templates {
        check_entry(findings, &Subject::of("resource template", template), template);
    }
    for resource in listing.resources.iter().filter(|resource| !is_data(listing, resource)) {
        check_entry(findings, &Subject::of("resource", resource), resource);
    }
    for prompt in &listing.prompts {
        let subject = Subject::of("prompt", prompt);
        check_entry(findings, &subject, prompt);
        for argument in prompt["arguments"].as_array().into_iter().flatten() {
            check_description(findings, &subject, &format!("argument `{}`", text(argument, "name")), argument);
        }
    }
    let length = listing.instructions.as_ref().map_or(0, |instructions| instructions.chars().count());
    if length > CLAUDE_CODE_LIMIT {
        findings.add_to_server(codes::LONG_DESCRIPTION, format!("the instructions have {length} characters"));
    }
}

/// Returns whether a listed template matches a resource and so describes it.
fn is_data(listing: &Listing, resource: &Value) -> bool {
    let templates = listing.resource_templates.iter().filter_map(|template| template["uriTemplate"].as_str());
    let uri = text(resource, "uri");
    templates.into_iter().any(|template| mcp_runtime_lock::covers(template, uri))
}

/// Checks the description of an entry itself.
fn check_entry(findings: &mut Findings, subject: &Subject, item: &Value) {
    check_description(findings, subject, &format!("the {}", subject.kind), item);
}

fn check_description(findings: &mut Findings, subject: &Subject, what: &str, item: &Value) {
    let description = text(item, "description").trim();
    if description.is_empty() {
        let is_tool = subject.kind == "tool";
        let code = if is_tool { codes::UNDESCRIBED_TOOL } else { codes::MISSING_DESCRIPTION };
        findings.add(code, subject, format!("{what} has no description"));
    } else if is_uninformative(description, text(item, "name")) {
        findings.add(codes::SHORT_DESCRIPTION, subject, format!("{what} is described as {description:?}"));
    }
}

/// Checks the descriptions of arguments and of their nested properties.
fn arguments(findings: &mut Findings, subject: &Subject, parent: &str, schema: &Value) {
    for (name, argument) in schema["properties"].as_object().into_iter().flatten() {
        let path = if parent.is_empty() { name.clone() } else { format!("{parent}.{name}") };
        let description = text(argument, "description").trim();
        let is_reference = argument.get("$ref").is_some();
        if description.is_empty() && !is_reference {
            findings.add(codes::MISSING_DESCRIPTION, subject, format!("argument `{path}` has no description"));
        } else if !is_reference && words(description) == words(name) {
            let message = format!("argument `{path}` is described as {description:?}");
            findings.add(codes::SHORT_DESCRIPTION, subject, message);
        }
        arguments(findings, subject, &path, argument);
        arguments(findings, subject, &format!("{path}[]"), &argument["items"]);
    }
}

fn is_uninformative(description: &str, name: &str) -> bool {
    let described = words(description);
    described.len() < 2 || described == words(name)
}

/// Splits a text or an identifier, including `camelCase`, into lower-case words.
fn words(text: &str) -> Vec<String> {
    let mut spaced = String::new();
    for letter in text.chars() {
        if letter.is_uppercase() && spaced.ends_with(char::is_lowercase) {
            spaced.push(' ');
        }
        spaced.push(letter);
    }
    let separate = |letter: char| !letter.is_alphanumeric();
    spaced.split(separate).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Returns the lists of a server, with the word for one of their entries.
pub(super) fn lists(listing: &Listing) -> [(&'static str, &[Value]); 4] {
    [
        ("tool", &listing.tools),
        ("resource", &listing.resources),
        ("resource template", &listing.resource_templates),
        ("prompt", &listing.prompts),
    ]
}

/// Checks the names of all entries, and tool names with the prefix that clients add.
pub(crate) fn names(findings: &mut Findings, listing: &Listing, server: &str) {
    for (kind, items) in lists(listing) {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for item in items {
            let subject = Subject::of(kind, item);
            let count = seen.entry(subject.name.clone()).or_default();
            *count += 1;
            if *count == 2 {
                findings.add(codes::DUPLICATE_NAME, &subject, format!("the {kind} is listed more than once"));
            }
        }
    }
    let mut folded: BTreeMap<String, &str> = BTreeMap::new();
    for tool in &listing.tools {
        let (subject, name) = (Subject::of("tool", tool), text(tool, "name"));
        tool_name(findings, &subject, name, server);
        let key = name.to_lowercase().replace(['.', '-'], "_");
        match folded.get(&key).filter(|other| **other != name) {
            Some(other) => findings.add(codes::NAME_CLASH, &subject, format!("the name is too similar to `{other}`")),
            None => drop(folded.insert(key, name)),
        }
    }
}

fn tool_name(findings: &mut Findings, subject: &Subject, name: &str, server: &str) {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if name.is_empty() || name.len() > 128 || !name.bytes().all(is_allowed) {
        let message = if name.bytes().all(is_allowed) {
            format!("the name has {} characters", name.len())
        } else {
            "the name contains characters other than A-Z, a-z, 0-9, `_`, `-` and `.`".to_owned()
        };
        return findings.add(codes::BAD_NAME, subject, message);
    }
    if name.contains('.') {
        findings.add(codes::DOTTED_NAME, subject, "the name contains a dot");
    }
    if !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        findings.add(codes::NAME_START, subject, "the name starts with neither a letter nor an underscore");
    }
    let prefixed = format!("mcp__{server}__{name}");
    if prefixed.len() > 64 {
        let message = format!("`{prefixed}` has {} characters, more than 64", prefixed.len());
        findings.add(codes::LONG_NAME, subject, message);
    }
}

/// Checks hints for contradictions with each other and with the name.
pub(crate) fn hints(findings: &mut Findings, listing: &Listing) {
    for tool in &listing.tools {
        let subject = Subject::of("tool", tool);
        let hint = |name: &str| tool["annotations"][name].as_bool();
        let (reads, destroys) = (hint("readOnlyHint"), hint("destructiveHint"));
        let others = hint("idempotentHint").or(hint("openWorldHint"));
        if reads.or(destroys).or(others).is_none() {
            findings.add(codes::NO_HINTS, &subject, "the tool has no hints");
        }
        if reads == Some(true) && destroys == Some(true) {
            let message = "`readOnlyHint` and `destructiveHint` are both true";
            findings.add(codes::CONTRADICTORY_HINTS, &subject, message);
        }
        if reads == Some(true) && hint("idempotentHint").is_some() {
            findings.add(codes::INEFFECTIVE_HINT, &subject, "`idempotentHint` has no effect on a read-only tool");
        }
        let verb = words(text(tool, "name")).into_iter().next().unwrap_or_default();
        let contradicted = match verb.as_str() {
            verb if reads == Some(true) && (DESTROYS.contains(&verb) || WRITES.contains(&verb)) => {
                "`readOnlyHint` is true"
            }
            verb if destroys == Some(true) && READS.contains(&verb) => "`destructiveHint` is true",
            verb if destroys == Some(false) && DESTROYS.contains(&verb) => "`destructiveHint` is false",
            _ => continue,
        };
        findings.add(codes::NAME_AGAINST_HINTS, &subject, format!("{contradicted}, but the name starts with `{verb}`"));
    }
}

const READS: [&str; 8] = ["get", "list", "read", "search", "find", "show", "count", "describe"];
const DESTROYS: [&str; 7] = ["delete", "remove", "drop", "destroy", "erase", "purge", "truncate"];
const WRITES: [&str; 9] = ["add", "create", "update", "write", "set", "insert", "send", "rename", "move"];

fn text<'a>(item: &'a Value, member: &str) -> &'a str {
    item[member].as_str().unwrap_or_default()
}

/// Characters per token, in tenths. Vocabularies differ, and so does the text that clients add to each tool.
const CHARACTERS_PER_TOKEN_TENTHS: usize = 35;

/// The description of the estimate in reports.
pub(crate) const TOKEN_ESTIMATE: &str =
    "one token per 3.5 characters of the name, description and input schema as compact JSON";

/// The largest number of tools that all known clients support.
const MAX_TOOLS: usize = 40;

/// The estimated size of one tool.
pub(crate) struct ToolTokens {
    pub(crate) name: String,
    pub(crate) tokens: usize,
}

/// Estimates the tokens of each tool.
pub(crate) fn estimate_tokens(listing: &Listing) -> Vec<ToolTokens> {
    let tokens = |tool: &Value| ToolTokens { name: text(tool, "name").to_owned(), tokens: tokens_of(tool) };
    listing.tools.iter().map(tokens).collect()
}

fn tokens_of(tool: &Value) -> usize {
    let shown = json!({"name": tool["name"], "description": tool["description"], "input_schema": tool["inputSchema"]});
    (shown.to_string().chars().count() * 10).div_ceil(CHARACTERS_PER_TOKEN_TENTHS)
}

/// Checks the number of tools, and their tokens against the limits of the command line.
pub(crate) fn token_budget(
    findings: &mut Findings,
    tools: &[ToolTokens],
    max_total: Option<usize>,
    max_per_tool: Option<usize>,
) {
    let total: usize = tools.iter().map(|tool| tool.tokens).sum();
    if let Some(max) = max_total.filter(|max| total > *max) {
        let message = format!("the tools use about {total} tokens, more than {max}");
        findings.add_to_server(codes::TOKEN_BUDGET, message);
    }
    for ToolTokens { name, tokens } in tools {
        if let Some(max) = max_per_tool.filter(|max| tokens > max) {
            let subject = Subject { kind: "tool", name: name.clone() };
            findings.add(codes::TOKEN_BUDGET, &subject, format!("uses about {tokens} tokens, more than {max}"));
        }
    }
    if tools.len() > MAX_TOOLS {
        let message = format!("the server lists {} tools, more than {MAX_TOOLS}", tools.len());
        findings.add_to_server(codes::TOO_MANY_TOOLS, message);
    }
}
