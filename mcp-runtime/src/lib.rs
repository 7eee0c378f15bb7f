//! Turns plain Rust functions into a [Model Context Protocol](https://modelcontextprotocol.io) (MCP) server.
//!
//! A documented function and one line are a complete program:
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
//! The input schema comes from the types of the parameters, the descriptions come from the doc comments, and the schema
//! is enforced. The program serves all published revisions of the protocol, from 2024-11-05 to 2026-07-28, over stdio
//! and, with the feature `http`, over HTTP.
//!
//! # The guide
//!
//! The module [`guide`] explains everything in chapters, each with complete examples:
//!
//! | to learn | read |
//! | --- | --- |
//! | how to write, try and connect a server | [First server](guide::first_server) |
//! | what a function can take and return | [Arguments](guide::arguments), [Results and errors](guide::results) |
//! | what functions share | [State](guide::state) |
//! | the other kinds of functions | [Resources](guide::resources), [Prompts](guide::prompts) |
//! | how a function asks the user or the client's model | [Asking the client](guide::asking) |
//! | progress, cancellation, timeouts, background work | [Long calls](guide::long_calls), [Tasks](guide::tasks) |
//! | how to show results as pages | [Pages](guide::pages) |
//! | how to return large results | [Pagination](guide::pagination) |
//! | how to test a server | [Testing](guide::testing) |
//! | how to structure a larger one, and change it | [Organizing](guide::organizing), [Versions](guide::versions) |
//! | what the operator sees | [Logging and tracing](guide::logging), [Observability](guide::observability) |
//! | how to serve many clients | [HTTP](guide::http), [Deploying](guide::deploying), [Replicas](guide::replicas) |
//! | how to keep the data of users apart | [Tenants](guide::tenants) |
//! | how to write tools that models use correctly | [Tool design](guide::tool_design) |
//! | what is not possible, and what to do instead | [Limits](guide::limits) |
//! | what may change in a release, and what may not | [Stability](guide::stability) |
//! | how to move a server from the official SDK | [From rmcp](guide::from_rmcp) |
//! | what agent frameworks make of schemas | appendix: [Frameworks](guide::frameworks) |
//!
//! # An overview
//!
//! One rule decides every parameter: **by value from the caller, by reference from the server.**
//!
//! ```
//! use std::sync::Mutex;
//!
//! use mcp_runtime::{Context, Json, Revision, Server, prompt, resource, tool};
//! use schemars::JsonSchema;
//! use serde::Serialize;
//! use serde_json::json;
//!
//! #[derive(Clone, Serialize, JsonSchema)]
//! struct Note {
//!     id: usize,
//!     text: String,
//! }
//!
//! #[derive(Default)]
//! struct Notes(Mutex<Vec<Note>>);
//!
//! /// Write a note.
//! #[tool(destructive = false)]
//! fn add_note(
//!     notes: &Notes, // shared state
//!     ctx: &Context, // this request
//!     /// The text, in Markdown.
//!     #[arg(length = 1..=1000)]
//!     text: String,
//! ) -> Json<Note> {
//!     let mut notes = notes.0.lock().unwrap();
//!     let note = Note { id: notes.len(), text };
//!     notes.push(note.clone());
//!     ctx.info("a note was written");
//!     Json(note)
//! }
//!
//! /// A note.
//! #[resource("notes://{id}", mime = "text/markdown")]
//! fn note(notes: &Notes, id: usize) -> Option<String> {
//!     notes.0.lock().unwrap().get(id).map(|note| note.text.clone())
//! }
//!
//! /// Ask for a summary of all notes.
//! #[prompt]
//! fn summary() -> &'static str {
//!     "Read all notes and summarize them in three sentences."
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_runtime::testing::RpcError> {
//! let server = Server::empty("notes", "1.0.0")
//!     .with::<add_note>()
//!     .with::<note>()
//!     .with::<summary>()
//!     .with_state(Notes::default());
//!
//! // Tests need neither a process nor a port.
//! let mut client = server.test_client(Revision::V2026_07_28);
//! client.call("add_note", json!({"text": "Buy milk"})).await?;
//! assert_eq!(client.read("notes://0").await?.text(), "Buy milk");
//! # Ok(())
//! # }
//! ```
//!
//! - [`#[tool]`](macro@tool), [`#[resource]`](macro@resource) and [`#[prompt]`](macro@prompt) annotate functions, and
//!   [`#[tools]`](macro@tools) the methods of a type. The page of each macro lists its options.
//! - [`main!`] serves all annotated functions of the program. [`#[server]`](macro@server) turns a function that
//!   configures a [`Server`] into `main`, with its parameters as flags.
//! - [`Context`] is the request that a function handles. It reports progress, logs, and asks the client.
//! - [`Fault`] is a protocol error. Every other error of a tool is read by the model, unless its type implements
//!   [`IntoErrorResponse`].
//! - [`layers`] wrap calls as middleware does.
//! - [`TestClient`](testing::TestClient) calls a server in memory.
//!
//! # Features
//!
//! - `log` (enabled by default): a `tracing` subscriber that writes to stderr, and forwarding of log events to clients.
//! - `ask`: [requests to the client](guide::asking): forms and web pages for the user, samples of its model, and roots.
//!   `http`, `cluster` and `tasks` enable it.
//! - `http`: HTTP, served standalone or mounted into axum.
//! - `tls`: [HTTPS and HTTP/2](guide::http#https) without a proxy.
//! - `rate-limit`: the layer [`RateLimit`](layers), which rejects calls that exceed a rate.
//! - `cache`: the layer [`CacheReadOnly`](layers), which caches the results of read-only tools.
//! - `cluster`: `Server::backend`, with which several processes share their state. `mcp-runtime-redis` enables it.
//! - `backend`: [records, logs and topics](backend::Backend) of functions, in the memory of the process without `cluster`.
//!   `http`, `cluster` and `tasks` enable it.
//! - `sealed-state`: [state keys](Server::state_keys), with which a process continues the calls of another one that asked
//!   its client. `http` and `cluster` enable it.
//! - `skills`: `Server::with_skills`, which serves directories of agent skills.
//! - `tasks`: calls that [run as tasks](guide::tasks), with the option `task` of [`#[tool]`](macro@tool).
//! - `ui`: [pages](guide::pages) that show the results of tools, with the macro `#[ui]`.
//! - `testing`: the module [`testing`], with the test client, and [`locked_test!`], which compares the server with its lock
//!   file. Enable it in `[dev-dependencies]`.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::missing_errors_doc)]
// Code that only some features use is dead without them, so only builds with all features look for dead code. These
// features enable all others.
#![cfg_attr(
    not(all(
        feature = "cache",
        feature = "cluster",
        feature = "log",
        feature = "rate-limit",
        feature = "skills",
        feature = "tasks",
        feature = "testing",
        feature = "tls",
        feature = "ui",
    )),
    allow(dead_code, unused_imports)
)]

// The expansions of macros in unit tests name the crate as expansions in other crates do.
#[cfg(test)]
extern crate self as mcp_runtime;

pub mod auth;
pub mod backend;
mod cli;
#[cfg(feature = "cluster")]
mod cluster;
mod counters;
mod engine;
mod error;
// Documentation only, so that ordinary builds leave it out.
#[cfg(any(doc, doctest))]
pub mod guide;
mod handle;
mod handler;
mod jsonrpc;
pub mod layers;
#[cfg(feature = "log")]
mod log;
#[cfg(feature = "ask")]
mod loopback;
mod missing_features;
pub mod model;
mod random;
mod registry;
#[cfg(feature = "http")]
mod replace_file;
mod revision;
mod server;
mod stderr;
mod stdx;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod trace_context;
mod transport;
#[cfg(feature = "ui")]
mod ui;

pub use engine::{SessionRates, StateKey, StateKeyError, TaskLimits};
pub use error::{BuildError, Fault};
pub use handle::Handle;
pub use handler::{Caller, Completions, Context, ErrorResponse, IntoErrorResponse, entry::resource_uri};
#[cfg(feature = "ask")]
pub use handler::{Session, ask::Elicit};
#[cfg(feature = "log")]
pub use log::forward_log_layer;
#[cfg(feature = "ask")]
#[doc = include_str!("../docs/macros/elicit.md")]
pub use mcp_runtime_macros::Elicit;
#[doc = include_str!("../docs/macros/prompt.md")]
pub use mcp_runtime_macros::prompt;
#[doc = include_str!("../docs/macros/resource.md")]
pub use mcp_runtime_macros::resource;
#[doc = include_str!("../docs/macros/server.md")]
pub use mcp_runtime_macros::server;
#[doc = include_str!("../docs/macros/tool.md")]
pub use mcp_runtime_macros::tool;
#[doc = include_str!("../docs/macros/tools.md")]
pub use mcp_runtime_macros::tools;
#[cfg(feature = "ui")]
#[doc = include_str!("../docs/macros/ui.md")]
pub use mcp_runtime_macros::ui;
pub use model::{Content, Image, Json, Level, PromptMessage, Resource, ResourceLink, ToolResult};
pub use revision::Revision;
pub use schemars;
pub use server::{BuiltServer, ServeError, Server};
#[cfg(feature = "http")]
pub use transport::http::HttpOptions;

/// Requests from a function to its client: forms and web pages for the user, samples from the client's model, and roots.
///
/// [`Context::elicit`], [`Context::elicit_url`], [`Context::sample`] and [`Context::roots`] send one request each. An
/// [`Ask`](ask::Ask) is any of them, and [`Context::ask_all`] sends several at once. The guide explains them in
/// [Asking the client](guide::asking).
#[cfg(feature = "ask")]
pub mod ask {
    pub use crate::{
        error::RequiredElicitation,
        handler::{
            AskAll, ClientProgress,
            ask::{
                Answer, Ask, Capability, ElicitChoice, ElicitField, Elicitation, FormElicitation, IncludeContext,
                InvalidAnswer, ListRoots, Root, SampleContent, SampleMessage, SampleRequest, SampleResult,
                SampleToolResult, SampleToolUse, ToolChoice, UrlCompletion, UrlElicitation, WithOptions,
            },
        },
    };
}

/// The types around functions: of parameters and results, of the information about registered functions, and of
/// schemas. Most of these traits are implemented for the types that functions use, and rarely named.
pub mod function {
    pub use crate::handler::{
        Amount, Argument, ClientInfo, CompletionsOutput, ContentItem, EarlierArguments, ErrorOutput, JsonOutput,
        ListOutput, Notifier, PromptOutput, ResourceOutput, SchemaProfile, ServerFn, ToolOutput,
        entry::{Collect, Entry, EntryInfo, EntryKind, MethodEntry, PromptEntry, ResourceEntry, ToolEntry},
    };
    // The compiler names the missing feature only of an item that is imported by itself.
    #[cfg(feature = "tasks")]
    pub use crate::engine::TaskStatus;
    #[cfg(feature = "tasks")]
    pub use crate::handler::entry::TaskSupport;
    #[cfg(feature = "ui")]
    pub use crate::ui::PageOutput;
}

/// Serving over HTTP: an endpoint as a tower service, which a listener serves or another application mounts.
///
/// [`BuiltServer::into_http_service`] creates the service. The guide explains it in [HTTP](guide::http).
#[cfg(feature = "http")]
pub mod http {
    pub use crate::transport::http::{
        AuthorizationService, HttpAddress, HttpBody, HttpService, InvalidHttpAddress, Listener, ListenerOptions, Serve,
        serve,
    };
}

/// The items that macro expansions refer to, the types in the hidden methods of public traits, and the backend that the
/// tests of this repository share. They are not part of the public API and may change in any release.
#[doc(hidden)]
pub mod __private {
    pub use std::borrow::Cow;

    pub use inventory;
    pub use mcp_runtime_macros::libraries;
    pub use mcp_runtime_uri_template::Operator;
    pub use serde_json;

    #[cfg(feature = "cluster")]
    pub use crate::backend::connector::connected;
    #[cfg(feature = "ask")]
    pub use crate::handler::{
        ClientRequests,
        ask::{
            Choice, ChoiceSet, Elicit, ElicitChoice, FieldKind, FieldType, FormContent, FormField, InvalidAnswer,
            Question, check_field, encoded_question, field_default_json, field_type,
        },
    };
    #[allow(unused_imports, unreachable_pub, reason = "nothing is missing if all features are enabled")]
    pub use crate::missing_features::*;
    #[cfg(feature = "log")]
    pub use crate::telemetry::TelemetryLayer;
    #[cfg(feature = "testing")]
    pub use crate::testing::lock::{locked_main, locked_server};
    #[cfg(all(feature = "cluster", feature = "testing"))]
    pub use crate::testing::test_backend::{BackendHook, BackendMethod, BackendOperation, TestBackend};
    #[cfg(feature = "ui")]
    pub use crate::ui::{Page, dev_page, shows_content, write_page};

    pub use crate::{
        __mapped as mapped, __package as package, __task_support as task_support, __ui_member as ui_member,
        cli::{IntoServer, MainFn, Package, ServerFuture, default_main, start},
        handler::{
            AnyDecoding, AnyState, Argument, ArgumentSlot, AsyncFn, AsyncFn0, AsyncFn1, AsyncFn2, AsyncFn3, AsyncFn4,
            CallFuture, CompleteKind, Decode, Decoding, Dependency, EnforcesSchema, ErrorMapping, Finished,
            HandlerError, HandlerResult, Input, Kind, ListKind, MapsErrors, PromptOutput, ProvidedByReference, Reply,
            ResourceOutput, ResultKind, Returned, ServerFnFuture, ServerFnInput, ServerFnOutput, ServerFnReturn,
            Shared, SharedState, StateOrData, SyncFn, ToolOutput, ToolReply, Unused, blocking, complete,
            complete_dependencies, dependency,
            entry::{
                ArgumentDefault, ArgumentEntry, ArgumentType, Bound, Closures, Collect, CommonEntry, DefaultValue,
                Entry, EntryRef, EntryScopes, Handler, Hints, OutputType, Part, PromptEntry, ResourceEntry, Rule,
                ServerFnEntry, SourceLocation, TaskSupport, ToolEntry, boxed, default_json,
            },
            finish, get, list, list_dependencies, represents, slot, slot_or_else, slot_or_json, write_prompt,
            write_resource, write_tool,
        },
        model::{CacheScope, Icon, Role, Theme},
        revision::Features,
    };
}
