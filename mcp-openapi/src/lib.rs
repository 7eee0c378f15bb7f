//! Imports the operations of an OpenAPI document as tools, at compile time.
//!
//! ```no_run
//! use mcp_runtime::Server;
//!
//! # fn build() -> Result<Server, mcp_openapi::Error> {
//! let petstore = mcp_openapi::import!("tests/service.yaml", include = ["query", "/pets/**"]);
//! petstore.base_url("https://petstore.example/api/v3").add_to(Server::new("pets", "1.0.0"))
//! # }
//! ```
//!
//! [`import!`] reads the document and chooses operations; [`Api`] says how the service is called. A mistake in the document is a compile
//! error with its file, line and column:
//!
//! ```text
//! error: petstore.yaml:42:19: unknown type "strng", expected one of array, boolean, integer, null, number, object, string
//!        help: correct it, or leave operations out with `exclude = ["listPets"]`
//! ```
//!
//! The tools are entries as any other: a server may add its own, limit them by scopes and rates, and rename them. Import what a model
//! needs rather than everything: each tool takes a part of its attention. The page
//! [Composing](https://docs.rs/mcp-runtime/latest/mcp_runtime/guide/composing/) of the guide shows how a server combines them with
//! other sources.
//!
//! # Documents
//!
//! OpenAPI 3.0 and 3.1, in JSON or YAML. References may lead to other files, relative to the file that contains them, to an
//! `$anchor`, and to schemas with an `$id`, to which the references in them are relative. Nothing is downloaded: a copy takes the
//! place of a URL with [`references`](import!).
//!
//! | in the document | tool |
//! | --- | --- |
//! | `operationId` | name, with `_` for characters other than letters, digits, `-` and `_`. Without one, and for a repeated one, the method and the path. At most 64 characters, of which the last are a hash of a longer name |
//! | `summary` and `description` | title and description, which ends with "Deprecated." where that holds |
//! | parameters | arguments. The second argument of a name gets its place: `id`, `id_query`, `id_body` |
//! | body: an object | an argument for each member; `body` if it has further members or is a choice between schemas |
//! | body: anything else | `body`; files and other bytes are text in base64 |
//! | `readOnly`, `writeOnly` | left out of arguments and of results |
//! | GET, HEAD, OPTIONS; PUT; DELETE | read-only; idempotent; destructive and idempotent |
//! | response: an object in JSON | schema of the results: names, types and descriptions only, since services deviate from the rest |
//!
//! Of several media types of a body, one in JSON is used, or else a form, `multipart/form-data`, or text.
//!
//! Schemas are converted to a form that clients with limited support understand. References are resolved, `allOf` is merged, and `oneOf`
//! becomes `anyOf`, whose branches fix the values of their discriminator. A reference to a schema that contains it accepts any object, and
//! levels are cut in the same way until an input has at most 200 schemas, and a result 50. Keywords that the server cannot enforce, such
//! as a pattern with look-around, are left to the service.
//!
//! # Calls
//!
//! Arguments are checked against the schema before the request is sent.
//!
//! - No argument changes what is called: values are percent-encoded, a value in a path must not be empty, `.` or `..`, even if it is
//!   decoded several times, an object must not have members that become other parameters of a query or other cookies, and headers
//!   that control the connection are not available.
//! - A JSON response becomes structured content and text; an image, audio or text becomes content of that kind; anything else becomes a
//!   resource, `tool:NAME`. Members that are `null` are left out where the results have a schema.
//! - A status that is no success is an error with the first 4,096 characters of the body, and with `Retry-After`.
//! - The arguments for the next page of a list are added as text, also if a [`shape`](Api::shape) removes them from the body. They are:
//!   - those in the query of a `Link` or of a URL such as `next` or `links.pages.next`;
//!   - members such as `next_cursor` or `nextPageToken` if there is an argument `cursor` or `page_token`, also within an object,
//!     such as `response_metadata`;
//!   - with `has_more`, the `id` of the last item in `data` for an argument `starting_after`, and `last_id` for `after`;
//!   - `metadata.continue` for an argument `continue`.
//!
//!   Services with numbered pages that do not name the next one get no such text: the model counts.
//! - Redirects of GET and HEAD are followed within the origin of the service, at most five. Others are errors that show the target
//!   without its query.
//! - A response has at most 1 MiB, or [`response_limit`](Api::response_limit). A TCP connection must be established within 10 seconds,
//!   and the [`timeout`](mcp_runtime::Server::timeout) of the server, or of a tool, limits the whole call. A cancelled call ends its request.
//! - Credentials come from [`authenticate`](Api::authenticate). The token of the caller is never forwarded.
//! - Requests carry `traceparent` and `tracestate` of the [current span](mcp_runtime::Context::trace_context), but no baggage.
//!
//! Not available: callbacks, webhooks, links between operations, XML with a schema (text is sent as it is), and client certificates.
#![warn(clippy::missing_errors_doc)]

mod client;
mod operation;
mod page;
mod request;
mod style;

use std::{fmt, pin::Pin, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use mcp_runtime::{Context, Server, function::ToolEntry, layers::Hints};
use serde_json::{Map, Value};

#[doc(hidden)]
pub use mcp_openapi_macros::import as __import;

use self::client::Client;
pub use self::operation::Operation;
use self::operation::{Description, Place};

/// Items for `mcp-config`.
#[doc(hidden)]
pub mod __private {
    pub use http::{HeaderMap, HeaderName, HeaderValue};

    pub use crate::{base, client::Client, operation::Operation};
}

/// The default of [`Api::response_limit`].
const RESPONSE_LIMIT: usize = 1024 * 1024;

type Authenticate = Box<dyn Fn(&str, Context) -> Pin<Box<dyn Future<Output = Option<String>> + Send>> + Send + Sync>;
type Configure = Box<dyn Fn(ToolEntry, &Operation) -> Option<ToolEntry> + Send>;
type Shape = Box<dyn Fn(&Operation, Value) -> Value + Send + Sync>;

/// Imports the operations of a document, and returns an [`Api`].
///
/// ```text
/// import!("petstore.yaml")
/// import!("petstore.yaml", include = ["listPets", "/users/**", "GET /orders/*"], exclude = ["deleteUser"])
/// import!("petstore.yaml", references = ["https://schemas.example/v2/" => "vendor/schemas"])
/// ```
///
/// The path of the file is relative to the folder of `Cargo.toml`. A change of the file, and of the files that it refers to, compiles the
/// program again.
///
/// Without `include`, all operations are imported. A pattern is an `operationId`, the name of a tool, or a path, with a method before it
/// or without one. `*` stands for any text without `/`, and `**` for any text. A pattern that matches nothing is an error.
///
/// `references` maps URLs that occur in `$ref` to local copies, since nothing is downloaded: the URL of a document to a file, or the
/// beginning of several URLs to a folder. The longest match is used. An operation that refers to any other URL is an error.
#[macro_export]
macro_rules! import {
    ($($input:tt)*) => {
        $crate::__import!($crate, $($input)*)
    };
}

/// An error of [`Api::add_to`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// The operations that [`import!`] has found in a document.
#[must_use]
pub struct Api {
    operations: &'static [&'static str],
    base_url: Option<String>,
    headers: HeaderMap,
    parameters: Map<String, Value>,
    response_limit: usize,
    authenticate: Option<Authenticate>,
    shape: Option<Shape>,
    configure: Configure,
    problem: Option<Error>,
}

impl Api {
    #[doc(hidden)]
    pub fn __new(operations: &'static [&'static str]) -> Self {
        let mut headers = HeaderMap::new();
        headers
            .insert(header::USER_AGENT, HeaderValue::from_static(concat!("mcp-openapi/", env!("CARGO_PKG_VERSION"))));
        Self {
            operations,
            base_url: None,
            headers,
            parameters: Map::new(),
            response_limit: RESPONSE_LIMIT,
            authenticate: None,
            shape: None,
            configure: Box::new(|tool, _| Some(tool)),
            problem: None,
        }
    }

    /// Sets the URL to which the paths of operations are added, in place of all servers in the document. A document whose server is
    /// relative, such as `/api/v3`, or that has none, needs it.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Adds a header to each request. It is no longer an argument of operations that declare it.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        let (Ok(name), Ok(mut value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) else {
            self.problem.get_or_insert(Error(format!("the header `{name}` cannot be sent")));
            return self;
        };
        value.set_sensitive(true);
        self.headers.insert(name, value);
        self
    }

    /// Sets the value of a parameter of the document, such as a version or an account. It is no longer an argument. Applies to all
    /// parameters with this name, in a path, a query, a header or a cookie.
    pub fn with_parameter(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.parameters.insert(name.into(), value.into());
        self
    }

    /// Sets a function that returns the credential for a security scheme of the document, or `None` if there is none. Without this
    /// function, requests carry no credentials.
    ///
    /// It is called for each request with the name of the scheme, and returns the API key, the token, or `user:password` for basic
    /// authentication. Of several alternatives, the first is used for which there are all credentials; if there is none, the call
    /// fails.
    ///
    /// The [`Context`] tells who calls, for credentials that belong to a user. Do not return the access token of the caller itself: it
    /// was issued for this server.
    ///
    /// ```no_run
    /// # let api = mcp_openapi::import!("tests/service.yaml");
    /// let key = std::env::var("PETSTORE_KEY").ok();
    /// let api = api.authenticate(move |scheme, _| {
    ///     let key = key.clone().filter(|_| scheme == "api_key");
    ///     async move { key }
    /// });
    /// ```
    pub fn authenticate<F>(mut self, credential: impl Fn(&str, Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<String>> + Send + 'static,
    {
        self.authenticate = Some(Box::new(move |scheme, ctx| Box::pin(credential(scheme, ctx))));
        self
    }

    /// Changes each JSON response before it becomes a result, for example to keep only the members that a model needs. The tools have no
    /// schema for their results then, unless [`configure`](Self::configure) sets one.
    pub fn shape(mut self, shape: impl Fn(&Operation, Value) -> Value + Send + Sync + 'static) -> Self {
        self.shape = Some(Box::new(shape));
        self
    }

    /// Sets the maximum size of a response in bytes. A larger one is an error. The default is 1 MiB.
    pub fn response_limit(mut self, bytes: usize) -> Self {
        self.response_limit = bytes;
        self
    }

    /// Changes each tool, or leaves it out with `None`. A later call replaces an earlier one.
    ///
    /// ```no_run
    /// # let api = mcp_openapi::import!("tests/service.yaml");
    /// let api = api.configure(|tool, operation| match operation.method() {
    ///     "GET" => Some(tool),
    ///     _ => Some(tool.scopes("pets:write")),
    /// });
    /// ```
    pub fn configure(
        mut self,
        configure: impl Fn(ToolEntry, &Operation) -> Option<ToolEntry> + Send + 'static,
    ) -> Self {
        self.configure = Box::new(configure);
        self
    }

    /// Adds the tools to a server.
    ///
    /// # Errors
    ///
    /// Fails if the URL of the service is not known or invalid, if a header of [`with_header`](Self::with_header) cannot be sent, if no
    /// operation has a parameter that [`with_parameter`](Self::with_parameter) sets, or if the certificates of the system cannot be read.
    pub fn add_to(mut self, mut server: Server) -> Result<Server, Error> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let mut client = Client::new().map_err(|error| Error(format!("TLS is not available: {error}")))?;
        let is_shaped = self.shape.is_some();
        client.authenticate = self.authenticate;
        client.shape = self.shape;
        client.response_limit = self.response_limit;
        client.headers = self.headers;
        let client = Arc::new(client);
        let mut unused: Vec<&String> = self.parameters.keys().collect();
        for text in self.operations {
            let operation: Result<Description, _> = serde_json::from_str(text);
            let mut operation = operation.expect("the macro writes operations");
            let base = base(self.base_url.as_deref().unwrap_or(&operation.server))
                .map_err(|problem| Error(format!("`{}`: {problem}", operation.name)))?;
            if is_shaped {
                operation.output = None;
            }
            unused.retain(|name| operation.parameters.iter().all(|parameter| parameter.name != **name));
            let (input, fixed) = fix(&mut operation, &client.headers, &self.parameters);
            let output = operation.output.clone();
            let operation = Arc::new(Operation(operation));
            let (called, client) = (operation.clone(), client.clone());
            let call = move |mut arguments: Map<String, Value>, ctx: Context| {
                let (client, operation, base) = (client.clone(), called.clone(), base.clone());
                arguments.extend(fixed.iter().map(|(name, value)| (name.clone(), value.clone())));
                async move { client.call(&operation, &base, &arguments, &ctx).await }
            };
            let mut tool = ToolEntry::new(operation.0.name.clone(), input, call)
                .description(operation.0.description.clone())
                .hints(hints(operation.method()));
            if let Some(title) = &operation.0.title {
                tool = tool.title(title.clone());
            }
            if let Some(output) = output {
                tool = tool.output_schema(output);
            }
            server = (self.configure)(tool, &operation).into_iter().fold(server, Server::with_entry);
        }
        match unused.first() {
            Some(name) => Err(Error(format!("no operation has a parameter `{name}`"))),
            None => Ok(server),
        }
    }
}

/// Removes the arguments that the program sets. Returns the schema of the rest, and the arguments that are added to each call.
fn fix(operation: &mut Description, headers: &HeaderMap, values: &Map<String, Value>) -> (Value, Map<String, Value>) {
    let mut input = operation.input.take();
    let mut fixed = Map::new();
    operation.parameters.retain_mut(|parameter| {
        let is_header = parameter.place == Place::Header && headers.contains_key(&parameter.name);
        let value = values.get(&parameter.name);
        if is_header || value.is_some() {
            if let Some(properties) = input["properties"].as_object_mut() {
                properties.shift_remove(&parameter.argument);
            }
            if let Some(required) = input.get_mut("required").and_then(Value::as_array_mut) {
                required.retain(|name| *name != parameter.argument);
            }
        }
        parameter.fixed = value.is_some();
        if parameter.place == Place::Query {
            parameter.schema = input["properties"][&parameter.argument].clone();
        }
        fixed.extend(value.map(|value| (parameter.argument.clone(), value.clone())));
        !is_header
    });
    (input, fixed)
}

/// Returns the URL without a `/` at its end.
///
/// # Errors
///
/// Returns what is wrong with the URL.
pub fn base(url: &str) -> Result<Arc<str>, String> {
    let uri: Uri = url.parse().map_err(|error| format!("the URL `{url}` of the service is invalid: {error}"))?;
    let is_absolute = matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
        && uri.query().is_none();
    if is_absolute {
        Ok(url.trim_end_matches('/').into())
    } else {
        Err(format!(
            "the URL of the service, `{url}`, must begin with http:// or https:// and have no user and no query\nhelp: set it with `base_url`"
        ))
    }
}

/// Returns what the method says, by RFC 9110.
fn hints(method: &str) -> Hints {
    let mut hints = Hints::default();
    match method {
        "GET" | "HEAD" | "OPTIONS" => hints.read_only = Some(true),
        "PUT" => hints.idempotent = Some(true),
        "DELETE" => (hints.idempotent, hints.destructive) = (Some(true), Some(true)),
        _ => {}
    }
    hints
}
