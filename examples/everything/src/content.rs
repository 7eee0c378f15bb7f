//! The kinds of content that a tool can return.

use mcp_runtime::{Content, Image, Resource, model::Audio, tool};
use serde_json::json;

use crate::{PNG, WAV};

/// Return a line of text.
#[tool(read_only)]
fn test_simple_text() -> &'static str {
    "This is a simple text response for testing."
}

/// Return an image.
#[tool(read_only)]
fn test_image_content() -> Image {
    Image::png(PNG)
}

/// Return an audio file.
#[tool(read_only)]
fn test_audio_content() -> Audio {
    Audio::wav(WAV)
}

/// Return a resource as part of the result.
#[tool(read_only)]
fn test_embedded_resource() -> Resource {
    Resource::text("test://embedded-resource", "This is an embedded resource content.").with_mime_type("text/plain")
}

/// Return text, an image and a resource together.
#[tool(read_only)]
fn test_multiple_content_types() -> Vec<Content> {
    let data = json!({ "test": "data", "value": 123 });
    vec![
        Content::text("Multiple content types test:"),
        Image::png(PNG).into(),
        Resource::text("test://mixed-content-resource", data.to_string()).with_mime_type("application/json").into(),
    ]
}

/// Fail with an error that the model can read.
#[tool(read_only)]
fn test_error_handling() -> Result<String, &'static str> {
    Err("This tool intentionally returns an error for testing")
}
