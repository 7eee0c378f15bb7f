//! Arguments in, results out: what the macros expand to, and what a function sees of its call.
//!
//! Nothing here knows a transport. The macros' expansions call into [`entry`], [`Input`], [`Slot`] and the output
//! traits; authors meet [`Context`] and the traits' error messages.

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

pub use complete::{
    Completions, CompletionsOutput, EarlierArguments, Produced, Producing, ServerFn, complete as complete_fn,
    list as list_fn, needs_of,
};
pub use context::{Amount, ClientInfo, Context};
pub use input::{Input, OwnedEnv};
pub use output::{ContentItem, ToolOutput, ToolReply};
pub use prompt_output::{PromptOutput, PromptReply};
pub use reply::{Finished, Outcome, Refusal, Reply, Running};
pub use resource_output::{ListOutput, ResourceOutput, ResourceReply};
pub use slot::{Argument, Slot};

pub(crate) use complete::Completing;
pub(crate) use context::{ContextParts, LogGate, Peer};
pub(crate) use input::Contract;
pub(crate) use output::write_error as write_tool_error;
pub(crate) use reply::{Reason, Wire, comma};
pub(crate) use state::States;
pub(crate) use strings::from_strings;
