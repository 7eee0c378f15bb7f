//! The runtime side of annotated functions: decoding arguments, and writing results.
//!
//! Macro expansions use [`entry`], [`Input`], [`ArgumentSlot`] and the output traits. Authors use [`Context`] and see
//! the error messages of the traits. Nothing here depends on a transport.

mod argument;
#[cfg(feature = "ask")]
pub(crate) mod ask;
mod blocking;
mod call;
mod caller;
#[cfg_attr(not(feature = "ask"), path = "no_client_requests.rs")]
mod client_requests;
mod context;
mod contract;
mod encoding;
pub(crate) mod entry;
mod function;
mod outcome;
mod output;
mod resource_output;
mod server_fn;
mod state;

pub use argument::{
    AnyDecoding, Argument, ArgumentSlot, Decode, Decoding, EnforcesSchema, represents, slot, slot_or_else, slot_or_json,
};
pub use blocking::blocking;
pub use call::{Input, Reply, finish, get};
#[cfg_attr(not(feature = "ask"), allow(unreachable_pub, reason = "only questions report progress"))]
pub use caller::ClientProgress;
pub use caller::{Caller, ClientInfo};
#[cfg(feature = "ask")]
pub use client_requests::{AskAll, ClientRequests};
#[cfg(feature = "ask")]
pub use context::Session;
pub use context::{Amount, Context, Notifier};
pub use outcome::{
    CallFuture, ErrorMapping, ErrorOutput, ErrorResponse, Finished, HandlerError, HandlerResult, IntoErrorResponse,
    MapsErrors, ResultKind, Returned,
};
pub use output::{ContentItem, JsonOutput, PromptOutput, ToolOutput, ToolReply, write_prompt, write_tool};
#[cfg(feature = "ui")]
pub(crate) use resource_output::write_html;
pub use resource_output::{ListOutput, ResourceOutput, write_resource};
pub use schema::SchemaProfile;
pub use server_fn::{
    AsyncFn, AsyncFn0, AsyncFn1, AsyncFn2, AsyncFn3, AsyncFn4, CompleteKind, Completions, CompletionsOutput,
    EarlierArguments, ListKind, ServerFn, ServerFnFuture, ServerFnInput, ServerFnOutput, ServerFnReturn, SyncFn,
    complete, complete_dependencies, list, list_dependencies,
};
pub use state::{
    AnyState, Dependency, Kind, ProvidedByReference, Shared, SharedState, StateOrData, Unused, dependency,
};

pub(crate) use blocking::{MAX_BLOCKING, blocking_threads, max_checks, run_blocking, run_check};
pub(crate) use call::Call;
pub(crate) use caller::{CallConnection, CallLifetime, SessionInfo};
pub(crate) use client_requests::ClientRequester;
#[cfg(feature = "ask")]
pub(crate) use client_requests::{AnswerFuture, CheckAnswer, MAX_ATTEMPTS, OnceValues, SessionPeer};
pub(crate) use context::{LogThreshold, SharedCall, TaskHandoff, TaskPeer, current_call, enter_call, log_notification};
pub(crate) use contract::{
    Contract, MirroredArgument, from_strings, get_or_compute, headers as mirrored_arguments, json_of_string,
};
pub(crate) use encoding::Encoding;
pub(crate) use function::Function;
pub(crate) use outcome::{HandlerErrorKind, log_failure, masked_message};
pub(crate) use output::write_tool_error;
pub(crate) use server_fn::{takes_context, uses_context};
pub(crate) use state::StateMap;

/// The schemas of arguments and results, with what the protocol adds to JSON Schema.
pub(crate) mod schema {
    use serde_json::Value;

    pub use mcp_schema::SchemaProfile;
    pub(crate) use mcp_schema::{
        Checker, Property, SchemaError, Violation, decoding_violation, generator, input, is_object, nearest, output,
        output_generator, whole_input,
    };

    /// The keyword with the HTTP header that repeats an argument, without the prefix `Mcp-Param-`.
    pub(crate) const HEADER: &str = "x-mcp-header";

    /// Returns the form in which a schema is listed. Headers are permitted only for primitive types, so that arguments with
    /// a header are listed without `null`.
    pub(crate) fn listed(schema: &Value, profile: SchemaProfile) -> Value {
        mcp_schema::listed(schema, profile, &[HEADER])
    }

    /// Wraps the schema of a result in the schema of an object, for dialects that have no other structured results.
    pub(crate) fn wrap(schema: Value) -> Value {
        mcp_schema::wrap(schema, "result")
    }
}
