//! A guide to writing servers, in chapters that can be read in order or on their own.
//!
//! Each chapter begins with a small complete example. All examples are compiled, and most of them run, with the tests
//! of this crate.
//!
//! - [First server](first_server): a complete program, how to try it, and how to connect a client.
//! - [Arguments](arguments): types, optional arguments, constraints, and what a model reads about invalid values.
//! - [Results and errors](results): return types, and what the model, the client and the log see of an error.
//! - [State](state): what functions share, and flags on the command line.
//! - [Resources](resources): data that clients read by URI, and templates.
//! - [Prompts](prompts): messages that a user chooses, and completion.
//! - [Asking the client](asking): forms, web pages, and the client's model, in both eras of the protocol.
//! - [Long calls](long_calls): progress, cancellation, timeouts, streaming.
//! - [Tasks](tasks): calls that clients poll.
//! - [HTTP](http): one server for many clients, alone or inside axum; authentication.
//! - [Testing](testing): calls in memory, questions to the client, lock files.

#![allow(rustdoc::broken_intra_doc_links, reason = "some chapters link to chapters that are not written yet")]

pub mod first_server {
    #![doc = include_str!("../docs/first_server.md")]
}
pub mod arguments {
    #![doc = include_str!("../docs/arguments.md")]
}
pub mod results {
    #![doc = include_str!("../docs/results.md")]
}
pub mod state {
    #![doc = include_str!("../docs/state.md")]
}
pub mod resources {
    #![doc = include_str!("../docs/resources.md")]
}
pub mod prompts {
    #![doc = include_str!("../docs/prompts.md")]
}
pub mod asking {
    #![doc = include_str!("../docs/asking.md")]
}
pub mod long_calls {
    #![doc = include_str!("../docs/long_calls.md")]
}
pub mod tasks {
    #![doc = include_str!("../docs/tasks.md")]
}
#[cfg(any(feature = "http", not(doctest)))]
pub mod http {
    #![doc = include_str!("../docs/http.md")]
}
#[cfg(any(feature = "lock", not(doctest)))]
pub mod testing {
    #![doc = include_str!("../docs/testing.md")]
}
