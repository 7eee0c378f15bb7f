//! Entries that a program creates at run time, in place of a macro.

use std::{borrow::Cow, panic::Location, sync::Arc, time::Duration};

use mcp_runtime_uri_template::{check_meta_key, parse};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    ArgumentEntry, ArgumentType, Closures, CommonEntry, Entry, EntryRef, EntryScopes, Handler, Hints, MethodEntry,
    OutputType, Part, PromptEntry, ResourceEntry, SourceLocation, TaskSupport, ToolEntry,
};
use crate::{
    auth::Scopes,
    error::Fault,
    handler::{
        CallFuture, CompletionsOutput, Context, Dependency, EarlierArguments, ErrorOutput, HandlerError, HandlerResult,
        Input, PromptOutput, Reply, ResourceOutput, ResultKind, ServerFnOutput, ToolOutput, finish, write_prompt,
        write_resource, write_tool,
    },
    jsonrpc::write,
    model::{CacheScope, Icon},
    revision::encode::member,
    stdx::setters,
};

/// Every closure receives the context.
const DEPENDENCIES: &[Dependency] = &[Dependency::of::<Context>("context")];

impl CommonEntry {
    fn new(name: Cow<'static, str>, schema: Value, handler: Handler, location: &'static Location<'static>) -> Self {
        Self {
            name,
            title: None,
            description: Cow::Borrowed(""),
            icons: Cow::Borrowed(&[]),
            tags: Cow::Borrowed(&[]),
            scopes: EntryScopes::Groups(&[]),
            meta: Cow::Borrowed(&[]),
            timeout: None,
            blocking: false,
            source: SourceLocation {
                file: location.file(),
                line: location.line(),
                package: "",
                module: "",
                function: "",
            },
            arguments: Cow::Borrowed(&[]),
            schema: Some(schema),
            dependencies: DEPENDENCIES,
            handler,
            problems: Vec::new(),
        }
    }
}

/// Returns the handler that decodes the arguments into a `T`, calls a function and writes its result.
fn handler<T: DeserializeOwned, R: 'static, F: Future<Output = R> + Send + 'static>(
    function: impl Fn(T, Context) -> F + Send + Sync + 'static,
    write: fn(&mut Reply<'_>, R) -> HandlerResult,
) -> Handler {
    let call = move |input: Input<'_>, context: Context| -> Result<CallFuture, HandlerError> {
        let running = function(input.value()?, context.clone());
        Ok(Box::pin(async move {
            let value = running.await;
            finish(&context, |reply| write(reply, value))
        }))
    };
    Handler::Closure(Closures { call: Arc::new(call), complete: None, subscribed: None, is_optional: false })
}

impl Handler {
    fn edit(&mut self, edit: impl FnOnce(&mut Closures)) {
        if let Self::Closure(closures) = self {
            edit(closures);
        }
    }
}

macro_rules! common_setters {
    ($($entry:ident = $variant:ident,)*) => {
        $(
            impl $entry {
                setters! {
                    /// Sets the labels by which functions are selected, as [`EntryInfo::tags`](super::EntryInfo::tags).
                    pub fn tags(self, tags: impl IntoIterator<Item = impl Into<Cow<'static, str>>>) {
                        self.common.tags = tags.into_iter().map(Into::into).collect();
                    }

                    /// Sets the OAuth scopes that a caller needs.
                    pub fn scopes(self, scopes: impl Into<Scopes>) {
                        self.common.scopes = EntryScopes::Scopes(scopes.into());
                    }

                    /// Leaves the entry out, with a warning in the log, if it is invalid or if its name or URI is
                    /// taken. Without it, adding the entry fails. For entries that another program describes.
                    pub fn optional(self) { self.common.handler.edit(|closures| closures.is_optional = true); }

                    /// Sets the maximum duration of a call, in place of the server's default.
                    pub fn timeout(self, timeout: Duration) { self.common.timeout = Some(timeout) }
                }
            }

            impl From<$entry> for Entry {
                fn from(entry: $entry) -> Self {
                    Self::$variant(EntryRef::Shared(Arc::new(entry)))
                }
            }
        )*
    };
}

common_setters! {
    ToolEntry = Tool,
    ResourceEntry = Resource,
    PromptEntry = Prompt,
    MethodEntry = Method,
}

macro_rules! listed_setters {
    ($($entry:ident),*) => {
        $(
            impl $entry {
                setters! {
                    /// Sets the display name.
                    pub fn title(self, title: impl Into<Cow<'static, str>>) { self.common.title = Some(title.into()) }

                    /// Sets the description, which models read.
                    pub fn description(self, description: impl Into<Cow<'static, str>>) {
                        self.common.description = description.into();
                    }

                    /// Adds an icon.
                    pub fn with_icon(self, icon: Icon) {
                        self.common.problems.extend(icon.problem(""));
                        self.common.icons.to_mut().push(icon);
                    }

                    /// Adds a member of `_meta`.
                    pub fn with_meta(self, key: impl Into<Cow<'static, str>>, value: Value) {
                        let key = key.into();
                        if self.common.meta.iter().any(|(other, _)| *other == key) {
                            self.common.problems.push(format!("duplicate key `{key}` of `_meta`"));
                        }
                        if let Err(rule) = check_meta_key(&key) {
                            self.common.problems.push(format!("`{key}` cannot be a key of `_meta`: {rule}"));
                        }
                        self.common.meta.to_mut().push((key, value.to_string().into()));
                    }
                }
            }
        )*
    };
}

listed_setters!(ToolEntry, ResourceEntry, PromptEntry);

macro_rules! completed_entries {
    ($($entry:ident),*) => {
        $(
            impl $entry {
                /// Sets the function that completes the arguments of a prompt, or the variables of a URI template. It receives the
                /// name of the argument, the value to complete, and the arguments that the client has already filled in.
                #[must_use]
                pub fn complete<R: CompletionsOutput, F: Future<Output = R> + Send + 'static>(
                    mut self,
                    function: impl Fn(&str, &str, EarlierArguments, Context) -> F + Send + Sync + 'static,
                ) -> Self {
                    self.common.handler.edit(|closures| {
                        closures.complete = Some(Arc::new(move |argument, value, earlier, context| {
                            let running = function(argument, value, earlier, context);
                            Box::pin(async move { running.await.completions().map(ServerFnOutput::Completions) })
                        }));
                    });
                    self
                }
            }
        )*
    };
}

completed_entries!(ResourceEntry, PromptEntry);

impl ToolEntry {
    /// Creates a tool.
    ///
    /// `schema` is the JSON Schema of the arguments, an object. It is enforced before the function is called, which
    /// receives the arguments as a `T`, such as a [`Map`](serde_json::Map) or a type of your own. Defaults in the schema
    /// are listed, and applied by `T`.
    ///
    /// Unknown arguments are accepted unless the schema has `additionalProperties: false`.
    ///
    /// The result is any [`ToolOutput`]. Its error is read by the model, except for a [`Fault`](crate::Fault) and an
    /// [`ErrorResponse`](crate::ErrorResponse): [`IntoErrorResponse`](crate::IntoErrorResponse) has no effect on the errors
    /// of closures.
    #[track_caller]
    pub fn new<T, R, F>(
        name: impl Into<Cow<'static, str>>,
        schema: Value,
        function: impl Fn(T, Context) -> F + Send + Sync + 'static,
    ) -> Self
    where
        T: DeserializeOwned,
        R: ToolOutput + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        Self {
            common: CommonEntry::new(name.into(), schema, handler(function, write_tool), Location::caller()),
            hints: Hints::default(),
            output: OutputType::of::<R>(),
            task: TaskSupport::Forbidden,
        }
    }

    setters! {
        /// Sets the behaviour hints.
        pub fn hints(self, hints: Hints) { self.hints = hints }

        /// Sets the JSON Schema of the structured content, for results whose type does not describe it, such as a
        /// [`ToolResult`](crate::ToolResult).
        pub fn output_schema(self, schema: Value) { self.output = OutputType::Given(schema) }

        /// Sets whether calls may be [tasks](crate::guide::tasks).
        #[cfg(feature = "tasks")]
        pub fn task(self, support: TaskSupport) { self.task = support }
    }
}

impl ResourceEntry {
    /// Creates a resource. `uri` is a URI, or a URI template of RFC 6570 (levels 1 to 3).
    ///
    /// The function receives the variables of the template as a `T`: a struct with their names, or a
    /// [`Map`](serde_json::Map). Variables are text, so a `T` that expects a number matches no URI.
    #[track_caller]
    pub fn new<T, R, F>(
        uri: impl Into<Cow<'static, str>>,
        name: impl Into<Cow<'static, str>>,
        function: impl Fn(T, Context) -> F + Send + Sync + 'static,
    ) -> Self
    where
        T: DeserializeOwned,
        R: ResourceOutput + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        let uri = uri.into();
        let parsed = parse(&uri);
        let parts: Vec<_> = parsed.iter().flatten().cloned().map(part).collect();
        let (schema, arguments) = variables(&parts);
        let mut common = CommonEntry::new(name.into(), schema, handler(function, write_resource), Location::caller());
        common.arguments = arguments;
        common.problems = parsed.err().into_iter().flatten().map(|error| error.to_string()).collect();
        let is_template = parts.iter().any(|part| matches!(part, Part::Expression { .. }));
        Self {
            common,
            uri,
            template: is_template.then_some(Cow::Owned(parts)),
            mime_type: None,
            size: None,
            audience: &[],
            priority: None,
            last_modified: None,
            cache: None,
            list: None,
        }
    }

    setters! {
        /// Sets the media type.
        pub fn mime_type(self, mime_type: impl Into<Cow<'static, str>>) { self.mime_type = Some(mime_type.into()) }

        /// Sets how long and by whom the contents may be cached.
        pub fn cache(self, ttl: Duration, scope: CacheScope) { self.cache = Some((ttl, scope)) }

        /// Sets the size in bytes.
        pub fn size(self, bytes: u64) { self.size = Some(bytes) }
    }

    /// Sets a function that is called, with the URI, whenever a client subscribes to the resource. The value that it returns
    /// is dropped when this subscription ends. Neither the function nor that drop may block. With several replicas, it is called in each process that
    /// has a copy of the session.
    ///
    /// [`Handle::resource_updated`](crate::Handle::resource_updated) notifies the clients.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use mcp_runtime::{Context, Server, function::ResourceEntry};
    /// use serde_json::{Map, Value};
    ///
    /// let watchers = Arc::new(());
    /// let room = ResourceEntry::new("room://{name}", "room", |_: Map<String, Value>, _: Context| async { "21 °C" });
    /// let counted = Arc::clone(&watchers);
    /// let server = Server::empty("house", "1.0.0").with_entry(room.on_subscribe(move |_| Arc::clone(&counted)));
    /// // While clients are subscribed, `Arc::strong_count(&watchers)` is greater than 2.
    /// # assert!(server.check().is_ok());
    /// ```
    #[must_use]
    pub fn on_subscribe<G: Send + Sync + 'static>(
        mut self,
        function: impl Fn(&str) -> G + Send + Sync + 'static,
    ) -> Self {
        self.common.handler.edit(|closures| closures.subscribed = Some(Arc::new(move |uri| Box::new(function(uri)))));
        self
    }
}

impl PromptEntry {
    /// Creates a prompt.
    ///
    /// `schema` is the JSON Schema of the arguments, an object whose properties are listed as the arguments, with their
    /// `title` and `description`. Clients send strings, which are converted to the type in the schema. Arguments with an
    /// `enum` are completed.
    #[track_caller]
    pub fn new<T, R, F>(
        name: impl Into<Cow<'static, str>>,
        schema: Value,
        function: impl Fn(T, Context) -> F + Send + Sync + 'static,
    ) -> Self
    where
        T: DeserializeOwned,
        R: PromptOutput + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let arguments = properties.map(|(name, schema)| argument(name.clone().into(), schema)).collect();
        let common = CommonEntry::new(name.into(), schema, handler(function, write_prompt), Location::caller());
        Self { common: CommonEntry { arguments, ..common } }
    }
}

impl MethodEntry {
    /// Creates a method of an extension, which clients call by its name in every revision.
    ///
    /// `name` begins with a domain of the author, as in `com.example/search`. `schema` is the JSON Schema of `params`
    /// without `_meta`, an object, which is enforced as the schema of a [tool](ToolEntry::new).
    ///
    /// The result is a type that serializes to an object, to which the runtime adds `resultType` in 2026-07-28. An error
    /// is logged, and the client learns only that the method has failed, unless it is a [`Fault`](crate::Fault), which
    /// decides the code and the message.
    ///
    /// Clients may also send the method as a notification, which is a request without an id. Schema, scopes, layers, timeout
    /// and the limit of calls in flight apply, the result is dropped, and an error is logged. The function cannot ask the
    /// client, and what it sends, such as [`Context::notify`](crate::Context::notify), belongs to no request: over HTTP, it
    /// arrives on the stream of the session, and not at all without a session. Over HTTP, a notification that lacks a scope has
    /// status 403, and one that exceeds a limit has status 503.
    ///
    /// ```
    /// use mcp_runtime::{Context, Fault, Server, function::MethodEntry};
    /// use serde_json::{Map, Value, json};
    ///
    /// async fn search(params: Map<String, Value>, _: Context) -> Result<Value, Fault> {
    ///     Ok(json!({"found": [], "text": params["text"]}))
    /// }
    ///
    /// let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    /// let server = Server::empty("notes", "1.0.0")
    ///     .with_entry(MethodEntry::new("com.example/search", schema, search).scopes("notes:read"));
    /// # assert!(server.check().is_ok());
    /// ```
    #[track_caller]
    pub fn new<T, R, E, F>(
        name: impl Into<Cow<'static, str>>,
        schema: Value,
        function: impl Fn(T, Context) -> F + Send + Sync + 'static,
    ) -> Self
    where
        T: DeserializeOwned,
        R: Serialize + 'static,
        E: ErrorOutput,
        F: Future<Output = Result<R, E>> + Send + 'static,
    {
        Self { common: CommonEntry::new(name.into(), schema, handler(function, write_method), Location::caller()) }
    }
}

/// Writes the result of a method.
fn write_method<R: Serialize, E: ErrorOutput>(reply: &mut Reply<'_>, value: Result<R, E>) -> HandlerResult {
    let value = value.map_err(HandlerError::from_error)?;
    let Ok(Value::Object(mut result)) = serde_json::to_value(value) else {
        let name = &reply.call.name;
        return Err(Fault::internal(format!("the result of `{name}` is not an object")).into());
    };
    let (encoding, mut meta) = (&reply.call.encoding, result.remove("_meta"));
    result.remove("resultType");
    encoding.dialect.result_members.iter().for_each(|(name, _)| drop(result.remove(*name)));
    if let Some(Value::Object(meta)) = &mut meta {
        encoding.dialect.meta_members.iter().for_each(|(name, _)| drop(meta.remove(*name)));
    }
    reply.out.push(b'{');
    for (name, value) in &result {
        write::plain(member(reply.out, name), value);
    }
    encoding.end_result(reply.out, meta.as_ref().and_then(Value::as_object));
    Ok(ResultKind::Complete)
}

/// Describes an argument by its schema, for lists and completions.
fn argument(name: Cow<'static, str>, schema: &Value) -> ArgumentEntry {
    let text = |keyword: &str| schema[keyword].as_str().map(|text| Cow::Owned(text.to_owned()));
    ArgumentEntry {
        name,
        title: text("title"),
        description: text("description").unwrap_or_default(),
        ty: ArgumentType::of::<Value>(false),
        default: None,
        rules: &[],
        complete: None,
        env: None,
        flattened: false,
    }
}

fn part(part: mcp_runtime_uri_template::Part) -> Part {
    match part {
        mcp_runtime_uri_template::Part::Literal(text) => Part::Literal(text.into()),
        mcp_runtime_uri_template::Part::Expression { operator, variables } => {
            Part::Expression { operator, variables: variables.into_iter().map(Cow::Owned).collect() }
        }
    }
}

/// Returns the schema and the description of the variables of a template. Variables of a query are optional.
fn variables(parts: &[Part]) -> (Value, Cow<'static, [ArgumentEntry]>) {
    let (mut properties, mut required) = (serde_json::Map::new(), Vec::new());
    for part in parts {
        let Part::Expression { operator, variables } = part else { continue };
        for name in variables.iter() {
            properties.insert(name.to_string(), json!({"type": "string"}));
            required.extend((!super::is_query(*operator)).then(|| name.clone()));
        }
    }
    let arguments = properties.iter().map(|(name, schema)| argument(name.clone().into(), schema)).collect();
    (json!({"type": "object", "properties": properties, "required": required}), arguments)
}
