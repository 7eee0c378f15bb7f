//! An estimate of how much of a model's context the tools use.

use mcp_runtime_lock::Listing;
use serde_json::{Value, json};

use super::{
    codes,
    finding::{Findings, Subject},
};

/// Characters per token, in tenths. Vocabularies differ, and so does the text that clients add to each tool.
const CHARACTERS_PER_TOKEN_TENTHS: usize = 35;

/// The description of the estimate in reports.
pub(crate) const METHOD: &str =
    "one token per 3.5 characters of the name, description and input schema as compact JSON";

/// The largest number of tools that all known clients support.
const MAX_TOOLS: usize = 40;

/// The estimated size of one tool.
pub(crate) struct ToolTokens {
    pub(crate) name: String,
    pub(crate) tokens: usize,
}

/// The limits of the command line.
pub(crate) struct TokenBudget {
    /// For all tools together.
    pub(crate) total: Option<usize>,
    /// For each tool.
    pub(crate) per_tool: Option<usize>,
}

/// Estimates the tokens of each tool.
pub(crate) fn estimate(listing: &Listing) -> Vec<ToolTokens> {
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    listing.tools.iter().map(|tool| ToolTokens { name: name(tool), tokens: tokens_of(tool) }).collect()
}

fn tokens_of(tool: &Value) -> usize {
    let shown = json!({"name": tool["name"], "description": tool["description"], "input_schema": tool["inputSchema"]});
    (shown.to_string().chars().count() * 10).div_ceil(CHARACTERS_PER_TOKEN_TENTHS)
}

/// Checks the number of tools and their tokens.
pub(crate) fn check(findings: &mut Findings, tools: &[ToolTokens], budget: &TokenBudget) {
    let total: usize = tools.iter().map(|tool| tool.tokens).sum();
    if let Some(max) = budget.total.filter(|max| total > *max) {
        let message = format!("the tools use about {total} tokens, more than {max}");
        findings.add(codes::TOKEN_BUDGET, &Subject::server(), message);
    }
    for ToolTokens { name, tokens } in tools {
        if let Some(max) = budget.per_tool.filter(|max| tokens > max) {
            let subject = Subject { kind: "tool", name: name.clone() };
            findings.add(codes::TOKEN_BUDGET, &subject, format!("uses about {tokens} tokens, more than {max}"));
        }
    }
    if tools.len() > MAX_TOOLS {
        let message = format!("the server lists {} tools, more than {MAX_TOOLS}", tools.len());
        findings.add(codes::TOO_MANY_TOOLS, &Subject::server(), message);
    }
}
