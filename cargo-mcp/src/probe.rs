//! Handshakes and lists in each revision, through a raw connection.

use std::time::{Duration, Instant};

use mcp_runtime_lock::Listing;
use serde_json::{Value, json};

use crate::{
    client::identity,
    failure::Failure,
    raw_connection::{RawConnection, RequestError},
    refusal::SEND_TOKEN,
    revision::Revision,
    target::Target,
};

/// The error code for an unknown method.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// The outcome of a handshake.
pub(crate) enum Handshake {
    /// The server supports the revision.
    Accepted(Box<RawSession>),
    /// The server rejected the revision properly.
    Rejected(String),
    /// The response is not a valid handshake.
    Invalid(String),
    /// There was no response.
    Failed(String),
}

/// A connection after a successful handshake.
pub(crate) struct RawSession {
    pub(crate) connection: RawConnection,
    pub(crate) revision: Revision,
    /// `serverInfo`
    pub(crate) server: Value,
    pub(crate) capabilities: Value,
    pub(crate) instructions: Option<String>,
    /// The revisions that the server announces. Empty in revisions without `server/discover`.
    pub(crate) announced: Vec<Revision>,
    /// The capabilities that this client declares.
    client_capabilities: Value,
    next_id: u64,
    /// The time that the server has for each response.
    timeout: Duration,
}

/// Connects and performs the handshake of one revision, as a client with these capabilities.
///
/// # Errors
///
/// Returns an error if the program cannot be started.
pub(crate) async fn handshake(
    target: &Target,
    revision: Revision,
    capabilities: &Value,
    timeout: Duration,
) -> Result<Handshake, Failure> {
    let mut session = RawSession {
        connection: RawConnection::open(target)?,
        revision,
        server: Value::Null,
        capabilities: Value::Null,
        instructions: None,
        announced: Vec::new(),
        client_capabilities: capabilities.clone(),
        next_id: 1,
        timeout,
    };
    let has_discovery = revision.is_stateless();
    if has_discovery {
        session.connection.set_revision(revision);
    }
    let (method, params) = if has_discovery {
        ("server/discover", json!({}))
    } else {
        let version = revision.as_str();
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": identity()});
        ("initialize", params)
    };
    let result = match session.request(method, params).await {
        Ok(result) => result,
        Err(RequestError::Rpc { code, message }) => {
            return Ok(Handshake::Rejected(format!("`{method}` returned error {code}: {message}")));
        }
        Err(RequestError::InvalidResponse(why)) => {
            return Ok(Handshake::Invalid(format!("`{method}`: {why}")));
        }
        Err(error) => return Ok(Handshake::Failed(error.to_string())),
    };
    let path = if has_discovery { "/_meta/io.modelcontextprotocol~1serverInfo" } else { "/serverInfo" };
    session.server = result.pointer(path).cloned().unwrap_or_default();
    session.capabilities = result["capabilities"].clone();
    let versions = result["supportedVersions"].as_array().into_iter().flatten();
    session.announced = versions.filter_map(Value::as_str).filter_map(Revision::parse).collect();
    session.instructions = result["instructions"].as_str().map(str::to_owned);
    if let Some(problem) = check_result(&result, revision) {
        return Ok(problem);
    }
    if !has_discovery {
        session.connection.set_revision(revision);
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        if let Err(error) = session.connection.notify(&initialized, timeout).await {
            return Ok(Handshake::Failed(error.to_string()));
        }
    }
    Ok(Handshake::Accepted(Box::new(session)))
}

/// Returns the outcome if the result of a handshake is invalid or offers another revision.
fn check_result(result: &Value, revision: Revision) -> Option<Handshake> {
    let invalid = |why: &str| Some(Handshake::Invalid(why.to_owned()));
    if !result["capabilities"].is_object() {
        return invalid("the result has no `capabilities` object");
    }
    if revision.is_stateless() {
        let Some(versions) = result["supportedVersions"].as_array() else {
            return invalid("the result has no `supportedVersions` array");
        };
        let is_supported = versions.iter().any(|version| version == revision.as_str());
        return (!is_supported)
            .then(|| Handshake::Rejected(format!("the server offers {}", Value::from(versions.clone()))));
    }
    if !result["serverInfo"]["name"].is_string() || !result["serverInfo"]["version"].is_string() {
        return invalid("the result has no `serverInfo` with `name` and `version`");
    }
    match result["protocolVersion"].as_str() {
        None => invalid("the result has no `protocolVersion` string"),
        Some(version) if version == revision.as_str() => None,
        Some(version) => Some(Handshake::Rejected(format!("the server offers {version}"))),
    }
}

/// Connects in a revision, or else in the newest one that a server supports, as a client with these capabilities.
///
/// # Errors
///
/// Returns an error if the server cannot be reached or supports no revision.
pub(crate) async fn connect(
    target: &Target,
    revision: Option<Revision>,
    capabilities: &Value,
    timeout: Duration,
) -> Result<RawSession, Failure> {
    let mut why = String::new();
    let revisions = revision.map_or_else(|| Revision::known().rev().collect(), |revision| vec![revision]);
    // Some servers ignore `server/discover`. One that ignores `initialize`, too, will not answer in another revision.
    let start = Instant::now();
    for revision in revisions.into_iter().take_while(|_| start.elapsed() / 2 < timeout) {
        match handshake(target, revision, capabilities, timeout).await? {
            Handshake::Accepted(session) => return Ok(*session),
            Handshake::Rejected(reason) | Handshake::Invalid(reason) | Handshake::Failed(reason) => why = reason,
        }
    }
    Err(connection_failure(target, &why))
}

/// Returns the failure for a server that supports no revision.
pub(crate) fn connection_failure(target: &Target, why: &str) -> Failure {
    let failure = Failure::connection(format_args!("cannot connect to {target}: {why}"));
    match target {
        Target::Program { .. } => {
            failure.help("run it in a terminal to see its output; stdout must contain only JSON-RPC messages")
        }
        Target::Url { .. } if why.contains("HTTP 401") => failure.help(SEND_TOKEN),
        Target::Url { .. } => failure.help("check the path, and whether the server requires headers (`--header`)"),
    }
}

impl RawSession {
    /// Sends a request with the members that the revision requires.
    ///
    /// # Errors
    ///
    /// Returns an error response, or the reason why there is no valid response.
    pub(crate) async fn request(&mut self, method: &str, mut params: Value) -> Result<Value, RequestError> {
        if self.revision.is_stateless() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.revision.as_str(),
                "io.modelcontextprotocol/clientInfo": identity(),
                "io.modelcontextprotocol/clientCapabilities": self.client_capabilities,
            });
        }
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let mut response = self.connection.request(&message, self.timeout).await?;
        let invalid = |why: String| Err(RequestError::InvalidResponse(why));
        match (response["jsonrpc"] == "2.0", response.get("result").is_some(), response.get("error")) {
            (true, true, None) => Ok(response["result"].take()),
            (true, false, Some(error)) => match (error["code"].as_i64(), error["message"].as_str()) {
                (Some(code), Some(message)) => Err(RequestError::Rpc { code, message: message.to_owned() }),
                _ => invalid(format!("the error has no `code` or no `message`: {error}")),
            },
            _ => invalid(format!("not a JSON-RPC 2.0 response: {response}")),
        }
    }

    /// Reads all pages of a list. Returns an empty list if the server does not know the method.
    ///
    /// # Errors
    ///
    /// Returns an error if a page cannot be read or there are more than 1000 pages.
    pub(crate) async fn list(&mut self, method: &str, member: &str) -> Result<Vec<Value>, RequestError> {
        let mut items = Vec::new();
        let mut params = json!({});
        for _ in 0..1000 {
            let mut page = match self.request(method, params).await {
                Err(RequestError::Rpc { code: METHOD_NOT_FOUND, .. }) => return Ok(items),
                page => page?,
            };
            match page[member].take() {
                Value::Array(more) => items.extend(more),
                _ => {
                    let why = format!("the result of `{method}` has no `{member}` array");
                    return Err(RequestError::InvalidResponse(why));
                }
            }
            match page["nextCursor"].take() {
                Value::String(cursor) => params = json!({ "cursor": cursor }),
                _ => return Ok(items),
            }
        }
        Err(RequestError::InvalidResponse(format!("`{method}` has more than 1000 pages")))
    }

    /// Reads the lists of all declared capabilities.
    ///
    /// # Errors
    ///
    /// Returns the method of the list that cannot be read, and the error.
    pub(crate) async fn listing(&mut self) -> Result<Listing, (&'static str, RequestError)> {
        let mut listing = Listing { instructions: self.instructions.clone(), ..Listing::default() };
        for (capability, method, member, list) in [
            ("tools", "tools/list", "tools", &mut listing.tools),
            ("resources", "resources/list", "resources", &mut listing.resources),
            ("resources", "resources/templates/list", "resourceTemplates", &mut listing.resource_templates),
            ("prompts", "prompts/list", "prompts", &mut listing.prompts),
        ] {
            if self.capabilities.get(capability).is_some() {
                *list = self.list(method, member).await.map_err(|why| (method, why))?;
            }
        }
        Ok(listing)
    }
}
