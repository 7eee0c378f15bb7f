//! How much of a model's context tools take: an estimate.

use mcp_lock::Listing;
use serde_json::{Value, json};

use super::{
    codes,
    finding::{Entry, Findings},
};

/// Characters a token, in tenths. Vocabularies differ, and so does what clients write around a tool.
const TENTHS_OF_CHARACTERS: usize = 35;

/// What the estimate is, for people.
pub(crate) const METHOD: &str = "a token for each 3.5 characters of name, description and input schema as compact JSON";

/// The most tools that no client complains about.
const TOOLS: usize = 40;

/// The tokens of each tool.
pub(crate) fn of_tools(listing: &Listing) -> Vec<(String, usize)> {
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    listing.tools.iter().map(|tool| (name(tool), of_tool(tool))).collect()
}

fn of_tool(tool: &Value) -> usize {
    let told = json!({"name": tool["name"], "description": tool["description"], "input_schema": tool["inputSchema"]});
    (told.to_string().chars().count() * 10).div_ceil(TENTHS_OF_CHARACTERS)
}

/// Compares with what is allowed.
pub(crate) fn budget(
    findings: &mut Findings,
    tokens: &[(String, usize)],
    of_all: Option<usize>,
    of_one: Option<usize>,
) {
    let total: usize = tokens.iter().map(|(_, tokens)| tokens).sum();
    if let Some(most) = of_all.filter(|most| total > *most) {
        let message = format!("the tools take about {total} tokens, more than {most}");
        findings.add(codes::TOKEN_BUDGET, &Entry::server(), message);
    }
    for (name, tokens) in tokens {
        if let Some(most) = of_one.filter(|most| tokens > most) {
            let entry = Entry { kind: "tool", name: name.clone() };
            findings.add(codes::TOKEN_BUDGET, &entry, format!("it takes about {tokens} tokens, more than {most}"));
        }
    }
    if tokens.len() > TOOLS {
        let message = format!("the server has {} tools, more than {TOOLS}", tokens.len());
        findings.add(codes::TOO_MANY_TOOLS, &Entry::server(), message);
    }
}
