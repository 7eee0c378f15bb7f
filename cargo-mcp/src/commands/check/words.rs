//! What people and models read: descriptions, names and hints.

use std::collections::BTreeMap;

use mcp_lock::Listing;
use serde_json::Value;

use super::{
    codes,
    finding::{Entry, Findings},
};

/// What the OpenAI API took for a tool.
const REFUSED: usize = 1024;
/// What Claude Code cuts.
const CUT: usize = 2048;

/// Looks at everything that is described.
pub(crate) fn descriptions(findings: &mut Findings, listing: &Listing) {
    let mut tools: BTreeMap<&str, &str> = BTreeMap::new();
    for tool in &listing.tools {
        let entry = Entry::of("tool", tool);
        described(findings, &entry, "it", tool);
        arguments(findings, &entry, "", &tool["inputSchema"]);
        let description = text(tool, "description");
        if let Some(other) = tools.get(description).filter(|_| !description.is_empty()) {
            findings.add(codes::SAME_DESCRIPTION, &entry, format!("it has the description of `{other}`"));
        }
        tools.insert(description, text(tool, "name"));
        let length = description.chars().count();
        if length > REFUSED {
            findings.add(codes::LONG_DESCRIPTION, &entry, format!("the description has {length} characters"));
        }
    }
    for template in &listing.resource_templates {
        described(findings, &Entry::of("resource template", template), "it", template);
    }
    for resource in listing.resources.iter().filter(|resource| !is_data(listing, resource)) {
        described(findings, &Entry::of("resource", resource), "it", resource);
    }
    for prompt in &listing.prompts {
        let entry = Entry::of("prompt", prompt);
        described(findings, &entry, "it", prompt);
        for argument in prompt["arguments"].as_array().into_iter().flatten() {
            described(findings, &entry, &format!("the argument `{}`", text(argument, "name")), argument);
        }
    }
    let length = listing.instructions.as_ref().map_or(0, |instructions| instructions.chars().count());
    if length > CUT {
        findings.add(codes::LONG_DESCRIPTION, &Entry::server(), format!("the instructions have {length} characters"));
    }
}

/// Whether a template stands for a resource, and describes it.
fn is_data(listing: &Listing, resource: &Value) -> bool {
    let templates = listing.resource_templates.iter().filter_map(|template| template["uriTemplate"].as_str());
    let uri = text(resource, "uri");
    templates.into_iter().any(|template| mcp_lock::covers(template, uri))
}

fn described(findings: &mut Findings, entry: &Entry, what: &str, item: &Value) {
    let description = text(item, "description").trim();
    if description.is_empty() {
        findings.add(codes::MISSING_DESCRIPTION, entry, format!("{what} has no description"));
    } else if says_little(description, text(item, "name")) {
        findings.add(codes::SHORT_DESCRIPTION, entry, format!("{what} is described as {description:?}"));
    }
}

/// Arguments, those within arguments included.
fn arguments(findings: &mut Findings, entry: &Entry, around: &str, schema: &Value) {
    for (name, argument) in schema["properties"].as_object().into_iter().flatten() {
        let path = if around.is_empty() { name.clone() } else { format!("{around}.{name}") };
        let description = text(argument, "description").trim();
        let refers = argument.get("$ref").is_some();
        if description.is_empty() && !refers {
            findings.add(codes::MISSING_DESCRIPTION, entry, format!("the argument `{path}` has no description"));
        } else if !refers && words(description) == words(name) {
            let message = format!("the argument `{path}` is described as {description:?}");
            findings.add(codes::SHORT_DESCRIPTION, entry, message);
        }
        arguments(findings, entry, &path, argument);
        arguments(findings, entry, &format!("{path}[]"), &argument["items"]);
    }
}

fn says_little(description: &str, name: &str) -> bool {
    let said = words(description);
    said.len() < 2 || said == words(name)
}

/// The words of a text or of a name, `camelCase` or not.
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

/// Looks at the names of all entries, with the prefix that clients put before a tool's.
pub(crate) fn names(findings: &mut Findings, listing: &Listing, server: &str) {
    let lists = [
        ("tool", &listing.tools),
        ("resource", &listing.resources),
        ("resource template", &listing.resource_templates),
        ("prompt", &listing.prompts),
    ];
    for (kind, items) in lists {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for item in items {
            let entry = Entry::of(kind, item);
            let count = seen.entry(entry.name.clone()).or_default();
            *count += 1;
            if *count == 2 {
                findings.add(codes::DUPLICATE_NAME, &entry, "it is listed more than once");
            }
        }
    }
    let mut folded: BTreeMap<String, &str> = BTreeMap::new();
    for tool in &listing.tools {
        let (entry, name) = (Entry::of("tool", tool), text(tool, "name"));
        tool_name(findings, &entry, name, server);
        let key = name.to_lowercase().replace(['.', '-'], "_");
        match folded.get(&key).filter(|other| **other != name) {
            Some(other) => findings.add(codes::NAME_CLASH, &entry, format!("its name differs little from `{other}`")),
            None => drop(folded.insert(key, name)),
        }
    }
}

fn tool_name(findings: &mut Findings, entry: &Entry, name: &str, server: &str) {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if name.is_empty() || name.len() > 128 || !name.bytes().all(is_fine) {
        let why = match name.bytes().all(is_fine) {
            true => format!("its name has {} characters", name.len()),
            false => "its name has other characters than A-Z, a-z, 0-9, `_`, `-` and `.`".to_owned(),
        };
        return findings.add(codes::BAD_NAME, entry, why);
    }
    if name.contains('.') {
        findings.add(codes::DOTTED_NAME, entry, "its name has a dot");
    }
    if !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        findings.add(codes::NAME_START, entry, "its name begins with neither a letter nor an underscore");
    }
    let prefixed = format!("mcp__{server}__{name}");
    if prefixed.len() > 64 {
        findings.add(codes::LONG_NAME, entry, format!("`{prefixed}` has {} characters, more than 64", prefixed.len()));
    }
}

/// Looks whether hints fit each other, and the name.
pub(crate) fn hints(findings: &mut Findings, listing: &Listing) {
    for tool in &listing.tools {
        let entry = Entry::of("tool", tool);
        let hint = |name: &str| tool["annotations"][name].as_bool();
        let (reads, destroys) = (hint("readOnlyHint"), hint("destructiveHint"));
        let others = hint("idempotentHint").or(hint("openWorldHint"));
        if reads.or(destroys).or(others).is_none() {
            findings.add(codes::NO_HINTS, &entry, "it has none of the hints");
        }
        if reads == Some(true) && destroys == Some(true) {
            let message = "`readOnlyHint` and `destructiveHint` are both true";
            findings.add(codes::CONTRADICTORY_HINTS, &entry, message);
        }
        if reads == Some(true) && hint("idempotentHint").is_some() {
            findings.add(codes::IDLE_HINT, &entry, "`idempotentHint` says nothing of a tool that only reads");
        }
        let verb = words(text(tool, "name")).into_iter().next().unwrap_or_default();
        let against = match verb.as_str() {
            verb if reads == Some(true) && (DESTROYS.contains(&verb) || WRITES.contains(&verb)) => {
                "`readOnlyHint` is true"
            }
            verb if destroys == Some(true) && READS.contains(&verb) => "`destructiveHint` is true",
            verb if destroys == Some(false) && DESTROYS.contains(&verb) => "`destructiveHint` is false",
            _ => continue,
        };
        findings.add(codes::NAME_AGAINST_HINTS, &entry, format!("{against}, and its name says {verb:?}"));
    }
}

const READS: [&str; 8] = ["get", "list", "read", "search", "find", "show", "count", "describe"];
const DESTROYS: [&str; 7] = ["delete", "remove", "drop", "destroy", "erase", "purge", "truncate"];
const WRITES: [&str; 9] = ["add", "create", "update", "write", "set", "insert", "send", "rename", "move"];

fn text<'a>(item: &'a Value, member: &str) -> &'a str {
    item[member].as_str().unwrap_or_default()
}
