use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{Ask, Capability, Question, conforming};
use crate::{error::Fault, revision::Features};

/// Asks which directories and files the client's work is about.
///
/// Deprecated by revision 2026-07-28: an argument or the server's configuration says the same.
///
/// See [Roots](https://modelcontextprotocol.io/specification/2026-07-28/client/roots).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListRoots;

/// A directory or a file that the client's work is about.
///
/// See [Root](https://modelcontextprotocol.io/specification/2026-07-28/client/roots#root).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Root {
    /// Where it is: `file://…`.
    pub uri: String,
    /// What people call it.
    pub name: Option<String>,
}

impl Ask for ListRoots {
    type Answer = Vec<Root>;

    fn question(&self, _: Features) -> Result<Question, Fault> {
        let (key, params) = ("roots".to_owned(), "{}".to_owned());
        Ok(Question { key, method: "roots/list", params, needs: Capability::Roots })
    }

    fn read(&self, result: &str) -> Result<Self::Answer, String> {
        static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
            let properties = json!({ "uri": { "type": "string" }, "name": { "type": ["string", "null"] } });
            let root = json!({ "type": "object", "properties": properties, "required": ["uri"] });
            let roots = json!({ "type": "array", "items": root });
            json!({ "type": "object", "properties": { "roots": roots }, "required": ["roots"] })
        });

        let result = conforming(&SCHEMA, result)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let root = |root: &Value| Root { uri: text(&root["uri"]).unwrap_or_default(), name: text(&root["name"]) };
        Ok(result["roots"].as_array().into_iter().flatten().map(root).collect())
    }
}
