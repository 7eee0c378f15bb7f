//! HTTP calls.

use std::{collections::BTreeMap, env, sync::Arc};

use mcp_openapi::__private::{Client, HeaderMap, HeaderName, HeaderValue, Operation, base};
use mcp_runtime::{Context, function::ToolEntry};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    arguments::{Arguments, names, with_defaults},
    mistake::Mistake,
};

/// The service of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// A service that can be called.
pub(crate) struct Connection {
    base: Arc<str>,
    client: Arc<Client>,
}

impl Service {
    /// # Errors
    ///
    /// Returns what is wrong with the URL or a header.
    pub(crate) fn connect(self) -> Result<Connection, Mistake> {
        // The advice after the first line is one for programs.
        let base =
            base(&self.url).map_err(|message| Mistake::at(&["url"], message.lines().next().unwrap_or_default()))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let fail = |message: String| Mistake::at(&["headers", name], message);
            let header: HeaderName =
                name.parse().map_err(|_| fail(format!("`{name}` cannot be the name of a header")))?;
            let value = expanded(value).map_err(fail)?;
            let value = HeaderValue::from_str(&value);
            let mut value = value.map_err(|_| fail(format!("the value of the header `{name}` cannot be sent")))?;
            value.set_sensitive(true);
            if headers.insert(header, value).is_some() {
                return Err(fail(format!("duplicate header `{name}`")));
            }
        }
        let client = Client::with_headers(headers).map_err(|error| format!("TLS is not available: {error}"))?;
        Ok(Connection { base, client: Arc::new(client) })
    }
}

/// Replaces `${NAME}` by environment variables.
fn expanded(text: &str) -> Result<String, String> {
    let mut parts = text.split("${");
    let mut expanded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').ok_or_else(|| format!("`${{{part}` has no `}}`"))?;
        expanded += &env::var(name).map_err(|error| format!("the environment variable `{name}`: {error}"))?;
        expanded += rest;
    }
    Ok(expanded)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    method: Method,
    path: String,
    #[serde(default)]
    query: Vec<String>,
    #[serde(default)]
    body: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

impl Call {
    pub(crate) fn tool(self, name: &str, arguments: Arguments, service: &Connection) -> Result<ToolEntry, Mistake> {
        let Self { method, path, query, body } = self;
        if !path.starts_with('/') || path.contains(|letter: char| !letter.is_ascii_graphic() || "?#%".contains(letter))
        {
            let message = "`path` must begin with `/` and contain no spaces, `?`, `#` or `%`";
            return Err(Mistake::at(&["http", "path"], message));
        }
        let in_path = || names(&path);
        let mut used = vec![(vec!["http".to_owned(), "path".to_owned()], in_path().collect())];
        for (list, names) in [("query", &query), ("body", &body)] {
            let paths = (0..).map(|index: usize| vec!["http".to_owned(), list.to_owned(), index.to_string()]);
            used.extend(paths.zip(names.iter().map(|name| vec![name.as_str()])));
        }
        arguments.check_used(&used)?;
        let parameter = |name: &str, place: &str| {
            let style = if place == "path" { "simple" } else { "form" };
            let explode = place == "query";
            json!({
                "argument": name, "name": name, "in": place, "style": style, "explode": explode, "json": false, "reserved": false,
                "schema": arguments.schema_of(name),
            })
        };
        let parameters: Vec<_> = in_path()
            .map(|name| parameter(name, "path"))
            .chain(query.iter().map(|name| parameter(name, "query")))
            .collect();
        let field = |name: &String| json!({"argument": name, "name": name, "style": "form", "explode": true, "file": false, "media": null});
        let fields: Vec<_> = body.iter().map(field).collect();
        let body =
            json!({"kind": "json", "media": "application/json", "required": true, "argument": null, "fields": fields});
        let operation = json!({
            "name": name, "id": null, "title": null, "description": "", "tags": [], "deprecated": false,
            "method": method.as_str(), "path": path, "server": "", "accept": "*/*", "output": null, "security": [],
            "parameters": parameters,
            "body": if fields.is_empty() { Value::Null } else { body },
        });
        let operation = Operation::__new(operation).map_err(|error| error.to_string())?;
        let (operation, defaults) = (Arc::new(operation), arguments.defaults());
        let (base, client) = (Arc::clone(&service.base), Arc::clone(&service.client));
        Ok(ToolEntry::new(name.to_owned(), arguments.schema(), move |given: Map<String, Value>, ctx: Context| {
            let (client, operation, base) = (Arc::clone(&client), Arc::clone(&operation), Arc::clone(&base));
            let arguments = with_defaults(&defaults, given);
            async move { client.call(&operation, &base, &arguments, &ctx).await }
        }))
    }
}
