use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::{Ask, AskOptions, Capability, InvalidAnswer, Question, question::parse};
use crate::{error::Fault, revision::Features};

/// A request for the directories and files that the client works on.
///
/// Deprecated since revision 2026-07-28. Use an argument or the configuration of the server instead.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_runtime::{Ask, Context, Fault, ListRoots};
///
/// # #[allow(dead_code)]
/// async fn count(ctx: &Context) -> Result<usize, Fault> {
///     Ok(ctx.ask(ListRoots.timeout(Duration::from_secs(5))).await?.len())
/// }
/// ```
///
/// See [Roots](https://modelcontextprotocol.io/specification/2026-07-28/client/roots).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListRoots;

/// A directory or file that the client works on.
///
/// ```
/// use mcp_runtime::{Context, Fault, tool};
///
/// /// List the directories that the client works on.
/// #[tool(read_only)]
/// async fn directories(ctx: &Context) -> Result<Vec<String>, Fault> {
///     let roots = ctx.roots().await?;
///     Ok(roots.into_iter().map(|root| root.name.unwrap_or(root.uri)).collect())
/// }
/// ```
///
/// See [Root](https://modelcontextprotocol.io/specification/2026-07-28/client/roots#root).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Root {
    /// The URI: `file://…`.
    pub uri: String,
    /// The display name.
    pub name: Option<String>,
    /// The members of `_meta`.
    pub meta: Map<String, Value>,
}

impl Ask for ListRoots {
    type Answer = Vec<Root>;

    fn question(&self, _: Features) -> Result<Question, Fault> {
        let (key, params) = ("roots".to_owned(), "{}".to_owned());
        Ok(Question {
            key,
            method: "roots/list",
            params,
            capabilities: &[Capability::Roots],
            options: AskOptions::default(),
            tracked: None,
        })
    }

    fn read(&self, result: &str) -> Result<Self::Answer, InvalidAnswer> {
        static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
            let properties = json!({ "uri": { "type": "string" }, "name": { "type": ["string", "null"] } });
            let root = json!({ "type": "object", "properties": properties, "required": ["uri"] });
            let roots = json!({ "type": "array", "items": root });
            json!({ "type": "object", "properties": { "roots": roots }, "required": ["roots"] })
        });

        let result = parse(&SCHEMA, result)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let root = |root: &Value| Root {
            uri: text(&root["uri"]).unwrap_or_default(),
            name: text(&root["name"]),
            meta: root["_meta"].as_object().cloned().unwrap_or_default(),
        };
        Ok(result["roots"].as_array().into_iter().flatten().map(root).collect())
    }
}
