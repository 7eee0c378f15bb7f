//! What a check can find: the codes, how bad each is, and where it is known from.

use super::finding::Level;

/// Something that a check looks for.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    /// What is wrong, in a line.
    pub(crate) summary: &'static str,
    /// Why it matters, and where that is known from.
    pub(crate) why: &'static str,
    /// What to do.
    pub(crate) help: &'static str,
}

macro_rules! codes {
    ($($id:ident = $name:literal, $level:ident, $summary:literal, $why:literal, $help:literal;)*) => {
        $(pub(crate) const $id: &Code =
            &Code { name: $name, level: Level::$level, summary: $summary, why: $why, help: $help };)*
        /// All of them, in the order in which they are told.
        pub(crate) const ALL: &[&Code] = &[$($id),*];
    };
}

codes! {
    INVALID_SCHEMA = "invalid-schema", Error,
        "a schema is no valid JSON Schema 2020-12",
        "Clients compile schemas when they list tools, and one that does not compile costs the tool or the whole list.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic#json-schema-usage",
        "mend the keyword; a schema that a derive made is valid by itself";
    OTHER_DIALECT = "other-dialect", Note,
        "a schema is written for another dialect than 2020-12",
        "2020-12 is the default and the only dialect that every client must support.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic#json-schema-usage",
        "write it for 2020-12, and leave `$schema` out";
    NO_OBJECT_SCHEMA = "no-object-schema", Error,
        "`inputSchema` has no `type: object`",
        "The specification demands `type: object` of every `inputSchema`. Clients validate the whole list at once, so that one such tool \
         hides all the others.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/schema#tool\n\
         https://github.com/cognizant-ai-lab/neuro-san/issues/1341",
        "give `inputSchema` the member `\"type\": \"object\"`";
    OUTPUT_NOT_OBJECT = "output-not-object", Error,
        "`outputSchema` has no `type: object` in a revision that demands it",
        "Until 2025-11-25 `structuredContent` is an object. Clients of the TypeScript SDK refuse the whole list for one such tool. \
         2026-07-28 allows any value, and is not asked.\n\
         https://github.com/kenn-io/msgvault/issues/626\n\
         https://github.com/Wynelson94/longhand/issues/10",
        "wrap the value in an object, such as `{\"result\": …}`";
    UNRESOLVED_REF = "unresolved-ref", Error,
        "a `$ref` leads to nothing",
        "Clients that resolve references fail at the tool or at the whole list.\n\
         https://github.com/google-gemini/gemini-cli/issues/13326",
        "define what it refers to under `$defs` of the same schema";
    REMOTE_REF = "remote-ref", Error,
        "a `$ref` leads out of its document",
        "Clients must not fetch what a reference names over the network, so that the schema stays unknown or the tool is refused.\n\
         https://modelcontextprotocol.io/specification/2026-07-28/basic#json-schema-usage",
        "copy what it refers to into `$defs` of the same schema";
    BAD_DEFAULT = "bad-default", Error,
        "a `default` does not fit its own schema",
        "A client that fills defaults in makes a call that the server refuses.",
        "mend the default or the schema";
    BAD_EXAMPLE = "bad-example", Warning,
        "one of `examples` does not fit its own schema",
        "A model copies examples, and makes calls that the server refuses.",
        "mend the example or the schema";
    UNDECLARED_REQUIRED = "undeclared-required", Warning,
        "`required` names what `properties` does not describe",
        "The model is to give what nobody tells it of; where `additionalProperties` is false, no call can be right.",
        "describe it in `properties`, or do not require it";
    BAD_HEADER = "bad-header", Error,
        "an `x-mcp-header` is not as the specification demands",
        "Clients of 2026-07-28 leave out a tool with a header that is no HTTP token, is there twice, or stands elsewhere than at a string, \
         an integer or a boolean.\n\
         https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header",
        "name each header once, with letters, digits and hyphens, at a simple argument";

    TOP_LEVEL_UNION = "top-level-union", Warning,
        "`anyOf`, `oneOf` or `allOf` at the top of `inputSchema`",
        "The Anthropic API refuses every request that has such a tool among its tools: \"input_schema does not support oneOf, allOf, or \
         anyOf at the top level\".\n\
         https://github.com/anthropics/claude-code/issues/40075\n\
         https://github.com/langchain-ai/langchain/issues/39271",
        "move the alternatives into an argument, or make them several tools";
    SCHEMA_REF = "schema-ref", Warning,
        "`$ref` in a schema",
        "Some clients drop `$defs` on the way to the model or fail to list the tool.\n\
         https://github.com/google-gemini/gemini-cli/issues/13142\n\
         https://github.com/anthropics/claude-code/issues/76040\n\
         https://github.com/PrefectHQ/fastmcp/pull/2808",
        "write the definition where it is used";
    RECURSIVE_SCHEMA = "recursive-schema", Warning,
        "a schema refers to itself",
        "Nobody can write such a schema without references, and clients that replace those never end or refuse the tool.\n\
         https://github.com/google-gemini/gemini-cli/issues/14945\n\
         https://github.com/anthropics/claude-code/issues/77106\n\
         https://github.com/google/adk-python/issues/3870",
        "pass a flat list whose items name their parents, or a JSON text";
    UNION = "union", Note,
        "`anyOf`, `oneOf` or `allOf` within a schema",
        "Gemini refuses some unions, such as one in `items`, and models mix the alternatives up.\n\
         https://github.com/sbroenne/mcp-server-excel/issues/672\n\
         https://github.com/t8y2/dbx/issues/6233",
        "take one type, or make several arguments of it";
    TYPE_ARRAY = "type-array", Warning,
        "`type` is a list",
        "Gemini and what is built for it know one type only: nullable lists and objects are refused with all other tools.\n\
         https://github.com/google-gemini/gemini-cli/issues/21094\n\
         https://github.com/github/copilot-cli/issues/4623\n\
         https://github.com/google/adk-js/pull/199",
        "name one type; an optional argument need not be `null`, it can be left out";
    MISSING_TYPE = "missing-type", Warning,
        "a schema without a `type`",
        "Gemini refuses a tool with an argument whose type is not said, even where `enum` tells it.\n\
         https://github.com/google-gemini/gemini-cli/issues/4400\n\
         https://github.com/decolua/9router/issues/359",
        "say the type";
    ARRAY_WITHOUT_ITEMS = "array-without-items", Warning,
        "an array without `items`",
        "VS Code refuses the tool: \"tool parameters array type must have items\". Tuples (`prefixItems`) count as well.\n\
         https://github.com/microsoft/vscode/issues/246119",
        "say in `items` what the array holds";
    BOOLEAN_SCHEMA = "boolean-schema", Warning,
        "a schema that is `true` or `false`",
        "Clients that expect an object refuse the whole list of tools.\n\
         https://github.com/anomalyco/opencode/issues/49464\n\
         https://github.com/Azure/Azure-Resource-Manager-MCP/issues/21",
        "say the type, or write `{}`";
    MAP_SCHEMA = "map-schema", Warning,
        "`additionalProperties` with a schema",
        "Codex and Claude Desktop expected true or false there, and failed: \"invalid type: map, expected a boolean\".\n\
         https://github.com/openai/codex/issues/4019\n\
         https://github.com/googleanalytics/google-analytics-mcp/pull/129",
        "take a list of objects with a name and a value";
    ENUM_VALUES = "enum-values", Warning,
        "`enum` with values that are not strings, or of several types",
        "Gemini takes strings only, and refuses all tools for one number.\n\
         https://github.com/microsoft/azure-devops-mcp/issues/139\n\
         https://github.com/microsoft/vscode/pull/328147",
        "list strings, or say a range";
    UNKNOWN_FORMAT = "unknown-format", Note,
        "a `format` that some clients refuse",
        "Gemini refused formats of strings other than `enum` and `date-time`, and of numbers other than `float`, `double`, `int32` and \
         `int64`.\n\
         https://github.com/google-gemini/gemini-cli/issues/2237\n\
         https://github.com/CherryHQ/cherry-studio/pull/4153",
        "tell the form in the description, and check it in the function";
    DEEP_NESTING = "deep-nesting", Note,
        "a schema with more than five levels",
        "OpenAI's strict mode had a limit of five levels (\"6 levels of nesting exceeds limit of 5\"), and models lose their way.\n\
         https://github.com/tidyverse/ellmer/issues/671",
        "flatten the arguments";
    PROPERTY_NAME = "property-name", Warning,
        "an argument's name that some clients refuse",
        "The Anthropic API refuses all tools for one argument whose name does not match `^[a-zA-Z0-9_.-]{1,64}$`. It looks at the top \
         level only.\n\
         https://github.com/beautyfree/appstore-connect-mcp/issues/2\n\
         https://github.com/decocms/studio/pull/6874",
        "name it with at most 64 letters, digits, underscores, dots and hyphens";

    BAD_NAME = "bad-name", Error,
        "a tool's name that is none",
        "A name has 1 to 128 letters, digits, underscores, hyphens and dots. Claude withholds all tools of a server for one with a space.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names\n\
         https://github.com/modelcontextprotocol/modelcontextprotocol/issues/1063",
        "rename the tool";
    DUPLICATE_NAME = "duplicate-name", Error,
        "two entries have the same name or URI",
        "Which of the two is called depends on the client.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names",
        "rename one of them";
    DOTTED_NAME = "dotted-name", Warning,
        "a tool's name with a dot",
        "The specification allows it, and Claude Desktop, Copilot CLI and Codex do not: \"String should match pattern \
         '^[a-zA-Z0-9_-]{1,64}$'\". One such name hides all tools.\n\
         https://github.com/evoila/meho/issues/2745\n\
         https://github.com/github/copilot-cli/issues/2581\n\
         https://github.com/openai/codex/issues/8174",
        "use an underscore";
    LONG_NAME = "long-name", Warning,
        "a tool's name that is too long with what clients put before it",
        "Clients call it `mcp__<server>__<tool>`, and models take 64 characters; Cursor leaves out tools whose server and tool have more than \
         59 together, which is less strict.\n\
         https://github.com/microsoft/foundry-dev-tools/issues/201\n\
         https://github.com/awslabs/mcp/issues/1283\n\
         https://github.com/ComposioHQ/composio/issues/2788",
        "shorten the name";
    NAME_START = "name-start", Warning,
        "a tool's name that begins with neither a letter nor an underscore",
        "Gemini demands one: \"Must start with a letter or an underscore\".\n\
         https://cloud.google.com/vertex-ai/docs/reference/rest/v1beta1/FunctionDeclaration",
        "rename the tool";
    NAME_CLASH = "name-clash", Warning,
        "two names that some clients cannot tell apart",
        "Clients replace dots by underscores, and models do not keep to the case of letters.\n\
         https://github.com/github/copilot-cli/issues/2581",
        "rename one of them";

    MISSING_DESCRIPTION = "missing-description", Warning,
        "something has no description",
        "The description is all that a model has to choose a tool and to fill its arguments in; that of a resource or a prompt is what a \
         user chooses by.\n\
         https://www.anthropic.com/engineering/writing-tools-for-agents",
        "describe it; with `mcp-runtime` it is the doc comment";
    SHORT_DESCRIPTION = "short-description", Note,
        "a description that says no more than the name",
        "A model cannot tell from it when to use the tool.\n\
         https://www.anthropic.com/engineering/writing-tools-for-agents",
        "say what it does, and when to use it";
    SAME_DESCRIPTION = "same-description", Warning,
        "two tools have the same description",
        "A model cannot choose between them.",
        "say in each how it differs";
    LONG_DESCRIPTION = "long-description", Warning,
        "a description that some clients refuse or cut",
        "The OpenAI API took 1024 characters for a tool; Claude Code cuts descriptions and instructions at 2048.\n\
         https://github.com/modelcontextprotocol/servers/issues/799\n\
         https://github.com/anthropics/claude-code/issues/87650\n\
         https://docs.anthropic.com/en/docs/claude-code/mcp#for-mcp-server-authors",
        "shorten it, the most important first; put the rest into a resource or a skill";

    CONTRADICTORY_HINTS = "contradictory-hints", Warning,
        "hints that exclude each other",
        "A tool that only reads destroys nothing; clients believe one of the two hints.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations",
        "mend the one that is wrong";
    IDLE_HINT = "idle-hint", Note,
        "a hint without a meaning",
        "`idempotentHint` has a meaning only where `readOnlyHint` is not true: reading twice is always reading once.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations",
        "leave it out";
    NAME_AGAINST_HINTS = "name-against-hints", Note,
        "a name that says something else than the hints",
        "Users allow by the name what clients ask for by the hints.",
        "mend the hint or the name";
    NO_HINTS = "no-hints", Note,
        "a tool that says nothing of what it does to the world",
        "Without hints it counts as destructive, in an open world, and clients ask before each call.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations",
        "say `readOnlyHint`, or `destructiveHint`";

    TOO_MANY_TOOLS = "too-many-tools", Warning,
        "more tools than some clients take",
        "Cursor sent the first 40 to the model and warns at 80, VS Code refuses more than 128, of all servers together; a model chooses worse \
         among many.\n\
         https://github.com/bun913/mcp-testrail/issues/6\n\
         https://github.com/Snowflake-Labs/mcp/issues/77\n\
         https://github.com/microsoft/vscode/issues/258890",
        "merge tools, or offer a choice of them by tags or another server";
    TOKEN_BUDGET = "token-budget", Error,
        "more tokens than the command line allows",
        "Each tool stands in the context of each request. The estimate is a token for each 3.5 characters of the tool's name, description and \
         input schema as compact JSON: models have 3 to 4 characters a token for English and JSON, no vocabulary is right for all of them, and \
         each client writes tools in another way.\n\
         https://help.openai.com/en/articles/4936856-what-are-tokens-and-how-to-count-them",
        "shorten descriptions and schemas, or raise `--max-tokens` or `--max-tool-tokens`";

    BAD_HANDSHAKE = "bad-handshake", Error,
        "a handshake that is neither done nor refused as it should",
        "A client that tries a revision must be told, by a result or by a JSON-RPC error, so that it can try another.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle\n\
         https://modelcontextprotocol.io/specification/2026-07-28/server/discover",
        "answer with the revision that you speak, or with an error";
    REVISION_REFUSED = "revision-refused", Note,
        "the server does not speak a revision",
        "Clients that speak no other revision cannot use it. That may be as it should.",
        "nothing, unless such clients matter";
    BAD_ANSWER = "bad-answer", Error,
        "a request that the server said it understands has no proper answer",
        "A declared capability promises its methods, and each list is an array under its name.",
        "answer the request, or do not declare the capability";
    STDOUT_NOISE = "stdout-noise", Error,
        "something on stdout that is no message",
        "Clients read messages from stdout, and end the connection or complain at anything else.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio",
        "write logs to stderr";
    GARBAGE_UNANSWERED = "garbage-unanswered", Warning,
        "what is no JSON is not answered with an error",
        "JSON-RPC answers it with -32700, so that a client that is broken finds out.\n\
         https://www.jsonrpc.org/specification#error_object",
        "answer with the error -32700 and the id null, and go on";
    DOES_NOT_END = "does-not-end", Warning,
        "the server goes on when its input has ended",
        "A client ends a server by closing its stdin; one that goes on is killed, or is left behind.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#shutdown",
        "end when stdin ends";
    BAD_URI = "bad-uri", Error,
        "a resource with a URI that is none",
        "A resource is identified by a URI with a scheme.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/server/resources",
        "begin it with a scheme, such as `notes://`";
    UNREADABLE_RESOURCE = "unreadable-resource", Error,
        "a listed resource cannot be read",
        "What is listed is there to be read. Only `--read` looks.",
        "mend the resource, or do not list it";
    COMPLETION_FAILED = "completion-failed", Error,
        "an argument is not completed, though the server declares `completions`",
        "Clients ask while a user types. An argument without proposals has an empty list. Only `--read` looks.\n\
         https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion",
        "answer with an empty list where there is nothing to propose";

    BREAKING_CHANGE = "breaking-change", Error,
        "the server differs from its lock file in a way that breaks callers",
        "A caller that was right when the lock file was written can be wrong now. Only `--locked` looks.",
        "run `cargo mcp lock` to accept";
    COMPATIBLE_CHANGE = "compatible-change", Error,
        "the server differs from its lock file in a way that breaks no caller",
        "What a model reads has changed, and nobody has accepted that. Only `--locked` looks.",
        "run `cargo mcp lock` to accept";
}

/// The code of a name.
pub(crate) fn named(name: &str) -> Option<&'static Code> {
    ALL.iter().copied().find(|code| code.name == name)
}
