//! How a server shakes hands in each revision, and what it does when it is spoken to in another way.

use std::time::Duration;

use mcp_lock::Listing;
use serde_json::{Value, json};

use super::{
    PATIENCE, codes,
    finding::{Entry, Findings},
};
use crate::{
    failure::Failure,
    probe::{RpcError, Session, Shaken, Unanswered, shake, unreachable},
    target::{Revision, Target},
    wire::Lost,
};

/// What came of the handshake of one revision.
pub(crate) struct Handshake {
    pub(crate) revision: Revision,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    /// It is spoken, and what was found with it.
    Spoken(Box<Inventory>),
    /// It is not spoken, and that is said as it should be.
    Refused(String),
    /// It is neither spoken nor refused.
    Failed(String),
    /// It is spoken, but not all lists could be read.
    Unlisted(String),
}

/// What a server offers in a revision.
pub(crate) struct Inventory {
    pub(crate) server: Value,
    pub(crate) listing: Listing,
    /// What `ping` was answered with, where there is a `ping`.
    pub(crate) ping: Option<bool>,
}

/// How long a server of an older revision is waited for, of which no more is to be found.
const MANNERS: Duration = Duration::from_secs(1);

/// How long a server may take to say that something is no JSON.
const GARBAGE_TIME: Duration = Duration::from_secs(2);

/// Shakes hands in some revisions, one connection each.
///
/// # Errors
///
/// The server is not there at all.
pub(crate) async fn handshakes(
    findings: &mut Findings,
    target: &Target,
    revisions: &[Revision],
    time: Duration,
    reads: bool,
) -> Result<Vec<Handshake>, Failure> {
    let mut handshakes = Vec::new();
    let mut newest: Option<Box<Session>> = None;
    let (mut lost, mut answered) = (String::new(), false);
    for revision in revisions.iter().copied() {
        let shaken = shake(target, revision, time).await?;
        answered |= !matches!(shaken, Shaken::Lost(_));
        let outcome = match shaken {
            Shaken::Spoken(mut session) => {
                let outcome = spoken(findings, &mut session).await;
                if let Some(mut older) = newest.replace(session) {
                    noise(findings, &older);
                    older.wire.close(MANNERS).await;
                }
                outcome
            }
            Shaken::Refused(how) => Outcome::Refused(how),
            Shaken::Broken(why) => Outcome::Failed(why),
            Shaken::Lost(why) => {
                lost = why.to_string();
                Outcome::Failed(lost.clone())
            }
        };
        handshakes.push(Handshake { revision, outcome });
    }
    if !answered {
        return Err(unreachable(target, &lost));
    }
    told(findings, &handshakes);
    if let Some(mut session) = newest {
        if reads
            && let Some(Outcome::Spoken(inventory)) = handshakes
                .iter()
                .rev()
                .map(|handshake| &handshake.outcome)
                .find(|outcome| matches!(outcome, Outcome::Spoken(_)))
        {
            read(findings, &mut session, &inventory.listing).await;
            complete(findings, &mut session, &inventory.listing).await;
        }
        garbage(findings, &mut session, matches!(target, Target::Program { .. })).await;
        ended(findings, session).await;
    }
    Ok(handshakes)
}

fn told(findings: &mut Findings, handshakes: &[Handshake]) {
    let server = Entry::server();
    let is_silent = |outcome: &Outcome| matches!(outcome, Outcome::Refused(_) | Outcome::Failed(_));
    let nothing_is_spoken = handshakes.iter().all(|handshake| is_silent(&handshake.outcome));
    for Handshake { revision, outcome } in handshakes {
        let revision = revision.as_str();
        match outcome {
            Outcome::Spoken(_) | Outcome::Unlisted(_) => {}
            Outcome::Failed(why) => findings.add(codes::BAD_HANDSHAKE, &server, format!("{revision}: {why}")),
            Outcome::Refused(how) => findings.add(codes::REVISION_REFUSED, &server, format!("{revision}: {how}")),
        }
    }
    if nothing_is_spoken {
        findings.add(codes::BAD_HANDSHAKE, &server, "none of these revisions is spoken");
    }
}

/// Asks for everything that is declared.
async fn spoken(findings: &mut Findings, session: &mut Session) -> Outcome {
    let (server, revision) = (Entry::server(), session.revision.as_str());
    let has_ping = session.revision < Revision::V2026_07_28;
    let ping = match has_ping {
        false => None,
        true => Some(match session.request("ping", json!({})).await {
            Ok(_) => true,
            Err(why) => {
                findings.add(codes::BAD_ANSWER, &server, format!("{revision}: ping: {why}"));
                false
            }
        }),
    };
    let listing = match session.listing().await {
        Ok(listing) => listing,
        Err((method, why)) => {
            findings.add(codes::BAD_ANSWER, &server, format!("{revision}: {method}: {why}"));
            return Outcome::Unlisted(format!("{method}: {why}"));
        }
    };
    match session.request("cargo-mcp/no-such-method", json!({})).await {
        Err(Unanswered::Error(RpcError { code: -32601, .. })) => {}
        Err(Unanswered::Error(RpcError { code, .. })) => {
            let message = format!("{revision}: an unknown method is answered with error {code}, not with -32601");
            findings.add(codes::BAD_ANSWER, &server, message);
        }
        Err(Unanswered::Lost(why)) => {
            findings.add(codes::BAD_ANSWER, &server, format!("{revision}: an unknown method: {why}"));
        }
        Ok(_) => findings.add(codes::BAD_ANSWER, &server, format!("{revision}: an unknown method has a result")),
    }
    Outcome::Spoken(Box::new(Inventory { server: session.server.clone(), listing, ping }))
}

/// Reads every resource that is listed.
async fn read(findings: &mut Findings, session: &mut Session, listing: &Listing) {
    for resource in &listing.resources {
        let entry = Entry::of("resource", resource);
        match session.request("resources/read", json!({"uri": resource["uri"]})).await {
            Ok(result) if result["contents"].is_array() => {}
            Ok(_) => findings.add(
                codes::UNREADABLE_RESOURCE,
                &entry,
                "the result of `resources/read` has no list `contents`",
            ),
            Err(why) => findings.add(codes::UNREADABLE_RESOURCE, &entry, why.to_string()),
        }
    }
}

/// Completes the first argument of each prompt, and the first variable of each template.
async fn complete(findings: &mut Findings, session: &mut Session, listing: &Listing) {
    if session.capabilities.get("completions").is_none() {
        return;
    }
    let prompts = listing.prompts.iter().filter_map(|prompt| {
        let reference = json!({"type": "ref/prompt", "name": prompt["name"]});
        Some((Entry::of("prompt", prompt), reference, prompt["arguments"][0]["name"].as_str()?.to_owned()))
    });
    let templates = listing.resource_templates.iter().filter_map(|template| {
        let reference = json!({"type": "ref/resource", "uri": template["uriTemplate"]});
        let (_, rest) = template["uriTemplate"].as_str()?.split_once('{')?;
        let variable =
            rest.split(['}', ',', ':', '*']).next()?.trim_start_matches(|first: char| "+#./;?&".contains(first));
        Some((Entry::of("resource template", template), reference, variable.to_owned()))
    });
    for (entry, reference, name) in prompts.chain(templates).collect::<Vec<_>>() {
        let params = json!({"ref": reference, "argument": {"name": name, "value": ""}});
        match session.request("completion/complete", params).await {
            Ok(result) if result["completion"]["values"].is_array() => {}
            Ok(_) => {
                findings.add(codes::COMPLETION_FAILED, &entry, format!("`{name}`: the result has no list `values`"))
            }
            Err(why) => findings.add(codes::COMPLETION_FAILED, &entry, format!("`{name}`: {why}")),
        }
    }
}

/// Sends what is no JSON, and looks whether the server is still there.
async fn garbage(findings: &mut Findings, session: &mut Session, is_program: bool) {
    let server = Entry::server();
    let message = match session.wire.send_raw("this is no JSON", GARBAGE_TIME).await {
        Ok(answer) if answer["error"]["code"] == -32700 => None,
        Ok(answer) => Some(format!("what is no JSON is answered with {answer}")),
        Err(Lost::Gone(_)) if is_program => Some("what is no JSON ends the server".to_owned()),
        Err(why) => Some(format!("what is no JSON: {why}")),
    };
    if let Some(message) = message {
        findings.add(codes::GARBAGE_UNANSWERED, &server, message);
    }
}

/// Looks at what was printed to stdout and is no message.
fn noise(findings: &mut Findings, session: &Session) {
    if let Some(first) = session.wire.noise().first() {
        let first: String = first.chars().take(80).collect();
        let message = format!("stdout has a line that is no message: {first:?}");
        findings.add(codes::STDOUT_NOISE, &Entry::server(), message);
    }
}

/// Ends a connection, and looks whether the server ends for that.
async fn ended(findings: &mut Findings, mut session: Box<Session>) {
    noise(findings, &session);
    if !session.wire.close(PATIENCE).await {
        let message = format!("it still ran {} s after its stdin had ended", PATIENCE.as_secs());
        findings.add(codes::DOES_NOT_END, &Entry::server(), message);
    }
}
