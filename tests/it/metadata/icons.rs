//! Icons of functions, links and the server.

use mcp_runtime::{
    Context, ResourceLink, Revision, Server,
    function::ToolEntry,
    model::{Icon, Theme},
    prompt, resource,
    testing::TestClient,
    tool,
};
use serde_json::{Value, json};

/// Has an icon.
#[tool(icon("https://example.com/a.svg", mime = "image/svg+xml", sizes("any"), theme = dark))]
fn iconic() -> ResourceLink {
    ResourceLink::new("test://iconic", "link").with_icon(icon()).with_icon(Icon::new("javascript:alert(1)"))
}

/// Has an icon.
#[prompt(icon("https://example.com/a.svg", mime = "image/svg+xml", sizes("any"), theme = dark))]
fn iconic_prompt() -> String {
    String::new()
}

/// Has an icon.
#[resource(
    "test://iconic",
    icon("https://example.com/a.svg", mime = "image/svg+xml", sizes("any"), theme = dark),
    ttl = "90s",
    public
)]
fn iconic_resource() -> String {
    String::new()
}

/// Has an icon.
#[resource(
    "test://iconic/{id}",
    icon("https://example.com/a.svg", mime = "image/svg+xml", sizes("any"), theme = dark),
    ttl = "2m",
    public = false
)]
fn iconic_template(id: String) -> String {
    id
}

fn icon() -> Icon {
    let icon = Icon::new("https://example.com/a.svg").with_mime_type("image/svg+xml");
    icon.with_size("any").with_theme(Theme::Dark)
}

pub(super) fn icons() -> Server {
    let server = Server::empty("icons", "1.0.0").with_icon(icon()).with::<iconic>().with::<iconic_prompt>();
    server.with::<iconic_resource>().with::<iconic_template>()
}

#[tokio::test]
async fn icons_are_sent_where_the_revision_has_them() {
    let sent =
        json!([{"src": "https://example.com/a.svg", "mimeType": "image/svg+xml", "sizes": ["any"], "theme": "dark"}]);
    for revision in Revision::ALL {
        let expected = if mcp_tests::expected(revision).icons { &sent } else { &Value::Null };
        let mut client = icons().test_client(revision);
        for (method, member) in [
            ("tools/list", "tools"),
            ("prompts/list", "prompts"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ] {
            let result = client.request(method, json!({})).await.unwrap();
            assert_eq!(result[member][0]["icons"], *expected, "{revision} {method}");
        }
        let link = &client.call("iconic", ()).await.unwrap()["content"][0];
        assert_eq!(link["icons"], *expected, "{revision}: the link is sent without the unsafe icon");
        let server = if revision.is_stateless() {
            client.request("server/discover", json!({})).await.unwrap()["_meta"]["io.modelcontextprotocol/serverInfo"]
                .take()
        } else {
            let mut client = TestClient::uninitialized(icons(), revision);
            let info = json!({"name": "test", "version": "1.0.0"});
            let params = json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": info});
            client.request("initialize", params).await.unwrap()["serverInfo"].take()
        };
        assert_eq!(server["icons"], *expected, "{revision}");
    }
}

#[test]
fn icons_that_clients_reject_are_reported_when_the_server_is_built() {
    for source in [
        "http://example.com/a.png",
        "http://a.example/data:image/",
        "file:///a.png",
        "a.png",
        "data:text/html,a",
        "data:image/svg+xml,<svg/>",
    ] {
        let error = Server::empty("icons", "1.0.0").with_icon(Icon::new(source)).check().unwrap_err();
        let expected = "expected an `https:` or a `data:image/…;base64,…` URI";
        assert_eq!(error.problems(), [format!("invalid icon `{source}` of the server, {expected}")]);
    }
    let sizes = icon().with_size("large");
    let error = Server::empty("icons", "1.0.0").with_icon(sizes.clone()).check().unwrap_err();
    let expected = "expected one such as `48x48`, or `any`";
    assert_eq!(error.problems(), [format!("invalid size `large` of an icon of the server, {expected}")]);
    let tool = ToolEntry::new("a", json!({"type": "object"}), async |_: Value, _: Context| ()).with_icon(sizes);
    let error = Server::empty("icons", "1.0.0").with_entry(tool).check().unwrap_err();
    assert!(error.to_string().contains(&format!("invalid size `large` of an icon, {expected}")), "{error}");
}
