//! Layers around calls: code that sees every call of a tool, resource or prompt, whoever serves it.
//!
//! A [`Layer`] is to calls what a middleware is to HTTP requests. [`Server::layer`](crate::Server::layer) puts one around
//! all calls, [`Server::layer_for`](crate::Server::layer_for) around some. The first one that is added is the outermost:
//! it sees the call first and its outcome last.
//!
//! There are layers that log calls ([`LogCalls`]), that keep the texts of errors to the log ([`MaskErrors`]), that refuse
//! calls which come too often (`RateLimit`, with the feature `rate-limit`), and that keep the answers of tools which only
//! read (`CacheReadOnly`, with the feature `cache`). [`from_fn`] makes one of an async function.
//!
//! ```
//! use mcp_runtime::{
//!     Revision, Server,
//!     layers::{Call, LogCalls, MaskErrors, Next, from_fn},
//!     tool,
//! };
//!
//! /// Read the diary.
//! #[tool(read_only)]
//! fn diary() -> Result<String, std::io::Error> {
//!     std::fs::read_to_string("/home/ada/diary.txt")
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let server = Server::empty("diary", "1.0.0")
//!     .with::<diary>()
//!     .layer(LogCalls::new())
//!     .layer(MaskErrors::new())
//!     .layer(from_fn(|call: Call, next: Next| async move { next.run(call).await }));
//! let answer = server.test_client(Revision::V2025_11_25).call("diary", ()).await.unwrap();
//! assert!(answer.text().starts_with("`diary` failed"));
//! # });
//! ```
//!
//! What a layer does counts as part of the call: it has the call's time, it is dropped with it, and where it waits it
//! makes a task of it. Lists, completions and subscriptions are no calls. What a layer logs never goes to the client,
//! whatever `Server::forward_log` says.

#[cfg(feature = "cache")]
mod cache;
mod log_calls;
mod mask_errors;
#[cfg(feature = "rate-limit")]
mod rate_limit;

#[cfg(feature = "cache")]
pub use cache::CacheReadOnly;
pub use log_calls::LogCalls;
pub use mask_errors::MaskErrors;
#[cfg(feature = "rate-limit")]
pub use rate_limit::RateLimit;

pub use crate::{
    engine::layers::{Call, CallStatus, Layer, LayerFuture, Next, Outcome, from_fn},
    handler::entry::Hints,
};
