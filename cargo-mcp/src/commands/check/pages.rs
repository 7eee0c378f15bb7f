//! Checks of the pages that tools name (MCP Apps).

use std::{collections::BTreeSet, time::Duration};

use mcp_page::BRIDGE;
use serde_json::{Value, json};

use super::codes::{self, Findings, Subject};
use crate::{
    failure::Failure,
    pages,
    probe::{self, Handshake, RawSession},
    revision::Revision,
    target::{Target, UNCHECKED_SHUTDOWN_TIMEOUT},
};

/// Connects as a client that shows pages, reads the page of each tool, and looks for calls of unknown tools.
///
/// # Errors
///
/// Fails if the server cannot be started.
pub(super) async fn check(
    findings: &mut Findings,
    target: &Target,
    revision: Revision,
    timeout: Duration,
) -> Result<(), Failure> {
    let handshake = probe::handshake(target, revision, &pages::capabilities(), timeout).await?;
    // A failed handshake or list is reported by the checks of each revision.
    if let Handshake::Accepted(mut session) = handshake {
        if let Ok(tools) = session.list("tools/list", "tools").await {
            check_tools(findings, &mut session, &tools).await;
        }
        session.connection.close(UNCHECKED_SHUTDOWN_TIMEOUT).await;
    }
    Ok(())
}

async fn check_tools(findings: &mut Findings, session: &mut RawSession, tools: &[Value]) {
    let mut read = BTreeSet::new();
    for tool in tools {
        let Some(uri) = pages::uri(&tool["_meta"]) else { continue };
        if !read.insert(uri) {
            continue;
        }
        let html = match session.request("resources/read", json!({ "uri": uri })).await {
            Ok(result) => pages::html(&result["contents"][0]),
            Err(why) => Err(format!("cannot be read: {why}")),
        };
        let problem = match html {
            Ok(html) => {
                check_calls(findings, uri, &html, tools);
                // The runtime has replaced the script.
                html.contains(BRIDGE).then(|| {
                    format!("contains `{BRIDGE}`, which is replaced only in `<script src=\"{BRIDGE}\"></script>`")
                })
            }
            Err(why) => Some(why),
        };
        if let Some(why) = problem {
            findings.add(codes::BAD_PAGE, &Subject::of("tool", tool), format!("the page `{uri}` {why}"));
        }
    }
}

fn check_calls(findings: &mut Findings, uri: &str, html: &str, tools: &[Value]) {
    let page = Subject { kind: "resource", name: uri.to_owned() };
    for name in pages::called_tools(html) {
        let why = match tools.iter().find(|tool| tool["name"] == name) {
            Some(tool) if pages::may_call(&tool["_meta"]) => continue,
            Some(_) => "is not visible to pages",
            None => "does not exist",
        };
        findings.add(codes::PAGE_CALL, &page, format!("the page calls `{name}`, which {why}"));
    }
}
