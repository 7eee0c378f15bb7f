//! The server's behaviour: the handshake of each revision, its lists, and its reaction to invalid input.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use mcp_runtime_lock::Listing;
use serde_json::{Value, json};

use super::{
    codes::{self, Findings, Subject},
    pages,
};
use crate::{
    arguments::uri_template::variables,
    failure::Failure,
    probe::{self, METHOD_NOT_FOUND, RawSession, connection_failure},
    raw_connection::RequestError,
    revision::Revision,
    target::{SHUTDOWN_TIMEOUT, Target, UNCHECKED_SHUTDOWN_TIMEOUT},
};

/// The handshake of one revision.
pub(crate) struct RevisionCheck {
    pub(crate) revision: Revision,
    pub(crate) outcome: HandshakeOutcome,
}

/// The outcome of a handshake and of the requests that follow it.
pub(crate) enum HandshakeOutcome {
    /// The server supports the revision.
    Supported(Box<Inventory>),
    /// The server rejected the revision properly.
    Refused(String),
    /// The server neither accepted nor properly rejected the revision.
    Failed(String),
    /// The server supports the revision, but a list request failed.
    Unlisted(String),
}

/// The capabilities of a server in one revision.
pub(crate) struct Inventory {
    pub(crate) server: Value,
    pub(crate) listing: Listing,
    /// Whether `ping` succeeded, in revisions that have it.
    pub(crate) ping: Option<bool>,
}

/// The maximum number of newer revisions to check. If a server announces more, only the oldest are checked.
const MAX_NEWER_REVISIONS: usize = 16;

/// How long to wait for the error response to invalid JSON.
const INVALID_JSON_TIMEOUT: Duration = Duration::from_secs(2);

/// Connects once per revision and checks the server's behaviour. With `follow_announced`, also checks the newer
/// revisions that the server announces. `reads` enables the checks of `--read`.
///
/// # Errors
///
/// Fails if the server responds in none of the revisions.
pub(crate) async fn handshakes(
    findings: &mut Findings,
    target: &Target,
    revisions: &[Revision],
    mut follow_announced: bool,
    timeout: Duration,
    reads: bool,
) -> Result<Vec<RevisionCheck>, Failure> {
    let mut handshakes = Vec::new();
    let mut newest: Option<Box<RawSession>> = None;
    let (mut lost, mut answered) = (String::new(), false);
    let mut revisions = VecDeque::from_iter(revisions.iter().copied());
    while let Some(revision) = revisions.pop_front() {
        let handshake = probe::handshake(target, revision, &json!({}), timeout).await?;
        answered |= !matches!(handshake, probe::Handshake::Failed(_));
        let outcome = match handshake {
            probe::Handshake::Accepted(mut session) => {
                if revisions.is_empty() && std::mem::take(&mut follow_announced) {
                    let newer = session.announced.iter().filter(|announced| **announced > revision);
                    revisions.extend(newer.collect::<BTreeSet<_>>().into_iter().take(MAX_NEWER_REVISIONS));
                }
                let outcome = requests(findings, &mut session).await;
                if let Some(mut older) = newest.replace(session) {
                    stdout_noise(findings, &older);
                    older.connection.close(UNCHECKED_SHUTDOWN_TIMEOUT).await;
                }
                outcome
            }
            probe::Handshake::Rejected(how) => HandshakeOutcome::Refused(how),
            probe::Handshake::Invalid(why) => HandshakeOutcome::Failed(why),
            probe::Handshake::Failed(why) => {
                lost.clone_from(&why);
                HandshakeOutcome::Failed(why)
            }
        };
        handshakes.push(RevisionCheck { revision, outcome });
    }
    if !answered {
        return Err(connection_failure(target, &lost));
    }
    unsupported_revisions(findings, &handshakes);
    if let Some(mut session) = newest {
        let inventory = handshakes.iter().rev().find_map(|handshake| match &handshake.outcome {
            HandshakeOutcome::Supported(inventory) => Some(inventory),
            _ => None,
        });
        if let Some(inventory) = inventory.filter(|_| reads) {
            resources(findings, &mut session, &inventory.listing).await;
            completions(findings, &mut session, &inventory.listing).await;
        }
        if session.capabilities.get("resources").is_some() {
            pages::check(findings, target, session.revision, timeout).await?;
        }
        invalid_json(findings, &mut session, matches!(target, Target::Program { .. })).await;
        shutdown(findings, session).await;
    }
    Ok(handshakes)
}

fn unsupported_revisions(findings: &mut Findings, handshakes: &[RevisionCheck]) {
    let mut any_supported = false;
    for RevisionCheck { revision, outcome } in handshakes {
        let revision = revision.as_str();
        match outcome {
            HandshakeOutcome::Supported(_) | HandshakeOutcome::Unlisted(_) => any_supported = true,
            HandshakeOutcome::Failed(why) => {
                findings.add_to_server(codes::BAD_HANDSHAKE, format!("{revision}: {why}"));
            }
            HandshakeOutcome::Refused(how) => {
                findings.add_to_server(codes::REVISION_REFUSED, format!("{revision}: {how}"));
            }
        }
    }
    if !any_supported {
        findings.add_to_server(codes::BAD_HANDSHAKE, "none of the tried revisions is supported");
    }
}

/// Sends `ping`, requests all declared lists, and calls an unknown method.
async fn requests(findings: &mut Findings, session: &mut RawSession) -> HandshakeOutcome {
    let revision = session.revision;
    let revision = revision.as_str();
    let has_ping = !session.revision.is_stateless();
    let ping = if has_ping { Some(ping(findings, session).await) } else { None };
    let listing = match session.listing().await {
        Ok(listing) => listing,
        Err((method, why)) => {
            findings.add_to_server(codes::INVALID_RESPONSE, format!("{revision}: {method}: {why}"));
            return HandshakeOutcome::Unlisted(format!("{method}: {why}"));
        }
    };
    let problem = match session.request("cargo-mcp/no-such-method", json!({})).await {
        Err(RequestError::Rpc { code: METHOD_NOT_FOUND, .. }) => None,
        Err(RequestError::Rpc { code, .. }) => {
            Some(format!("the error code for an unknown method is {code}, expected -32601"))
        }
        Err(why) => Some(format!("no response to an unknown method: {why}")),
        Ok(_) => Some("an unknown method returns a result".to_owned()),
    };
    if let Some(problem) = problem {
        findings.add_to_server(codes::INVALID_RESPONSE, format!("{revision}: {problem}"));
    }
    HandshakeOutcome::Supported(Box::new(Inventory { server: session.server.clone(), listing, ping }))
}

async fn ping(findings: &mut Findings, session: &mut RawSession) -> bool {
    match session.request("ping", json!({})).await {
        Ok(_) => true,
        Err(why) => {
            let message = format!("{}: ping: {why}", session.revision.as_str());
            findings.add_to_server(codes::INVALID_RESPONSE, message);
            false
        }
    }
}

/// Reads every listed resource.
async fn resources(findings: &mut Findings, session: &mut RawSession, listing: &Listing) {
    for resource in &listing.resources {
        let subject = Subject::of("resource", resource);
        let message = match session.request("resources/read", json!({"uri": resource["uri"]})).await {
            Ok(result) if result["contents"].is_array() => continue,
            Ok(_) => "the result of `resources/read` has no `contents` array".to_owned(),
            Err(why) => why.to_string(),
        };
        findings.add(codes::UNREADABLE_RESOURCE, &subject, message);
    }
}

/// Completes the first argument of each prompt and the first variable of each resource template.
async fn completions(findings: &mut Findings, session: &mut RawSession, listing: &Listing) {
    if session.capabilities.get("completions").is_none() {
        return;
    }
    let prompts = listing.prompts.iter().filter_map(|prompt| {
        let reference = json!({"type": "ref/prompt", "name": prompt["name"]});
        Some((Subject::of("prompt", prompt), reference, prompt["arguments"][0]["name"].as_str()?.to_owned()))
    });
    let templates = listing.resource_templates.iter().filter_map(|template| {
        let reference = json!({"type": "ref/resource", "uri": template["uriTemplate"]});
        let variable = variables(template["uriTemplate"].as_str()?).into_iter().next()?;
        Some((Subject::of("resource template", template), reference, variable))
    });
    for (subject, reference, name) in prompts.chain(templates).collect::<Vec<_>>() {
        let params = json!({"ref": reference, "argument": {"name": name, "value": ""}});
        let message = match session.request("completion/complete", params).await {
            Ok(result) if result["completion"]["values"].is_array() => continue,
            Ok(_) => format!("`{name}`: the result has no `values` array"),
            Err(why) => format!("`{name}`: {why}"),
        };
        findings.add(codes::COMPLETION_FAILED, &subject, message);
    }
}

/// Sends invalid JSON and checks that the server responds with an error and keeps running.
async fn invalid_json(findings: &mut Findings, session: &mut RawSession, is_program: bool) {
    let message = match session.connection.send_raw("this is not JSON", INVALID_JSON_TIMEOUT).await {
        Ok(response) if response["error"]["code"] == -32700 => return,
        Ok(response) => format!("the response to invalid JSON is {response}"),
        Err(RequestError::Exited(_)) if is_program => "the server exits when it receives invalid JSON".to_owned(),
        Err(why) => format!("no response to invalid JSON: {why}"),
    };
    findings.add_to_server(codes::UNANSWERED_INVALID_JSON, message);
}

/// Reports output on stdout that is not a message.
fn stdout_noise(findings: &mut Findings, session: &RawSession) {
    if let Some(first) = session.connection.stray_lines().first() {
        let first: String = first.chars().take(80).collect();
        let message = format!("stdout contains a line that is not a message: {first:?}");
        findings.add_to_server(codes::STDOUT_NOISE, message);
    }
}

/// Closes a connection and checks that the server exits.
async fn shutdown(findings: &mut Findings, mut session: Box<RawSession>) {
    stdout_noise(findings, &session);
    if !session.connection.close(SHUTDOWN_TIMEOUT).await {
        let seconds = SHUTDOWN_TIMEOUT.as_secs();
        let message = format!("the server is still running {seconds} s after its stdin was closed");
        findings.add_to_server(codes::DOES_NOT_EXIT, message);
    }
}
