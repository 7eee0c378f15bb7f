//! The expectations that tests have of each revision.

use mcp_runtime::Revision;

/// The expectations of one revision. A later revision states only its differences from the previous one.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    revision: Revision,
    /// Whether clients open sessions, in which servers send requests.
    pub sessions: bool,
    /// The error codes in the range that JSON-RPC reserves.
    pub reserved_codes: &'static [i64],
    /// The error code for a resource that does not exist.
    pub resource_not_found: i64,
    /// Whether an error response without a readable id has the id `null`.
    pub null_error_ids: bool,
    /// Whether a session accepts batches.
    pub batches: bool,
    /// Whether audio is content.
    pub audio: bool,
    /// Whether notifications about progress have messages.
    pub progress_messages: bool,
    /// Whether entries and content blocks have `_meta`.
    pub item_meta: bool,
    /// Whether annotations have `lastModified`.
    pub last_modified: bool,
    /// Whether tools have structured results.
    pub structured_content: bool,
    /// Whether servers can ask for forms.
    pub elicitation: bool,
    /// Whether servers can ask to visit web pages.
    pub url_elicitation: bool,
    /// Whether samples may use tools.
    pub sampling_tools: bool,
    /// Whether entries and the server have icons.
    pub icons: bool,
    /// Whether calls may run as tasks.
    pub tasks: bool,
    /// Whether a client asks for a task, and `tasks/result` exists.
    pub session_tasks: bool,
}

const V2024_11_05: Expected = Expected {
    revision: Revision::V2024_11_05,
    sessions: true,
    reserved_codes: &[-32700, -32600, -32601, -32602, -32603, -32002],
    resource_not_found: -32002,
    null_error_ids: true,
    batches: false,
    audio: false,
    progress_messages: false,
    item_meta: false,
    last_modified: false,
    structured_content: false,
    elicitation: false,
    url_elicitation: false,
    sampling_tools: false,
    icons: false,
    tasks: false,
    session_tasks: false,
};

const V2025_03_26: Expected =
    Expected { revision: Revision::V2025_03_26, batches: true, audio: true, progress_messages: true, ..V2024_11_05 };

const V2025_06_18: Expected = Expected {
    revision: Revision::V2025_06_18,
    batches: false,
    item_meta: true,
    last_modified: true,
    structured_content: true,
    elicitation: true,
    ..V2025_03_26
};

const V2025_11_25: Expected = Expected {
    revision: Revision::V2025_11_25,
    null_error_ids: false,
    url_elicitation: true,
    sampling_tools: true,
    icons: true,
    tasks: true,
    session_tasks: true,
    ..V2025_06_18
};

const V2026_07_28: Expected = Expected {
    revision: Revision::V2026_07_28,
    sessions: false,
    reserved_codes: &[-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022],
    resource_not_found: -32602,
    session_tasks: false,
    ..V2025_11_25
};

/// The expectations of all revisions, oldest first.
const EXPECTED: [Expected; Revision::ALL.len()] = [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28];

/// Returns the revisions that meet a condition, oldest first.
pub fn revisions(condition: impl Fn(&Expected) -> bool) -> Vec<Revision> {
    EXPECTED.iter().filter(|expected| condition(expected)).map(|expected| expected.revision).collect()
}

/// Returns the expectations of a revision.
///
/// # Panics
///
/// Panics if there are none.
pub fn expected(revision: Revision) -> &'static Expected {
    let found = EXPECTED.iter().find(|expected| expected.revision == revision);
    found.unwrap_or_else(|| panic!("`tests/src/expected.rs` lacks {revision}"))
}
