//! Schemas that the server cannot enforce, and arguments that headers cannot mirror.

use mcp_runtime::tool;

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
