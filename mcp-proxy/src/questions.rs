//! Questions of the upstream, which the caller's client answers.

use mcp_runtime::{
    Context, Fault,
    ask::{Answer, FormElicitation, IncludeContext, ListRoots, SampleRequest, ToolChoice, UrlElicitation},
    model::Role,
};
use serde_json::{Value, json};

use crate::{
    convert::{Prefix, make_printable, role, sample_value, text},
    pages::Pages,
};

/// Asks the client of a call, and returns the result of the request. `key` identifies the question within the call.
///
/// # Errors
///
/// Returns a fault if the client cannot be asked, if it does not answer, or if the question is invalid.
pub(crate) async fn ask(
    ctx: &Context,
    prefix: &Prefix,
    pages: &Pages,
    key: String,
    method: &str,
    params: &Value,
) -> Result<Value, Fault> {
    let invalid = || Fault::invalid_params(prefix.message(&format!("the upstream sent an invalid `{method}`")));
    match method {
        "elicitation/create" => {
            let message = prefix.message(params["message"].as_str().ok_or_else(invalid)?);
            match text(params, "url").filter(|_| params["mode"] == "url") {
                Some(url) => {
                    let page = pages.add(UrlElicitation::new(key, url, message), params["elicitationId"].as_str());
                    Ok(answer(ctx.ask(page).await?.map_content(|()| None)))
                }
                None => {
                    let mut schema = params["requestedSchema"].clone();
                    make_printable(&mut schema, false);
                    if !schema.is_object() {
                        return Err(invalid());
                    }
                    let given = ctx.ask(FormElicitation::new(key, message, schema)).await?;
                    Ok(answer(given.map_content(|content| Some(Value::Object(content)))))
                }
            }
        }
        "sampling/createMessage" => {
            let request = sample_request(prefix, params).ok_or_else(invalid)?;
            let result = ctx.ask(request.key(key)).await?;
            let mut content: Vec<_> = result.content.iter().filter_map(sample_value).collect();
            let content = if content.len() == 1 { content.remove(0) } else { Value::Array(content) };
            let role = if result.role == Role::User { "user" } else { "assistant" };
            let mut value = json!({"role": role, "content": content, "model": result.model});
            if let Some(reason) = result.stop_reason {
                value["stopReason"] = reason.into();
            }
            Ok(value)
        }
        "roots/list" => {
            let roots = ctx.ask(ListRoots).await?;
            let roots = roots.into_iter().map(|root| match root.name {
                Some(name) => json!({"uri": root.uri, "name": name}),
                None => json!({"uri": root.uri}),
            });
            Ok(json!({"roots": roots.collect::<Vec<_>>()}))
        }
        _ => Err(invalid()),
    }
}

trait MapContent<T> {
    fn map_content(self, content: impl FnOnce(T) -> Option<Value>) -> Answer<Option<Value>>;
}

impl<T> MapContent<T> for Answer<T> {
    fn map_content(self, content: impl FnOnce(T) -> Option<Value>) -> Answer<Option<Value>> {
        match self {
            Self::Accept(value) => Answer::Accept(content(value)),
            Self::Decline => Answer::Decline,
            Self::Cancel => Answer::Cancel,
        }
    }
}

fn answer(answer: Answer<Option<Value>>) -> Value {
    match answer {
        Answer::Accept(Some(content)) => json!({"action": "accept", "content": content}),
        Answer::Accept(None) => json!({"action": "accept"}),
        Answer::Decline => json!({"action": "decline"}),
        Answer::Cancel => json!({"action": "cancel"}),
    }
}

fn sample_request(prefix: &Prefix, params: &Value) -> Option<SampleRequest> {
    let mut request = SampleRequest::default().max_tokens(params["maxTokens"].as_u64()?.try_into().ok()?);
    for message in params["messages"].as_array()? {
        request = request.with_contents(role(&message["role"])?, prefix.sample_contents(&message["content"])?);
    }
    if let Some(prompt) = text(params, "systemPrompt") {
        request = request.system_prompt(prompt);
    }
    if let Some(temperature) = params["temperature"].as_f64() {
        request = request.temperature(temperature);
    }
    request = match params["includeContext"].as_str() {
        // Only the client knows its servers: this one is the proxy.
        Some("thisServer") => request.include_context(IncludeContext::ThisServer),
        Some("allServers") => request.include_context(IncludeContext::AllServers),
        _ => request,
    };
    request =
        request.with_stop_sequences(params["stopSequences"].as_array().into_iter().flatten().filter_map(Value::as_str));
    let preferences = &params["modelPreferences"];
    for hint in preferences["hints"].as_array().into_iter().flatten().filter_map(|hint| hint["name"].as_str()) {
        request = request.with_model_hint(hint);
    }
    if let Some(priority) = preferences["costPriority"].as_f64() {
        request = request.cost(priority);
    }
    if let Some(priority) = preferences["speedPriority"].as_f64() {
        request = request.speed(priority);
    }
    if let Some(priority) = preferences["intelligencePriority"].as_f64() {
        request = request.intelligence(priority);
    }
    for (name, value) in params["metadata"].as_object().into_iter().flatten() {
        request = request.with_metadata(name, value.clone());
    }
    for tool in params["tools"].as_array().into_iter().flatten() {
        let description = text(tool, "description").unwrap_or_default();
        request = request.with_tool(tool["name"].as_str()?, description, tool["inputSchema"].clone());
    }
    Some(match params["toolChoice"]["mode"].as_str() {
        Some("auto") => request.tool_choice(ToolChoice::Auto),
        Some("none") => request.tool_choice(ToolChoice::None),
        Some("required") => request.tool_choice(ToolChoice::Required),
        _ => request,
    })
}
