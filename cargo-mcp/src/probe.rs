//! A handshake and lists, message by message, in each revision.

use std::time::Duration;

use mcp_lock::Listing;
use serde_json::{Value, json};

use crate::{
    failure::Failure,
    revision::Revision,
    target::Target,
    wire::{Lost, Wire},
};

/// The error code for a method that is not there.
const METHOD_NOT_FOUND: i64 = -32601;

/// What became of a handshake.
pub(crate) enum Shaken {
    Spoken(Box<Session>),
    /// The server does not speak the revision, and says so as it should.
    Refused(String),
    /// What the server did is no handshake.
    Broken(String),
    /// There was no answer at all.
    Lost(Lost),
}

/// A connection in a revision that both sides speak.
pub(crate) struct Session {
    pub(crate) wire: Wire,
    pub(crate) revision: Revision,
    /// `serverInfo`
    pub(crate) server: Value,
    pub(crate) capabilities: Value,
    pub(crate) instructions: Option<String>,
    /// The revisions that the server announces; empty in revisions without `server/discover`.
    pub(crate) announced: Vec<Revision>,
    next_id: u64,
    time: Duration,
}

/// A JSON-RPC error.
#[derive(Debug)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
}

/// Why a request has no result.
pub(crate) enum Unanswered {
    Error(RpcError),
    Lost(Lost),
}

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Error(RpcError { code, message }) => write!(f, "{message} (code {code})"),
            Self::Lost(lost) => lost.fmt(f),
        }
    }
}

/// Connects and shakes hands in one revision.
///
/// # Errors
///
/// The program cannot be started.
pub(crate) async fn shake(target: &Target, revision: Revision, time: Duration) -> Result<Shaken, Failure> {
    let mut session = Session {
        wire: Wire::open(target)?,
        revision,
        server: Value::Null,
        capabilities: Value::Null,
        instructions: None,
        announced: Vec::new(),
        next_id: 1,
        time,
    };
    let has_discovery = revision.is_stateless();
    if has_discovery {
        session.wire.speaks(revision);
    }
    let (method, params) = match has_discovery {
        true => ("server/discover", json!({})),
        false => {
            ("initialize", json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": identity()}))
        }
    };
    let result = match session.request(method, params).await {
        Ok(result) => result,
        Err(Unanswered::Error(RpcError { code, message })) => {
            return Ok(Shaken::Refused(format!("`{method}` is answered with error {code}: {message}")));
        }
        Err(Unanswered::Lost(Lost::Unreadable(why))) => return Ok(Shaken::Broken(format!("`{method}`: {why}"))),
        Err(Unanswered::Lost(lost)) => return Ok(Shaken::Lost(lost)),
    };
    session.server = match has_discovery {
        true => result["_meta"]["io.modelcontextprotocol/serverInfo"].clone(),
        false => result["serverInfo"].clone(),
    };
    session.capabilities = result["capabilities"].clone();
    let versions = result["supportedVersions"].as_array().into_iter().flatten();
    session.announced = versions.filter_map(Value::as_str).filter_map(Revision::announced).collect();
    session.instructions = result["instructions"].as_str().map(str::to_owned);
    if let Some(answer) = refusal(&result, revision) {
        return Ok(answer);
    }
    if !has_discovery {
        session.wire.speaks(revision);
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        if let Err(lost) = session.wire.notify(&initialized, time).await {
            return Ok(Shaken::Lost(lost));
        }
    }
    Ok(Shaken::Spoken(Box::new(session)))
}

/// Says what is wrong with the result of a handshake, or that it offers another revision.
fn refusal(result: &Value, revision: Revision) -> Option<Shaken> {
    let broken = |why: &str| Some(Shaken::Broken(why.to_owned()));
    if !result["capabilities"].is_object() {
        return broken("the result has no object `capabilities`");
    }
    if revision.is_stateless() {
        let Some(versions) = result["supportedVersions"].as_array() else {
            return broken("the result has no list `supportedVersions`");
        };
        let is_there = versions.iter().any(|version| version == revision.as_str());
        return (!is_there).then(|| Shaken::Refused(format!("it offers {}", Value::from(versions.clone()))));
    }
    if !result["serverInfo"]["name"].is_string() || !result["serverInfo"]["version"].is_string() {
        return broken("the result has no `serverInfo` with `name` and `version`");
    }
    match result["protocolVersion"].as_str() {
        None => broken("the result has no string `protocolVersion`"),
        Some(version) if version == revision.as_str() => None,
        Some(version) => Some(Shaken::Refused(format!("it offers {version}"))),
    }
}

/// Connects in the newest revision that a server speaks.
///
/// # Errors
///
/// It speaks none, or is not there.
pub(crate) async fn newest(target: &Target, time: Duration) -> Result<Session, Failure> {
    let mut why = String::new();
    for revision in Revision::known().rev() {
        match shake(target, revision, time).await? {
            Shaken::Spoken(session) => return Ok(*session),
            Shaken::Refused(said) | Shaken::Broken(said) => why = said,
            Shaken::Lost(lost) => why = lost.to_string(),
        }
    }
    Err(unreachable(target, &why))
}

/// A server of which no revision got an answer.
pub(crate) fn unreachable(target: &Target, why: &str) -> Failure {
    let failure = Failure::connection(format_args!("{target} cannot be connected to: {why}"));
    match target {
        Target::Program { .. } => {
            failure.help("start it by hand to see what it says; what it prints to stdout must be JSON-RPC")
        }
        Target::Url { .. } => failure.help("is the path right, and is it all that the server asks of `--header`?"),
    }
}

fn identity() -> Value {
    json!({"name": "cargo-mcp", "version": env!("CARGO_PKG_VERSION")})
}

impl Session {
    /// Sends a request, with what the revision wants in each.
    pub(crate) async fn request(&mut self, method: &str, mut params: Value) -> Result<Value, Unanswered> {
        if self.revision.is_stateless() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.revision.as_str(),
                "io.modelcontextprotocol/clientInfo": identity(),
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let mut answer = self.wire.request(&message, self.time).await.map_err(Unanswered::Lost)?;
        let unreadable = |why: String| Err(Unanswered::Lost(Lost::Unreadable(why)));
        match (answer.get("result").is_some(), answer.get("error")) {
            (true, None) if answer["jsonrpc"] == "2.0" => Ok(answer["result"].take()),
            (false, Some(error)) => match (error["code"].as_i64(), error["message"].as_str()) {
                (Some(code), Some(message)) => Err(Unanswered::Error(RpcError { code, message: message.to_owned() })),
                _ => unreadable(format!("the error is {error}, without a `code` or a `message`")),
            },
            _ => unreadable(format!("{answer} is no JSON-RPC 2.0 response")),
        }
    }

    /// Reads a list, all pages of it; nothing if there is no such list.
    pub(crate) async fn list(&mut self, method: &str, member: &str) -> Result<Vec<Value>, Unanswered> {
        let mut items = Vec::new();
        let mut params = json!({});
        // A server that never says the last page is not waited for.
        for _ in 0..1000 {
            let mut page = match self.request(method, params).await {
                Err(Unanswered::Error(error)) if error.code == METHOD_NOT_FOUND => return Ok(items),
                page => page?,
            };
            match page[member].take() {
                Value::Array(more) => items.extend(more),
                _ => {
                    let why = format!("the result of `{method}` has no list `{member}`");
                    return Err(Unanswered::Lost(Lost::Unreadable(why)));
                }
            }
            match page["nextCursor"].take() {
                Value::String(cursor) => params = json!({ "cursor": cursor }),
                _ => return Ok(items),
            }
        }
        Err(Unanswered::Lost(Lost::Unreadable(format!("`{method}` has more than 1000 pages"))))
    }

    /// Reads everything that the server says it offers.
    pub(crate) async fn listing(&mut self) -> Result<Listing, (&'static str, Unanswered)> {
        let mut listing = Listing { instructions: self.instructions.clone(), ..Listing::default() };
        for (capability, method, member) in [
            ("tools", "tools/list", "tools"),
            ("resources", "resources/list", "resources"),
            ("resources", "resources/templates/list", "resourceTemplates"),
            ("prompts", "prompts/list", "prompts"),
        ] {
            if self.capabilities.get(capability).is_none() {
                continue;
            }
            let items = self.list(method, member).await.map_err(|why| (method, why))?;
            match member {
                "tools" => listing.tools = items,
                "resources" => listing.resources = items,
                "prompts" => listing.prompts = items,
                _ => listing.resource_templates = items,
            }
        }
        Ok(listing)
    }
}
