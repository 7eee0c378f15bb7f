//! Operations, as the macro describes them.

use serde::Deserialize;
use serde_json::Value;

/// An operation of the document.
#[derive(Debug)]
pub struct Operation(pub(crate) Description);

impl Operation {
    /// Reads a description as the macro writes it.
    #[doc(hidden)]
    pub fn __new(description: Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value(description).map(Self)
    }

    /// Returns the `operationId`.
    pub fn id(&self) -> Option<&str> {
        self.0.id.as_deref()
    }

    /// Returns the method, such as `GET`.
    pub fn method(&self) -> &str {
        &self.0.method
    }

    /// Returns the path, such as `/pets/{petId}`.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns the tags in the document.
    pub fn tags(&self) -> &[String] {
        &self.0.tags
    }

    /// Returns whether the document marks the operation as deprecated.
    pub fn is_deprecated(&self) -> bool {
        self.0.deprecated
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Description {
    pub(crate) name: String,
    id: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) server: String,
    tags: Vec<String>,
    deprecated: bool,
    #[serde(default)]
    pub(crate) input: Value,
    pub(crate) output: Option<Value>,
    pub(crate) accept: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<Body>,
    /// The alternatives, each with the credentials that it needs.
    pub(crate) security: Vec<Vec<Credential>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Parameter {
    pub(crate) argument: String,
    pub(crate) name: String,
    #[serde(rename = "in")]
    pub(crate) place: Place,
    pub(crate) style: Style,
    pub(crate) explode: bool,
    /// Whether the value is sent as JSON.
    pub(crate) json: bool,
    /// Whether reserved characters are sent as they are.
    pub(crate) reserved: bool,
    /// The schema of the argument in a query, for the next page.
    #[serde(default)]
    pub(crate) schema: Value,
    /// Whether the program sets the value.
    #[serde(default)]
    pub(crate) fixed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Place {
    Path,
    Query,
    Header,
    Cookie,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Body {
    pub(crate) kind: BodyKind,
    pub(crate) media: String,
    pub(crate) required: bool,
    /// The argument that is the body. Otherwise, the fields are.
    pub(crate) argument: Option<String>,
    #[serde(default)]
    pub(crate) fields: Vec<Field>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum BodyKind {
    Json,
    Form,
    Multipart,
    Text,
    Bytes,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Field {
    pub(crate) argument: String,
    pub(crate) name: String,
    pub(crate) style: Style,
    pub(crate) explode: bool,
    /// Whether the value is a file in base64.
    pub(crate) file: bool,
    pub(crate) media: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Credential {
    pub(crate) scheme: String,
    #[serde(rename = "in")]
    pub(crate) place: Place,
    pub(crate) name: String,
    /// The text before the secret in a header.
    pub(crate) prefix: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Operation;

    #[test]
    fn the_id_is_that_of_the_document() {
        let mut description = json!({
            "name": "get-pets", "description": "", "method": "GET", "path": "/pets", "server": "", "tags": [],
            "deprecated": false, "accept": "application/json", "parameters": [], "security": [],
        });
        for id in [None, Some("listPets")] {
            description["id"] = json!(id);
            assert_eq!(Operation::__new(description.clone()).unwrap().id(), id);
        }
    }
}
