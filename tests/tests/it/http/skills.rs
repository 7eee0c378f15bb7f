//! Skills over HTTP.

use mcp_runtime::{HttpOptions, Server};
use serde_json::json;

use super::{client::Site, request::stateless};
use crate::skills::DIRECTORY;

/// `Mcp-Name` repeats what a request is about for three methods only: the others are answered with it and without.
#[tokio::test]
async fn skills_are_served_over_http() {
    let site = Site::start(Server::empty("skilled", "1.0.0").skills(DIRECTORY), HttpOptions::default()).await;
    let skill = json!({"uri": "skill://git-workflow/SKILL.md"});
    for (method, params, member, status) in [
        ("skills/list", json!({}), "skills", 200),
        ("skills/get", skill.clone(), "skill", 200),
        ("resources/directory/read", json!({"uri": "skill://git-workflow"}), "resources", 200),
        ("resources/list", json!({}), "resources", 200),
        ("resources/read", skill, "contents", 400),
    ] {
        let request = stateless(method, &params);
        let named = site.send(&request).await;
        assert_eq!(named.status, 200, "{method}");
        assert!(named.json()["result"].get(member).is_some(), "{method}: {}", named.json());
        let unnamed = site.send(&request.without("mcp-name")).await;
        assert_eq!(unnamed.status, status, "{method}");
    }
    let unknown = site.send(&stateless("skills/get", &json!({"uri": "skill://unknown/SKILL.md"}))).await;
    assert_eq!(unknown.json()["error"]["code"], -32602);
}
