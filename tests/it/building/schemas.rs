//! Schemas that the server cannot enforce, and arguments that headers cannot mirror.

use mcp_runtime::{Revision, tool};
use serde_json::{Value, json};

use super::empty;

/// Has a schema in an older dialect.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[schemars(extend("$schema" = "http://json-schema.org/draft-07/schema#"))]
struct Older {
    #[allow(dead_code)]
    number: u8,
}

/// Has a parameter with a schema in an older dialect.
#[tool]
fn older(_older: Older) {}

#[test]
fn schemas_of_other_dialects_are_rejected() {
    let error = empty().with::<older>().check().unwrap_err().to_string();
    assert!(error.contains(r##"unsupported `$schema` "http://json-schema.org/draft-07/schema#""##), "{error}");
}

/// Types whose schemas have keywords that the server does not enforce.
mod unenforced {
    use mcp_runtime::tool;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Deserialize, Serialize, JsonSchema)]
    #[schemars(extend("dependencies" = {}))]
    #[allow(dead_code)]
    pub(super) struct Closed {
        number: u8,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[schemars(extend("$schema" = "https://json-schema.org/draft/2020-12/schema", "$recursiveAnchor" = true))]
    #[allow(dead_code)]
    pub(super) struct Node {
        number: u8,
    }

    /// Has a parameter with an unsupported keyword.
    #[tool]
    pub(super) fn parameter(_closed: Vec<Closed>) {}

    /// Has a default, which is checked first.
    #[tool]
    pub(super) fn with_default(#[arg(default)] _closed: Vec<Closed>) {}

    /// Has a schema that is listed as written.
    #[tool]
    pub(super) fn flattened(#[arg(flatten)] _node: Node) {}
}

#[test]
fn unenforced_keywords_are_rejected() {
    let server =
        empty().with::<unenforced::parameter>().with::<unenforced::with_default>().with::<unenforced::flattened>();
    let error = server.check().unwrap_err();
    let problems = error.problems();
    for (problem, tool, place) in [
        (&problems[0], "`parameter`", "`dependencies` at `/properties/_closed/items`"),
        (&problems[1], "`with_default`", "argument `_closed`: unsupported keyword `dependencies` at `/items`"),
        (&problems[2], "`flattened`", "`$recursiveAnchor` at the root"),
    ] {
        assert!(problem.starts_with(&format!("the schema of {tool} (")), "{problem}");
        assert!(problem.contains(place), "{problem}");
    }
    assert_eq!(problems.len(), 3, "{error}");
}

/// Arguments that HTTP headers cannot mirror.
mod mirrored {
    use mcp_runtime::tool;
    use schemars::JsonSchema;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code)]
    pub(super) struct Item {
        #[schemars(extend("x-mcp-header" = "Item"))]
        item: String,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code)]
    pub(super) struct Share {
        #[schemars(extend("x-mcp-header" = "Share"))]
        share: f64,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code)]
    pub(super) struct Injected {
        #[schemars(extend("x-mcp-header" = "A\r\nB"))]
        injected: String,
    }

    /// A header within an array.
    #[tool]
    pub(super) fn items(_items: Vec<Item>) {}

    /// A header for a number that is not an integer.
    #[tool]
    pub(super) fn share(_share: Share) {}

    /// A header that contains a line break.
    #[tool]
    pub(super) fn injected(_injected: Injected) {}

    /// Two arguments with the same header.
    #[tool]
    pub(super) fn twice(#[arg(header = "item")] _first: String, _second: Item) {}

    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code)]
    pub(super) struct Nested {
        #[schemars(extend("x-mcp-header" = "Nested"))]
        id: i64,
    }

    /// Integers that headers mirror.
    #[tool]
    pub(super) fn integers(
        #[arg(header = "Unsigned")] unsigned: u64,
        #[arg(header = "Optional")] _optional: Option<i64>,
        #[arg(header = "Bounded", range = 1..=9)] _bounded: u64,
        #[arg(header = "Below", range = ..100)] _below: i64,
        #[arg(header = "Wide", range = -9_007_199_254_740_992..=9_007_199_254_740_992)] _wide: i64,
        _nested: Nested,
        _plain: u64,
    ) -> u64 {
        unsigned
    }
}

/// Headers mirror only integers that are exact as `f64`.
#[tokio::test]
async fn integers_that_headers_mirror_are_limited() {
    const LARGEST: i64 = (1 << 53) - 1;

    for revision in Revision::ALL {
        let mut client = empty().with::<mirrored::integers>().test_client(revision);
        let tools = client.request("tools/list", json!({})).await.unwrap();
        let properties = &tools["tools"][0]["inputSchema"]["properties"];
        let both = (json!(-LARGEST), json!(LARGEST));
        for (property, expected) in [
            (&properties["unsigned"], (json!(0), json!(LARGEST))),
            (&properties["_optional"], both.clone()),
            (&properties["_bounded"], (json!(1), json!(9))),
            (&properties["_below"], (json!(-LARGEST), json!(99))),
            (&properties["_wide"], both.clone()),
            (&properties["_nested"]["properties"]["id"], both),
            (&properties["_plain"], (json!(0), Value::Null)),
        ] {
            let bounds = (property["minimum"].clone(), property["maximum"].clone());
            assert_eq!(bounds, expected, "{revision} {property}");
        }
        for (unsigned, is_error) in [(LARGEST, false), (LARGEST + 1, true)] {
            let arguments = json!({
                "unsigned": unsigned, "_bounded": 1, "_below": 1, "_wide": 1, "_nested": {"id": 1}, "_plain": 1,
            });
            let called = client.call("integers", arguments).await;
            assert_eq!(called.map_or(true, |result| result.is_error()), is_error, "{revision} {unsigned}");
        }
    }
}

#[test]
fn arguments_that_cannot_be_mirrored_are_rejected() {
    for (server, expected) in [
        (empty().with::<mirrored::items>(), "an `x-mcp-header` is not reachable through `properties` alone"),
        (empty().with::<mirrored::share>(), "`_share.share` has a header, but is not a string, integer or boolean"),
        (empty().with::<mirrored::injected>(), "the header \"A\\r\\nB\" of `_injected.injected` is not an HTTP token"),
        (empty().with::<mirrored::twice>(), "two arguments use the header `item`"),
    ] {
        let error = server.check().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
