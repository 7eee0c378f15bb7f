//! Validation against the official schemas of the protocol, which are not part of this repository.
//!
//! They are read from the directory that `MCP_SCHEMAS` names. Without it, they are read from `tests/schema`, where
//! `tests/schema/fetch` puts them, or from `shared/schema` next to the repository.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use jsonschema::Validator;
use mcp_runtime::Revision;
use serde_json::{Value, json};

/// How to get the schemas.
pub const HELP: &str =
    "help: run `tests/schema/fetch`, or set `MCP_SCHEMAS` to a directory that contains <revision>/schema.json";

/// Returns the file with the schema of a revision, or `None` if it is missing. If `MCP_SCHEMAS` is set, returns the
/// file in that directory whether it exists or not.
pub fn find(revision: Revision) -> Option<PathBuf> {
    let file_in = |directory: PathBuf| directory.join(revision.as_str()).join("schema.json");
    if let Some(directory) = std::env::var_os("MCP_SCHEMAS") {
        return Some(file_in(directory.into()));
    }
    let directories = ["schema", "../../shared/schema"];
    let files = directories.map(|directory| file_in(Path::new(env!("CARGO_MANIFEST_DIR")).join(directory)));
    files.into_iter().find(|file| file.is_file())
}

/// The schema of one revision, which all tests of a process share.
#[derive(Debug)]
pub struct Official {
    revision: Revision,
    schema: Value,
    /// The validators of the definitions that were needed so far.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Official {
    /// Returns the schema of a revision, which is read once in each process. Returns `None` if it is missing: the check
    /// is skipped, and the test target `skipped` reports it.
    ///
    /// # Panics
    ///
    /// Panics if the schema is not valid JSON, or if it is missing although `MCP_SCHEMAS` is set.
    pub fn load(revision: Revision) -> Option<&'static Self> {
        static LOADED: [OnceLock<Option<Official>>; Revision::ALL.len()] =
            [const { OnceLock::new() }; Revision::ALL.len()];
        LOADED[revision as usize].get_or_init(|| Self::read(revision)).as_ref()
    }

    fn read(revision: Revision) -> Option<Self> {
        let file = find(revision)?;
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}\n{HELP}", file.display()));
        let schema = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Some(Self { revision, schema, validators: Mutex::default() })
    }

    /// Returns the violations of a message of the server. `method` is that of the request, if the message is a
    /// response.
    pub fn problems(&self, message: &Value, method: Option<&str>) -> Vec<String> {
        if let Value::Array(batch) = message {
            return batch.iter().flat_map(|message| self.problems(message, None)).collect();
        }
        let mut problems = Vec::new();
        if message.get("error").is_some() {
            // JSON-RPC requires `null` if the id could not be read. The older schemas do not allow it.
            let mut message = message.clone();
            if message.get("id").is_some_and(Value::is_null) && crate::expected(self.revision).null_error_ids {
                message["id"] = json!(0);
            }
            let definition = if self.has("JSONRPCErrorResponse") { "JSONRPCErrorResponse" } else { "JSONRPCError" };
            problems.extend(self.validate(definition, &message));
            let typed = match message["error"]["code"].as_i64() {
                Some(-32021) => Some("MissingRequiredClientCapabilityError"),
                Some(-32042) => Some("URLElicitationRequiredError"),
                Some(-32022) => Some("UnsupportedProtocolVersionError"),
                _ => None,
            };
            if let Some(typed) = typed.filter(|typed| self.has(typed)) {
                problems.extend(self.validate(typed, &message));
            }
        } else if message.get("method").is_some() && message.get("id").is_some() {
            problems.extend(self.validate("ServerRequest", message));
        } else if message.get("method").is_some() {
            problems.extend(self.validate("ServerNotification", message));
        } else {
            let definition =
                if self.has("JSONRPCResultResponse") { "JSONRPCResultResponse" } else { "JSONRPCResponse" };
            problems.extend(self.validate(definition, message));
            let result = match (message["result"]["resultType"].as_str(), method) {
                (Some("input_required"), _) => Some("InputRequiredResult"),
                // The official schemas of the revisions do not include the extension.
                (Some("task"), _) => Some("Result"),
                (None, Some("tools/call")) if message["result"].get("task").is_some() => Some("CreateTaskResult"),
                _ => method.and_then(result_type),
            };
            let result = result.map(|result| if self.has(result) { result } else { "Result" });
            if let Some(result) = result {
                problems.extend(self.validate(result, &message["result"]));
            }
        }
        problems
    }

    fn has(&self, definition: &str) -> bool {
        self.schema[self.keyword()].get(definition).is_some()
    }

    fn keyword(&self) -> &'static str {
        if self.schema.get("$defs").is_some() { "$defs" } else { "definitions" }
    }

    /// Returns the violations of a definition by a value.
    ///
    /// # Panics
    ///
    /// Panics if the schema is invalid.
    pub fn validate(&self, definition: &str, value: &Value) -> Vec<String> {
        let validator = self.validator(definition);
        let problems = validator.iter_errors(value);
        problems.map(|error| format!("{definition}{}: {error}", error.instance_path())).collect()
    }

    fn validator(&self, definition: &str) -> Arc<Validator> {
        let mut validators = self.validators.lock().unwrap_or_else(PoisonError::into_inner);
        let validator = validators.entry(definition.to_owned()).or_insert_with(|| {
            let mut schema = self.schema.clone();
            schema["$ref"] = json!(format!("#/{}/{definition}", self.keyword()));
            Arc::new(jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{definition}: {error}")))
        });
        Arc::clone(validator)
    }
}

fn result_type(method: &str) -> Option<&'static str> {
    Some(match method {
        "initialize" => "InitializeResult",
        "server/discover" => "DiscoverResult",
        "tools/list" => "ListToolsResult",
        "tools/call" => "CallToolResult",
        "resources/list" => "ListResourcesResult",
        "resources/templates/list" => "ListResourceTemplatesResult",
        "resources/read" => "ReadResourceResult",
        "prompts/list" => "ListPromptsResult",
        "prompts/get" => "GetPromptResult",
        "completion/complete" => "CompleteResult",
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => "EmptyResult",
        "subscriptions/listen" => "SubscriptionsListenResult",
        _ => return None,
    })
}
