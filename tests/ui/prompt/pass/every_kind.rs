#![deny(missing_docs, unused, clippy::all)]
//! Prompts.

use mcp_runtime::{PromptMessage, prompt};

/// The tone.
#[derive(serde::Deserialize, schemars::JsonSchema, Debug)]
#[serde(rename_all = "lowercase")]
enum Style {
    /// Kindly.
    Kind,
    /// Curtly.
    Curt,
}

/// Ask for a review.
#[prompt]
fn review(
    /// The code.
    code: String,
    #[arg(title = "Style", default = "kind")] style: Style,
    #[arg(complete = languages)] language: Option<String>,
) -> String {
    format!("{code} {style:?} {language:?}")
}

fn languages(start: &str) -> Vec<&'static str> {
    ["rust", "ruby"].into_iter().filter(|name| name.starts_with(start)).collect()
}

#[prompt(name = "two messages", title = "Two", description = include_str!("every_kind.rs"))]
async fn two() -> Vec<PromptMessage> {
    Vec::new()
}

fn main() {
    let _ = [Style::Kind, Style::Curt];
}
