//! Turns plain Rust functions into a [Model Context Protocol](https://modelcontextprotocol.io) server.
//!
//! ```no_run
//! use mcp_runtime::tool;
//!
//! /// Add two numbers.
//! #[tool]
//! fn add(
//!     /// The first addend.
//!     a: f64,
//!     /// The second addend.
//!     b: f64,
//! ) -> f64 {
//!     a + b
//! }
//!
//! mcp_runtime::main!();
//! ```
//!
//! # Features
//!
//! - `log` (enabled by default): a `tracing` subscriber that writes to stderr, and forwarding of log events to clients.
//! - `http`: HTTP, served standalone or mounted into axum.
//! - `rate-limit`: the layer [`RateLimit`](layers), which rejects calls that exceed a rate.
//! - `cache`: the layer [`CacheReadOnly`](layers), which caches the results of read-only tools.
//! - `skills`: `Server::skills`, which serves directories of agent skills.
//! - `lock`: [`locked_test!`], which compares the server with its lock file. Enable it in `[dev-dependencies]`.

mod backend;
mod cli;
mod engine;
mod error;
mod excerpt;
pub mod guide;
mod handle;
mod handler;
mod jsonrpc;
pub mod layers;
#[cfg(feature = "lock")]
mod lock;
#[cfg(feature = "log")]
mod log;
mod model;
mod race;
mod random;
mod registry;
mod revision;
mod server;
mod testing;
mod transport;

pub use backend::{
    InputResponse, MemoryTasks, StoreFuture, TaskCursor, TaskInput, TaskLimits, TaskOutcome, TaskRecord, TaskStatus,
    TaskStore, TaskStoreError, Timestamp,
};
pub use engine::{Caller, Rate, SessionRates, StateKey, StateKeyError};
pub use error::{BuildError, Fault, RequiredElicitation};
pub use handle::Handle;
pub use handler::{
    Amount, Argument, AskAll, ClientInfo, Completions, CompletionsOutput, ContentItem, Context, EarlierArguments,
    Failure, IntoFailure, ListOutput, Notifier, PromptOutput, ResourceOutput, ServerFn, Session, ToolOutput,
    ask::{
        Answer, Ask, Capability, ClientProgress, Elicit, ElicitChoice, ElicitField, Elicitation, IncludeContext,
        InvalidAnswer, ListRoots, Root, SampleContent, SampleMessage, SampleRequest, SampleResult, SampleToolResult,
        SampleToolUse, ToolChoice, UrlCompletion, UrlElicitation, WithOptions,
    },
    entry::{Collect, EntryInfo, EntryKind, resource_uri},
};
#[cfg(feature = "log")]
pub use log::log_layer;
pub use mcp_runtime_macros::{Elicit, prompt, resource, server, tool, tools};
pub use model::{
    Annotations, Audio, Content, Icon, Image, Json, Level, ParseLevelError, PromptMessage, PromptResult, Resource,
    ResourceBody, ResourceLink, ResourceResult, Role, Structured, Text, Theme, ToolResult,
};
pub use revision::Revision;
pub use schemars;
pub use server::{BuiltServer, ServeError, Server};
pub use testing::{CallResult, RpcError, ServerRequest, TestClient};
#[cfg(feature = "http")]
pub use transport::http::{HttpBody, HttpOptions, HttpService, Principal};

/// Fails to compile, because it requires the feature `lock`.
#[cfg(not(feature = "lock"))]
#[macro_export]
macro_rules! locked_test {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`locked_test!` requires the feature `lock` of `mcp-runtime`\n\
             help: run `cargo add --dev mcp-runtime --features lock`"
        );
    };
}

/// The items that macro expansions refer to, and the types in the hidden methods of public traits. They are not part of
/// the public API and may change in any release.
#[doc(hidden)]
pub mod __private {
    pub use inventory;
    pub use mcp_runtime_uri_template::Operator;
    pub use serde_json;

    #[cfg(feature = "lock")]
    pub use crate::lock::{locked_main, locked_server};

    pub use crate::{
        __mapped as mapped, __package as package,
        cli::{IntoServer, MainError, MainFn, Package, ServerFuture, default_main, start},
        handler::{
            Argument, ArgumentSlot, AsyncFn, AsyncFn0, AsyncFn1, AsyncFn2, AsyncFn3, AsyncFn4, ByCause, ByLocalCause,
            ByTrait, CallEnv, CallFuture, ClientRequests, CompleteKind, Decode, Dependency, ErrorMapping, Finished,
            HandlerError, HandlerResult, Input, ListKind, PromptOutput, PromptReply, Reply, ResourceOutput,
            ResourceReply, Returned, ServerFnFuture, ServerFnOutput, ServerFnReturn, SharedState, SyncFn, ToolOutput,
            ToolReply, Unmapped,
            ask::{
                Choice, ChoiceSet, Elicit, ElicitChoice, FieldKind, FieldType, FormContent, FormField, InvalidAnswer,
                Question, check_field, encoded_question, field_default_json, field_type,
            },
            complete, complete_dependencies, dependency,
            entry::{
                ArgumentDefault, ArgumentEntry, ArgumentType, Bound, Collect, CommonEntry, DefaultValue, Entry,
                Handler, Hints, OutputType, Part, PromptEntry, ResourceEntry, Rule, ServerFnEntry, SourceLocation,
                TaskSupport, ToolEntry, boxed, default_json,
            },
            list, list_dependencies, slot, slot_or_else, slot_or_json, write_prompt, write_resource, write_tool,
        },
        model::{Icon, Role},
        revision::Features,
    };
}
