//! Writes responses: the envelope, errors, and the results that no function gives.

use super::{Engine, tasks};
use crate::{
    error::Fault,
    handler::{Completions, Encoding, comma},
    jsonrpc::{Id, write},
    model::Implementation,
    registry::{Registry, ServerCapabilities},
    revision::{Dialect, Feature, Respond, Revision, encode, encode::Object},
};

/// What every result of a dialect says beside its own members: of the server no more than its name and version, which
/// `server/discover` tells in full.
pub(super) fn encoding(dialect: &'static Dialect, identity: &Implementation, is_private: bool) -> Encoding {
    let Implementation { name, version, .. } = identity.clone();
    Encoding { is_private, ..identified(dialect, &Implementation { name, version, ..Implementation::default() }) }
}

fn identified(dialect: &'static Dialect, identity: &Implementation) -> Encoding {
    let mut member = Vec::new();
    if dialect.has(Feature::ResultType) {
        member.extend_from_slice(br#""io.modelcontextprotocol/serverInfo":"#);
        encode::implementation(&mut member, dialect.features(), identity);
    }
    for (name, json) in dialect.meta_members() {
        comma(&mut member);
        write::string(&mut member, name);
        member.push(b':');
        member.extend_from_slice(json.as_bytes());
    }
    Encoding { dialect, features: dialect.features(), identity: member, is_private: false }
}

const BEFORE_ID: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
const BEFORE_RESULT: &[u8] = br#","result":"#;

/// Begins a response, up to where its result stands.
pub(super) fn begin(out: &mut Vec<u8>, id: &Id<'_>) {
    out.extend_from_slice(BEFORE_ID);
    out.extend_from_slice(id.as_json().as_bytes());
    out.extend_from_slice(BEFORE_RESULT);
}

/// Says whether a response was [begun](begin) as one with a result.
#[cfg(feature = "http")]
pub(crate) fn is_result(response: &[u8]) -> bool {
    let rest = response.strip_prefix(BEFORE_ID);
    rest.is_some_and(|rest| {
        rest.get(crate::jsonrpc::raw::skip_value(rest, 0)..).is_some_and(|rest| rest.starts_with(BEFORE_RESULT))
    })
}

/// Writes a whole response with a finished result.
pub(super) fn respond(out: &mut Vec<u8>, id: &Id<'_>, result: &[u8]) {
    out.reserve(result.len() + 64);
    begin(out, id);
    out.extend_from_slice(result);
    out.push(b'}');
}

/// Writes a whole error response; without an id where none could be read.
///
/// See [JSON-RPC 2.0, 5.1](https://www.jsonrpc.org/specification#error_object).
pub(crate) fn refuse(out: &mut Vec<u8>, dialect: &Dialect, id: Option<&Id<'_>>, fault: &Fault) {
    let mut response = Object::begin(out);
    response.raw("jsonrpc", br#""2.0""#);
    match id {
        Some(id) => response.raw("id", id.as_json().as_bytes()),
        None if dialect.has(Feature::AbsentErrorId) => {}
        None => response.raw("id", b"null"),
    }
    let mut error = Object::begin(response.key("error"));
    write::plain(error.key("code"), &dialect.code(fault));
    error.string("message", &fault.to_string());
    if let Some(data) = dialect.data(fault) {
        write::plain(error.key("data"), &data);
    }
    error.end();
    response.end();
}

/// Says that a request cannot have an id that another one still has.
pub(super) fn id_in_flight(id: &Id<'_>) -> Fault {
    Fault::InvalidRequest(format!("a request with id {} is still in flight", id.as_json()))
}

/// Writes the result of a request that has nothing to say.
pub(super) fn empty(encoding: &Encoding) -> Vec<u8> {
    let mut out = vec![b'{'];
    encoding.end_result(&mut out, None);
    out
}

/// Writes the result of a method that its dialect declares.
pub(super) fn of_dialect(encoding: &Encoding, respond: Respond, params: Option<&str>) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    respond(params, &mut Object::begin(&mut out))?;
    encoding.end_result(&mut out, None);
    Ok(out)
}

/// Writes the result of `completion/complete`.
pub(super) fn completions(encoding: &Encoding, completions: &Completions) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(b"{");
    out.extend_from_slice(br#""completion":"#);
    let mut completion = Object::begin(&mut out);
    encode::array(completion.key("values"), &completions.values, |out, value| write::string(out, value));
    if let Some(total) = completions.total {
        write::plain(completion.key("total"), &total);
    }
    write::plain(completion.key("hasMore"), &completions.has_more);
    completion.end();
    encoding.end_result(&mut out, None);
    out
}

/// Writes the result of `initialize` or, in a stateless dialect, of `server/discover`.
pub(super) fn introduction(engine: &Engine, registry: &Registry, dialect: &'static Dialect) -> Vec<u8> {
    let encoding = &identified(dialect, &engine.identity);
    let mut out = Vec::new();
    let mut result = Object::begin(&mut out);
    if encoding.has(Feature::Handshake) {
        result.string("protocolVersion", encoding.dialect.name());
    } else {
        let versions = Revision::ALL.iter().rev().map(|revision| revision.as_str());
        encode::array(result.key("supportedVersions"), versions, write::string);
    }
    capabilities(result.key("capabilities"), registry.capabilities(), engine.announces_changes(), encoding);
    if encoding.has(Feature::Handshake) {
        encode::implementation(result.key("serverInfo"), encoding.features, &engine.identity);
    }
    result.optional("instructions", engine.instructions.as_deref());
    encoding.cache_hints(result.out, engine.limits.list_ttl);
    encoding.end_result(&mut out, None);
    out
}

/// Writes what the server offers, which follows from what is registered, and whether that may change.
fn capabilities(out: &mut Vec<u8>, offers: ServerCapabilities, changes: bool, encoding: &Encoding) {
    let of = |changing: &'static [u8]| if changes { changing } else { b"{}" };
    let mut object = Object::begin(out);
    for (name, offered, capability) in [
        ("completions", offers.completions && encoding.has(Feature::CompletionsCapability), &b"{}"[..]),
        ("logging", offers.logging, b"{}"),
        ("prompts", offers.prompts, of(br#"{"listChanged":true}"#)),
        ("resources", offers.resources, of(br#"{"subscribe":true,"listChanged":true}"#)),
        (
            "tasks",
            offers.tasks && encoding.has(Feature::SessionTasks),
            br#"{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#,
        ),
        ("tools", offers.tools, of(br#"{"listChanged":true}"#)),
    ] {
        if offered {
            object.raw(name, capability);
        }
    }
    if encoding.has(Feature::Extensions) {
        extensions(&mut object, offers, encoding);
    }
    object.end();
}

fn extensions(capabilities: &mut Object<'_>, offers: ServerCapabilities, encoding: &Encoding) {
    let tasks = offers.tasks && encoding.has(Feature::TaskExtension);
    if !(offers.skills || tasks) {
        return;
    }
    let mut extensions = Object::begin(capabilities.key("extensions"));
    if offers.skills {
        extensions.raw("io.modelcontextprotocol/skills", br#"{"directoryRead":true}"#);
    }
    if tasks {
        extensions.raw(tasks::EXTENSION, b"{}");
    }
    extensions.end();
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::{is_result, refuse, respond};
    use crate::{error::Fault, jsonrpc::Id, revision};

    #[test]
    fn results_are_told_from_errors() {
        for json in ["1", r#""result""#, r#""a\"b,\"result\":""#] {
            let id = Id::from_json(json).unwrap();
            let (mut result, mut error) = (Vec::new(), Vec::new());
            respond(&mut result, &id, br#"{"error":{"code":-32601}}"#);
            refuse(&mut error, revision::newest(), Some(&id), &Fault::invalid_params(r#"","result":"#));
            assert!(is_result(&result), "{json}");
            assert!(!is_result(&error), "{json}");
        }
        assert!(!is_result(b""));
    }
}
