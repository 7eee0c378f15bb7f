//! Prompts, with completion of arguments.

use mcp_runtime::{Image, PromptMessage, Resource, prompt};

use crate::PNG;

/// A prompt without arguments.
#[prompt]
fn test_simple_prompt() -> &'static str {
    "This is a simple prompt for testing."
}

/// A prompt with two arguments.
#[prompt]
fn test_prompt_with_arguments(
    /// First test argument
    #[arg(complete = words_starting_with)]
    arg1: String,
    /// Second test argument
    arg2: String,
) -> String {
    format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
}

fn words_starting_with(prefix: &str) -> Vec<&'static str> {
    let words = ["paris", "park", "party", "test", "testing"];
    words.into_iter().filter(|word| word.starts_with(prefix)).collect()
}

/// A prompt about a resource.
#[prompt]
fn test_prompt_with_embedded_resource(
    /// URI of the resource to embed
    #[arg(rename = "resourceUri")]
    resource_uri: String,
) -> Vec<PromptMessage> {
    let resource = Resource::text(resource_uri, "Embedded resource content for testing.").with_mime_type("text/plain");
    vec![PromptMessage::user(resource), PromptMessage::user("Please process the embedded resource above.")]
}

/// A prompt about an image.
#[prompt]
fn test_prompt_with_image() -> Vec<PromptMessage> {
    vec![PromptMessage::user(Image::png(PNG)), PromptMessage::user("Please analyze the image above.")]
}
