//! Directories of skills: discovery, reading, visibility, and invalid directories.
//!
//! See [Skills](https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx).

mod bad;

use std::collections::BTreeSet;

use mcp_runtime::{
    Revision, Server,
    function::{EntryInfo, EntryKind},
    resource,
    testing::TestClient,
};
use mcp_tests::schemas::Official;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/skills");

const EXTENSION: &str = "io.modelcontextprotocol/skills";

/// The served files of the fixture: URI, path and media type.
const FILES: &[(&str, &str, &str)] = &[
    ("skill://acme/refunds/SKILL.md", "acme/refunds/SKILL.md", "text/markdown"),
    ("skill://acme/refunds/appeals/SKILL.md", "acme/refunds/appeals/SKILL.md", "text/markdown"),
    ("skill://acme/refunds/examples/email.md", "acme/refunds/examples/email.md", "text/markdown"),
    (
        "skill://acme/refunds/examples/odd%20names/gr%C3%B6%C3%9Fe%20100%25.txt",
        "acme/refunds/examples/odd names/größe 100%.txt",
        "text/plain",
    ),
    ("skill://git-workflow/SKILL.md", "git-workflow/SKILL.md", "text/markdown"),
    ("skill://git-workflow/scripts/check.sh", "git-workflow/scripts/check.sh", "application/x-sh"),
    ("skill://git-workflow/scripts/flow.png", "git-workflow/scripts/flow.png", "image/png"),
];

/// A resource whose URI sorts between those of skills.
#[resource("skill:static", name = "between")]
fn between() -> &'static str {
    "static"
}

/// Matches every URI that is not a file of a skill.
#[resource("skill://{+rest}")]
fn rest(rest: String) -> Option<String> {
    (rest == "elsewhere").then_some(rest)
}

fn server() -> Server {
    Server::empty("skilled", "1.0.0").with_skills(DIRECTORY)
}

fn client(server: Server) -> TestClient {
    server.test_client(Revision::V2026_07_28)
}

/// Requests all pages of a list. No entry may appear twice.
async fn all(client: &mut TestClient, method: &str, member: &str, params: Value) -> Vec<Value> {
    let (mut found, mut params) = (Vec::new(), params);
    let mut uris = BTreeSet::new();
    loop {
        let mut page = client.request(method, params.clone()).await.unwrap();
        for item in page[member].as_array_mut().unwrap().drain(..) {
            assert!(uris.insert(item["uri"].to_string()), "{item} is on two pages");
            found.push(item);
        }
        match page.get("nextCursor") {
            Some(cursor) => params["cursor"] = cursor.clone(),
            None => return found,
        }
    }
}

fn uris(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["uri"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_extension_is_declared_if_skills_are_served() {
    for revision in Revision::ALL {
        for (server, is_served) in [(server(), true), (Server::empty("plain", "1.0.0"), false)] {
            let mut client = TestClient::uninitialized(server, revision);
            let is_stateless = revision.is_stateless();
            let description = if is_stateless {
                client.request("server/discover", json!({})).await.unwrap()
            } else {
                let client_info = json!({"name": "test", "version": "1"});
                let params =
                    json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": client_info});
                client.request("initialize", params).await.unwrap()
            };
            let capabilities = &description["capabilities"];
            let extensions = (is_stateless && is_served).then(|| json!({EXTENSION: {"directoryRead": true}}));
            assert_eq!(capabilities.get("extensions"), extensions.as_ref(), "{revision}");
            assert_eq!(capabilities.get("resources").is_some(), is_served, "{revision}");
            for (method, code) in
                [("skills/list", None), ("skills/get", Some(-32602)), ("resources/directory/read", Some(-32602))]
            {
                let answered = client.request(method, json!({})).await.map_err(|error| error.code);
                let expected = if extensions.is_some() { code } else { Some(-32601) };
                assert_eq!(answered.err(), expected, "{revision}: {method}");
            }
        }
    }
}

/// `skills/get` returns the same entries.
#[tokio::test]
async fn lists_contain_front_matter_and_file_digests() {
    for page in [1, 2, 1000] {
        let mut client = client(server().page_size(page));
        let skills = all(&mut client, "skills/list", "skills", json!({})).await;
        let expected = [
            (
                "skill://acme/refunds/SKILL.md",
                json!({"name": "refunds", "description": "Process refunds by the book"}),
                &FILES[..4],
            ),
            (
                "skill://acme/refunds/appeals/SKILL.md",
                json!({"name": "appeals", "description": "Answer an appeal against a refusal"}),
                &FILES[1..2],
            ),
            (
                "skill://git-workflow/SKILL.md",
                json!({
                    "name": "git-workflow",
                    "description": "Follow this team's conventions: branches, commits, reviews",
                    "license": "Apache-2.0",
                    "metadata": {"version": "2.1", "reviewed": "2026-01-31", "weight": 1.5, "steps": ["branch", "commit", "review"]},
                    "allowed-tools": null,
                }),
                &FILES[4..],
            ),
        ];
        assert_eq!(skills.len(), expected.len());
        for (skill, (uri, front_matter, files)) in skills.iter().zip(expected) {
            assert_eq!((&skill["uri"], &skill["frontmatter"]), (&json!(uri), &front_matter));
            let files: Vec<_> = files.iter().map(|(uri, path, _)| manifest(uri, path)).collect();
            assert_eq!(skill["resources"], json!(files));
            let got = client.request("skills/get", json!({ "uri": uri })).await.unwrap();
            assert_eq!(&got["skill"], skill);
            assert_eq!((&got["resultType"], &got["cacheScope"]), (&json!("complete"), &json!("public")));
            assert!(got["ttlMs"].is_u64() && got.get("nextCursor").is_none(), "{got}");
        }
    }
    let listed = client(server()).request("skills/list", json!({})).await.unwrap();
    assert_eq!((&listed["resultType"], &listed["cacheScope"]), (&json!("complete"), &json!("public")));
    assert!(listed["ttlMs"].is_u64());
}

/// Reads a file of the fixture.
fn bytes(path: &str) -> Vec<u8> {
    std::fs::read(format!("{DIRECTORY}/{path}")).unwrap()
}

/// Returns the expected entry of a file.
fn manifest(uri: &str, path: &str) -> Value {
    let bytes = bytes(path);
    let hex: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"uri": uri, "digest": format!("sha256:{hex}"), "size": bytes.len()})
}

/// Only methods that the official schemas define are validated.
#[tokio::test]
async fn results_match_the_official_schemas() {
    for revision in Revision::ALL {
        let Some(official) = Official::load(revision) else { continue };
        let mut client = server().test_client(revision);
        for (method, params) in [
            ("resources/list", json!({})),
            ("resources/read", json!({"uri": FILES[0].0})),
            ("resources/read", json!({"uri": FILES[6].0})),
            ("server/discover", json!({})),
        ] {
            if method == "server/discover" && !revision.is_stateless() {
                continue;
            }
            let result = client.request(method, params).await.unwrap();
            let response = json!({"jsonrpc": "2.0", "id": 1, "result": result});
            assert_eq!(official.problems(&response, Some(method)), [""; 0], "{revision} {method}");
        }
    }
}

/// Clients without the skills extension read the files as resources.
#[tokio::test]
async fn files_are_resources_in_every_revision() {
    for revision in Revision::ALL {
        for page in [2, 1000] {
            let server = server().with::<between>().with::<rest>().page_size(page);
            let mut client = server.test_client(revision);
            let listed = all(&mut client, "resources/list", "resources", json!({})).await;
            let mut expected: Vec<_> = FILES.iter().map(|(uri, ..)| *uri).chain(["skill:static"]).collect();
            expected.sort_unstable();
            assert_eq!(uris(&listed), expected, "{revision}");
            for (uri, path, mime_type) in FILES {
                let link = listed.iter().find(|link| link["uri"] == *uri).unwrap();
                let contents = client.read(uri).await.unwrap()[0].clone();
                assert_eq!((&link["mimeType"], &contents["mimeType"]), (&json!(mime_type), &json!(mime_type)));
                assert_eq!(link["size"], bytes(path).len(), "{uri}");
                assert_eq!(contents["uri"], *uri);
                match String::from_utf8(bytes(path)) {
                    Ok(text) => assert_eq!(contents["text"], text),
                    Err(_) => assert_eq!(contents["blob"], "iVBORw0KGgoA/w=="),
                }
            }
            assert_eq!(client.read("skill:static").await.unwrap()[0]["text"], "static");
            assert_eq!(client.read("skill://elsewhere").await.unwrap()[0]["text"], "elsewhere");
            for (uri, name, description) in [
                (FILES[0].0, "refunds", "Process refunds by the book"),
                (FILES[2].0, "email.md", "A file of the skill `refunds`."),
                (FILES[5].0, "check.sh", "A file of the skill `git-workflow`."),
            ] {
                let link = listed.iter().find(|link| link["uri"] == uri).unwrap();
                assert_eq!((&link["name"], &link["description"]), (&json!(name), &json!(description)));
            }
        }
    }
}

/// A subscription is accepted although files of skills do not change while the server runs.
#[tokio::test]
async fn files_can_be_subscribed_to() {
    for revision in Revision::ALL {
        let is_visible = |entry: &EntryInfo<'_>| entry.name != "git-workflow" && !entry.is::<between>();
        let built = server().visible_to(move |_, entry| is_visible(entry)).build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        let uris = [FILES[0].0, "skill://acme/refunds", "skill://acme/refunds/none.md", FILES[4].0];
        if revision.is_stateless() {
            let filter = json!({"notifications": {"resourceSubscriptions": uris}});
            client.send_request("subscriptions/listen", filter);
            let acknowledged = &client.notifications()[0];
            assert_eq!(acknowledged["params"]["notifications"], json!({"resourceSubscriptions": [uris[0]]}));
            continue;
        }
        for (uri, is_file) in uris.into_iter().zip([true, false, false, false]) {
            let subscribed = client.request("resources/subscribe", json!({ "uri": uri })).await;
            let expected = (!is_file).then_some(-32002);
            assert_eq!(subscribed.map_err(|error| error.code).err(), expected, "{revision} {uri}");
        }
        client.request("resources/unsubscribe", json!({"uri": uris[0]})).await.unwrap();
        drop(handle);
    }
}

/// In particular, other files of the file system cannot be read.
#[tokio::test]
async fn only_exact_uris_of_served_files_can_be_read() {
    let absolute = format!("skill://{DIRECTORY}/git-workflow/SKILL.md");
    let wrong = [
        "skill://mcp-conformance-nonexistent-skill-9f3a2b/SKILL.md",
        "skill://git-workflow/../acme/refunds/SKILL.md",
        "skill://git-workflow/%2e%2e/acme/refunds/SKILL.md",
        "skill://git-workflow/..%2facme%2frefunds/SKILL.md",
        "skill://git-workflow/scripts/../../../Cargo.toml",
        "skill://../Cargo.toml",
        "skill:///etc/passwd",
        "skill://git-workflow//SKILL.md",
        "skill://git-workflow/./SKILL.md",
        "skill://git-workflow/SKILL%2Emd",
        "skill://git-workflow/SKILL.md/",
        "skill://git-workflow/SKILL.md\0",
        "skill://git-workflow/skill.md",
        "skill://git-workflow\\SKILL.md",
        "SKILL://git-workflow/SKILL.md",
        "skill://git-workflow/.hidden",
        "skill://README.md",
        "skill://acme/refunds/examples/odd names/größe 100%.txt",
        "file:///etc/passwd",
        "skill://",
        "",
        &absolute,
    ];
    for revision in Revision::ALL {
        let mut client = server().test_client(revision);
        let code = mcp_tests::expected(revision).resource_not_found;
        for uri in wrong.into_iter().chain(["skill://git-workflow", "skill://acme"]) {
            let error = client.read(uri).await.unwrap_err();
            assert_eq!(error.code, code, "{revision} {uri:?}");
            assert_eq!(error.data.as_ref().unwrap()["uri"], uri);
        }
    }
    let mut client = client(server());
    for uri in wrong {
        for method in ["skills/get", "resources/directory/read"] {
            let error = client.request(method, json!({ "uri": uri })).await.unwrap_err();
            assert_eq!((error.code, &error.data.as_ref().unwrap()["uri"]), (-32602, &json!(uri)), "{method} {uri:?}");
        }
    }
}

#[tokio::test]
async fn invalid_parameters_are_rejected() {
    const UNKNOWN_CURSOR: &str = "invalid params: `cursor` was not returned by this list: \"nowhere\"";
    const DIRECTORY: &str = "skill://git-workflow";
    const SKILL: &str = "skill://git-workflow/SKILL.md";
    const SCRIPT: &str = "skill://git-workflow/scripts/check.sh";

    let not_found = |uri: &str| format!("resource not found: {uri}");
    let mut client = client(server());
    for (method, params, message) in [
        ("skills/list", json!({"cursor": "nowhere"}), UNKNOWN_CURSOR),
        ("skills/list", json!({"cursor": 7}), "invalid params: `cursor` must be a string"),
        ("skills/get", json!({}), "invalid params: `uri` is missing"),
        ("skills/get", json!({"uri": 7}), "invalid params: `uri` must be a string"),
        ("skills/get", json!({"uri": DIRECTORY}), &not_found(DIRECTORY)),
        ("skills/get", json!({"uri": SCRIPT}), &not_found(SCRIPT)),
        ("resources/directory/read", json!({}), "invalid params: `uri` is missing"),
        ("resources/directory/read", json!({"uri": SKILL}), &format!("invalid params: not a directory: {SKILL}")),
        ("resources/directory/read", json!({"uri": "skill://git-workflow/"}), &not_found("skill://git-workflow/")),
        ("resources/directory/read", json!({"uri": DIRECTORY, "cursor": "nowhere"}), UNKNOWN_CURSOR),
    ] {
        let error = client.request(method, params.clone()).await.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (-32602, message), "{method} {params}");
    }
}

#[tokio::test]
async fn a_cursor_continues_only_the_directory_that_returned_it() {
    const METHOD: &str = "resources/directory/read";

    let mut client = client(server().page_size(1));
    let [own, other] = ["skill://git-workflow", "skill://acme/refunds"];
    let page = client.request(METHOD, json!({ "uri": own })).await.unwrap();
    let next = |uri: &str| json!({"uri": uri, "cursor": page["nextCursor"]});
    assert!(client.request(METHOD, next(own)).await.is_ok());
    assert_eq!(client.request(METHOD, next(other)).await.unwrap_err().code, -32602);
}

#[tokio::test]
async fn directories_list_their_children() {
    let directory = |uri: &str, name: &str| json!({"uri": uri, "name": name, "mimeType": "inode/directory"});
    let names =
        |items: &[Value]| items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    for page in [1, 1000] {
        let mut client = client(server().page_size(page));
        for (uri, expected) in [
            ("skill://acme", &["refunds"][..]),
            ("skill://acme/refunds", &["refunds", "appeals", "examples"]),
            ("skill://acme/refunds/examples", &["email.md", "odd names"]),
            ("skill://acme/refunds/examples/odd%20names", &["größe 100%.txt"]),
            ("skill://git-workflow", &["git-workflow", "scripts"]),
            ("skill://git-workflow/scripts", &["check.sh", "flow.png"]),
        ] {
            let children = all(&mut client, "resources/directory/read", "resources", json!({ "uri": uri })).await;
            assert_eq!(names(&children), expected, "{uri}");
        }
        let children =
            all(&mut client, "resources/directory/read", "resources", json!({"uri": "skill://git-workflow"})).await;
        assert_eq!(children[1], directory("skill://git-workflow/scripts", "scripts"));
        assert_eq!(children[0]["mimeType"], "text/markdown");
    }
    let result = client(server()).request("resources/directory/read", json!({"uri": "skill://acme"})).await.unwrap();
    let hints = ["ttlMs", "cacheScope"].map(|hint| result.get(hint));
    assert_eq!((&result["resultType"], hints), (&json!("complete"), [None; 2]));
}

/// A client cannot distinguish a hidden skill from a missing one.
#[tokio::test]
async fn a_hidden_skill_hides_its_files() {
    let hiding = |hidden: &'static str| {
        client(server().visible_to(move |_, entry| {
            assert_eq!((entry.kind, entry.package, entry.has_tag("skill")), (EntryKind::Resource, "", true));
            assert!(entry.module.ends_with(entry.name));
            entry.name != hidden
        }))
    };
    let (outer, nested, other) = (&FILES[..4], &FILES[1..2], &FILES[4..]);
    // The files of a nested skill also belong to the outer skill.
    for (hidden, hidden_files) in [
        ("refunds", vec![&outer[0], &outer[2], &outer[3]]),
        ("appeals", vec![]),
        ("git-workflow", other.iter().collect()),
    ] {
        let mut client = hiding(hidden);
        let listed = all(&mut client, "resources/list", "resources", json!({})).await;
        for file in FILES {
            let is_hidden = hidden_files.contains(&file);
            assert_eq!(client.read(file.0).await.is_err(), is_hidden, "{hidden}: {}", file.0);
            assert_eq!(uris(&listed).contains(&file.0), !is_hidden, "{hidden}: {}", file.0);
        }
        let skills = client.request("skills/list", json!({})).await.unwrap();
        assert_eq!((skills["skills"].as_array().unwrap().len(), &skills["cacheScope"]), (2, &json!("private")));
        for skill in ["acme/refunds", "acme/refunds/appeals", "git-workflow"] {
            let got = client.request("skills/get", json!({"uri": format!("skill://{skill}/SKILL.md")})).await;
            assert_eq!(got.is_err(), skill.ends_with(hidden), "{hidden}: {skill}");
        }
    }
    let mut without_outer = hiding("refunds");
    let children =
        all(&mut without_outer, "resources/directory/read", "resources", json!({"uri": "skill://acme/refunds"})).await;
    assert_eq!(uris(&children), ["skill://acme/refunds/appeals"]);
    assert_eq!(nested[0].1, "acme/refunds/appeals/SKILL.md");
    let error = hiding("git-workflow")
        .request("resources/directory/read", json!({"uri": "skill://git-workflow"}))
        .await
        .unwrap_err();
    assert_eq!(error.data.as_ref().unwrap()["uri"], "skill://git-workflow");
}
