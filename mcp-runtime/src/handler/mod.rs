//! Arguments in, results out: what the macros expand to, and what a function sees of its call.
//!
//! Nothing here knows a transport. The macros' expansions call into [`entry`], [`Input`], [`Slot`] and the output
//! traits; authors meet [`Context`] and the traits' error messages.

pub(crate) mod ask;
mod client_requests;
mod complete;
mod context;
pub(crate) mod entry;
mod input;
mod output;
mod prompt_output;
mod reply;
mod resource_output;
pub(crate) mod schema;
mod slot;
mod state;
mod strings;

pub use client_requests::AskAll;
pub use complete::{
    Completions, CompletionsOutput, EarlierArguments, Producing, ServerFn, complete as complete_fn, complete_needs,
    list as list_fn, list_needs,
};
pub use context::{Amount, ClientInfo, Context};
pub use input::{Input, OwnedEnv};
pub use output::{ContentItem, ToolOutput};
pub use prompt_output::PromptOutput;
pub use reply::{Finished, Outcome, Refusal, Reply, Running};
pub use resource_output::{ListOutput, ResourceOutput};
pub use slot::{Argument, Slot, slot, slot_or_else, slot_or_json};

pub(crate) use client_requests::{AnswerFuture, ClientRequester};
pub(crate) use complete::{Completing, Produced};
pub(crate) use context::{ContextParts, LogThreshold, Peer, RequestHead, StatusMessages, TaskHandoff};
pub(crate) use input::{Contract, on_a_thread};
pub(crate) use output::{ToolReply, write_error as write_tool_error};
pub(crate) use prompt_output::PromptReply;
pub(crate) use reply::{Encoding, Reason, comma};
pub(crate) use resource_output::ResourceReply;
pub(crate) use state::States;
pub(crate) use strings::from_strings;
