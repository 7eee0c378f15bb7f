//! The codes of findings: their severity, their rationale and its sources.

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Error,
    Warning,
    Note,
}

impl Level {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A problem that a check looks for.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    /// The problem in one line.
    pub(crate) summary: &'static str,
    /// Why it matters, with sources.
    pub(crate) why: &'static str,
    /// How to fix it.
    pub(crate) help: &'static str,
}

macro_rules! codes {
    ($($id:ident = $name:literal, $level:ident, $summary:literal, $why:literal, $help:literal;)*) => {
        $(pub(crate) const $id: &Code =
            &Code { name: $name, level: Level::$level, summary: $summary, why: $why, help: $help };)*
        /// All codes, in the order in which `--explain list` prints them.
        pub(crate) const ALL: &[&Code] = &[$($id),*];
    };
}

codes! {
    INVALID_SCHEMA = "invalid-schema", Error,
        "a schema is not valid JSON Schema 2020-12",
        "Clients compile schemas when they list tools. If a schema does not compile, they drop the tool \
         or the whole list.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic#json-schema-usage",
        "fix the keyword; derived schemas are always valid";
    OTHER_DIALECT = "other-dialect", Note,
        "a schema declares a dialect other than 2020-12",
        "2020-12 is the default and the only dialect that every client must support.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic#json-schema-usage",
        "write the schema for 2020-12 and omit `$schema`";
    NO_OBJECT_SCHEMA = "no-object-schema", Error,
        "`inputSchema` has no `type: object`",
        "The specification requires `type: object` in every `inputSchema`. Clients validate the list as a whole, so one \
         such tool hides all others.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/schema#tool\n\
         https://github.com/cognizant-ai-lab/neuro-san/issues/1341",
        "add `\"type\": \"object\"` to `inputSchema`";
    OUTPUT_NOT_OBJECT = "output-not-object", Error,
        "`outputSchema` has no `type: object` in a revision that requires it",
        "Up to 2025-11-25, `structuredContent` is an object. Clients built on the TypeScript SDK reject the whole list \
         because of one such tool. 2026-07-28 allows any value and is not checked.\n\
         https://github.com/kenn-io/msgvault/issues/626\n\
         https://github.com/Wynelson94/longhand/issues/10",
        "wrap the value in an object, such as `{\"result\": …}`";
    UNRESOLVED_REF = "unresolved-ref", Error,
        "a `$ref` does not resolve",
        "Clients that resolve references reject the tool or the whole list.\n\
         https://github.com/google-gemini/gemini-cli/issues/13326",
        "define the target under `$defs` of the same schema";
    REMOTE_REF = "remote-ref", Error,
        "a `$ref` points outside its document",
        "Clients must not fetch references over the network, so the schema stays unknown or the tool is rejected.\n\
         https://modelcontextprotocol.io/specification/2026-07-28/basic#json-schema-usage",
        "copy the target into `$defs` of the same schema";
    BAD_DEFAULT = "bad-default", Error,
        "a `default` violates its own schema",
        "A client that fills in defaults sends a call that the server rejects.",
        "fix the default or the schema";
    BAD_EXAMPLE = "bad-example", Warning,
        "a value in `examples` violates its own schema",
        "Models copy examples and then send calls that the server rejects.",
        "fix the example or the schema";
    UNDECLARED_REQUIRED = "undeclared-required", Warning,
        "`required` names a property that `properties` does not declare",
        "The model must provide an argument that it knows nothing about. If `additionalProperties` is false, no call can \
         be valid.",
        "declare it in `properties`, or remove it from `required`";
    BAD_HEADER = "bad-header", Error,
        "an `x-mcp-header` violates the specification",
        "Clients of 2026-07-28 drop a tool whose header is not an HTTP token, is used twice, or belongs to anything but \
         a string, an integer or a boolean.\n\
         https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header",
        "use each header once, on a simple argument, with a name of letters, digits and hyphens";

    TOP_LEVEL_UNION = "top-level-union", Warning,
        "`anyOf`, `oneOf` or `allOf` at the top level of `inputSchema`",
        "The Anthropic API rejects every request that includes such a tool: \"input_schema does not support oneOf, allOf, \
         or anyOf at the top level\".\n\
         https://github.com/anthropics/claude-code/issues/40075\n\
         https://github.com/langchain-ai/langchain/issues/39271",
        "move the alternatives into an argument, or split the tool";
    SCHEMA_REF = "schema-ref", Warning,
        "a schema uses `$ref`",
        "Some clients drop `$defs` before the schema reaches the model, or fail to list the tool.\n\
         https://github.com/google-gemini/gemini-cli/issues/13142\n\
         https://github.com/anthropics/claude-code/issues/76040\n\
         https://github.com/PrefectHQ/fastmcp/pull/2808",
        "inline the definition";
    RECURSIVE_SCHEMA = "recursive-schema", Warning,
        "a schema refers to itself",
        "Such a schema cannot be written without references. Clients that inline references loop forever or reject the \
         tool.\n\
         https://github.com/google-gemini/gemini-cli/issues/14945\n\
         https://github.com/anthropics/claude-code/issues/77106\n\
         https://github.com/google/adk-python/issues/3870",
        "accept a flat list whose items name their parents, or a string of JSON";
    UNION = "union", Note,
        "`anyOf`, `oneOf` or `allOf` inside a schema",
        "Gemini rejects some unions, such as one in `items`, and models confuse the alternatives.\n\
         https://github.com/sbroenne/mcp-server-excel/issues/672\n\
         https://github.com/t8y2/dbx/issues/6233",
        "accept a single type, or split it into several arguments";
    TYPE_ARRAY = "type-array", Warning,
        "`type` is an array",
        "Gemini and tools built for it support a single type only: one nullable list or object makes them reject all \
         tools.\n\
         https://github.com/google-gemini/gemini-cli/issues/21094\n\
         https://github.com/github/copilot-cli/issues/4623\n\
         https://github.com/google/adk-js/pull/199",
        "use a single type, or `anyOf` with one type in each branch";
    MISSING_TYPE = "missing-type", Warning,
        "a schema has no `type`",
        "Gemini rejects a tool if one argument has no explicit type, even if `enum` implies it.\n\
         https://github.com/google-gemini/gemini-cli/issues/4400\n\
         https://github.com/decolua/9router/issues/359",
        "add the type";
    ARRAY_WITHOUT_ITEMS = "array-without-items", Warning,
        "an array has no `items`",
        "VS Code rejects the tool: \"tool parameters array type must have items\". Tuples (`prefixItems`) are affected as \
         well.\n\
         https://github.com/microsoft/vscode/issues/246119",
        "describe the elements in `items`";
    TUPLE = "tuple", Warning,
        "an array has `prefixItems`",
        "Many converters to the formats of providers do not know the keyword: some drop it, and others replace it with \
         another type.",
        "accept an object with a name for each item";
    BOOLEAN_SCHEMA = "boolean-schema", Warning,
        "a schema is `true` or `false`",
        "Clients that expect an object reject the whole list of tools.\n\
         https://github.com/anomalyco/opencode/issues/49464\n\
         https://github.com/Azure/Azure-Resource-Manager-MCP/issues/21",
        "add a type, or use `{}`";
    BOOLEAN_ADDITIONAL = "boolean-additional-properties", Warning,
        "`additionalProperties` is `true` or `false`",
        "google-genai expects a schema there and fails for all tools of the server: \"'bool' object has no attribute \
         'items'\".",
        "leave `false` out of the list, but reject unknown arguments; for `true`, use `{}`";
    MAP_SCHEMA = "map-schema", Warning,
        "`additionalProperties` is a schema",
        "Codex and Claude Desktop expected a boolean there and failed: \"invalid type: map, expected a boolean\".\n\
         https://github.com/openai/codex/issues/4019\n\
         https://github.com/googleanalytics/google-analytics-mcp/pull/129",
        "accept a list of objects with a name and a value";
    ENUM_VALUES = "enum-values", Warning,
        "`enum` contains values that are not strings",
        "Gemini supports only strings in `enum`, and one number makes it reject all tools.\n\
         https://github.com/microsoft/azure-devops-mcp/issues/139\n\
         https://github.com/microsoft/vscode/pull/328147",
        "use strings or a range";
    UNKNOWN_FORMAT = "unknown-format", Note,
        "a `format` that some clients reject",
        "Gemini rejected string formats other than `enum` and `date-time`, and number formats other than `float`, \
         `double`, `int32` and `int64`.\n\
         https://github.com/google-gemini/gemini-cli/issues/2237\n\
         https://github.com/CherryHQ/cherry-studio/pull/4153",
        "describe the format in the description and validate it in the function";
    DEEP_NESTING = "deep-nesting", Note,
        "a schema is nested more than five levels deep",
        "OpenAI's strict mode had a limit of five levels (\"6 levels of nesting exceeds limit of 5\"), and models make \
         more mistakes in deep structures.\n\
         https://github.com/tidyverse/ellmer/issues/671",
        "flatten the arguments";
    PROPERTY_NAME = "property-name", Warning,
        "an argument name that some clients reject",
        "The Anthropic API rejects all tools if one argument name does not match `^[a-zA-Z0-9_.-]{1,64}$`. It checks the \
         top level only.\n\
         https://github.com/beautyfree/appstore-connect-mcp/issues/2\n\
         https://github.com/decocms/studio/pull/6874",
        "use at most 64 letters, digits, underscores, dots and hyphens";

    BAD_NAME = "bad-name", Error,
        "an invalid tool name",
        "A name consists of 1 to 128 letters, digits, underscores, hyphens and dots. Claude hides all tools of a server \
         if one name contains a space.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names\n\
         https://github.com/modelcontextprotocol/modelcontextprotocol/issues/1063",
        "rename the tool";
    DUPLICATE_NAME = "duplicate-name", Error,
        "two entries have the same name or URI",
        "Which of them is used depends on the client.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names",
        "rename one of them";
    DOTTED_NAME = "dotted-name", Warning,
        "a tool name contains a dot",
        "The specification allows dots, but Claude Desktop, Copilot CLI and Codex do not: \"String should match pattern \
         '^[a-zA-Z0-9_-]{1,64}$'\". One such name hides all tools.\n\
         https://github.com/evoila/meho/issues/2745\n\
         https://github.com/github/copilot-cli/issues/2581\n\
         https://github.com/openai/codex/issues/8174",
        "use an underscore";
    LONG_NAME = "long-name", Warning,
        "a tool name is too long once clients have added their prefix",
        "Clients call the tool `mcp__<server>__<tool>`, and models accept 64 characters. Cursor's limit is looser: it \
         drops tools whose server and tool names exceed 59 characters together.\n\
         https://github.com/microsoft/foundry-dev-tools/issues/201\n\
         https://github.com/awslabs/mcp/issues/1283\n\
         https://github.com/ComposioHQ/composio/issues/2788",
        "shorten the name";
    NAME_START = "name-start", Warning,
        "a tool name starts with neither a letter nor an underscore",
        "Gemini requires one: \"Must start with a letter or an underscore\".\n\
         https://cloud.google.com/vertex-ai/docs/reference/rest/v1beta1/FunctionDeclaration",
        "rename the tool";
    NAME_CLASH = "name-clash", Warning,
        "two tool names that some clients do not distinguish",
        "Clients replace dots by underscores, and models do not preserve case reliably.\n\
         https://github.com/github/copilot-cli/issues/2581",
        "rename one of them";

    MISSING_DESCRIPTION = "missing-description", Warning,
        "a description is missing",
        "A model has nothing but the description to choose a tool and to fill in its arguments. Users choose resources \
         and prompts by their descriptions.\n\
         https://www.anthropic.com/engineering/writing-tools-for-agents",
        "add a description; with `mcp-runtime`, write a doc comment";
    SHORT_DESCRIPTION = "short-description", Note,
        "a description adds nothing to the name",
        "A model cannot infer from it when to use the tool.\n\
         https://www.anthropic.com/engineering/writing-tools-for-agents",
        "describe what it does and when to use it";
    SAME_DESCRIPTION = "same-description", Warning,
        "two tools have the same description",
        "A model cannot choose between them.",
        "describe how they differ";
    LONG_DESCRIPTION = "long-description", Warning,
        "a description that some clients reject or truncate",
        "The OpenAI API accepted 1024 characters per tool. Claude Code truncates descriptions and instructions at 2048.\n\
         https://github.com/modelcontextprotocol/servers/issues/799\n\
         https://github.com/anthropics/claude-code/issues/87650\n\
         https://docs.anthropic.com/en/docs/claude-code/mcp#for-mcp-server-authors",
        "put the most important part first, and move the rest into a resource or a skill";

    CONTRADICTORY_HINTS = "contradictory-hints", Warning,
        "hints contradict each other",
        "A read-only tool destroys nothing. Which of the two hints wins depends on the client.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations",
        "fix the wrong hint";
    INEFFECTIVE_HINT = "ineffective-hint", Note,
        "a hint has no effect",
        "`idempotentHint` is meaningful only if `readOnlyHint` is not true: reading is always idempotent.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations",
        "remove the hint";
    NAME_AGAINST_HINTS = "name-against-hints", Note,
        "a tool name contradicts its hints",
        "Clients decide by the hints whether to ask for permission, and users decide by the name whether to grant it.",
        "fix the hint or the name";
    NO_HINTS = "no-hints", Note,
        "a tool has no hints about its side effects",
        "Without hints a tool counts as destructive and open-world, and clients ask before each call.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations",
        "set `readOnlyHint` or `destructiveHint`";

    TOO_MANY_TOOLS = "too-many-tools", Warning,
        "more tools than some clients support",
        "These limits are for all servers together: Cursor sent the first 40 tools to the model and warns at 80, and VS \
         Code rejects more than 128. Models choose less reliably among many tools.\n\
         https://github.com/bun913/mcp-testrail/issues/6\n\
         https://github.com/Snowflake-Labs/mcp/issues/77\n\
         https://github.com/microsoft/vscode/issues/258890",
        "merge tools, filter them by tags, or split the server";
    TOKEN_BUDGET = "token-budget", Error,
        "the tools exceed a token budget of the command line",
        "Every tool is part of the context of every request. The estimate is one token per 3.5 characters of the tool's \
         name, description and input schema as compact JSON. Models use 3 to 4 characters per token for English and \
         JSON, vocabularies differ, and each client formats tools in its own way.\n\
         https://help.openai.com/en/articles/4936856-what-are-tokens-and-how-to-count-them",
        "shorten descriptions and schemas, or raise `--max-tokens` or `--max-tool-tokens`";

    BAD_HANDSHAKE = "bad-handshake", Error,
        "a handshake neither succeeds nor fails with a proper error",
        "A client that tries a revision needs a result or a JSON-RPC error to be able to try another.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle\n\
         https://modelcontextprotocol.io/specification/2026-07-28/server/discover",
        "respond with a supported revision or with an error";
    REVISION_REFUSED = "revision-refused", Note,
        "the server does not support a revision",
        "Clients that support no other revision cannot use the server. This may be intended.",
        "no action is required unless such clients matter";
    INVALID_RESPONSE = "invalid-response", Error,
        "the response to a supported request is invalid",
        "A server that declares a capability must implement its methods, and each list result must contain the list.",
        "respond to the request, or do not declare the capability";
    STDOUT_NOISE = "stdout-noise", Error,
        "stdout contains output that is not a message",
        "Clients read messages from stdout. Any other output makes them complain or close the connection.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio",
        "write logs to stderr";
    UNANSWERED_INVALID_JSON = "unanswered-invalid-json", Warning,
        "invalid JSON is not answered with an error",
        "JSON-RPC requires error -32700, so that the author of a broken client can find the mistake.\n\
         https://www.jsonrpc.org/specification#error_object",
        "respond with error -32700 and a null id, and keep serving";
    DOES_NOT_EXIT = "does-not-exit", Warning,
        "the server keeps running after its stdin is closed",
        "A client stops a server by closing its stdin. A server that keeps running is killed or left behind.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#shutdown",
        "exit when stdin is closed";
    BAD_URI = "bad-uri", Error,
        "a resource URI is invalid",
        "A resource is identified by a URI with a scheme.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/server/resources",
        "start the URI with a scheme, such as `notes://`";
    UNREADABLE_RESOURCE = "unreadable-resource", Error,
        "a listed resource cannot be read",
        "Listed resources are meant to be read. Checked only with `--read`.",
        "fix the resource, or do not list it";
    COMPLETION_FAILED = "completion-failed", Error,
        "an argument cannot be completed although the server declares `completions`",
        "Clients request completions while the user types. An argument without suggestions has an empty list. Checked \
         only with `--read`.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion",
        "respond with an empty list if there are no suggestions";

    NO_CHALLENGE = "no-challenge", Error,
        "a request without a valid token is not answered with a challenge",
        "Clients find the authorization server from the header `WWW-Authenticate` of a response with the status 401. They \
         take any other status for a failure of the server, and 403 for a missing scope.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#error-handling\n\
         https://www.rfc-editor.org/rfc/rfc6750#section-3",
        "respond with 401 and `WWW-Authenticate: Bearer resource_metadata=\"…\"`";
    NO_METADATA_LINK = "no-metadata-link", Warning,
        "the challenge does not name the metadata of the server",
        "2025-06-18 requires `resource_metadata` in the challenge. Later revisions let clients guess the URL, which fails \
         if a proxy changes the path.\n\
         https://modelcontextprotocol.io/specification/2025-06-18/basic/authorization#authorization-server-location\n\
         https://www.rfc-editor.org/rfc/rfc9728#section-5.1",
        "add `resource_metadata=\"…\"` with the URL of the metadata to the challenge";
    BAD_RESOURCE_METADATA = "bad-resource-metadata", Error,
        "the protected-resource metadata cannot be used",
        "Clients learn from it which authorization server issues tokens for the server. Without it, nobody can log in.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#authorization-server-location\n\
         https://www.rfc-editor.org/rfc/rfc9728#section-3.2",
        "serve a JSON object with `resource` and `authorization_servers`, as `application/json` and without a redirect";
    WRONG_RESOURCE = "wrong-resource", Error,
        "the metadata describes another resource",
        "Clients must not use such metadata: the server could otherwise obtain tokens for another one. A frequent cause is \
         a proxy that changes the host, the scheme or the path.\n\
         https://www.rfc-editor.org/rfc/rfc9728#section-3.3",
        "set `resource` to the URL that clients connect to";
    BROAD_RESOURCE = "broad-resource", Warning,
        "the metadata describes more than the server",
        "A token for the resource is valid for everything below it. Some clients accept only the URL that they connect \
         to.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#canonical-server-uri\n\
         https://www.rfc-editor.org/rfc/rfc9728#section-3.3",
        "set `resource` to the URL that clients connect to";
    BAD_ISSUER_METADATA = "bad-issuer-metadata", Error,
        "the metadata of an authorization server cannot be used",
        "Clients find its endpoints there. They must not use metadata of another issuer, which could lead users to an \
         attacker.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#authorization-server-metadata-discovery\n\
         https://www.rfc-editor.org/rfc/rfc8414#section-3.3",
        "list the issuer exactly as its metadata names it";
    NO_PKCE = "no-pkce", Error,
        "an authorization server does not announce PKCE",
        "Clients must refuse an authorization server that does not announce `S256`.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#authorization-code-protection",
        "enable PKCE, or have the authorization server announce `code_challenge_methods_supported`";
    INSECURE_URL = "insecure-url", Error,
        "a URL without TLS",
        "An attacker on the network can read tokens and replace metadata. Only the loopback interface is exempt.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#communication-security",
        "use `https`";
    UNVERIFIED_TOKEN = "unverified-token", Error,
        "the server accepts a token that nobody has issued",
        "Anybody can call the server in the name of any user. The check sends three tokens: a random word, a JSON Web Token \
         with `alg: none`, and one whose signature consists of zeros.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#token-handling\n\
         https://www.rfc-editor.org/rfc/rfc8725#section-3.2",
        "verify signatures with the keys of the issuer; the type of a key decides the algorithm, never the token";
    UNCHECKED_AUDIENCE = "unchecked-audience", Error,
        "the server accepts a token for another server",
        "The operator of the other server can use the tokens of its users here. Checked only with `--foreign-token`.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#access-token-privilege-restriction",
        "accept only tokens whose audience contains the URL of the server";
    OTHER_AUDIENCE = "other-audience", Warning,
        "the server accepts your token, which does not name it as audience",
        "A server must accept only tokens that were issued for it. Otherwise, any service that receives such a token can call \
         the server in your name. Some authorization servers use another identifier instead of the URL, which is fine if \
         no other server shares it.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#access-token-privilege-restriction\n\
         https://www.rfc-editor.org/rfc/rfc8707",
        "have tokens issued with the URL of the server as audience, and accept no others";
    TOKEN_IN_QUERY = "token-in-query", Error,
        "the server accepts tokens in the query of its URL",
        "URLs end up in logs and histories. The metadata is always checked, and the server with `--token-in-query`.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#token-requirements\n\
         https://www.rfc-editor.org/rfc/rfc9700#section-4.3.2",
        "accept tokens only in the header `Authorization`";

    BREAKING_CHANGE = "breaking-change", Error,
        "the server differs from its lock file in a way that breaks callers",
        "A call that was valid when the lock file was written may be invalid now. Checked only with `--locked`.",
        "run `cargo mcp lock` to accept the change";
    COMPATIBLE_CHANGE = "compatible-change", Error,
        "the server differs from its lock file in a compatible way",
        "The tools, resources or prompts have changed, and the change has not been accepted yet. Checked only with `--locked`.",
        "run `cargo mcp lock` to accept the change";
}

/// Returns the code called `name`.
pub(crate) fn named(name: &str) -> Option<&'static Code> {
    ALL.iter().copied().find(|code| code.name == name)
}
