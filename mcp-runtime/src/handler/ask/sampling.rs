use serde_json::{Map, Value};

use super::{
    Ask, Capability, Question, mistaken,
    sample::{SampleContent, SampleMessage, SampleResult, SampleToolResult, SampleToolUse},
};
use crate::{
    error::Fault,
    jsonrpc::write::{plain, string},
    model::Role,
    revision::{
        Feature, Features,
        encode::{Object, array},
    },
};

/// Asks the client's model to go on with a conversation.
///
/// Deprecated by revision 2026-07-28: a server that needs a model calls one itself.
///
/// See [Creating messages](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#creating-messages).
///
/// ```
/// use mcp_runtime::SampleRequest;
///
/// let question = SampleRequest::new("What is the capital of France?")
///     .system_prompt("Answer in one word.")
///     .max_tokens(100)
///     .model_hint("sonnet")
///     .speed(0.8);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRequest {
    key: Option<String>,
    messages: Vec<SampleMessage>,
    system_prompt: Option<String>,
    max_tokens: u32,
    temperature: Option<f64>,
    stop_sequences: Vec<String>,
    hints: Vec<String>,
    /// The wire's name of each, and how much it counts.
    priorities: Vec<(&'static str, f64)>,
    metadata: Map<String, Value>,
    include_context: Option<IncludeContext>,
    tools: Vec<Tool>,
    tool_choice: Option<ToolChoice>,
}

/// What a client may put beside the conversation.
///
/// See [Context inclusion](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#context-inclusion).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncludeContext {
    /// Nothing.
    None,
    /// What it knows from this server. Deprecated; from 2025-11-25 on the client must have declared `sampling.context`.
    ThisServer,
    /// What it knows from all of its servers. Deprecated as well.
    AllServers,
}

/// Whether the model uses tools.
///
/// See [Tool choice modes](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#tool-choice-modes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// At least one.
    Required,
    /// None.
    None,
}

/// A tool that the model may use, and the server calls.
#[derive(Debug, Clone, PartialEq)]
struct Tool {
    name: String,
    description: String,
    schema: Value,
}

impl SampleRequest {
    /// Begins a conversation with what a person would say.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            key: None,
            messages: vec![SampleMessage { role: Role::User, content: vec![SampleContent::Text(prompt.into())] }],
            system_prompt: None,
            max_tokens: 1000,
            temperature: None,
            stop_sequences: Vec::new(),
            hints: Vec::new(),
            priorities: Vec::new(),
            metadata: Map::new(),
            include_context: None,
            tools: Vec::new(),
            tool_choice: None,
        }
    }

    /// Adds a message.
    #[must_use]
    pub fn message(self, role: Role, content: impl Into<SampleContent>) -> Self {
        self.contents(role, [content.into()])
    }

    /// Adds a message of several contents. Revisions before 2025-11-25 get a message for each.
    #[must_use]
    pub fn contents(mut self, role: Role, content: impl IntoIterator<Item = SampleContent>) -> Self {
        self.messages.push(SampleMessage { role, content: content.into_iter().collect() });
        self
    }

    /// Adds what the model answered, to go on from there.
    #[must_use]
    pub fn answered(self, result: SampleResult) -> Self {
        self.contents(result.role, result.content)
    }

    /// Adds what came of the tools that the model wanted: of each of them, and nothing else.
    #[must_use]
    pub fn tool_results(self, results: impl IntoIterator<Item = SampleToolResult>) -> Self {
        self.contents(Role::User, results.into_iter().map(SampleContent::ToolResult))
    }

    /// Says who the model is.
    #[must_use]
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = Some(prompt.into());
        self
    }

    /// Bounds the answer; 1000 tokens unless set.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = tokens;
        self
    }

    /// Says how freely the model speaks.
    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Adds a text that ends the answer.
    #[must_use]
    pub fn stop_sequence(mut self, text: impl Into<String>) -> Self {
        self.stop_sequences.push(text.into());
        self
    }

    /// Adds texts that end the answer.
    #[must_use]
    pub fn stop_sequences<T: Into<String>>(mut self, texts: impl IntoIterator<Item = T>) -> Self {
        self.stop_sequences.extend(texts.into_iter().map(Into::into));
        self
    }

    /// Adds the name of a model, or a part of it; the first is liked best.
    #[must_use]
    pub fn model_hint(mut self, name: impl Into<String>) -> Self {
        self.hints.push(name.into());
        self
    }

    /// Says how much the abilities of the model count, from 0 to 1.
    #[must_use]
    pub fn intelligence(self, priority: f64) -> Self {
        self.priority("intelligencePriority", priority)
    }

    /// Says how much a quick answer counts, from 0 to 1.
    #[must_use]
    pub fn speed(self, priority: f64) -> Self {
        self.priority("speedPriority", priority)
    }

    /// Says how much a low price counts, from 0 to 1.
    #[must_use]
    pub fn cost(self, priority: f64) -> Self {
        self.priority("costPriority", priority)
    }

    fn priority(mut self, name: &'static str, priority: f64) -> Self {
        self.priorities.retain(|(other, _)| *other != name);
        self.priorities.push((name, priority));
        self
    }

    /// Adds something that only some providers of models know.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// Says what the client may put beside the conversation.
    #[must_use]
    pub fn include_context(mut self, context: IncludeContext) -> Self {
        self.include_context = Some(context);
        self
    }

    /// Adds a tool that the model may use; the schema is that of its arguments. Needs revision 2025-11-25.
    ///
    /// See [Sampling with tools](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#sampling-with-tools).
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>, description: impl Into<String>, schema: Value) -> Self {
        self.tools.push(Tool { name: name.into(), description: description.into(), schema });
        self
    }

    /// Says whether the model uses tools.
    #[must_use]
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = Some(choice);
        self
    }

    /// Tells this question from the others of the same call. Unless set, what is asked does.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    fn needs(&self, features: Features) -> Capability {
        let with_tools = !self.tools.is_empty()
            || self.tool_choice.is_some()
            || self.contents_of_all().any(SampleContent::is_of_tools);
        let with_context =
            matches!(self.include_context, Some(IncludeContext::ThisServer | IncludeContext::AllServers));
        match (with_tools, with_context) {
            (true, _) => Capability::SamplingTools,
            // Before there was a capability for it, every client was asked.
            (false, true) if features.has(Feature::SamplingTools) => Capability::SamplingContext,
            (false, _) => Capability::Sampling,
        }
    }

    fn contents_of_all(&self) -> impl Iterator<Item = &SampleContent> {
        self.messages.iter().flat_map(|message| &message.content)
    }

    /// Refuses what no client can make sense of.
    fn check(&self, features: Features) -> Result<(), Fault> {
        if let Some((name, priority)) = self.priorities.iter().find(|(_, priority)| !(0.0..=1.0).contains(priority)) {
            return Err(mistaken(format!("`{name}` is {priority}, expected a number from 0 to 1")));
        }
        if let Some(temperature) = self.temperature.filter(|temperature| !temperature.is_finite()) {
            return Err(mistaken(format!("`temperature` is {temperature}, expected a number")));
        }
        if let Some(tool) = self.tools.iter().find(|tool| tool.schema["type"] != "object") {
            let why = "is not that of an object, as a tool's arguments are";
            return Err(mistaken(format!("the schema of the tool `{}` {why}", tool.name)));
        }
        let is_audio = |content: &SampleContent| matches!(content, SampleContent::Audio(_));
        if !features.has(Feature::Audio) && self.contents_of_all().any(is_audio) {
            return Err(mistaken("the client's revision of the protocol has no audio in messages to a model"));
        }
        self.check_results()
    }

    /// Makes sure that each use of a tool has its result in the next message, and nothing stands beside the results.
    ///
    /// See [Tool use and result balance](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#tool-use-and-result-balance).
    fn check_results(&self) -> Result<(), Fault> {
        let mut open: Vec<&str> = Vec::new();
        for SampleMessage { role, content } in &self.messages {
            let results = content.iter().filter_map(|content| match content {
                SampleContent::ToolResult(result) => Some(&*result.tool_use_id),
                _ => None,
            });
            let mut count = 0;
            for id in results {
                count += 1;
                let Some(index) = open.iter().position(|open| *open == id) else {
                    return Err(mistaken(format!(
                        "the result of the tool use {id:?} answers none of the message before"
                    )));
                };
                open.swap_remove(index);
            }
            if count > 0 && (count < content.len() || *role != Role::User) {
                return Err(mistaken("results of tools stand by themselves, in a message of the user's"));
            }
            if let [id, ..] = *open {
                return Err(mistaken(format!("the tool use {id:?} has no result in the message behind it")));
            }
            open.extend(content.iter().filter_map(|content| match content {
                SampleContent::ToolUse(SampleToolUse { id, .. }) => Some(&**id),
                _ => None,
            }));
        }
        match *open {
            [id, ..] => Err(mistaken(format!("the tool use {id:?} has no result in the message behind it"))),
            [] => Ok(()),
        }
    }

    fn write(&self, out: &mut Vec<u8>, features: Features) {
        let mut object = Object::begin(out);
        messages(object.key("messages"), &self.messages, features);
        self.write_preferences(&mut object);
        object.optional("systemPrompt", self.system_prompt.as_deref());
        object.optional("includeContext", self.include_context.map(IncludeContext::name));
        if let Some(temperature) = self.temperature {
            plain(object.key("temperature"), &temperature);
        }
        plain(object.key("maxTokens"), &self.max_tokens);
        if !self.stop_sequences.is_empty() {
            plain(object.key("stopSequences"), &self.stop_sequences);
        }
        if !self.metadata.is_empty() {
            plain(object.key("metadata"), &self.metadata);
        }
        if !self.tools.is_empty() {
            array(object.key("tools"), &self.tools, Tool::write);
        }
        if let Some(choice) = self.tool_choice {
            let mut mode = Object::begin(object.key("toolChoice"));
            mode.string("mode", choice.name());
            mode.end();
        }
        object.end();
    }

    fn write_preferences(&self, object: &mut Object<'_>) {
        if self.hints.is_empty() && self.priorities.is_empty() {
            return;
        }
        let mut preferences = Object::begin(object.key("modelPreferences"));
        if !self.hints.is_empty() {
            array(preferences.key("hints"), &self.hints, |out, hint| {
                let mut object = Object::begin(out);
                object.string("name", hint);
                object.end();
            });
        }
        for (name, priority) in &self.priorities {
            plain(preferences.key(name), priority);
        }
        preferences.end();
    }
}

impl Ask for SampleRequest {
    type Answer = SampleResult;

    fn question(&self, features: Features) -> Result<Question, Fault> {
        let needs = self.needs(features);
        if needs == Capability::SamplingTools && !features.has(Feature::SamplingTools) {
            return Err(needs.missing());
        }
        self.check(features)?;
        let mut params = Vec::new();
        self.write(&mut params, features);
        let key = self.key.clone().unwrap_or_else(|| format!("sampling-{:08x}", hash(&params)));
        let params = String::from_utf8(params).unwrap_or_default();
        Ok(Question { key, method: "sampling/createMessage", params, needs })
    }

    fn read(&self, result: &str) -> Result<Self::Answer, String> {
        SampleResult::read(result)
    }
}

impl IncludeContext {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ThisServer => "thisServer",
            Self::AllServers => "allServers",
        }
    }
}

impl ToolChoice {
    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Required => "required",
            Self::None => "none",
        }
    }
}

impl Tool {
    fn write(out: &mut Vec<u8>, tool: &Self) {
        let mut object = Object::begin(out);
        object.string("name", &tool.name);
        object.string("description", &tool.description);
        plain(object.key("inputSchema"), &tool.schema);
        object.end();
    }
}

/// Writes messages; of several contents as one each, where the revision has no messages of several.
fn messages(out: &mut Vec<u8>, messages: &[SampleMessage], features: Features) {
    let whole = features.has(Feature::SamplingTools);
    let split = messages.iter().flat_map(|message| {
        let size = if whole { message.content.len().max(1) } else { 1 };
        message.content.chunks(size).map(|content| (message.role, content))
    });
    array(out, split, |out, (role, content)| {
        let mut object = Object::begin(out);
        string(object.key("role"), role.as_str());
        match content {
            [one] => one.write(object.key("content"), features),
            several => array(object.key("content"), several, |out, one| one.write(out, features)),
        }
        object.end();
    });
}

/// Hashes bytes by FNV-1a, which is the same in every process.
fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::dialect_of;

    #[test]
    fn what_is_asked_makes_the_key() {
        let question = |ask: &SampleRequest| ask.question(dialect_of(crate::Revision::V2026_07_28).features()).unwrap();
        let key = |ask: SampleRequest| question(&ask).key;
        let made = key(SampleRequest::new("Hello"));
        assert_eq!(made, "sampling-7d3800f2");
        assert_eq!(made, key(SampleRequest::new("Hello")));
        assert_ne!(made, key(SampleRequest::new("Hello").max_tokens(5)));
        assert_eq!(key(SampleRequest::new("Hello").key("greeting")), "greeting");
    }

    #[test]
    fn what_is_asked_makes_the_capability() {
        let schema = || serde_json::json!({ "type": "object" });
        for (ask, old, new) in [
            (SampleRequest::new("a"), Capability::Sampling, Capability::Sampling),
            (SampleRequest::new("a").include_context(IncludeContext::None), Capability::Sampling, Capability::Sampling),
            (
                SampleRequest::new("a").include_context(IncludeContext::AllServers),
                Capability::Sampling,
                Capability::SamplingContext,
            ),
            (SampleRequest::new("a").tool("b", "c", schema()), Capability::SamplingTools, Capability::SamplingTools),
            (
                SampleRequest::new("a").tool("b", "c", schema()).include_context(IncludeContext::ThisServer),
                Capability::SamplingTools,
                Capability::SamplingTools,
            ),
        ] {
            for (revision, expected) in [(crate::Revision::V2025_06_18, old), (crate::Revision::V2025_11_25, new)] {
                assert_eq!(ask.needs(dialect_of(revision).features()), expected, "{revision}: {ask:?}");
            }
        }
    }
}
