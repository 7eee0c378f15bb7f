//! The runtime side of annotated functions: decoding arguments, and writing results.
//!
//! Macro expansions use [`entry`], [`Input`], [`ArgumentSlot`] and the output traits. Authors use [`Context`] and see
//! the error messages of the traits. Nothing here depends on a transport.

#[cfg(feature = "ask")]
pub(crate) mod ask;
mod blocking;
mod call;
mod caller;
mod client_progress;
#[cfg_attr(not(feature = "ask"), path = "no_client_requests.rs")]
mod client_requests;
mod completion;
mod context;
mod contract;
mod decoding;
mod encoding;
pub(crate) mod entry;
mod error_response;
mod function;
mod input_schema;
mod map_keys;
mod outcome;
mod output;
mod prompt_output;
mod resource_output;
pub(crate) mod schema;
mod server_fn;
#[cfg(feature = "ask")]
mod session;
mod slot;
mod state;
mod string_arguments;

pub use blocking::blocking;
pub use call::{Input, Reply, finish, get};
pub use caller::{Caller, ClientInfo};
#[cfg_attr(not(feature = "ask"), allow(unreachable_pub, reason = "only questions report progress"))]
pub use client_progress::ClientProgress;
#[cfg(feature = "ask")]
pub use client_requests::{AskAll, ClientRequests};
pub use completion::{Completions, CompletionsOutput, EarlierArguments};
pub use context::{Amount, Context, Notifier};
pub use decoding::{AnyDecoding, Decoding, EnforcesSchema, represents};
pub use error_response::{ErrorOutput, ErrorResponse, IntoErrorResponse};
pub use outcome::{CallFuture, ErrorMapping, Finished, HandlerError, HandlerResult, MapsErrors, ResultKind, Returned};
pub use output::{ContentItem, JsonOutput, ToolOutput, ToolReply, write_tool};
pub use prompt_output::{PromptOutput, PromptReply, write_prompt};
pub use resource_output::{ListOutput, ResourceOutput, ResourceReply, write_resource};
pub use schema::SchemaProfile;
pub use server_fn::{
    AsyncFn, AsyncFn0, AsyncFn1, AsyncFn2, AsyncFn3, AsyncFn4, CompleteKind, ListKind, ServerFn, ServerFnFuture,
    ServerFnInput, ServerFnOutput, ServerFnReturn, SyncFn, complete, complete_dependencies, list, list_dependencies,
};
#[cfg(feature = "ask")]
pub use session::Session;
pub use slot::{Argument, ArgumentSlot, Decode, slot, slot_or_else, slot_or_json};
pub use state::{
    AnyState, Dependency, Kind, ProvidedByReference, Shared, SharedState, StateOrData, Unused, dependency,
};

#[cfg(feature = "http")]
pub(crate) use blocking::MAX_BLOCKING;
#[cfg(feature = "http")]
pub(crate) use blocking::max_checks;
pub(crate) use blocking::{blocking_threads, run_blocking, run_check};
pub(crate) use call::Call;
pub(crate) use caller::{CallConnection, RequestHead};
pub(crate) use client_requests::ClientRequester;
#[cfg(feature = "ask")]
pub(crate) use client_requests::{AnswerFuture, CheckAnswer, MAX_ATTEMPTS, OnceValues, SessionPeer};
pub(crate) use context::{LogThreshold, SharedCall, current_call, enter_call, log_notification};
#[cfg(feature = "tasks")]
pub(crate) use context::{TaskHandoff, TaskPeer};
pub(crate) use contract::{Contract, get_or_compute};
pub(crate) use encoding::{Encoding, comma, member};
pub(crate) use error_response::log_failure;
pub(crate) use function::Function;
#[cfg(all(feature = "http", feature = "testing"))]
pub(crate) use input_schema::{MirroredArgument, headers as mirrored_arguments};
pub(crate) use outcome::{HandlerErrorKind, masked_message};
pub(crate) use output::write_tool_error;
pub(crate) use server_fn::{takes_context, uses_context};
pub(crate) use state::StateMap;
pub(crate) use string_arguments::{from_strings, json_of_string};
