//! The lists of an upstream, as entries of the server.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, atomic::Ordering},
};

use mcp_runtime::{
    Completions, Context, Fault, PromptMessage, ToolResult,
    function::{EarlierArguments, Entry, PromptEntry, ResourceEntry, TaskSupport, ToolEntry},
    layers::Hints,
    model::{PromptResult, ResourceResult},
};
use rmcp::{
    ServiceError,
    model::{
        ArgumentInfo, CallToolRequestParams, ClientRequest, CompleteRequestParams, CompletionContext, ContentBlock,
        ErrorCode, GetPromptRequestParams, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
        Reference, Request, RequestOptionalParam, ServerResult,
    },
};
use serde_json::{Map, Value, json};

use crate::{
    connection::{Connection, MAX_BYTES, MAX_PAGES},
    convert::{icons, invalid_content, make_printable, meta, printable, role, schema, text},
    tasks,
    upstream::{Failure, Upstream},
};

/// The maximum number of entries of all lists together. The rest is left out.
const MAX_ENTRIES: usize = 2000;

/// The lists of an upstream.
pub(crate) struct Lists {
    pub(crate) entries: Vec<Entry>,
    pub(crate) instructions: Option<String>,
    /// Differs if the lists differ.
    pub(crate) digest: u64,
    /// Whether every list could be read.
    pub(crate) is_complete: bool,
}

/// The tag of the entries of an upstream.
pub(crate) fn tag(upstream: &Upstream) -> String {
    format!("upstream:{}", upstream.prefix.as_str())
}

/// The tag that only the entries of this upstream have, even if another one has the same prefix.
pub(crate) fn own_tag(upstream: &Upstream) -> String {
    format!("{}#{}", tag(upstream), upstream.id)
}

/// Reads the lists of an upstream. A list that cannot be read ends where reading failed.
pub(crate) async fn read(upstream: &Arc<Upstream>, connection: &Connection) -> Lists {
    let mut reader =
        Reader { upstream, connection, entries: 0, bytes: 0, digest: DefaultHasher::new(), is_complete: true };
    let info = connection.info();
    let capabilities = info.as_ref().map(|info| info.capabilities.clone()).unwrap_or_default();
    // The first revision has completions, and no capability for them: an upstream may still have none.
    let is_first = info.as_ref().is_some_and(|info| info.protocol_version == ProtocolVersion::V_2024_11_05);
    let completes = is_first || capabilities.completions.is_some();
    completes.hash(&mut reader.digest);
    let mut entries: Vec<Entry> = Vec::new();
    if capabilities.tools.is_some() {
        let tools = reader.list("tools", |params| ClientRequest::ListToolsRequest(paginated(params))).await;
        let is_extended = connection.is_stateless && capabilities.supports_tasks();
        is_extended.hash(&mut reader.digest);
        let is_header = |tool: &Value| tool["inputSchema"].to_string().contains("\"x-mcp-header\"");
        upstream.has_header_arguments.fetch_or(tools.iter().any(is_header), Ordering::Relaxed);
        entries.extend(tools.iter().filter_map(|tool| tool_entry(upstream, tool, is_extended)));
    }
    if capabilities.resources.is_some() {
        let resources = reader.list("resources", |params| ClientRequest::ListResourcesRequest(paginated(params))).await;
        entries.extend(resources.iter().filter_map(|resource| resource_entry(upstream, resource, "uri", false)));
        let list = |params| ClientRequest::ListResourceTemplatesRequest(paginated(params));
        let templates = reader.list("resourceTemplates", list).await;
        entries.extend(
            templates.iter().filter_map(|template| resource_entry(upstream, template, "uriTemplate", completes)),
        );
    }
    if capabilities.prompts.is_some() {
        let prompts = reader.list("prompts", |params| ClientRequest::ListPromptsRequest(paginated(params))).await;
        entries.extend(prompts.iter().filter_map(|prompt| prompt_entry(upstream, prompt, completes)));
    }
    let instructions = info.as_ref().and_then(|info| info.instructions.as_deref()).map(printable);
    Lists { entries, instructions, digest: reader.digest.finish(), is_complete: reader.is_complete }
}

fn paginated<M: Default>(params: PaginatedRequestParams) -> RequestOptionalParam<M, PaginatedRequestParams> {
    RequestOptionalParam::with_param(params)
}

struct Reader<'a> {
    upstream: &'a Upstream,
    connection: &'a Connection,
    entries: usize,
    bytes: usize,
    digest: DefaultHasher,
    is_complete: bool,
}

impl Reader<'_> {
    async fn list(
        &mut self,
        member: &'static str,
        request: impl Fn(PaginatedRequestParams) -> ClientRequest,
    ) -> Vec<Value> {
        let (mut list, mut cursor) = (Vec::new(), None);
        let upstream = self.upstream.prefix.as_str();
        for _ in 0..MAX_PAGES {
            let page = match self
                .connection
                .request(request(PaginatedRequestParams::default().with_cursor(cursor)))
                .await
            {
                // Elements of an invalid page remain usable if they are valid themselves.
                Ok(page) => serde_json::to_value(page).unwrap_or_default(),
                Err(error) => {
                    // Some servers declare resources, and know no templates.
                    let is_unknown =
                        matches!(&error, ServiceError::McpError(error) if error.code == ErrorCode::METHOD_NOT_FOUND);
                    self.is_complete &= is_unknown;
                    let error = self.upstream.describe(&error);
                    tracing::warn!(upstream, list = member, error, "a list of an upstream cannot be read");
                    return list;
                }
            };
            let Some(elements) = page[member].as_array() else {
                tracing::warn!(upstream, list = member, "a list of an upstream is invalid");
                return list;
            };
            for element in elements {
                let encoded = element.to_string();
                (self.entries, self.bytes) = (self.entries + 1, self.bytes + encoded.len());
                if self.entries > MAX_ENTRIES || self.bytes > MAX_BYTES {
                    tracing::warn!(upstream, list = member, "an upstream lists too much: the rest is left out");
                    return list;
                }
                encoded.hash(&mut self.digest);
                let mut element = element.clone();
                make_printable(&mut element, false);
                list.push(element);
            }
            cursor = text(&page, "nextCursor");
            if cursor.is_none() {
                return list;
            }
        }
        tracing::warn!(upstream, list = member, "an upstream lists too many pages: the rest is left out");
        list
    }
}

/// Sets what all kinds of entries have.
macro_rules! describe {
    ($entry:expr, $upstream:expr, $listed:expr) => {{
        let mut entry = $entry.optional().tags([tag($upstream), own_tag($upstream)]);
        if let Some(description) = text($listed, "description") {
            entry = entry.description(description);
        }
        if let Some(title) = text($listed, "title").or_else(|| text(&$listed["annotations"], "title")) {
            entry = entry.title(title);
        }
        for (key, value) in listed_meta($upstream, $listed) {
            entry = entry.with_meta(key, value);
        }
        icons($listed).into_iter().fold(entry, |entry, icon| entry.with_icon(icon))
    }};
}

/// Sends the request of a call, with the answers to questions of the upstream if it is repeated. Returns the result.
macro_rules! call {
    ($upstream:expr, $ctx:expr, $params:expr, $request:ident, $result:ident) => {{
        let params = $params;
        let request = |responses, state| {
            let mut params = params.clone();
            (params.input_responses, params.request_state) = (responses, state);
            ClientRequest::$request(Request::new(params))
        };
        let ServerResult::$result(result) = $upstream.call($ctx, request).await? else {
            return Err($upstream.unavailable("its response is invalid"));
        };
        result
    }};
}

/// Reads the `_meta` of an entry, with the prefixed URI of the page of a tool.
fn listed_meta(upstream: &Upstream, listed: &Value) -> Map<String, Value> {
    let mut members = meta(listed);
    let prefix = |uri: Option<&mut Value>| {
        if let Some(uri) = uri {
            *uri = uri.as_str().map(|uri| upstream.prefix.uri(uri)).into();
        }
    };
    prefix(members.get_mut("ui").and_then(|ui| ui.get_mut("resourceUri")));
    // The key of earlier hosts.
    prefix(members.get_mut("ui/resourceUri"));
    members
}

/// The maximum size of a schema. Larger ones take much time to compile and to list.
const MAX_SCHEMA_BYTES: usize = 128 << 10;

/// `is_extended` is whether the upstream may make a task of every call.
fn tool_entry(upstream: &Arc<Upstream>, listed: &Value, is_extended: bool) -> Option<Entry> {
    let name = text(listed, "name").filter(|name| !name.is_empty())?;
    let is_short = |schema: &str| listed[schema].to_string().len() <= MAX_SCHEMA_BYTES;
    if !is_short("inputSchema") || !is_short("outputSchema") {
        tracing::warn!(
            upstream = upstream.prefix.as_str(),
            name,
            "a tool is left out: its schemas are larger than 128 KiB"
        );
        return None;
    }
    let support = tasks::support(listed, is_extended);
    let hint = |hint: &str| listed["annotations"][hint].as_bool();
    let hints = Hints {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    };
    let (prefixed, target) = (upstream.prefix.name(&name), Arc::clone(upstream));
    let entry =
        ToolEntry::new(prefixed, schema(&listed["inputSchema"]), move |arguments: Map<String, Value>, ctx: Context| {
            let (upstream, name) = (Arc::clone(&target), name.clone());
            async move {
                match call_tool(&upstream, &ctx, name, arguments, support).await {
                    Ok(result) => Ok(result),
                    Err(Failure::Unavailable(message)) => Ok(ToolResult::error(message)),
                    Err(Failure::Fault(fault)) => Err(fault),
                }
            }
        });
    let entry = describe!(entry, upstream, listed).hints(hints).task(support);
    Some(match &listed["outputSchema"] {
        Value::Null => entry.into(),
        output => entry.output_schema(schema(output)).into(),
    })
}

async fn call_tool(
    upstream: &Arc<Upstream>,
    ctx: &Context,
    name: String,
    arguments: Map<String, Value>,
    support: TaskSupport,
) -> Result<ToolResult, Failure> {
    let params = CallToolRequestParams::new(name).with_arguments(arguments);
    let mut accepts_task = match support {
        TaskSupport::Forbidden => false,
        TaskSupport::Required => true,
        _ => tasks::are_accepted(ctx).await,
    };
    let result = loop {
        let request = |responses, state| {
            let mut params = params.clone();
            (params.input_responses, params.request_state) = (responses, state);
            let mut request = ClientRequest::CallToolRequest(Request::new(params));
            if accepts_task {
                tasks::accept_for(&mut request);
            }
            request
        };
        match upstream.call(ctx, request).await {
            Ok(ServerResult::CallToolResult(result)) => break result,
            Ok(result) => {
                let unknown = match result {
                    ServerResult::CustomResult(result) => unknown_result(upstream, &result.0),
                    _ => None,
                };
                return unknown.ok_or_else(|| upstream.unavailable("its response is invalid"));
            }
            // The upstream runs the tool only as a task, and has not called it.
            Err(Failure::Fault(Fault::MissingCapability { required }))
                if !accepts_task && required["extensions"][tasks::EXTENSION].is_object() =>
            {
                accepts_task = true;
            }
            Err(failure) => return Err(failure),
        }
    };
    let mut converted = ToolResult::default();
    for block in result.content {
        let content = match block {
            ContentBlock::Text(text) if text.meta.is_none() && text.annotations.is_none() => text.text.into(),
            block => {
                let block = serde_json::to_value(block).unwrap_or_default();
                upstream.prefix.content(&block).unwrap_or_else(invalid_content)
            }
        };
        converted.content.push(content);
    }
    converted.structured = result.structured_content.filter(|value| !value.is_null());
    converted.is_error = result.is_error == Some(true);
    converted.meta = meta(&json!({ "_meta": result.meta }));
    Ok(converted)
}

/// Reads a result with a kind of content that `rmcp` does not know. Returns `None` for other invalid results.
fn unknown_result(upstream: &Upstream, result: &Value) -> Option<ToolResult> {
    let mut converted = ToolResult::default();
    let blocks = result["content"].as_array()?.iter();
    converted.content = blocks.map(|block| upstream.prefix.content(block).unwrap_or_else(invalid_content)).collect();
    converted.structured = Some(result["structuredContent"].clone()).filter(|value| !value.is_null());
    converted.is_error = result.get("isError").map_or(Some(false), Value::as_bool)?;
    converted.meta = meta(result);
    Some(converted)
}

fn resource_entry(upstream: &Arc<Upstream>, listed: &Value, member: &str, completes: bool) -> Option<Entry> {
    let uri = text(listed, member)?;
    let name = text(listed, "name").filter(|name| !name.is_empty()).unwrap_or_else(|| uri.clone());
    let (reader, subscriber) = (Arc::clone(upstream), Arc::clone(upstream));
    let entry = ResourceEntry::new(upstream.prefix.uri(&uri), name, move |_: Map<String, Value>, ctx: Context| {
        let upstream = Arc::clone(&reader);
        async move { read_resource(&upstream, &ctx).await.map_err(Fault::from) }
    });
    let mut entry = describe!(entry, upstream, listed).on_subscribe(move |uri| subscriber.subscribe(uri));
    if let Some(mime_type) = text(listed, "mimeType") {
        entry = entry.mime_type(mime_type);
    }
    if let Some(size) = listed["size"].as_u64() {
        entry = entry.size(size);
    }
    if completes {
        let complete = completion(upstream, Reference::for_resource(uri));
        entry = entry.complete(complete);
    }
    Some(entry.into())
}

async fn read_resource(upstream: &Arc<Upstream>, ctx: &Context) -> Result<ResourceResult, Failure> {
    let params = ReadResourceRequestParams::new(upstream.prefix.upstream_uri(ctx.name()));
    let result = call!(upstream, ctx, params, ReadResourceRequest, ReadResourceResult);
    let contents = result.contents.into_iter().map(|contents| serde_json::to_value(contents).unwrap_or_default());
    let mut converted = ResourceResult::default();
    converted.contents = contents.filter_map(|contents| upstream.prefix.contents(&contents, false)).collect();
    converted.meta = meta(&json!({ "_meta": result.meta }));
    Ok(converted)
}

fn prompt_entry(upstream: &Arc<Upstream>, listed: &Value, completes: bool) -> Option<Entry> {
    let name = text(listed, "name").filter(|name| !name.is_empty())?;
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for argument in listed["arguments"].as_array().into_iter().flatten() {
        let name = text(argument, "name")?;
        let mut property = Map::from_iter([("type".to_owned(), json!("string"))]);
        for keyword in ["title", "description"] {
            property.extend(text(argument, keyword).map(|text| (keyword.to_owned(), text.into())));
        }
        required.extend((argument["required"] == true).then(|| name.clone()));
        properties.insert(name, property.into());
    }
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let (prefixed, target, reference) =
        (upstream.prefix.name(&name), Arc::clone(upstream), Reference::for_prompt(&name));
    let entry = PromptEntry::new(prefixed, schema, move |arguments: Map<String, Value>, ctx: Context| {
        let (upstream, name) = (Arc::clone(&target), name.clone());
        async move { get_prompt(&upstream, &ctx, name, arguments).await.map_err(Fault::from) }
    });
    let mut entry = describe!(entry, upstream, listed);
    if completes {
        entry = entry.complete(completion(upstream, reference));
    }
    Some(entry.into())
}

async fn get_prompt(
    upstream: &Arc<Upstream>,
    ctx: &Context,
    name: String,
    arguments: Map<String, Value>,
) -> Result<PromptResult, Failure> {
    let mut params = GetPromptRequestParams::new(name);
    params.arguments = Some(arguments);
    let result = call!(upstream, ctx, params, GetPromptRequest, GetPromptResult);
    let mut converted = PromptResult::default();
    converted.description = result.description.as_deref().map(printable);
    for message in result.messages {
        let message = serde_json::to_value(message).unwrap_or_default();
        let content = upstream.prefix.content(&message["content"]).unwrap_or_else(invalid_content);
        converted.messages.extend(role(&message["role"]).map(|role| PromptMessage { role, content }));
    }
    converted.meta = meta(&json!({ "_meta": result.meta }));
    Ok(converted)
}

/// Returns the function that completes the arguments of a prompt or a template.
fn completion(
    upstream: &Arc<Upstream>,
    reference: Reference,
) -> impl Fn(&str, &str, EarlierArguments, Context) -> CompletionFuture + Send + Sync + use<> {
    let upstream = Arc::clone(upstream);
    move |argument, value, earlier, ctx| {
        let mut params = CompleteRequestParams::new(reference.clone(), ArgumentInfo::new(argument, value));
        let earlier = earlier.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>();
        if !earlier.is_empty() {
            params = params.with_context(CompletionContext::with_arguments(earlier.into_iter().collect()));
        }
        let upstream = Arc::clone(&upstream);
        Box::pin(async move {
            let request = |_, _| ClientRequest::CompleteRequest(Request::new(params.clone()));
            let completion = match upstream.call(&ctx, request).await {
                Ok(ServerResult::CompleteResult(result)) => result.completion,
                Ok(_) => return Err(upstream.unavailable("its response is invalid").into()),
                Err(Failure::Fault(Fault::Custom { code, .. })) if code == ErrorCode::METHOD_NOT_FOUND.0 => {
                    return Ok(Completions::default());
                }
                Err(failure) => return Err(failure.into()),
            };
            let completions = Completions::new(completion.values);
            Ok(match completion.total {
                Some(total) => completions.with_total(total.try_into().unwrap_or(usize::MAX)),
                None if completion.has_more == Some(true) => completions.with_total(None),
                None => completions,
            })
        })
    }
}

type CompletionFuture = std::pin::Pin<Box<dyn Future<Output = Result<Completions, Fault>> + Send>>;
