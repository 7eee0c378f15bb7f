//! The forms of the tools that ask the user.

use mcp_runtime::{Elicit, ask::Answer};
use serde::Serialize;

/// Text in two fields.
#[derive(Elicit, Serialize)]
pub(crate) struct User {
    /// User's response
    username: String,
    /// User's email address
    email: String,
}

/// A default for each kind of field.
#[derive(Elicit, Serialize)]
pub(crate) struct Defaults {
    /// User name
    #[elicit(default = "John Doe")]
    name: String,
    /// User age
    #[elicit(default = 30)]
    age: i64,
    /// User score
    #[elicit(default = 95.5)]
    score: f64,
    /// User status
    #[elicit(default = Status::Active)]
    status: Status,
    /// Verification status
    #[elicit(default = true)]
    verified: bool,
}

#[derive(Elicit, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    #[elicit(rename = "active")]
    Active,
    #[elicit(rename = "inactive")]
    Inactive,
    #[elicit(rename = "pending")]
    Pending,
}

/// Single and multiple choices, with and without titles.
#[derive(Elicit, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Choices {
    /// Select one option
    #[elicit(rename = "untitledSingle")]
    untitled_single: Option<Plain>,
    /// Select one option with titles
    #[elicit(rename = "titledSingle")]
    titled_single: Option<Titled>,
    /// Select one option (legacy)
    #[elicit(rename = "legacyEnum")]
    legacy_enum: Option<Legacy>,
    /// Select multiple options
    #[elicit(rename = "untitledMulti")]
    untitled_multi: Option<Vec<Plain>>,
    /// Select multiple options with titles
    #[elicit(rename = "titledMulti")]
    titled_multi: Option<Vec<Titled>>,
}

#[derive(Elicit, Serialize)]
#[serde(rename_all = "lowercase")]
enum Plain {
    #[elicit(rename = "option1")]
    Option1,
    #[elicit(rename = "option2")]
    Option2,
    #[elicit(rename = "option3")]
    Option3,
}

#[derive(Elicit, Serialize)]
#[serde(rename_all = "lowercase")]
enum Titled {
    #[elicit(rename = "value1", title = "First Option")]
    Value1,
    #[elicit(rename = "value2", title = "Second Option")]
    Value2,
    #[elicit(rename = "value3", title = "Third Option")]
    Value3,
}

#[derive(Elicit, Serialize)]
#[serde(rename_all = "lowercase")]
#[elicit(legacy_names)]
enum Legacy {
    #[elicit(rename = "opt1", title = "Option One")]
    Opt1,
    #[elicit(rename = "opt2", title = "Option Two")]
    Opt2,
    #[elicit(rename = "opt3", title = "Option Three")]
    Opt3,
}

#[derive(Elicit, Serialize)]
pub(crate) struct Name {
    pub(crate) name: String,
}

#[derive(Elicit, Serialize)]
pub(crate) struct Confirm {
    pub(crate) ok: bool,
}

#[derive(Elicit, Serialize)]
pub(crate) struct Colour {
    pub(crate) color: String,
}

#[derive(Elicit, Serialize)]
pub(crate) struct Subject {
    pub(crate) context: String,
}

/// Describes the user's answer.
pub(crate) fn describe<T: Serialize>(answer: Answer<T>) -> String {
    let (action, content) = match answer {
        Answer::Accept(form) => ("accept", serde_json::to_string(&form).unwrap_or_default()),
        Answer::Decline => ("decline", "{}".to_owned()),
        Answer::Cancel => ("cancel", "{}".to_owned()),
    };
    format!("action={action}, content={content}")
}
