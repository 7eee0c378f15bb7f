use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    Ask, Capability, InvalidAnswer, Question,
    sample_message::{
        SampleContent, SampleMessage, SampleResult, SampleToolResult, check_tool_results, write_messages,
    },
};
use crate::{
    error::Fault,
    jsonrpc::write::plain,
    model::{Role, add_meta, named},
    revision::{Feature, Features, encode::Object},
    stdx::setters,
};

/// The maximum number of tokens, unless a request sets another one.
const DEFAULT_MAX_TOKENS: u32 = 1000;

/// A request for a completion by the client's model.
///
/// Deprecated since revision 2026-07-28. Call the API of a model provider instead.
///
/// `SampleRequest::default()` has no messages: at least one must be added.
///
/// See [Creating messages](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#creating-messages).
///
/// ```
/// use mcp_runtime::ask::SampleRequest;
///
/// let question = SampleRequest::new("What is the capital of France?")
///     .system_prompt("Answer in one word.")
///     .max_tokens(100)
///     .with_model_hint("sonnet")
///     .speed(0.8);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampleRequest {
    key: Option<String>,
    messages: Vec<SampleMessage>,
    system_prompt: Option<String>,
    max_tokens: Option<u32>,
    temperature: Option<f64>,
    stop_sequences: Vec<String>,
    hints: Vec<String>,
    /// The names in `modelPreferences`, with values from 0 to 1.
    priorities: Vec<(&'static str, f64)>,
    metadata: Map<String, Value>,
    include_context: Option<IncludeContext>,
    tools: Vec<Tool>,
    tool_choice: Option<ToolChoice>,
}

impl SampleRequest {
    /// Creates a request with a user message.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self::default().with_message(Role::User, prompt.into())
    }

    setters! {
        /// Adds a message with a single content block.
        ///
        /// ```
        /// # use mcp_runtime::{ask::SampleRequest, model::Role};
        /// let request = SampleRequest::new("Is 7 prime?")
        ///     .with_message(Role::Assistant, "Yes.")
        ///     .with_message(Role::User, "And 9?");
        /// ```
        pub fn with_message(self, role: Role, content: impl Into<SampleContent>) { self.push(role, [content.into()]) }

        /// Adds a message with several content blocks. In revisions before 2025-11-25, each block becomes a message.
        pub fn with_contents(self, role: Role, content: impl IntoIterator<Item = SampleContent>) {
            self.push(role, content)
        }

        /// Adds a member to the `_meta` of the last message. Sent since revision 2025-11-25.
        ///
        /// # Panics
        ///
        /// Panics if the key is malformed or has a prefix that the protocol reserves, such as
        /// `io.modelcontextprotocol/`.
        #[track_caller]
        pub fn with_message_meta(self, key: impl Into<String>, value: impl Into<Value>) {
            if let Some(message) = self.messages.last_mut() {
                add_meta(&mut message.meta, key, value);
            }
        }

        /// Adds a response of the model, to continue the conversation.
        ///
        /// ```
        /// # use mcp_runtime::{Context, Fault, ask::SampleRequest, model::Role};
        /// # async fn refine(ctx: &Context) -> Result<String, Fault> {
        /// let request = SampleRequest::new("Write a slogan for a tea shop.");
        /// let draft = ctx.sample(request.clone()).await?;
        /// let shorter = request.answered(draft).with_message(Role::User, "Shorten it to five words.");
        /// Ok(ctx.sample(shorter).await?.text())
        /// # }
        /// ```
        pub fn answered(self, result: SampleResult) { self.push(result.role, result.content) }

        /// Adds a message with the results of tool calls. It must contain the result of every call in the previous
        /// message.
        pub fn with_tool_results(self, results: impl IntoIterator<Item = SampleToolResult>) {
            self.push(Role::User, results.into_iter().map(SampleContent::ToolResult))
        }

        /// Sets the system prompt.
        pub fn system_prompt(self, prompt: impl Into<String>) { self.system_prompt = Some(prompt.into()) }

        /// Sets the maximum number of tokens. Defaults to 1000.
        pub fn max_tokens(self, tokens: u32) { self.max_tokens = Some(tokens) }

        /// Sets the sampling temperature.
        pub fn temperature(self, temperature: f64) { self.temperature = Some(temperature) }

        /// Adds a text that ends the completion.
        pub fn with_stop_sequence(self, text: impl Into<String>) { self.stop_sequences.push(text.into()) }

        /// Adds texts that end the completion.
        ///
        /// ```
        /// # use mcp_runtime::ask::SampleRequest;
        /// let request = SampleRequest::new("List three colours.").with_stop_sequences(["4.", "\n\n"]);
        /// ```
        pub fn with_stop_sequences(self, texts: impl IntoIterator<Item = impl Into<String>>) {
            self.stop_sequences.extend(texts.into_iter().map(Into::into))
        }

        /// Adds the full or partial name of a preferred model. Earlier hints take precedence.
        ///
        /// ```
        /// # use mcp_runtime::ask::SampleRequest;
        /// let request = SampleRequest::new("Summarize the log.").with_model_hint("claude-haiku").with_model_hint("claude").cost(0.9);
        /// ```
        pub fn with_model_hint(self, name: impl Into<String>) { self.hints.push(name.into()) }

        /// Sets the priority of the model's capabilities, from 0 to 1.
        pub fn intelligence(self, priority: f64) { self.prioritize("intelligencePriority", priority) }

        /// Sets the priority of low latency, from 0 to 1.
        pub fn speed(self, priority: f64) { self.prioritize("speedPriority", priority) }

        /// Sets the priority of low cost, from 0 to 1.
        pub fn cost(self, priority: f64) { self.prioritize("costPriority", priority) }

        /// Adds a provider-specific parameter.
        pub fn with_metadata(self, name: impl Into<String>, value: impl Into<Value>) {
            self.metadata.insert(name.into(), value.into());
        }

        /// Sets the context that the client may include in the prompt.
        pub fn include_context(self, context: IncludeContext) { self.include_context = Some(context) }

        /// Adds a tool that the model may call. `schema` describes its arguments. Requires revision 2025-11-25.
        ///
        /// ```
        /// # use mcp_runtime::ask::{SampleRequest, ToolChoice};
        /// # use serde_json::json;
        /// let request = SampleRequest::new("What is the weather in Bern?")
        ///     .with_tool(
        ///         "weather",
        ///         "Return the weather of a city.",
        ///         json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
        ///     )
        ///     .tool_choice(ToolChoice::Required);
        /// ```
        ///
        /// See [Sampling with tools](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#sampling-with-tools).
        pub fn with_tool(self, name: impl Into<String>, description: impl Into<String>, schema: Value) {
            self.tools.push(Tool { name: name.into(), description: description.into(), schema })
        }

        /// Sets whether the model calls tools.
        pub fn tool_choice(self, choice: ToolChoice) { self.tool_choice = Some(choice) }

        /// Sets the key that identifies the request among the requests of the same call. Defaults to a hash of the
        /// request.
        pub fn key(self, key: impl Into<String>) { self.key = Some(key.into()) }
    }

    fn push(&mut self, role: Role, content: impl IntoIterator<Item = SampleContent>) {
        self.messages.push(SampleMessage { role, content: content.into_iter().collect(), meta: Map::new() });
    }

    fn prioritize(&mut self, name: &'static str, priority: f64) {
        self.priorities.retain(|(other, _)| *other != name);
        self.priorities.push((name, priority));
    }

    /// Returns the capabilities that the client must have declared.
    ///
    /// Revisions without [`Feature::SamplingTools`] have no separate capability for context.
    fn capabilities(&self, features: Features) -> &'static [Capability] {
        let with_tools =
            !self.tools.is_empty() || self.tool_choice.is_some() || self.all_content().any(SampleContent::needs_tools);
        let with_context =
            matches!(self.include_context, Some(IncludeContext::ThisServer | IncludeContext::AllServers));
        match (with_tools, with_context && features.has(Feature::SamplingTools)) {
            (true, true) => &[Capability::SamplingTools, Capability::SamplingContext],
            (true, false) => &[Capability::SamplingTools],
            (false, true) => &[Capability::SamplingContext],
            (false, false) => &[Capability::Sampling],
        }
    }

    fn all_content(&self) -> impl Iterator<Item = &SampleContent> {
        self.messages.iter().flat_map(|message| &message.content)
    }

    /// Checks for mistakes that every client would reject.
    fn check(&self, features: Features) -> Result<(), Fault> {
        if let Some((name, priority)) = self.priorities.iter().find(|(_, priority)| !(0.0..=1.0).contains(priority)) {
            return Err(Fault::internal(format!("`{name}` is {priority}, expected a number from 0 to 1")));
        }
        if let Some(temperature) = self.temperature.filter(|temperature| !temperature.is_finite()) {
            return Err(Fault::internal(format!("`temperature` is {temperature}, expected a number")));
        }
        if let Some(tool) = self.tools.iter().find(|tool| tool.schema["type"] != "object") {
            let problem = "must describe an object: expected `\"type\": \"object\"`";
            return Err(Fault::internal(format!("the schema of the tool `{}` {problem}", tool.name)));
        }
        let is_audio = |content: &SampleContent| matches!(content, SampleContent::Audio(_));
        if !features.has(Feature::Audio) && self.all_content().any(is_audio) {
            return Err(Fault::internal("the protocol revision of the client does not support audio in sampling"));
        }
        check_tool_results(&self.messages)
    }

    fn write(&self, out: &mut Vec<u8>, features: Features) {
        let mut object = Object::begin(out);
        write_messages(object.key("messages"), &self.messages, features);
        self.write_preferences(&mut object);
        object.optional("systemPrompt", self.system_prompt.as_deref());
        object.optional("includeContext", self.include_context.map(IncludeContext::as_str));
        object.value("temperature", self.temperature.as_ref());
        plain(object.key("maxTokens"), &self.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS));
        object.value("stopSequences", Some(&self.stop_sequences).filter(|all| !all.is_empty()));
        object.value("metadata", Some(&self.metadata).filter(|all| !all.is_empty()));
        object.value("tools", Some(&self.tools).filter(|all| !all.is_empty()));
        object.value("toolChoice", self.tool_choice.map(|choice| json!({ "mode": choice.as_str() })).as_ref());
        object.end();
    }

    fn write_preferences(&self, object: &mut Object<'_>) {
        let mut preferences = Map::new();
        if !self.hints.is_empty() {
            preferences.insert("hints".to_owned(), self.hints.iter().map(|name| json!({ "name": name })).collect());
        }
        preferences.extend(self.priorities.iter().map(|(name, priority)| ((*name).to_owned(), Value::from(*priority))));
        object.value("modelPreferences", Some(&preferences).filter(|all| !all.is_empty()));
    }
}

impl Ask for SampleRequest {
    type Answer = SampleResult;

    fn question(&self, features: Features) -> Result<Question, Fault> {
        let capabilities = self.capabilities(features);
        if capabilities.contains(&Capability::SamplingTools) && !features.has(Feature::SamplingTools) {
            return Err(Capability::missing(&[Capability::SamplingTools]));
        }
        self.check(features)?;
        let mut params = Vec::new();
        self.write(&mut params, features);
        let key = self.key.clone().unwrap_or_else(|| format!("sampling-{:08x}", hash(&params)));
        Ok(Question::new(key, "sampling/createMessage", params, capabilities))
    }

    fn read(&self, result: &str) -> Result<Self::Answer, InvalidAnswer> {
        SampleResult::read(result)
    }
}

/// Hashes bytes with FNV-1a, whose result is the same in every process.
fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

named! {
    /// The context that the client may include in the prompt.
    ///
    /// Deprecated since revision 2025-11-25, except for [`None`](Self::None):
    /// see [Stability](crate::guide::stability#deprecated-features-of-the-protocol).
    ///
    /// ```
    /// use mcp_runtime::ask::{IncludeContext, SampleRequest};
    ///
    /// let request = SampleRequest::new("What did I ask before?").include_context(IncludeContext::ThisServer);
    /// ```
    ///
    /// See [Context inclusion](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#context-inclusion).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum IncludeContext {
        /// No context.
        None = "none",
        /// The context of this server. Deprecated. Since 2025-11-25, the client must have declared `sampling.context`.
        ThisServer = "thisServer",
        /// The context of all servers of the client. Deprecated as well.
        AllServers = "allServers",
    }
}

named! {
    /// Whether the model calls tools.
    ///
    /// See [Tool choice modes](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#tool-choice-modes).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ToolChoice {
        /// The model decides.
        Auto = "auto",
        /// The model calls at least one tool.
        Required = "required",
        /// The model does not call tools.
        None = "none",
    }
}

/// A tool that the model may call. The server runs it.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Tool {
    name: String,
    description: String,
    #[serde(rename = "inputSchema")]
    schema: Value,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::dialect_of;

    #[test]
    fn the_default_key_is_a_hash_of_the_request() {
        let question = |ask: &SampleRequest| ask.question(dialect_of(crate::Revision::V2026_07_28).features()).unwrap();
        let key = |ask: SampleRequest| question(&ask).key;
        let hashed = key(SampleRequest::new("Hello"));
        assert_eq!(hashed, "sampling-7d3800f2");
        assert_eq!(hashed, key(SampleRequest::new("Hello")));
        assert_ne!(hashed, key(SampleRequest::new("Hello").max_tokens(5)));
        assert_eq!(key(SampleRequest::new("Hello").key("greeting")), "greeting");
    }

    #[test]
    fn tools_and_context_require_additional_capabilities() {
        use Capability::{Sampling, SamplingContext, SamplingTools};

        let schema = || serde_json::json!({ "type": "object" });
        for (ask, old, new) in [
            (SampleRequest::new("a"), &[Sampling] as &[_], &[Sampling] as &[_]),
            (SampleRequest::new("a").include_context(IncludeContext::None), &[Sampling], &[Sampling]),
            (SampleRequest::new("a").include_context(IncludeContext::AllServers), &[Sampling], &[SamplingContext]),
            (SampleRequest::new("a").with_tool("b", "c", schema()), &[SamplingTools], &[SamplingTools]),
            (SampleRequest::new("a").tool_choice(ToolChoice::None), &[SamplingTools], &[SamplingTools]),
            // The conversation contains the result of a call.
            (
                SampleRequest::new("a").with_tool_results([SampleToolResult::new("1", "b")]),
                &[SamplingTools],
                &[SamplingTools],
            ),
            (
                SampleRequest::new("a").with_tool("b", "c", schema()).include_context(IncludeContext::ThisServer),
                &[SamplingTools],
                &[SamplingTools, SamplingContext],
            ),
        ] {
            for (revision, expected) in [(crate::Revision::V2025_06_18, old), (crate::Revision::V2025_11_25, new)] {
                assert_eq!(ask.capabilities(dialect_of(revision).features()), expected, "{revision}: {ask:?}");
            }
        }
    }
}
