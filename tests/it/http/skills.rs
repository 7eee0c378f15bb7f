//! Skills over HTTP.

use mcp_runtime::{HttpOptions, Server};
use serde_json::json;

use super::{client::Endpoint, request::stateless};
use crate::skills::DIRECTORY;

/// Only three methods require `Mcp-Name`. For the others it is optional.
#[tokio::test]
async fn skills_are_served_over_http() {
    let endpoint =
        Endpoint::start(Server::empty("skilled", "1.0.0").with_skills(DIRECTORY), HttpOptions::default()).await;
    let skill = json!({"uri": "skill://git-workflow/SKILL.md"});
    for (method, params, member, status) in [
        ("skills/list", json!({}), "skills", 200),
        ("skills/get", skill.clone(), "skill", 200),
        ("resources/directory/read", json!({"uri": "skill://git-workflow"}), "resources", 200),
        ("resources/list", json!({}), "resources", 200),
        ("resources/read", skill, "contents", 400),
    ] {
        let request = stateless(method, &params);
        let named = endpoint.send(&request).await;
        assert_eq!(named.status, 200, "{method}");
        assert!(named.json()["result"].get(member).is_some(), "{method}: {}", named.json());
        let unnamed = endpoint.send(&request.without("mcp-name")).await;
        assert_eq!(unnamed.status, status, "{method}");
    }
    let unknown = endpoint.send(&stateless("skills/get", &json!({"uri": "skill://unknown/SKILL.md"}))).await;
    assert_eq!(unknown.json()["error"]["code"], -32602);
}
